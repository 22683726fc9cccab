//! When the runtime's lists are not trusted (I12): the runtime has just started, or a list became much shorter.
//!
//! The length of a list is compared with a baseline: the highest trusted length of the last `guards.fall_hold`, so that a
//! fall in small steps is noticed too. The baseline is part of the memory, so all passes share it and it survives restarts.
//! A shorter length becomes the new baseline after it lasted for `guards.fall_hold` and for [`PASSES`] passes. Where the
//! baseline was lost with the store, nothing is trusted for `guards.fall_hold`.
//!
//! A fall of any list holds images, sandboxes and the objects of deleted pods. The limits of containers continue.

use std::collections::HashSet;

use crate::model::{BaselineLoss, Image, ListCounts, ListFall, RecentCounts, Snapshot};
use crate::plan::document::reason::KeepReason;
use crate::plan::policy::guards::Guards;

/// Fewer missing objects than this are no sharp fall, unless less than half of the list is left.
const FEW: u64 = 3;
/// The number of passes in which a list must have a shorter length before that is trusted.
const PASSES: u32 = 3;

/// A list that became much shorter and is not trusted yet.
pub(in crate::plan) struct Fall {
    /// Why nothing may count as unused or deleted.
    pub reason: KeepReason,
    /// The baseline after this pass.
    pub baseline: ListCounts,
    /// The shorter lengths after this pass.
    pub level: ListFall,
}

/// Returns why nothing may count as unused or deleted in this pass, if so.
pub(in crate::plan) fn why_untrusted(snapshot: &Snapshot, guards: &Guards) -> Option<KeepReason> {
    just_started(snapshot, guards)
        .or_else(|| fall(snapshot, guards).map(|fall| fall.reason))
        .or_else(|| baseline_loss(snapshot, guards).map(|_| baseline_lost(guards)))
}

fn baseline_lost(guards: &Guards) -> KeepReason {
    KeepReason::BaselineLost { hold_seconds: crate::plan::times::seconds(guards.fall_hold) }
}

/// Returns the loss of the baseline after this pass, unless it was long enough ago.
pub(in crate::plan) fn baseline_loss(snapshot: &Snapshot, guards: &Guards) -> Option<BaselineLoss> {
    let since = snapshot.memory.baseline_lost?.since.unwrap_or(snapshot.taken_at);
    let is_over = crate::plan::times::age(snapshot.taken_at, since) >= guards.fall_hold;
    (!is_over).then_some(BaselineLoss { since: Some(since) })
}

/// Returns the baseline after a pass whose lists are trusted, and the later part of its time.
pub(in crate::plan) fn trusted(snapshot: &Snapshot, guards: &Guards) -> (ListCounts, RecentCounts) {
    let before = snapshot.memory.last_counts.unwrap_or_default();
    let now = counts(snapshot, before);
    let begin = RecentCounts { since: snapshot.taken_at, counts: now };
    if sharp(before, now, guards).is_some() {
        return (now, begin); // the fall has held long enough
    }
    let with_now = |known: RecentCounts| RecentCounts { counts: known.counts.zip(now, u64::max), ..known };
    let recent = snapshot.memory.recent_counts.map_or(begin, with_now);
    if crate::plan::times::age(snapshot.taken_at, recent.since) >= guards.fall_hold {
        (recent.counts, begin)
    } else {
        (before.zip(now, u64::max), recent)
    }
}

/// Returns the first list that is much shorter than before, with both lengths.
fn sharp(before: ListCounts, now: ListCounts, guards: &Guards) -> Option<(&'static str, u64, u64)> {
    let lists = before.by_list().into_iter().zip(now.by_list());
    let mut lists = lists.map(|((list, before), (_, now))| (list, before, now));
    lists.find(|(_, before, now)| is_sharp(*before, *now, guards.fall_percent))
}

/// Returns a reason if the runtime has just started. The start is the creation time of its socket, or the time when an
/// agent first saw that socket if that is earlier: the time of a file can be in the future.
fn just_started(snapshot: &Snapshot, guards: &Guards) -> Option<KeepReason> {
    if guards.settle.is_zero() {
        return None;
    }
    let since = match snapshot.listening_since.result() {
        Ok(since) => (*since)?,
        Err(cause) => return Some(KeepReason::RuntimeNotSeen { cause: cause.to_owned() }),
    };
    let known = snapshot.memory.runtime.as_ref().filter(|known| known.listening_since == Some(since));
    let since = known.map_or(since, |known| known.first_seen.min(since));
    let is_young = crate::plan::times::age(snapshot.taken_at, since) < guards.settle;
    is_young.then(|| KeepReason::RuntimeJustStarted { settle_seconds: crate::plan::times::seconds(guards.settle) })
}

/// Returns the first list that became much shorter, unless the new length lasted long enough to be trusted.
pub(in crate::plan) fn fall(snapshot: &Snapshot, guards: &Guards) -> Option<Fall> {
    if guards.fall_hold.is_zero() {
        return None;
    }
    let before = snapshot.memory.last_counts?;
    let now = counts(snapshot, before);
    let (list, before_count, now_count) = sharp(before, now, guards)?;
    let level = level(snapshot, guards, now);
    if crate::plan::times::age(snapshot.taken_at, level.since) >= guards.fall_hold && level.passes >= PASSES {
        return None;
    }
    let hold_seconds = crate::plan::times::seconds(guards.fall_hold);
    let reason = KeepReason::ListFell { list: list.to_owned(), before: before_count, now: now_count, hold_seconds };
    Some(Fall { reason, baseline: before.zip(now, u64::max), level })
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
    match snapshot.memory.fall.filter(|known| sharp(known.counts, now, guards).is_none()) {
        Some(known) => ListFall { since: known.since, passes: known.passes.saturating_add(1), counts: known.counts },
        None => ListFall { since: snapshot.taken_at, passes: 1, counts: now },
    }
}

fn is_sharp(before: u64, now: u64, fall_percent: u64) -> bool {
    let is_below = now.saturating_mul(100) < before.saturating_mul(fall_percent);
    is_below && (now.saturating_mul(2) < before || before - now >= FEW)
}

#[cfg(test)]
mod tests;
