//! Decides log files that only the archive has: those of deleted pods, and rotated ones that the kubelet removed.
//!
//! Removes what is there for longer than `logs.archive` keeps it, the oldest of a pod and of a namespace that have too many bytes, the
//! oldest of the namespaces that have more than their share of the limit of the node and, under pressure of the disk of the logs, all. A
//! rule for logs can keep them, or has limits in place of these: the files of its pods have a `budget` together, of which each namespace
//! has its share. What a rule could not evaluate obeys the limits. What stays within the limits is not in the plan.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::limits::fair_share;
use crate::model::{ArchivedLog, DiskUse, LogDir, PodRef, PodUid, Snapshot, log_dir_name};
use crate::plan::document::action::{Object, Target};
use crate::plan::document::reason::{KeepReason, RemoveReason};
use crate::plan::policy::Policy;
use crate::plan::policy::log_limit::{ArchiveLimit, LogLimit};
use crate::plan::rules::book::time_limit;
use crate::plan::step::{Context, Step};
use crate::plan::times;
use crate::rules::{Limits, Rule};

/// A file, and what the rules decide of the logs of its pod.
struct File<'a> {
    log: &'a ArchivedLog,
    rule: Result<Option<&'a Rule>, KeepReason>,
}

/// What has a limit on its bytes: a name, and a uid where the name is not unique.
type Group = (String, PodUid);

/// The bytes of each namespace.
type Sums<'a> = HashMap<&'a str, u64>;

/// Decides these files, the oldest first.
pub(super) fn decide(step: &mut Step) {
    let context = step.context;
    let limits = &context.policy.logs.archive;
    if limits.is_empty() {
        return;
    }
    let Some(logs) = step.need_if_read("archived_logs", &context.snapshot.archived_logs) else { return };
    let mut left = files(context, logs);
    left.retain(|file| file.log.path().is_some());
    left.sort_by_key(|file| (lost_at(file.log), file.log.path()));
    left.retain(|file| {
        file.rule.as_ref().map_err(|reason| step.keep(file.object(context).keep(reason.clone()))).is_ok()
    });
    if has_pressure(context) {
        for file in left {
            step.decide(file.object(context), Ok(RemoveReason::OverArchiveLimit { limit: None }));
        }
        return;
    }
    remove_over(step, &mut left, |file| file.over_time(context));
    let budget = |file: &File| {
        let (rule, budget) = file.budget()?;
        Some((budget, (rule.text().name.clone(), PodUid::default())))
    };
    let of_rule = |file: &File| file.budget().map(|(rule, _)| rule.removes(rule.budget_text()));
    remove_over_share(step, &mut left, budget, of_rule);
    for limit in limits.iter().collect::<BTreeSet<_>>() {
        let ArchiveLimit::Bytes(LogLimit { limit_of, limit_bytes }) = limit else { continue };
        let group = |file: &File| limit_of.group(&file.log.pod, &context.snapshot.node);
        let limited = |file: &File| file.budget().is_none().then(|| (*limit_bytes, group(file)));
        remove_over_share(step, &mut left, limited, |_| Some(over(limit)));
    }
}

fn over(limit: &ArchiveLimit) -> RemoveReason {
    RemoveReason::OverArchiveLimit { limit: Some(limit.to_string()) }
}

/// Returns when each of the files in the archive is kept for too long; `None` = no limit on the time removes it.
pub fn archive_ends(snapshot: &Snapshot, policy: &Policy) -> Vec<Option<Timestamp>> {
    let context = Context::new(snapshot, policy);
    let files = files(&context, snapshot.archived_logs.as_ref().map(Vec::as_slice).unwrap_or_default());
    let end = |file: &File| {
        let (keep_for, _) = file.keep_for(&context)?;
        file.log.lost_at?.checked_add(keep_for).ok()
    };
    files.iter().map(end).collect()
}

/// Returns these files, and what the rules decide of them.
fn files<'a>(context: &Context<'a>, logs: &'a [ArchivedLog]) -> Vec<File<'a>> {
    let mut of_pods: HashMap<&PodRef, Vec<&ArchivedLog>> = HashMap::new();
    for log in logs {
        of_pods.entry(&log.pod).or_default().push(log);
    }
    let rule = |pod: &PodRef, logs: &[&ArchivedLog]| {
        // What could not be evaluated obeys the limits.
        rule_for(context, pod, logs).or_else(|reason| if reason.is_not_evaluated() { Ok(None) } else { Err(reason) })
    };
    let rules: HashMap<_, _> = of_pods.into_iter().map(|(pod, logs)| (pod, rule(pod, &logs))).collect();
    let file = |log: &'a ArchivedLog| {
        let rule = rules.get(&log.pod).cloned().unwrap_or(Ok(None));
        File { log, rule }
    };
    logs.iter().map(file).collect()
}

