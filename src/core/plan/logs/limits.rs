//! Decides log files of pods that exist, if these have more than `logs.limits` permits.
//!
//! Removes of the pod with the most bytes the oldest file, until the limit is met. Over the limit of the node each namespace pays down to
//! its share, which is an equal one if all have more: what one has never costs another its share. Which files may be removed, [`LogFacts`]
//! says. What stays over its limit, and what was not read, the plan says.
//!
//! The rules of containers keep the files of an instance that the runtime no longer has. The files are not in the plan while their
//! limit is met.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::model::{
    Container, ContainerId, ContainerLog, ContainerLogs, LeftoverLog, LogFacts, PodRef, PodUid, attempt_of_log,
    is_compressing, log_file_name,
};
use crate::plan::document::action::{Kind, Target};
use crate::plan::document::log_limit_note::{FilesLeft, LogLimitNote};
use crate::plan::document::reason::{KeepReason, RemoveReason};
use crate::plan::pods::{Completeness, PodStatus};
use crate::plan::policy::log_limit::{LimitOf, LogLimit};
use crate::plan::step::{Context, Step};

struct PodLogs<'a> {
    pod: &'a PodRef,
    bytes: u64,
    /// The container whose files were not all read, if there is one.
    unread: Option<&'a str>,
    kept: u64,
    left: FilesLeft,
    /// Why none of them may be removed, if so.
    guard: Option<KeepReason>,
    /// Those that may be removed, newest first.
    candidates: Vec<Candidate<'a>>,
}

/// A log file that may be removed, its container, and whether the runtime has its instance.
struct Candidate<'a> {
    file: &'a ContainerLog,
    path: PathBuf,
    container: &'a str,
    is_listed: bool,
}

/// The instances that the runtime has, and what this pass removes with its logs: ids of containers and paths of logs.
struct Instances<'a> {
    listed: HashMap<(&'a PodUid, &'a str, u32), &'a ContainerId>,
    removed: HashSet<String>,
}

/// Decides these log files, except those in directories that this pass removes.
pub(super) fn decide(step: &mut Step, removed_dirs: &HashSet<PodUid>) {
    let (context, policy) = (step.context, &step.context.policy.logs);
    if policy.limits.is_empty() {
        return;
    }
    let Some(logs) = step.need_if_read("container_logs", &context.snapshot.container_logs) else { return };
    let (instances, mut pods) = (Instances::new(step), BTreeMap::new());
    for logs in logs.iter().filter(|logs| !removed_dirs.contains(&logs.pod.uid)) {
        let status = context.pods.status(Some(&logs.pod), Completeness::Required);
        // Other rules decide the logs of a deleted pod.
        if !matches!(status, PodStatus::Deleted) {
            let of_pod = pods.entry(&logs.pod).or_insert_with(|| PodLogs::new(context, &logs.pod, status));
            of_pod.add(context, &instances, logs);
        }
    }
    let begun = (step.plan.actions.len(), step.plan.kept.len());
    let newest_first = |one: &Candidate| Reverse((one.file.modified_at, one.path.clone()));
    for pod in pods.values_mut() {
        pod.candidates.sort_by_cached_key(newest_first);
    }
    for limit in policy.limits.iter().collect::<BTreeSet<_>>() {
        let mut groups = BTreeMap::<_, Vec<_>>::new();
        for (pod, logs) in &mut pods {
            groups.entry(limit.limit_of.group(pod, &context.snapshot.node)).or_default().push(logs);
        }
        for ((of, _), mut pods) in groups {
            reduce(step, *limit, of, &mut pods);
        }
    }
    put_in_order(step, begun);
}

/// Puts the removals of a pod together, because the recheck lists its containers once for all of them. A file that `leftovers` kept, and
/// that is decided here, is kept no more.
fn put_in_order(step: &mut Step, (removals, kept): (usize, usize)) {
    let kept = step.plan.kept.split_off(kept);
    let Some(removals) = step.plan.actions.get_mut(removals..) else { return };
    removals.sort_by(|one, other| one.pod.cmp(&other.pod));
    let ids = removals.iter().map(|action| action.target.id()).chain(kept.iter().map(|one| one.id.clone()));
    let decided: HashSet<_> = ids.collect();
    step.plan.kept.retain(|one| one.kind != Kind::LogFile || !decided.contains(&one.id));
    step.plan.kept.extend(kept);
}

