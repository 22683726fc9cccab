//! The memory after outcomes, as data.
//!
//! A refusal backs off like a failure if its cause does not change by itself (a foreign path), or if it is the second in a
//! row: then the snapshot and the recheck disagree. Consecutive refusals of one object are one entry of the history, so they
//! displace no removal from it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::{
    Backoff, DiskMemory, DiskUse, Failure, ImageId, ListCounts, Memory, RemovedImage, manifest_digests,
};
use crate::plan::document::action::{Kind, Target};
use crate::plan::document::reason::RemoveReason;
use crate::plan::document::report::{Outcome, Refusal, Report};
use crate::plan::document::summary::Summary;

/// A failure that was due this long ago without another try belongs to an object that no plan removes any more.
const STALE: SignedDuration = SignedDuration::from_hours(24);

/// A rule may remove images at once. Twice a time without a use is then at least twice this, in seconds.
const SHORTEST_UNUSED: i64 = 60;

/// Returns the memory after the outcomes in `reports`, of a pass at `taken_at`. The actions ended at `at`.
///
/// - An object that was removed is subtracted from the baseline of the lists, so that the next pass does not take kubegc's
///   own removals for a sharp fall (I12). A failed removal may still have removed the object.
/// - A failed action has a back-off: `retry_after` from `taken_at`, twice that after the second failure in a row and so
///   on, at most an hour. `retry_after` 0 = it is tried in each pass. An action that succeeded, or whose object no
///   longer existed, has no failure any more.
/// - A refused action has a back-off too, unless the next plan takes the cause into account or no source was available.
/// - A removed image is remembered, for the kubelet's record of it and in case it is pulled again. One that something else
///   removed is not.
/// - The entry of a removed image is deleted: if the image is pulled again before the next pass, it is a new one with
///   its own minimum age.
pub fn after_outcomes(
    memory: &Memory,
    reports: &[Report],
    taken_at: Timestamp,
    at: Timestamp,
    retry_after: Duration,
) -> Memory {
    let mut memory = memory.clone();
    for report in reports {
        if let Outcome::Removed {} | Outcome::AlreadyRemoved {} | Outcome::Failed { .. } = report.outcome {
            subtract(&mut memory, report.action.target.kind());
        }
        match &report.outcome {
            Outcome::Failed { error, .. } => fail(&mut memory, report, error, taken_at, retry_after),
            Outcome::Removed {} | Outcome::AlreadyRemoved {} => forget(&mut memory, report, at),
            Outcome::Refused { refusal } => refuse(&mut memory, report, refusal, taken_at, retry_after),
            Outcome::NotNeeded {} | Outcome::WouldRemove {} => {}
        }
    }
    memory.failures.retain(|_, failure| taken_at.duration_since(failure.retry_at) < STALE);
    memory
}

/// Returns the memory after a run with these counts: what it reclaimed on each disk. Without it the disk would seem to have
/// grown by less.
pub fn after_run(memory: &Memory, summary: &Summary) -> Memory {
    let mut memory = memory.clone();
    for (kind, bytes) in &summary.freed_bytes {
        let is_there = |disk: &&mut DiskMemory| disk.holds.contains(&disk_of(*kind));
        if let Some(disk) = memory.disks.values_mut().find(is_there) {
            disk.reclaimed_bytes = disk.reclaimed_bytes.saturating_add(*bytes);
        }
    }
    memory
}

/// Returns what the disk holds that objects of this kind are on.
fn disk_of(kind: Kind) -> DiskUse {
    match kind {
        Kind::Container | Kind::Sandbox | Kind::Image => DiskUse::Images,
        Kind::LogDir | Kind::LogFile | Kind::LogLink => DiskUse::Logs,
        Kind::Leftover => DiskUse::Kubelet,
    }
}

/// When a refused action is tried again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wait {
    /// In the next pass, always.
    Never,
    /// In the next pass; after a second refusal in a row, with the back-off of a second failure.
    FromTheSecond,
    /// With the back-off of a failure.
    Always,
}

/// Returns the back-off of a refusal, by its cause.
fn wait_after(refusal: &Refusal) -> Wait {
    match refusal {
        // The pod source may be available again at any time, and a full disk needs the space of this pod's objects.
        // The next plan keeps it, as long as the other image is kept.
        Refusal::PodNotProven | Refusal::SetIncomplete => Wait::Never,
        // A mount, a link or a name that is not the kubelet's does not change until a person changes it.
        Refusal::ForeignPath => Wait::Always,
        // The next snapshot has the new state, so the next plan keeps the object. Otherwise the snapshot and the
        // recheck always disagree, and each further try would be refused too.
        Refusal::StateChanged
        | Refusal::Ready
        | Refusal::HasContainers
        | Refusal::InUse
        | Refusal::Pinned
        | Refusal::NamedByPod
        | Refusal::InUseLink
        | Refusal::PodPresent
        | Refusal::RemovalInProgress => Wait::FromTheSecond,
    }
}