/// Returns what the rules decide of what only the archive has of the logs of a pod. Their age counts from the last that the pod lost.
fn rule_for<'a>(context: &Context<'a>, pod: &PodRef, logs: &[&ArchivedLog]) -> Result<Option<&'a Rule>, KeepReason> {
    let size_bytes = logs.iter().map(|log| log.size_bytes).fold(0, u64::saturating_add);
    let lost_at = logs.iter().filter_map(|log| log.lost_at).max().unwrap_or(context.now);
    let dir = LogDir { name: log_dir_name(pod), size_bytes: Some(size_bytes), ..LogDir::default() };
    context.rules.log_dir(&dir, pod, times::age(context.now, lost_at))
}

/// Removes of the files that have a limit together what is over it: of each namespace that has more than its share. So the files of one
/// never cost another its share.
fn remove_over_share<'a>(
    step: &mut Step,
    left: &mut Vec<File<'a>>,
    limit: impl Fn(&File<'a>) -> Option<(u64, Group)>,
    reason: impl Fn(&File<'a>) -> Option<RemoveReason>,
) {
    let mut sums = HashMap::<_, Sums>::new();
    for file in &*left {
        _ = limit(file).map(|of| add(sums.entry(of).or_default(), file.log));
    }
    let share = |(of, sums): ((u64, Group), Sums)| (of.clone(), fair_share(of.0, sums.into_values().collect()));
    let shares: HashMap<_, _> = sums.drain().map(share).collect();
    remove_over(step, left, |file| {
        let of = limit(file)?;
        let share = shares.get(&of)?;
        let is_over = add(sums.entry(of).or_default(), file.log) > *share;
        is_over.then(|| reason(file)).flatten()
    });
}

/// Removes the files for which there is a reason. The newest count first, so that the oldest are over a limit.
fn remove_over<'a>(step: &mut Step, left: &mut Vec<File<'a>>, reason: impl FnMut(&File<'a>) -> Option<RemoveReason>) {
    let mut reasons: Vec<_> = left.iter().rev().map(reason).collect();
    left.retain(|file| match reasons.pop().flatten() {
        Some(reason) => {
            step.decide(file.object(step.context), Ok(reason));
            false
        }
        None => true,
    });
}

/// Adds a file to what its namespace has. Returns the bytes so far.
fn add<'a>(sums: &mut Sums<'a>, log: &'a ArchivedLog) -> u64 {
    let bytes = sums.entry(&*log.pod.namespace).or_default();
    *bytes = bytes.saturating_add(log.size_bytes);
    *bytes
}

/// Returns whether the disk of the logs has pressure.
fn has_pressure(context: &Context) -> bool {
    let Some(pressure) = &context.policy.pass.pressure else { return false };
    let mut disks = context.snapshot.disks.iter().filter(|disk| disk.holds.contains(&DiskUse::Logs));
    let root = &context.policy.logs.pods_root;
    pressure.mountpoint().is_none_or(|at| at == root || disks.any(|disk| disk.file_system.mountpoint == at))
}

/// A file of which the time is not known goes last.
fn lost_at(log: &ArchivedLog) -> Timestamp {
    log.lost_at.unwrap_or(Timestamp::MAX)
}

// === impl File ===

impl<'a> File<'a> {
    /// Returns it with its age in the archive.
    fn object(&self, context: &Context) -> Object {
        let path = context.policy.logs.archive_root().join(self.log.path().unwrap_or_default());
        let age_seconds = self.log.lost_at.map(|at| context.age_seconds(at));
        Target::RemoveLogFile { path }.with(Some(self.log.pod.clone()), age_seconds, Some(self.log.size_bytes))
    }

    fn limits(&self) -> Option<(&'a Rule, &'a Limits)> {
        let rule = self.rule.as_ref().ok().copied().flatten()?;
        Some((rule, rule.limits()?))
    }

    /// Returns the rule that decides it, and the bytes that this rule permits.
    fn budget(&self) -> Option<(&'a Rule, u64)> {
        self.limits().and_then(|(rule, limits)| Some((rule, limits.budget?)))
    }

    /// Returns for how long it is kept, and why it is removed then.
    fn keep_for(&self, context: &Context) -> Option<(Duration, RemoveReason)> {
        if let Some((rule, keep_for)) = self.limits().and_then(|(rule, limits)| Some((rule, limits.keep_for?))) {
            return Some((keep_for, rule.removes(time_limit("keep_for", keep_for))));
        }
        let keep = |limit: &ArchiveLimit| match limit {
            ArchiveLimit::Keep(keep) => Some((*keep, over(limit))),
            ArchiveLimit::Bytes(_) => None,
        };
        self.rule.as_ref().ok().and_then(|_| context.policy.logs.archive.iter().find_map(keep))
    }

    fn over_time(&self, context: &Context) -> Option<RemoveReason> {
        let (keep_for, reason) = self.keep_for(context)?;
        times::is_older(context.now, lost_at(self.log), keep_for).then_some(reason)
    }
}

#[cfg(test)]
mod tests;
