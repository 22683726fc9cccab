//! Decides the dead containers: removes those of deleted pods, then those over the limits, oldest first.
//!
//! A *slot* (`Unit`) is one (pod uid, container name). A container is dead in any state but RUNNING. Running containers
//! count toward no limit. Containers of a slot are ordered by creation time alone, as in the kubelet; with equal times,
//! by ID.
//!
//! Removes for `pod_gone`, `pod_terminal`, `over_unit_limit`, `over_total_limit`. Keeps for `running`,
//! `younger_than_min_age`, `within_unit_limit`, `no_limit`, `list_incomplete`, and by the guards `foreign` (I5),
//! `maybe_starting` (I4), `newest_of_unit` (I3), `backing_off`, and those of `pods`.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::plan_builder::{Context, PlanBuilder};
use super::pods::{Completeness, PodStatus};
use super::{KeepReason, Kind, RemoveReason, Target};
use crate::model::{Container, ContainerState, PodUid};

/// Limits on dead containers (kubelet flags of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPolicy {
    /// `containers.min_age`
    pub min_age: Duration,
    /// `containers.max_per_pod_container`; `None` = no limit.
    pub max_per_pod_container: Option<u64>,
    /// `containers.max_containers`; `None` = no limit.
    pub max_containers: Option<u64>,
    /// `containers.age_from`
    pub age_from: AgeFrom,
    /// `containers.evict_terminated_pods`
    pub evict_terminated_pods: bool,
}

/// The time from which a container's age counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AgeFrom {
    /// When it was created, as in the kubelet.
    #[default]
    Created,
    /// When it finished (kubernetes#13562); when it was created if the finish time is unknown.
    Finished,
}

/// One (pod uid, container name), as a key.
type UnitKey<'a> = (Option<&'a PodUid>, &'a str);

/// The removable dead containers of one slot, newest first.
struct Unit<'a> {
    containers: Vec<&'a Container>,
    status: PodStatus,
}

/// The newest instance of each slot in any state (I3), by its address in the snapshot. Empty if the guard is off.
struct Newest(HashSet<*const Container>);

/// Decides all containers.
pub(super) fn decide<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>) {
    let partial = context.snapshot.partial.containers.as_ref();
    let Some(containers) = builder.need_listed("containers", &context.snapshot.containers, partial) else { return };
    let newest = Newest::new(containers, context.policy.guards.keep_newest_of_unit);
    let mut units = units(context, builder, containers);
    remove_finished_pods(context, builder, &mut units);
    remove_over_unit_limit(context, builder, &mut units, &newest);
    remove_over_total_limit(context, builder, &mut units, &newest);
    keep_rest(context, builder, units);
}

/// Groups the removable dead containers by slot, and records why the others are kept. The slots are in the order of
/// their oldest container.
fn units<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>, containers: &'a [Container]) -> Vec<Unit<'a>> {
    let mut by_unit: HashMap<UnitKey, Vec<&Container>> = HashMap::new();
    for container in containers {
        match not_removable(context, container) {
            Some(reason) => keep(builder, container, reason),
            None => by_unit.entry(unit_key(container)).or_default().push(container),
        }
    }
    let mut units: Vec<_> = by_unit.into_values().map(|containers| Unit::new(context, containers)).collect();
    units.sort_by_key(|unit| unit.containers.last().map(|oldest| (oldest.created_at, &oldest.id)));
    units
}

/// Returns why a container is not a candidate, if so.
fn not_removable(context: &Context, container: &Container) -> Option<KeepReason> {
    let policy = &context.policy.containers;
    let guards = &context.policy.guards;
    if container.state == ContainerState::Running {
        return Some(KeepReason::Running {});
    }
    if context.gaps.may_lack_containers(container.pod_uid()) {
        return Some(KeepReason::ListIncomplete { list: "containers".to_owned() });
    }
    if guards.keep_foreign && container.pod_uid().is_none() {
        return Some(KeepReason::Foreign {});
    }
    if container.state == ContainerState::Created
        && super::age(context.now, container.created_at) < guards.created_grace
    {
        return Some(KeepReason::MaybeStarting { created_grace_seconds: super::seconds(guards.created_grace) });
    }
    if !super::is_older(context.now, counted_from(policy, container), policy.min_age) {
        return Some(KeepReason::YoungerThanMinAge { min_age_seconds: super::seconds(policy.min_age) });
    }
    context.backing_off(Kind::Container, container.id.as_str())
}

/// Returns the time from which the age counts.
fn counted_from(policy: &ContainerPolicy, container: &Container) -> Timestamp {
    match policy.age_from {
        AgeFrom::Created => container.created_at,
        AgeFrom::Finished => container.finished_at.unwrap_or(container.created_at),
    }
}

/// Removes every candidate of deleted pods, and with `evict_terminated_pods` those of terminated pods.
fn remove_finished_pods<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>, units: &mut [Unit<'a>]) {
    for unit in units {
        let reason = match unit.status {
            PodStatus::Gone => RemoveReason::PodGone {},
            PodStatus::Present { terminal: true } if context.policy.containers.evict_terminated_pods => {
                RemoveReason::PodTerminal {}
            }
            _ => continue,
        };
        for container in unit.containers.drain(..).rev() {
            remove(context, builder, container, reason.clone());
        }
    }
}

/// Removes the oldest containers of each slot beyond the limit.
fn remove_over_unit_limit<'a>(
    context: &Context<'a>,
    builder: &mut PlanBuilder<'a>,
    units: &mut [Unit<'a>],
    newest: &Newest,
) {
    let Some(limit) = context.policy.containers.max_per_pod_container else { return };
    for unit in units {
        remove_beyond(context, builder, unit, newest, as_count(limit), &RemoveReason::OverUnitLimit { limit });
    }
}

