//! Decides the dead containers: removes those of deleted pods, then those over the limits, oldest first.
//!
//! A slot is one (pod uid, container name). A container is dead in any state but RUNNING. Running containers
//! count toward no limit. Containers of a slot are ordered by creation time alone, as in the kubelet; with equal times,
//! by ID. [`self::instances`] says which one is the newest.
//!
//! The total limit never removes the newest instance of a slot (I3), so it can stay exceeded. A young CREATED
//! container does not count toward the limit of its slot: the dead instance before it keeps its log until the new one
//! has started.

mod by_rule;
pub(super) mod instances;
pub(super) mod sandboxes;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::document::action::{Kind, Target};
use super::document::reason::{KeepReason, RemoveReason};
use super::logs;
use super::pods::{Completeness, PodStatus};
use super::policy::AgeFrom;
use super::policy::guards::Guards;
use super::step::{Context, Step};
use crate::model::{Container, ContainerId, ContainerState, PodUid, SandboxId, SandboxState};
use crate::rules::Rule;

/// One (pod uid, container name), as a key.
type SlotKey<'a> = (Option<&'a PodUid>, &'a str);

/// A removable dead container.
#[derive(Clone, Copy)]
struct Dead<'a> {
    container: &'a Container,
    /// The rule that decides it, if one does.
    rule: Option<&'a Rule>,
    /// Its position in the list.
    position: usize,
    /// Sorts containers by age, oldest first. With the guard, the attempt orders those of equal or unknown ages.
    age_order: (Timestamp, u32, &'a ContainerId),
    /// Whether the limits must not remove it: it is the newest instance of its slot in any state (I3).
    is_newest: bool,
}

/// The removable dead containers of one slot, newest first.
struct Slot<'a> {
    containers: Vec<Dead<'a>>,
    status: PodStatus,
}

pub(super) fn decide(step: &mut Step) {
    let context = step.context;
    let partial = context.snapshot.partial.containers.as_ref();
    let Some(containers) = step.need_listed("containers", &context.snapshot.containers, partial) else { return };
    step.kept_logs = logs::kept_by_rules(context);
    let mut slots = slots(step, containers);
    remove_whole_pods(step, &mut slots);
    by_rule::apply(step, &mut slots);
    remove_over_slot_limit(step, &mut slots);
    remove_over_total_limit(step, &mut slots);
    keep_rest(step, slots);
}

/// Groups the removable dead containers by slot, and records why the others are kept. The slots are in the order of
/// their oldest container.
fn slots<'a>(step: &mut Step<'_, 'a>, containers: &'a [Container]) -> Vec<Slot<'a>> {
    let context = step.context;
    let stopped = stopped_sandboxes(context, containers);
    let removable = by_slot(containers).into_iter().map(|instances| removable(step, &stopped, &instances));
    let mut slots: Vec<_> = removable.filter(|dead| !dead.is_empty()).map(|dead| Slot::new(context, dead)).collect();
    slots.sort_by_key(|slot| slot.containers.last().map(|dead| dead.age_order));
    slots
}

/// Groups the containers with their positions, in the order of the list: neighbours in it are neighbours in memory.
fn by_slot(containers: &[Container]) -> Vec<Vec<(usize, &Container)>> {
    let (mut slots, mut known) = (Vec::<Vec<_>>::new(), HashMap::new());
    for (position, container) in containers.iter().enumerate() {
        let slot = *known.entry(slot_key(container)).or_insert(slots.len());
        match slots.get_mut(slot) {
            Some(instances) => instances.push((position, container)),
            None => slots.push(vec![(position, container)]),
        }
    }
    slots
}

/// Returns the removable dead containers of one slot.
fn removable<'a>(
    step: &mut Step<'_, 'a>,
    stopped: &HashSet<&SandboxId>,
    instances: &[(usize, &'a Container)],
) -> Vec<Dead<'a>> {
    let context = step.context;
    let guards = &context.policy.guards;
    let order =
        |(_, one): &(usize, &'a Container)| instances::order(guards, one.attempt, one.created_at, one.id.as_str());
    let newest = instances::newest(instances.iter().map(order));
    let mut removable = Vec::new();
    for (rank, (position, container)) in instances.iter().enumerate() {
        match rule_or_why_kept(context, stopped, container) {
            Err(reason) => keep(step, container, reason),
            Ok(rule) => {
                let is_newest = guards.keep_newest_instance && newest.contains(&Some(rank));
                removable.push(Dead { rule, ..Dead::new(guards, container, *position, is_newest) });
            }
        }
    }
    removable
}

/// Returns the sandboxes that are not ready, if a container needs them: one whose state is unknown.
fn stopped_sandboxes<'a>(context: &Context<'a>, containers: &[Container]) -> HashSet<&'a SandboxId> {
    if containers.iter().all(|container| container.state != ContainerState::Unknown) {
        return HashSet::new();
    }
    let sandboxes = context.snapshot.sandboxes.as_ref().into_iter().flatten();
    sandboxes.filter(|sandbox| sandbox.state != SandboxState::Ready).map(|sandbox| &sandbox.id).collect()
}

