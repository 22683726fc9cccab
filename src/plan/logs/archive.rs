//! Decides log files that only the archive has: those of deleted pods, and rotated ones that the kubelet removed.
//!
//! Removes for `over_archive_limit`: what is there for longer than `logs.archive` keeps it, the oldest of a pod, of a namespace and of the
//! node that have too many bytes and, under pressure of the disk of the logs, all. Keeps for `backing_off`. What stays is not in the
//! plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;

use super::limits::log_limit::{ArchiveLimit, LogLimit};
use crate::model::{ArchivedLog, DiskUse};
use crate::plan::document::Kept;
use crate::plan::document::action::{Action, Kind, Target};
use crate::plan::document::reason::RemoveReason;
use crate::plan::step::{Context, Step};
use crate::plan::times;

/// A file, and its path beneath the archive.
type File<'a> = (&'a ArchivedLog, PathBuf);

/// Decides these files, the oldest first.
pub(super) fn decide(step: &mut Step) {
    let context = step.context;
    let limits = &context.policy.logs.archive;
    if limits.is_empty() {
        return;
    }
    let Some(logs) = step.need("archived_logs", &context.snapshot.archived_logs) else { return };
    let mut left: Vec<File> = logs.iter().filter_map(|log| Some((log, log.path()?))).collect();
    left.sort_by(|(one, path), (other, other_path)| (lost_at(one), path).cmp(&(lost_at(other), other_path)));
    if has_pressure(context) {
        for file in left {
            remove(step, file, None);
        }
        return;
    }
    for limit in limits.iter().collect::<BTreeSet<_>>() {
        let over = match limit {
            ArchiveLimit::Keep(keep) => {
                left.iter().map(|(log, _)| times::is_older(context.now, lost_at(log), *keep)).collect()
            }
            ArchiveLimit::Bytes(limit) => over_bytes(&left, *limit, &context.snapshot.node),
        };
        let mut over: Vec<bool> = over;
        for (file, _) in left.iter().zip(&over).filter(|(_, is_over)| **is_over) {
            remove(step, file.clone(), Some(*limit));
        }
        over.reverse();
        left.retain(|_| !over.pop().unwrap_or_default());
    }
}

/// Returns which of these files, the oldest first, are over a limit.
fn over_bytes(files: &[File], limit: LogLimit, node: &str) -> Vec<bool> {
    let mut groups: BTreeMap<_, u64> = BTreeMap::new();
    // The newest stay.
    let newest_first = files.iter().rev().map(|(log, _)| {
        let bytes = groups.entry(limit.limit_of.group(&log.pod, node)).or_default();
        *bytes = bytes.saturating_add(log.size_bytes);
        *bytes > limit.limit_bytes
    });
    let mut over: Vec<_> = newest_first.collect();
    over.reverse();
    over
}

fn remove(step: &mut Step, (log, path): File, limit: Option<ArchiveLimit>) {
    let context = step.context;
    let target = Target::RemoveLogFile { path: context.policy.logs.archive_root().join(path) };
    let (pod, size) = (Some(log.pod.clone()), Some(log.size_bytes).into());
    let age_seconds = log.lost_at.map(|at| context.age_seconds(at));
    match context.backing_off(Kind::LogFile, &target.id()) {
        Some(reason) => step.keep(Kept { pod, age_seconds, size, ..target.keep(reason) }),
        None => {
            _ = step.remove(Action {
                pod,
                age_seconds,
                size,
                ..target.remove(RemoveReason::OverArchiveLimit { limit })
            });
        }
    }
}

/// Returns whether the disk of the logs has pressure.
fn has_pressure(context: &Context) -> bool {
    let Some(pressure) = &context.policy.under_pressure else { return false };
    let mut disks = context.snapshot.disks.iter().filter(|disk| disk.holds.contains(&DiskUse::Logs));
    let root = &context.policy.logs.pods_root;
    pressure.mountpoint().is_none_or(|at| at == root || disks.any(|disk| disk.file_system.mountpoint == at))
}

/// A file of which the time is not known goes last.
fn lost_at(log: &ArchivedLog) -> Timestamp {
    log.lost_at.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
