//! Dead containers: those of pods that are gone, then what is over the limits, oldest first.
//!
//! A *unit* is one (pod uid, container name); dead is any state but RUNNING. Running ones are not counted anywhere.
//! The order within a unit is by creation alone, as in the kubelet; equal times fall back to the id.
//!
//! Removes for `pod_gone`, `pod_terminal`, `over_unit_limit`, `over_total_limit`. Keeps for `running`,
//! `younger_than_min_age`, `within_unit_limit`, `no_limit`, `list_incomplete`, and by the guards `foreign` (I5), `maybe_starting` (I4),
//! `newest_of_unit` (I3), `backing_off`, and those of `pods`.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::plan_builder::{Draft, World};
use super::pods::{Asks, Standing};
use super::{KeepReason, Kind, RemoveReason, Target};
use crate::model::{Container, ContainerState, PodUid};

/// Limits on dead containers (kubelet flags of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPolicy {
    /// Younger dead containers stay and are not counted. Default 0 = none is too young.
    pub min_age: Duration,
    /// Dead instances kept of each (pod, container name). Default 1; negative = no limit.
    pub max_per_pod_container: i64,
    /// Dead containers kept on the node. Default -1; negative = no limit.
    pub max_containers: i64,
    /// The moment that `min_age` counts from. Default `Created`, as the kubelet.
    pub age_from: AgeFrom,
    /// Pods that finished but still exist lose all dead containers and sandboxes, as in the kubelet's answer to disk
    /// pressure. Default off.
    pub evict_terminated_pods: bool,
}

/// The moment that a container's age counts from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AgeFrom {
    /// Its creation, as the kubelet counts.
    #[default]
    Created,
    /// Its end (kubernetes#13562); its creation where the end is not known.
    Finished,
}

/// One (pod uid, container name), as a key.
type UnitKey<'a> = (Option<&'a PodUid>, &'a str);

/// The removable dead containers of one unit, newest first.
struct Unit<'a> {
    containers: Vec<&'a Container>,
    standing: Standing,
}

/// The newest instance of each unit in any state (I3), by where it lies in the snapshot; none where the guard is off.
struct Newest(HashSet<*const Container>);

/// Decides all containers.
pub(super) fn decide<'a>(world: &World<'a>, draft: &mut Draft<'a>) {
    let partial = world.snapshot.partial.containers.as_ref();
    let Some(containers) = draft.need_listed("containers", &world.snapshot.containers, partial) else { return };
    let newest = Newest::new(containers, world.policy.guards.keep_newest_of_unit);
    let mut units = units(world, draft, containers);
    remove_finished_pods(world, draft, &mut units);
    remove_over_unit_limit(world, draft, &mut units, &newest);
    remove_over_total_limit(world, draft, &mut units, &newest);
    keep_rest(world, draft, units);
}

/// Groups the removable dead containers by unit, and puts down why the others stay. Units come in the order of their
/// oldest container.
fn units<'a>(world: &World<'a>, draft: &mut Draft<'a>, containers: &'a [Container]) -> Vec<Unit<'a>> {
    let mut by_unit: HashMap<UnitKey, Vec<&Container>> = HashMap::new();
    for container in containers {
        match not_removable(world, container) {
            Some(reason) => keep(draft, container, reason),
            None => by_unit.entry(unit_key(container)).or_default().push(container),
        }
    }
    let mut units: Vec<_> = by_unit.into_values().map(|containers| Unit::new(world, containers)).collect();
    units.sort_by_key(|unit| unit.containers.last().map(|oldest| (oldest.created_at, &oldest.id)));
    units
}

/// Why a container is no candidate at all.
fn not_removable(world: &World, container: &Container) -> Option<KeepReason> {
    let policy = &world.policy.containers;
    let guards = &world.policy.guards;
    if container.state == ContainerState::Running {
        return Some(KeepReason::Running {});
    }
    if world.gaps.may_lack_containers(container.pod_uid()) {
        return Some(KeepReason::ListIncomplete { list: "containers".to_owned() });
    }
    if guards.keep_foreign && container.pod_uid().is_none() {
        return Some(KeepReason::Foreign {});
    }
    if container.state == ContainerState::Created && super::age(world.now, container.created_at) < guards.created_grace
    {
        return Some(KeepReason::MaybeStarting { created_grace_seconds: super::seconds(guards.created_grace) });
    }
    if !super::is_older(world.now, counted_from(policy, container), policy.min_age) {
        return Some(KeepReason::YoungerThanMinAge { min_age_seconds: super::seconds(policy.min_age) });
    }
    world.backing_off(Kind::Container, container.id.as_str())
}

/// The moment that the age counts from.
fn counted_from(policy: &ContainerPolicy, container: &Container) -> Timestamp {
    match policy.age_from {
        AgeFrom::Created => container.created_at,
        AgeFrom::Finished => container.finished_at.unwrap_or(container.created_at),
    }
}