fn refuse(memory: &mut Memory, report: &Report, refusal: &Refusal, taken_at: Timestamp, retry_after: Duration) {
    let is_first = !memory.failures.contains_key(&report.action.key());
    let retry_after = match wait_after(refusal) {
        Wait::Never => return,
        Wait::FromTheSecond if is_first => Duration::ZERO,
        Wait::FromTheSecond | Wait::Always => retry_after,
    };
    let note = report.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
    fail(memory, report, &format!("refused: {refusal}{note}"), taken_at, retry_after);
}

fn fail(memory: &mut Memory, report: &Report, error: &str, taken_at: Timestamp, retry_after: Duration) {
    let before = memory.failures.get(&report.action.key()).map_or(0, |failure| failure.count);
    let longest = Memory::LONGEST_WAIT;
    let wait = Backoff::new(retry_after.min(longest), longest).after(before).wait();
    let retry_at = taken_at.saturating_add(wait).unwrap_or(Timestamp::MAX);
    let failure = Failure { count: before.saturating_add(1), retry_at, error: error.to_owned() };
    memory.failures.insert(report.action.key(), failure);
}

fn forget(memory: &mut Memory, report: &Report, at: Timestamp) {
    memory.failures.remove(&report.action.key());
    let Target::RemoveImage { id, digests, .. } = &report.action.target else { return };
    if report.outcome == (Outcome::Removed {}) {
        let removed = removed_image(memory, report, (id, digests), at);
        while !memory.removed_images.contains_key(id) && memory.removed_images.len() >= RemovedImage::MOST {
            let oldest = memory.removed_images.iter().min_by_key(|(_, removed)| removed.at).map(|(id, _)| id.clone());
            oldest.map(|id| memory.removed_images.remove(&id));
        }
        memory.removed_images.insert(id.clone(), Arc::new(removed));
    }
    memory.images = memory.images.iter().filter(|image| image.id != *id).cloned().collect();
}

/// Returns what is remembered of a removal. An image that was held because it was pulled again had to be unused for that long.
fn removed_image(
    memory: &Memory,
    report: &Report,
    (id, digests): (&ImageId, &[String]),
    at: Timestamp,
) -> RemovedImage {
    let action = &report.action;
    let (reason, rule) = (action.reason.kind(), action.reason.rule());
    let past = memory.images.iter().find(|image| image.id == *id);
    let since = past.and_then(|past| past.last_used.max(past.first_seen));
    let unused_seconds = match action.reason {
        RemoveReason::Age { max_age_seconds, .. } => {
            let before = memory.removed_images.get(id).filter(|before| before.reason == reason);
            let hold = before.and_then(|before| before.hold_seconds(at, max_age_seconds));
            max_age_seconds.max(hold.unwrap_or_default())
        }
        _ => since.map_or(0, |since| at.duration_since(since).as_secs()).max(SHORTEST_UNUSED),
    };
    let digests: BTreeSet<_> = manifest_digests(digests).map(str::to_owned).collect();
    RemovedImage {
        at,
        reason: reason.to_owned(),
        rule: rule.map(str::to_owned),
        bytes: action.bytes().unwrap_or_default(),
        digests: digests.into_iter().collect(),
        unused_seconds,
        last_used: past.and_then(|past| past.last_used),
        last_used_by: past.and_then(|past| past.last_used_by.clone()),
        kept_until: report.kept_until,
        restored_at: None,
        pulled_again_at: None,
    }
}

/// Subtracts an object from all counts of the lists.
fn subtract(memory: &mut Memory, kind: Kind) {
    let count: fn(&mut ListCounts) -> &mut u64 = match kind {
        Kind::Container => |counts| &mut counts.containers,
        Kind::Sandbox => |counts| &mut counts.sandboxes,
        Kind::Image => |counts| &mut counts.images,
        Kind::LogDir | Kind::LogFile | Kind::LogLink | Kind::Leftover => return,
    };
    let Memory { last_counts, recent_counts, fall, .. } = memory;
    let recent = recent_counts.iter_mut().map(|recent| &mut recent.counts);
    let fall = fall.iter_mut().map(|fall| &mut fall.counts);
    for counts in last_counts.iter_mut().chain(recent).chain(fall) {
        *count(counts) = count(counts).saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use crate::plan::tests::node::{node, now};

    #[test]
    fn a_removal_ends_the_back_off_and_the_entry_of_an_image() {
        let before = node().image("a", 300).failed("image/a", 5).snapshot().memory;
        let action = json!({ "action": "remove_image", "id": "a", "reason": "unused" });
        let report: Report = from_value(json!({ "action": action, "outcome": "removed" })).unwrap();
        let after = after_outcomes(&before, &[report], now(), now(), Duration::ZERO);
        let lengths = |memory: &Memory| [memory.failures.len(), memory.images.len(), memory.removed_images.len()];
        assert_eq!([lengths(&before), lengths(&after)], [[1, 1, 0], [0, 0, 1]]);
    }

    #[test]
    fn a_back_off_that_ended_a_day_ago_is_forgotten() {
        let before =
            node().failed("image/a", -24 * 60).failed("image/b", 1 - 24 * 60).failed("image/c", 5).snapshot().memory;
        let after = after_outcomes(&before, &[], now(), now(), Duration::ZERO);
        assert_eq!(after.failures.into_keys().collect::<Vec<_>>(), ["image/b", "image/c"]);
    }
}