/// Removes the oldest containers of each slot beyond an equal share, then the oldest of all slots.
///
/// The share is rounded down and is at least 1. It is not topped up: with 7 allowed, 3 slots of 3 containers keep 6.
/// Slots of pods that only a guard keeps do not count, so a guard never causes the removal of other containers.
fn remove_over_total_limit<'a>(
    context: &Context<'a>,
    builder: &mut PlanBuilder<'a>,
    units: &mut [Unit<'a>],
    newest: &Newest,
) {
    let Some(limit) = context.policy.containers.max_containers else { return };
    let allowed = as_count(limit);
    let is_counted = |unit: &&mut Unit| !unit.containers.is_empty() && !unit.status.is_guarded();
    let mut units: Vec<_> = units.iter_mut().filter(is_counted).collect();
    if count(&units) <= allowed {
        return;
    }
    let reason = RemoveReason::OverTotalLimit { limit };
    let share = (allowed / units.len().max(1)).max(1);
    for unit in &mut units {
        remove_beyond(context, builder, unit, newest, share, &reason);
    }
    let surplus = count(&units).saturating_sub(allowed);
    for container in take_oldest(&mut units, surplus) {
        take(context, builder, container, newest, &reason);
    }
}

/// Takes the oldest containers out of their slots, oldest first.
fn take_oldest<'a>(units: &mut [&mut Unit<'a>], count: usize) -> Vec<&'a Container> {
    let mut all: Vec<_> = units.iter().flat_map(|unit| unit.containers.iter().copied()).collect();
    all.sort_by_key(|container| (container.created_at, &container.id));
    all.truncate(count);
    let taken: HashSet<_> = all.iter().map(|container| &container.id).collect();
    for unit in units {
        unit.containers.retain(|container| !taken.contains(&container.id));
    }
    all
}

fn as_count(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn count(units: &[&mut Unit]) -> usize {
    units.iter().map(|unit| unit.containers.len()).sum()
}

/// Removes all but the newest `keep` containers of a slot, oldest first. A container that a guard keeps also leaves the
/// slot, because it is decided too.
fn remove_beyond<'a>(
    context: &Context<'a>,
    builder: &mut PlanBuilder<'a>,
    unit: &mut Unit<'a>,
    newest: &Newest,
    keep: usize,
    reason: &RemoveReason,
) {
    let keep = keep.min(unit.containers.len());
    for container in unit.containers.split_off(keep).into_iter().rev() {
        take(context, builder, container, newest, reason);
    }
}

/// Removes one container, unless it is the newest of its slot.
fn take<'a>(
    context: &Context<'a>,
    builder: &mut PlanBuilder<'a>,
    container: &'a Container,
    newest: &Newest,
    reason: &RemoveReason,
) {
    if newest.keeps(container) {
        keep(builder, container, KeepReason::NewestOfUnit {});
    } else {
        remove(context, builder, container, reason.clone());
    }
}

/// Records why the remaining containers are kept.
fn keep_rest<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>, units: Vec<Unit<'a>>) {
    let limit = context.policy.containers.max_per_pod_container;
    for unit in units {
        let within = limit.map_or(KeepReason::NoLimit {}, |limit| KeepReason::WithinUnitLimit { limit });
        let reason = unit.status.guard().unwrap_or(within);
        for container in unit.containers {
            keep(builder, container, reason.clone());
        }
    }
}

fn remove<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>, container: &'a Container, reason: RemoveReason) {
    let target =
        Target::RemoveContainer { id: container.id.clone(), name: container.name.clone(), state: container.state };
    if builder.remove(target, container.pod.as_ref(), Some(context.age_seconds(container.created_at)), reason) {
        builder.container_goes(container);
    }
}

fn keep(builder: &mut PlanBuilder, container: &Container, reason: KeepReason) {
    builder.keep(Kind::Container, container.id.as_str(), Some(&container.name), container.pod.as_ref(), reason);
}

fn unit_key(container: &Container) -> UnitKey<'_> {
    (container.pod_uid(), &container.name)
}

// === impl Unit ===

impl<'a> Unit<'a> {
    fn new(context: &Context<'a>, mut containers: Vec<&'a Container>) -> Self {
        containers.sort_by_key(|container| Reverse((container.created_at, &container.id)));
        let pod = containers.iter().find_map(|container| container.pod.as_ref());
        let status = context.pods.status(pod, Completeness::Required);
        Self { containers, status }
    }
}

// === impl Newest ===

impl Newest {
    fn new(containers: &[Container], is_kept: bool) -> Self {
        let mut by_unit: HashMap<UnitKey, &Container> = HashMap::new();
        for container in containers.iter().filter(|_| is_kept) {
            let newest = by_unit.entry(unit_key(container)).or_insert(container);
            if (container.created_at, &container.id) > (newest.created_at, &newest.id) {
                *newest = container;
            }
        }
        Self(by_unit.into_values().map(std::ptr::from_ref).collect())
    }

    /// Says whether the limits must not remove this container.
    fn keeps(&self, container: &Container) -> bool {
        self.0.contains(&std::ptr::from_ref(container))
    }
}

// === impl ContainerPolicy ===

impl Default for ContainerPolicy {
    fn default() -> Self {
        Self {
            min_age: Duration::ZERO,
            max_per_pod_container: Some(1),
            max_containers: None,
            age_from: AgeFrom::Created,
            evict_terminated_pods: false,
        }
    }
}