/// Takes every candidate of pods that are gone, and with `evict_terminated_pods` of those that finished.
fn remove_finished_pods<'a>(world: &World<'a>, draft: &mut Draft<'a>, units: &mut [Unit<'a>]) {
    for unit in units {
        let reason = match unit.standing {
            Standing::Gone => RemoveReason::PodGone {},
            Standing::Present { terminal: true } if world.policy.containers.evict_terminated_pods => {
                RemoveReason::PodTerminal {}
            }
            _ => continue,
        };
        for container in unit.containers.drain(..).rev() {
            remove(world, draft, container, reason.clone());
        }
    }
}

/// Takes the oldest of each unit beyond the limit.
fn remove_over_unit_limit<'a>(world: &World<'a>, draft: &mut Draft<'a>, units: &mut [Unit<'a>], newest: &Newest) {
    let limit = world.policy.containers.max_per_pod_container;
    let Ok(count) = usize::try_from(limit) else { return };
    for unit in units {
        remove_beyond(world, draft, unit, newest, count, &RemoveReason::OverUnitLimit { limit });
    }
}

/// Takes the oldest of each unit beyond an equal share, then the oldest of all.
///
/// The share rounds down, is at least 1 and is not topped up: 7 allowed over 3 units of 3 leave 6. Units of pods that
/// only a guard keeps are not counted: nobody else pays for them.
fn remove_over_total_limit<'a>(world: &World<'a>, draft: &mut Draft<'a>, units: &mut [Unit<'a>], newest: &Newest) {
    let limit = world.policy.containers.max_containers;
    let Ok(allowed) = usize::try_from(limit) else { return };
    let is_counted = |unit: &&mut Unit| !unit.containers.is_empty() && !unit.standing.is_guarded();
    let mut units: Vec<_> = units.iter_mut().filter(is_counted).collect();
    if count(&units) <= allowed {
        return;
    }
    let reason = RemoveReason::OverTotalLimit { limit };
    let share = (allowed / units.len().max(1)).max(1);
    for unit in &mut units {
        remove_beyond(world, draft, unit, newest, share, &reason);
    }
    let surplus = count(&units).saturating_sub(allowed);
    for container in take_oldest(&mut units, surplus) {
        take(world, draft, container, newest, &reason);
    }
}

/// Takes the oldest containers out of their units, oldest first.
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

fn count(units: &[&mut Unit]) -> usize {
    units.iter().map(|unit| unit.containers.len()).sum()
}

/// Takes all but the newest `keep` of a unit, oldest first. What a guard keeps is decided too, and leaves the unit.
fn remove_beyond<'a>(
    world: &World<'a>,
    draft: &mut Draft<'a>,
    unit: &mut Unit<'a>,
    newest: &Newest,
    keep: usize,
    reason: &RemoveReason,
) {
    let keep = keep.min(unit.containers.len());
    for container in unit.containers.split_off(keep).into_iter().rev() {
        take(world, draft, container, newest, reason);
    }
}

/// Takes one container, unless it is the newest of its unit.
fn take<'a>(
    world: &World<'a>,
    draft: &mut Draft<'a>,
    container: &'a Container,
    newest: &Newest,
    reason: &RemoveReason,
) {
    if newest.keeps(container) {
        keep(draft, container, KeepReason::NewestOfUnit {});
    } else {
        remove(world, draft, container, reason.clone());
    }
}

/// Puts down why the rest stays.
fn keep_rest<'a>(world: &World<'a>, draft: &mut Draft<'a>, units: Vec<Unit<'a>>) {
    let limit = world.policy.containers.max_per_pod_container;
    for unit in units {
        let within = if limit < 0 { KeepReason::NoLimit {} } else { KeepReason::WithinUnitLimit { limit } };
        let reason = unit.standing.guard().unwrap_or(within);
        for container in unit.containers {
            keep(draft, container, reason.clone());
        }
    }
}

fn remove<'a>(world: &World<'a>, draft: &mut Draft<'a>, container: &'a Container, reason: RemoveReason) {
    let target =
        Target::RemoveContainer { id: container.id.clone(), name: container.name.clone(), state: container.state };
    if draft.remove(target, container.pod.as_ref(), Some(world.age_seconds(container.created_at)), reason) {
        draft.container_goes(container);
    }
}

fn keep(draft: &mut Draft, container: &Container, reason: KeepReason) {
    draft.keep(Kind::Container, container.id.as_str(), Some(&container.name), container.pod.as_ref(), reason);
}

fn unit_key(container: &Container) -> UnitKey<'_> {
    (container.pod_uid(), &container.name)
}

// === impl Unit ===

impl<'a> Unit<'a> {
    fn new(world: &World<'a>, mut containers: Vec<&'a Container>) -> Self {
        containers.sort_by_key(|container| Reverse((container.created_at, &container.id)));
        let pod = containers.iter().find_map(|container| container.pod.as_ref());
        let standing = world.pods.standing(pod, Asks::Complete);
        Self { containers, standing }
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

    /// Says whether a limit may not take this one.
    fn keeps(&self, container: &Container) -> bool {
        self.0.contains(&std::ptr::from_ref(container))
    }
}

// === impl ContainerPolicy ===

impl Default for ContainerPolicy {
    fn default() -> Self {
        Self {
            min_age: Duration::ZERO,
            max_per_pod_container: 1,
            max_containers: -1,
            age_from: AgeFrom::Created,
            evict_terminated_pods: false,
        }
    }
}