/// Returns the rule that decides a candidate, or why a container is none.
fn rule_or_why_kept<'a>(
    context: &Context<'a>,
    stopped: &HashSet<&SandboxId>,
    container: &Container,
) -> Result<Option<&'a Rule>, KeepReason> {
    if let Some(reason) = why_no_candidate(context, stopped, container) {
        return Err(reason);
    }
    let rule = context.rules.container(container);
    let since = context.policy.containers.age_from.of(container);
    let limits_of = rule.as_ref().ok().copied().flatten();
    if let Some(reason) = context.why_too_young(limits_of, |min_age| is_old_enough(context, since, min_age)) {
        return Err(reason);
    }
    context.backing_off(Kind::Container, container.id.as_str()).map_or(rule, Err)
}

/// Returns why a container is not dead, or may not be, if so (I1, I4, I5).
fn why_no_candidate(context: &Context, stopped: &HashSet<&SandboxId>, container: &Container) -> Option<KeepReason> {
    let guards = &context.policy.guards;
    if container.state == ContainerState::Running {
        return Some(KeepReason::Running {});
    }
    if context.gaps.may_miss_containers(container.pod_uid()) {
        return Some(KeepReason::ListIncomplete { list: "containers".to_owned() });
    }
    if guards.keep_foreign && container.pod_uid().is_none() {
        return Some(KeepReason::Unmanaged {});
    }
    if container.state == ContainerState::Created
        && super::times::age(context.now, container.created_at) < guards.created_grace
    {
        return Some(KeepReason::MaybeStarting { created_grace_seconds: super::times::seconds(guards.created_grace) });
    }
    // A removal would stop it. Only a sandbox that is not ready shows that it does not run.
    let may_run = container.state == ContainerState::Unknown && !stopped.contains(&container.sandbox_id);
    (guards.keep_newest_instance && may_run).then_some(KeepReason::MaybeRunning {})
}

/// Returns whether a container has the minimum age. With the guard, an unknown time is no age.
fn is_old_enough(context: &Context, since: Timestamp, min_age: Duration) -> bool {
    let is_unknown = context.policy.guards.keep_newest_instance && super::times::known(since).is_none();
    if is_unknown { min_age.is_zero() } else { super::times::is_older(context.now, since, min_age) }
}

/// Removes every candidate of deleted pods, and with `evict_terminated_pods` those of terminated pods.
fn remove_whole_pods<'a>(step: &mut Step<'_, 'a>, slots: &mut [Slot<'a>]) {
    for slot in slots {
        let Some(reason) = slot.status.removes_dead(step.context.policy) else { continue };
        for dead in slot.containers.drain(..).rev() {
            remove(step, dead, reason.clone());
        }
    }
}

/// Removes the oldest containers of each slot beyond the limit.
fn remove_over_slot_limit<'a>(step: &mut Step<'_, 'a>, slots: &mut [Slot<'a>]) {
    let Some(limit) = step.context.policy.containers.max_per_pod_container else { return };
    for slot in slots {
        remove_beyond(step, slot, as_count(limit), &RemoveReason::OverMaxPerPodContainer { limit });
    }
}

/// Removes the oldest containers of each slot beyond an equal share, then the oldest of all slots.
///
/// The share is rounded down and is at least 1. It is not topped up: with 7 allowed, 3 slots of 3 containers keep 6.
/// Slots of pods that only a guard keeps do not count, so a guard never causes the removal of other containers.
fn remove_over_total_limit<'a>(step: &mut Step<'_, 'a>, slots: &mut [Slot<'a>]) {
    let Some(limit) = step.context.policy.containers.max_containers else { return };
    let allowed = as_count(limit);
    let is_counted = |slot: &&mut Slot| !slot.containers.is_empty() && !slot.status.is_guarded();
    let mut slots: Vec<_> = slots.iter_mut().filter(is_counted).collect();
    if count(&slots) <= allowed {
        return;
    }
    let reason = RemoveReason::OverTotalLimit { limit };
    let share = (allowed / slots.len().max(1)).max(1);
    for slot in &mut slots {
        remove_beyond(step, slot, share, &reason);
    }
    let surplus = count(&slots).saturating_sub(allowed);
    for dead in take_oldest(&mut slots, surplus) {
        remove_unless_newest(step, dead, &reason);
    }
}