/// Removes files until the limit is met or nothing is left that may be removed for it.
fn reduce(step: &mut Step, limit: LogLimit, of: String, pods: &mut [&mut PodLogs]) {
    pods.sort_by_key(|pod| pod.pod);
    let mut namespaces: Vec<_> = pods.chunk_by_mut(|one, next| one.pod.namespace == next.pod.namespace).collect();
    let share = fair_share(limit.limit_bytes, namespaces.iter().map(|pods| bytes_of(pods)).collect());
    for pods in &mut namespaces {
        pay(step, limit, share, pods);
    }
    let largest = namespaces.iter().max_by_key(|pods| bytes_of(pods)).and_then(|pods| pods.first());
    let most = largest.filter(|_| limit.limit_of == LimitOf::Node).map(|pod| pod.pod.namespace.clone());
    let bytes = bytes_of(pods);
    let unread = pods.iter().find_map(|pod| Some(format!("{}/{}", pod.pod, pod.unread?)));
    if bytes > limit.limit_bytes || unread.is_some() {
        let left = pods.iter().fold(FilesLeft::default(), |left, pod| left.and(pod.left()));
        let (at_least, kept) = (unread.is_some(), pods.iter().map(|pod| pod.kept).sum());
        step.plan.log_limits.push(LogLimitNote { limit, of, bytes, at_least, kept, left, most, unread });
    }
}

/// Removes the oldest file of the largest of these pods until they have their share or nothing is left to remove.
fn pay(step: &mut Step, limit: LogLimit, share: u64, pods: &mut [&mut PodLogs]) {
    let mut bytes = bytes_of(pods);
    while bytes > share {
        let with_candidates = pods.iter_mut().filter(|pod| !pod.candidates.is_empty());
        let Some(largest) = with_candidates.max_by_key(|pod| (pod.bytes, Reverse(pod.pod))) else { break };
        bytes = bytes.saturating_sub(largest.remove_oldest(step, limit));
    }
}

/// Returns the most bytes that each may have of a limit for all: what one does not need, the others have.
pub(super) fn fair_share(limit: u64, mut bytes: Vec<u64>) -> u64 {
    bytes.sort_unstable();
    let (mut left, mut others) = (limit, bytes.len() as u64);
    for bytes in bytes {
        if bytes > left / others {
            return left / others;
        }
        (left, others) = (left - bytes, others - 1);
    }
    u64::MAX
}

fn bytes_of(pods: &[&mut PodLogs]) -> u64 {
    pods.iter().fold(0, |sum, pod| sum.saturating_add(pod.bytes))
}

// === impl PodLogs ===

impl<'a> PodLogs<'a> {
    fn new(context: &Context, pod: &'a PodRef, status: PodStatus) -> Self {
        let incomplete = || KeepReason::ListIncomplete { list: "containers".to_owned() };
        let is_incomplete = context.gaps.may_miss_containers(Some(&pod.uid));
        let untrusted = || context.pods.why_untrusted().cloned();
        let guard = is_incomplete.then(incomplete).or_else(untrusted).or_else(|| status.guard());
        Self { pod, bytes: 0, unread: None, kept: 0, left: FilesLeft::default(), guard, candidates: Vec::new() }
    }

