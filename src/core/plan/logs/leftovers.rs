//! Decides the logs of instances that the runtime no longer lists, of containers that it lists.
//!
//! The kubelet removes a log with its container (1.36, `removeContainer`). If someone else removed the container, its log
//! remains until its pod is deleted: a crash loop leaves one for each restart (kubernetes#91765). When the kubelet restarts all
//! containers of a pod (KEP-5532), it removes them and leaves their logs on purpose. So these logs are kept while their pod
//! exists (I17). Only with `logs.leftover_max_age` an older one counts as a dead instance, after those that the runtime has, under
//! the limits and the rules of containers.
//!
//! Without an instance in the runtime the kubelet counts restarts from the names of these files (1.36,
//! `calcRestartCountByLogDir`). So the newest instance must be in the runtime, and only older logs are removed, unless this
//! pass removes all dead instances of the pod.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::model::{Container, ContainerId, ContainerState, LeftoverLog, PodUid};
use crate::plan::document::action::{Kind, Target};
use crate::plan::document::reason::{KeepReason, RemoveReason};
use crate::plan::pods::Completeness;
use crate::plan::step::{Context, Step};
use crate::plan::times;
use crate::rules::Rule;

/// The instances of one container.
#[derive(Default)]
struct Instances<'a> {
    by_attempt: BTreeMap<u32, &'a ContainerId>,
    /// The exited ones, and those in an unknown state.
    dead: u64,
}

/// One (pod uid, container name), as a key.
type SlotKey<'a> = (&'a PodUid, &'a str);

type Slots<'a> = HashMap<SlotKey<'a>, Instances<'a>>;

/// Decides these logs, except those in directories that this pass removes.
pub(super) fn decide(step: &mut Step, removed_dirs: &HashSet<PodUid>) {
    let context = step.context;
    if context.policy.logs.leftover_max_age.is_zero() {
        return;
    }
    let Some(logs) = step.need_if_read("leftover_logs", &context.snapshot.leftover_logs) else { return };
    let mut logs: Vec<_> = logs.iter().filter(|log| !removed_dirs.contains(&log.pod.uid)).collect();
    logs.sort_by_key(|log| (key(log), Reverse(log.attempt)));
    let slots = slots(context, &logs);
    for logs in logs.chunk_by(|one, next| key(one) == key(next)) {
        decide_slot(step, &slots, logs);
    }
}

fn key(log: &LeftoverLog) -> SlotKey<'_> {
    (&log.pod.uid, &log.container)
}