/// Takes the oldest containers out of their slots, oldest first.
fn take_oldest<'a>(slots: &mut [&mut Slot<'a>], count: usize) -> Vec<Dead<'a>> {
    let mut all: Vec<_> = slots.iter().flat_map(|slot| slot.containers.iter().copied()).collect();
    all.sort_by_key(|dead| dead.age_order);
    all.truncate(count);
    let taken: HashSet<_> = all.iter().map(|dead| dead.position).collect();
    for slot in slots {
        slot.containers.retain(|dead| !taken.contains(&dead.position));
    }
    all
}

fn as_count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn count(slots: &[&mut Slot]) -> usize {
    slots.iter().map(|slot| slot.containers.len()).sum()
}

/// Removes all but the newest `keep` containers of a slot, oldest first. A container that a guard keeps also leaves the
/// slot, because it is decided too.
fn remove_beyond<'a>(step: &mut Step<'_, 'a>, slot: &mut Slot<'a>, keep: usize, reason: &RemoveReason) {
    let keep = keep.min(slot.containers.len());
    for dead in slot.containers.split_off(keep).into_iter().rev() {
        remove_unless_newest(step, dead, reason);
    }
}

fn remove_unless_newest<'a>(step: &mut Step<'_, 'a>, dead: Dead<'a>, reason: &RemoveReason) {
    if dead.is_newest {
        keep(step, dead.container, KeepReason::NewestInstance {});
    } else {
        remove(step, dead, reason.clone());
    }
}

/// Records why the remaining containers are kept.
fn keep_rest<'a>(step: &mut Step<'_, 'a>, slots: Vec<Slot<'a>>) {
    let limit = step.context.policy.containers.max_per_pod_container;
    for slot in slots {
        let within = limit.map_or(KeepReason::NoLimit {}, |limit| KeepReason::WithinMaxPerPodContainer { limit });
        let reason = slot.status.guard().unwrap_or(within);
        for dead in slot.containers {
            keep(step, dead.container, reason.clone());
        }
    }
}

fn remove<'a>(step: &mut Step<'_, 'a>, dead: Dead<'a>, reason: RemoveReason) {
    let Container { pod, created_at, log_bytes, .. } = dead.container;
    let keeps_logs = match reason {
        RemoveReason::PodTerminal { pressure } => pressure,
        RemoveReason::PodDeleted {} => pod.as_ref().is_some_and(|pod| step.kept_logs.contains(&pod.uid)),
        _ => false,
    };
    let age_seconds = super::times::known(*created_at).map(|created_at| step.context.age_seconds(created_at));
    let size = log_bytes.filter(|_| !keeps_logs);
    let object = target(dead.container, keeps_logs).with(pod.clone(), age_seconds, size);
    if step.remove(object.remove(reason)) {
        step.note_removed(dead.position);
    }
}

/// The age is shown from where the rule counts it.
fn keep(step: &mut Step, container: &Container, reason: KeepReason) {
    let context = step.context;
    let since = super::times::known(context.policy.containers.age_from.of(container));
    let (pod, age_seconds) = (container.pod.clone(), since.map(|since| context.age_seconds(since)));
    step.keep(target(container, false).with(pod, age_seconds, container.log_bytes).keep(reason));
}

fn target(container: &Container, keeps_logs: bool) -> Target {
    let Container { id, name, state, .. } = container;
    Target::RemoveContainer { id: id.clone(), name: name.clone(), state: *state, keeps_logs }
}

fn slot_key(container: &Container) -> SlotKey<'_> {
    (container.pod_uid(), &container.name)
}

// === impl AgeFrom ===

impl AgeFrom {
    /// Returns the time from which the age of a container counts.
    pub(super) fn of(self, container: &Container) -> Timestamp {
        match self {
            Self::Created => container.created_at,
            Self::Finished => container.finished_at.unwrap_or(container.created_at),
        }
    }
}

// === impl Dead ===

impl<'a> Dead<'a> {
    fn new(guards: &Guards, container: &'a Container, position: usize, is_newest: bool) -> Self {
        let created_at =
            Some(container.created_at).filter(|at| !guards.keep_newest_instance || super::times::known(*at).is_some());
        // The kubelet counts the attempt up. Its order by ID would be random.
        let attempt = if guards.keep_newest_instance { container.attempt } else { 0 };
        // An unknown age is not a great one.
        let age_order = (created_at.unwrap_or(Timestamp::MAX), attempt, &container.id);
        Self { container, rule: None, position, age_order, is_newest }
    }
}

// === impl Slot ===

impl<'a> Slot<'a> {
    fn new(context: &Context<'a>, mut containers: Vec<Dead<'a>>) -> Self {
        containers.sort_by_key(|dead| Reverse(dead.age_order));
        let pod = containers.iter().find_map(|dead| dead.container.pod.as_ref());
        let status = context.pods.status(pod, Completeness::Required);
        Self { containers, status }
    }
}

#[cfg(test)]
mod tests;