    /// Adds the log files of a container. Without all names it is not known which file is the only one or the newest.
    fn add(&mut self, context: &Context, instances: &Instances, logs: &'a ContainerLogs) {
        let root = &context.policy.logs.pods_root;
        let files: HashMap<_, _> = logs.files.iter().map(|file| (file.name.as_str(), file.modified_at)).collect();
        let newest = files.keys().filter_map(|name| attempt_of_log(name)).max();
        let is_young =
            |at: &Option<Timestamp>| at.is_none_or(|at| context.now.duration_since(at) < LogFacts::COMPRESSION);
        self.unread = self.unread.or(logs.at_least.then_some(&logs.container));
        for file in &logs.files {
            let (Some(attempt), Some(dir)) = (attempt_of_log(&file.name), logs.dir()) else { continue };
            let (dir, current) = (root.join(dir), log_file_name(attempt));
            let instance = instances.listed.get(&(&logs.pod.uid, &*logs.container, attempt));
            let removed = instance.map_or_else(|| dir.join(&current).display().to_string(), ToString::to_string);
            if instances.removed.contains(&removed) {
                continue;
            }
            self.bytes = self.bytes.saturating_add(file.size_bytes);
            let is_compressing = is_compressing(&file.name, |form| Ok::<_, Infallible>(files.get(form).map(is_young)));
            let facts = LogFacts {
                is_listed: instance.is_some(),
                has_current: files.contains_key(&*current),
                is_compressing: is_compressing.unwrap_or_default(),
                has_newer: newest > Some(attempt),
            };
            if !logs.at_least && file.modified_at.is_some() && facts.permit_removal(&file.name) {
                let (path, container, is_listed) = (dir.join(&file.name), &*logs.container, facts.is_listed);
                self.candidates.push(Candidate { file, path, container, is_listed });
            } else if facts.is_compressing {
                self.left.compressing += 1;
            } else {
                self.left.current += 1;
            }
        }
    }

    /// Returns the files that no removal is planned for, besides those that a guard or a rule keeps.
    fn left(&self) -> FilesLeft {
        FilesLeft { within_share: self.candidates.len() as u64, ..self.left }
    }

    /// Decides the oldest file. Returns the bytes that its removal reclaims.
    fn remove_oldest(&mut self, step: &mut Step, limit: LogLimit) -> u64 {
        let Some(oldest) = self.candidates.pop() else { return 0 };
        let size_bytes = oldest.file.size_bytes;
        let age_seconds = oldest.file.modified_at.map(|at| step.context.age_seconds(at));
        let kept = self.guard.clone().or_else(|| oldest.why_kept(step.context, self.pod));
        let target = Target::RemoveLogFile { path: oldest.path };
        let object = target.with(Some(self.pod.clone()), age_seconds, Some(size_bytes));
        if let Some(reason) = kept {
            self.kept += 1;
            step.keep(object.keep(reason));
            return 0;
        }
        step.remove(object.remove(RemoveReason::OverLogLimit(limit)));
        self.bytes = self.bytes.saturating_sub(size_bytes);
        size_bytes
    }
}

// === impl Candidate ===

impl Candidate<'_> {
    /// Returns why it is kept although its pod is over the limit, if so.
    fn why_kept(&self, context: &Context, pod: &PodRef) -> Option<KeepReason> {
        let id = self.path.display().to_string();
        let ContainerLog { modified_at, size_bytes, name } = self.file;
        let (container, attempt) = (self.container.to_owned(), attempt_of_log(name).unwrap_or_default());
        let log =
            LeftoverLog { pod: pod.clone(), container, attempt, modified_at: *modified_at, size_bytes: *size_bytes };
        let by_rule = if self.is_listed { None } else { context.rules.leftover_log(&log, &id).err() };
        // What could not be evaluated obeys the limit.
        let by_rule = by_rule.filter(|reason| !reason.is_not_evaluated());
        by_rule.or_else(|| context.backing_off(Kind::LogFile, &id))
    }
}

// === impl Instances ===

impl<'a> Instances<'a> {
    fn new(step: &Step<'_, 'a>) -> Self {
        let containers = step.context.snapshot.containers.as_ref().into_iter().flatten();
        let key = |one: &'a Container| Some(((one.pod_uid()?, one.name.as_str(), one.attempt), &one.id));
        let removed = step.plan.actions.iter().filter(|action| match action.target {
            Target::RemoveContainer { keeps_logs, .. } => !keeps_logs,
            _ => action.target.kind() == Kind::LogFile && !step.is_of_saved_plan(),
        });
        let removed = removed.map(|action| action.target.id()).collect();
        Self { listed: containers.filter_map(key).collect(), removed }
    }
}

#[cfg(test)]
mod tests;
