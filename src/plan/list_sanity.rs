//! When the runtime's lists are not trusted (I12): the runtime has just started, or a list became much shorter.
//!
//! The length of a list is compared with a baseline: its length when it was last trusted. The baseline is part of the
//! memory, so all passes share it and it survives restarts. A shorter length becomes the new baseline after it lasted
//! for `guards.fall_hold` and for [`PASSES`] passes.

use std::collections::HashSet;

use super::{Guards, KeepReason};
use crate::model::{Image, ListCounts, ListFall, Seen, Snapshot};

/// Fewer missing objects than this are no sharp fall, unless the whole list is empty.
const FEW: u64 = 3;
/// The number of passes in which a list must have a shorter length before that is trusted.
const PASSES: u32 = 3;

/// A list that became much shorter and is not trusted yet.
pub(super) struct Fall {
    /// Why nothing may count as unused or deleted.
    pub reason: KeepReason,
    /// The baseline after this pass. Lists that became much shorter keep theirs.
    pub baseline: ListCounts,
    /// The shorter lengths after this pass.
    pub level: ListFall,
}

/// Returns why nothing may count as unused or deleted in this pass, if so.
pub(super) fn why_untrusted(snapshot: &Snapshot, guards: &Guards) -> Option<KeepReason> {
    just_started(snapshot, guards).or_else(|| fall(snapshot, guards).map(|fall| fall.reason))
}

/// Returns a reason if the runtime has just started. The start is the creation time of its socket, or the time when an
/// agent first saw that socket if that is earlier: the time of a file can be in the future.
fn just_started(snapshot: &Snapshot, guards: &Guards) -> Option<KeepReason> {
    if guards.settle.is_zero() {
        return None;
    }
    let since = match snapshot.listening_since() {
        Seen::Seen(since) => since?,
        Seen::NotSeen(cause) => return Some(KeepReason::RuntimeNotSeen { cause }),
    };
    let known = snapshot.memory.runtime.as_ref().filter(|known| known.listening_since == Some(since));
    let since = known.map_or(since, |known| known.first_seen.min(since));
    let is_young = super::age(snapshot.taken_at, since) < guards.settle;
    is_young.then(|| KeepReason::RuntimeJustStarted { settle_seconds: super::seconds(guards.settle) })
}

/// Returns the first list that became much shorter, unless the new length lasted long enough to be trusted.
pub(super) fn fall(snapshot: &Snapshot, guards: &Guards) -> Option<Fall> {
    let before = snapshot.memory.last_counts?;
    let now = counts(snapshot, before);
    let mut lists = before.by_list().into_iter().zip(now.by_list());
    let ((list, before_count), (_, now_count)) =
        lists.find(|((_, before), (_, now))| is_sharp(*before, *now, guards.fall_percent))?;
    let level = level(snapshot, guards, now);
    if super::age(snapshot.taken_at, level.since) >= guards.fall_hold && level.passes >= PASSES {
        return None;
    }
    let hold_seconds = super::seconds(guards.fall_hold);
    let reason = KeepReason::ListFell { list: list.to_owned(), before: before_count, now: now_count, hold_seconds };
    let baseline = before.zip(now, |before, now| if is_sharp(before, now, guards.fall_percent) { before } else { now });
    Some(Fall { reason, baseline, level })
}

/// Returns the length of each list, complete or not. An unavailable list has its previous length.
pub(super) fn counts(snapshot: &Snapshot, before: ListCounts) -> ListCounts {
    fn length<T>(list: Option<&[T]>, before: u64) -> u64 {
        list.map_or(before, |list| list.len() as u64)
    }
    ListCounts {
        containers: length(snapshot.listed_containers(), before.containers),
        sandboxes: length(snapshot.listed_sandboxes(), before.sandboxes),
        images: snapshot.images.as_ref().map_or(before.images, |images| distinct(images)),
    }
}

/// Returns the number of images in a list. Some runtimes list an image more than once.
fn distinct(images: &[Image]) -> u64 {
    images.iter().map(|image| &image.id).collect::<HashSet<_>>().len() as u64
}

/// Returns the shorter lengths and since when they last. A further sharp fall starts a new level.
fn level(snapshot: &Snapshot, guards: &Guards, now: ListCounts) -> ListFall {
    let falls_further = |known: &ListFall| {
        let mut lists = known.counts.by_list().into_iter().zip(now.by_list());
        lists.any(|((_, before), (_, now))| is_sharp(before, now, guards.fall_percent))
    };
    match snapshot.memory.fall.filter(|known| !falls_further(known)) {
        Some(known) => ListFall { since: known.since, passes: known.passes.saturating_add(1), counts: known.counts },
        None => ListFall { since: snapshot.taken_at, passes: 1, counts: now },
    }
}

fn is_sharp(before: u64, now: u64, fall_percent: u64) -> bool {
    let is_below = now.saturating_mul(100) < before.saturating_mul(fall_percent);
    is_below && (now == 0 || before - now >= FEW)
}

#[cfg(test)]
mod tests;