/// Returns the instances of the containers that have such logs.
fn slots<'a>(context: &Context<'a>, logs: &[&'a LeftoverLog]) -> Slots<'a> {
    let mut slots: Slots = logs.iter().map(|log| (key(log), Instances::default())).collect();
    let containers = context.snapshot.containers.as_ref().filter(|_| !logs.is_empty());
    for container in containers.into_iter().flatten() {
        let of = container.pod_uid().and_then(|uid| slots.get_mut(&(uid, container.name.as_str())));
        if let Some(instances) = of {
            instances.add(container);
        }
    }
    slots
}

/// Decides the logs of one container. They are given newest first, and removed oldest first.
fn decide_slot(step: &mut Step, slots: &Slots, logs: &[&LeftoverLog]) {
    let context = step.context;
    let instances = logs.first().and_then(|log| slots.get(&key(log)));
    let mut counted = instances.map_or(0, |instances| instances.dead);
    let mut removals = Vec::new();
    for log in logs {
        let target = Target::RemoveLogFile { path: log.path(&context.policy.logs.pods_root) };
        let verdict = verdict(context, instances, log, &target.id(), &mut counted);
        let age_seconds = log.modified_at.map(|at| context.age_seconds(at));
        let object = target.with(Some(log.pod.clone()), age_seconds, Some(log.size_bytes));
        match verdict {
            Ok(reason) => removals.push(object.remove(reason)),
            Err(reason) => step.keep(object.keep(reason)),
        }
    }
    for removal in removals.into_iter().rev() {
        step.remove(removal);
    }
}

/// Returns why a log is removed or kept. `counted` is the number of dead instances so far that count for the limit: those that
/// a rule, a guard or an age keeps do not.
fn verdict(
    context: &Context,
    instances: Option<&Instances>,
    log: &LeftoverLog,
    id: &str,
    counted: &mut u64,
) -> Result<RemoveReason, KeepReason> {
    let whole_pod = context.pods.status(Some(&log.pod), Completeness::Required).removes_dead(context.policy);
    if let Some(reason) = why_no_candidate(context, instances, log, whole_pod.is_some()) {
        return Err(reason);
    }
    let rule = context.rules.leftover_log(log, id)?;
    // A log of unknown age is young.
    let is_old = |min_age| log.modified_at.is_some_and(|at| times::is_older(context.now, at, min_age));
    let max_age = context.policy.logs.leftover_max_age;
    let within = || KeepReason::WithinLeftoverMaxAge { max_age_seconds: times::seconds(max_age) };
    let why_kept = (!is_old(max_age))
        .then(within)
        .or_else(|| context.why_too_young(rule, is_old))
        .or_else(|| context.backing_off(Kind::LogFile, id));
    if let Some(reason) = why_kept {
        return Err(reason);
    }
    let result = whole_pod.map_or_else(|| over_limit(context, rule, *counted), Ok);
    *counted += u64::from(result.is_err());
    result
}

/// Returns why nothing proves that the instance of a log is missing, if so.
fn why_no_candidate(
    context: &Context,
    instances: Option<&Instances>,
    log: &LeftoverLog,
    is_whole_pod: bool,
) -> Option<KeepReason> {
    if let Some(cause) = context.snapshot.containers.cause() {
        return Some(KeepReason::RuntimeNotSeen { cause: cause.to_owned() });
    }
    if context.gaps.may_miss_containers(Some(&log.pod.uid)) {
        return Some(KeepReason::ListIncomplete { list: "containers".to_owned() });
    }
    if let Some(reason) = context.pods.why_untrusted() {
        return Some(reason.clone());
    }
    if let Some(id) = instances.and_then(|instances| instances.by_attempt.get(&log.attempt)) {
        return Some(KeepReason::InUse { container: id.to_string() });
    }
    let newest = instances.and_then(|instances| instances.by_attempt.last_key_value());
    let has_newer = is_whole_pod || newest.is_some_and(|(newest, _)| *newest > log.attempt);
    (!has_newer).then_some(KeepReason::NewestInstance {})
}

/// Returns whether a log is over the limit of dead instances: that of the rule, or that of the settings.
fn over_limit(context: &Context, rule: Option<&Rule>, counted: u64) -> Result<RemoveReason, KeepReason> {
    if let Some((rule, limit)) = rule.and_then(|rule| Some((rule, rule.max_per_pod_container()?))) {
        let text = rule.max_per_pod_container_text();
        return if counted < limit { Err(rule.keeps_within(text)) } else { Ok(rule.removes(text)) };
    }
    match context.policy.containers.max_per_pod_container {
        None => Err(KeepReason::NoLimit {}),
        Some(limit) if counted < limit => Err(KeepReason::WithinMaxPerPodContainer { limit }),
        Some(limit) => Ok(RemoveReason::OverMaxPerPodContainer { limit }),
    }
}

// === impl Instances ===

impl<'a> Instances<'a> {
    fn add(&mut self, container: &'a Container) {
        // Two instances of one attempt are possible. The first by id, so that the order of the list does not matter.
        let id = self.by_attempt.entry(container.attempt).or_insert(&container.id);
        *id = (*id).min(&container.id);
        let is_dead = matches!(container.state, ContainerState::Exited | ContainerState::Unknown);
        self.dead += u64::from(is_dead);
    }
}

#[cfg(test)]
mod tests;
