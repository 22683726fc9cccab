//! Unused images: by age, and least recently used first between the high and the low threshold.
//!
//! The arithmetic is the kubelet's: used percent is rounded up, the amount to free rounded down, and sizes are what the
//! runtime says. Sizes are not the space that comes back, so beside the planned images stands a reserve: `execute`
//! measures the file system after each removal, stops at the target and goes on into the reserve while it is short (I9).
//!
//! Removes for `age`, `space`, `unused`. Keeps for `in_use`, `image_volume`, `pinned`, `younger_than_min_age`,
//! `below_threshold`, `target_reached`, `image_gc_off`, `used_meanwhile`, `within_max_age`, `step_failed`, `possible_image_volume`, `image_volumes_unknown`, and by the guards
//! `sandbox_image`, `keep_pattern`, `being_pulled`, `named_by_pod` (all I6), `runtime_just_started`, `list_fell` (I12),
//! `backing_off`.

use std::time::Duration;

use jiff::Timestamp;

use super::disk::{self, Usage};
use super::image_keep::Keepers;
use super::image_use::by_id;
use super::image_volumes::UnknownVolumes;
use super::list_sanity::doubt;
use super::plan_builder::{Draft, World};
use super::{Action, ImageTrigger, KeepReason, Kind, PlanError, RemoveReason, Target};
use crate::model::{Image, ImageMemory, Seen};

/// When images go (kubelet settings of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePolicy {
    /// Used space in percent at which images begin to go. Range 0 to 100, default 85; 100 = never, unless `max_age` is set.
    pub high_threshold_percent: u64,
    /// Used space in percent at which it stops. Range 0 to the high threshold, default 80.
    pub low_threshold_percent: u64,
    /// Images first seen less long ago stay. Default 2 min.
    pub min_age: Duration,
    /// Images unused for longer go whatever the disk says. Default 0 = off.
    pub max_age: Duration,
    /// Names that stay: `*` stands for any text. Default none.
    pub keep: Vec<super::Pattern>,
    /// Every unused image goes, as in the kubelet's answer to disk pressure. Default off.
    pub all_unused: bool,
}

/// An unused image and its past.
struct Candidate<'a> {
    image: &'a Image,
    /// `None` = before all memory.
    first_seen: Option<Timestamp>,
    /// `None` = never.
    last_used: Option<Timestamp>,
}

/// Decides all images.
pub(super) fn decide<'a>(world: &World<'a>, draft: &mut Draft<'a>) {
    let Some(images) = draft.need("images", &world.snapshot.images) else { return };
    let images = by_id(images, &world.policy.guards);
    let Some(containers) = draft.need("containers", &world.snapshot.containers) else {
        return keep_all(draft, images.values(), &KeepReason::StepFailed {});
    };
    if draft.need("image_uses", &world.snapshot.image_uses).is_none() {
        return keep_all(draft, images.values(), &KeepReason::StepFailed {});
    }
    if world.policy.guards.keep_sandbox_image && draft.need("sandbox_image", &world.snapshot.sandbox_image()).is_none()
    {
        return keep_all(draft, images.values(), &KeepReason::StepFailed {});
    }
    let keepers = Keepers::new(world, containers, images.values());
    let volumes = UnknownVolumes::new(world, containers);
    let mut unused = Vec::new();
    for image in images.values() {
        match keepers.keep(world, image).or_else(|| volumes.keep(image)) {
            Some(reason) => keep(draft, image, reason),
            None => unused.push(image),
        }
    }
    if let Some(error) = volumes.unresolved() {
        return keep_unknown(draft, unused, error);
    }
    decide_unused(world, draft, in_order(world, &unused));
}

/// Keeps all that nothing is known to use, since a container may have it mounted.
fn keep_unknown(draft: &mut Draft, unused: Vec<&Image>, error: PlanError) {
    if let PlanError::ImageVolumesUnknown { container, .. } = &error {
        keep_all(draft, unused, &KeepReason::ImageVolumesUnknown { container: container.to_string() });
    }
    draft.fail(error);
}

/// Unused images in the order in which they go: by last use, never used first, then by first sight, then by id.
fn in_order<'i>(world: &World, images: &[&'i Image]) -> Vec<Candidate<'i>> {
    let memory = world.snapshot.memory.images.iter();
    let memory: std::collections::HashMap<_, _> = memory.map(|past| (&past.id, past)).collect();
    let mut candidates: Vec<_> =
        images.iter().map(|image| Candidate::new(image, memory.get(&image.id).copied(), world.now)).collect();
    candidates.sort_by_key(|candidate| (candidate.last_used, candidate.first_seen, &candidate.image.id));
    candidates
}

fn decide_unused(world: &World, draft: &mut Draft, candidates: Vec<Candidate>) {
    let policy = &world.policy.images;
    if let Some(reason) = doubt(world.snapshot, &world.policy.guards) {
        return keep_all(draft, candidates.iter().map(|candidate| candidate.image), &reason);
    }
    if policy.all_unused {
        draft.images.triggered_by = Some(ImageTrigger::AllUnused);
        return free(world, draft, candidates, i128::MAX, &RemoveReason::Unused {});
    }
    if policy.is_off() {
        return keep_all_off(world, draft, &candidates);
    }
    let rest = remove_old(world, draft, candidates);
    free_space(world, draft, rest);
}

/// Off, a pass still says that a disk without a capacity cannot be judged.
fn keep_all_off(world: &World, draft: &mut Draft, candidates: &[Candidate]) {
    if let Err(error @ PlanError::InvalidDiskCapacity { .. }) = usage(world) {
        draft.fail(error);
    }
    keep_all(draft, candidates.iter().map(|candidate| candidate.image), &KeepReason::ImageGcOff {});
}

/// Takes what was unused for longer than the maximum age; gives back the rest.
fn remove_old<'i>(world: &World, draft: &mut Draft, candidates: Vec<Candidate<'i>>) -> Vec<Candidate<'i>> {
    let max_age = world.policy.images.max_age;
    if max_age.is_zero() || !may_judge_age(world) {
        return candidates;
    }
    let (old, rest): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| candidate.is_too_old(world));
    if !old.is_empty() {
        draft.images.triggered_by = Some(ImageTrigger::Age);
    }
    for candidate in old {
        let unused_seconds = candidate.last_used.map(|at| world.age_seconds(at));
        let reason = RemoveReason::Age { max_age_seconds: super::seconds(max_age), unused_seconds };
        remove(world, draft, &candidate, reason);
    }
    rest
}

/// The kubelet forgets at its start, so it waits for one maximum age. We remember.
fn may_judge_age(world: &World) -> bool {
    let max_age = world.policy.images.max_age;
    let started = world.snapshot.memory.agent_started_at;
    world.policy.guards.age_from_first_seen || started.is_some_and(|started| super::age(world.now, started) > max_age)
}

/// Takes what brings the disk from above the high threshold to the low one.
fn free_space(world: &World, draft: &mut Draft, candidates: Vec<Candidate>) {
    let policy = &world.policy.images;
    let usage = match usage(world) {
        Ok(usage) => usage,
        Err(error) => {
            draft.fail(error);
            return keep_unless_old(world, draft, &candidates, &KeepReason::StepFailed {});
        }
    };
    let high_threshold_percent = policy.high_threshold_percent;
    let used_percent = usage.used_percent();
    draft.images.used_percent = Some(used_percent);
    let target = usage.bytes_to_free(policy.low_threshold_percent);
    if used_percent < high_threshold_percent || (target <= 0 && world.policy.guards.measure_space) {
        let below = KeepReason::BelowThreshold { used_percent, high_threshold_percent };
        return keep_unless_old(world, draft, &candidates, &below);
    }
    draft.images.triggered_by = Some(ImageTrigger::PercentUsed);
    draft.images.target_bytes = u64::try_from(target).unwrap_or(0);
    draft.images.stop_at_available_bytes = usage.available_at(policy.low_threshold_percent);
    free(world, draft, candidates, target, &RemoveReason::Space { high_threshold_percent, used_percent });
    tell_shortfall(draft, used_percent);
}

fn usage(world: &World) -> Result<Usage, PlanError> {
    match &world.snapshot.image_filesystem {
        Seen::Seen(file_system) => disk::usage(file_system),
        Seen::NotSeen(cause) => Err(PlanError::NotSeen { source: "image_filesystem".to_owned(), cause: cause.clone() }),
    }
}

/// Takes images in order until their sizes add up to `target`. The first goes before anything is added up, as in the
/// kubelet. Under I9 those behind the target become the reserve.
fn free(world: &World, draft: &mut Draft, candidates: Vec<Candidate>, target: i128, reason: &RemoveReason) {
    let mut freed: i128 = 0;
    let mut is_enough = false;
    for candidate in candidates {
        if let Some(spared) = candidate.is_spared(world) {
            keep(draft, candidate.image, spared);
        } else if is_enough {
            keep(draft, candidate.image, KeepReason::TargetReached {});
            if world.policy.guards.measure_space {
                draft.images.reserve.push(candidate.action(world, reason.clone()));
            }
        } else {
            freed += i128::from(candidate.image.size_bytes);
            is_enough = freed >= target;
            remove(world, draft, &candidate, reason.clone());
        }
    }
    draft.images.shortfall_bytes = if target == i128::MAX { 0 } else { u64::try_from(target - freed).unwrap_or(0) };
}

/// Puts down that not all can be freed, as the kubelet's `FreeDiskSpaceFailed` does.
fn tell_shortfall(draft: &mut Draft, used_percent: u64) {
    let (target_bytes, shortfall) = (draft.images.target_bytes, draft.images.shortfall_bytes);
    if shortfall > 0 {
        let estimated_bytes = target_bytes.saturating_sub(shortfall);
        draft.fail(PlanError::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent });
    }
}

/// Keeps all; where there is a maximum age it names why that did not take them.
fn keep_unless_old(world: &World, draft: &mut Draft, candidates: &[Candidate], reason: &KeepReason) {
    for candidate in candidates {
        keep(draft, candidate.image, candidate.is_not_old(world).unwrap_or_else(|| reason.clone()));
    }
}

fn keep_all<'i>(draft: &mut Draft, images: impl IntoIterator<Item = &'i Image>, reason: &KeepReason) {
    for image in images {
        keep(draft, image, reason.clone());
    }
}

fn keep(draft: &mut Draft, image: &Image, reason: KeepReason) {
    draft.keep(Kind::Image, image.id.as_str(), image.tags.first().map(String::as_str), None, reason);
}

fn remove(world: &World, draft: &mut Draft, candidate: &Candidate, reason: RemoveReason) {
    let Action { target, pod, age_seconds, reason } = candidate.action(world, reason);
    draft.remove(target, pod.as_ref(), age_seconds, reason);
}

// === impl Candidate ===

impl<'a> Candidate<'a> {
    /// Unknown history means just now.
    fn new(image: &'a Image, past: Option<&ImageMemory>, now: Timestamp) -> Self {
        let first_seen = past.map_or(Some(now), |past| past.first_seen);
        Self { image, first_seen, last_used: past.and_then(|past| past.last_used) }
    }

    /// Says whether it was unused for strictly longer than the maximum age. To the kubelet a never-used image is
    /// infinitely old, however new; we count from its first sight and ask the minimum age too.
    fn is_too_old(&self, world: &World) -> bool {
        let max_age = world.policy.images.max_age;
        if !world.policy.guards.age_from_first_seen {
            return self.last_used.is_none_or(|at| super::age(world.now, at) > max_age);
        }
        let since = self.last_used.max(self.first_seen);
        since.is_none_or(|at| super::age(world.now, at) > max_age) && !self.is_too_young(world)
    }

    /// Why the maximum age, if there is one, did not take it.
    fn is_not_old(&self, world: &World) -> Option<KeepReason> {
        let policy = &world.policy.images;
        let min_age_seconds = super::seconds(policy.min_age);
        let max_age_seconds = super::seconds(policy.max_age);
        match self.is_too_young(world) {
            _ if policy.max_age.is_zero() => None,
            true => Some(KeepReason::YoungerThanMinAge { min_age_seconds }),
            false => Some(KeepReason::WithinMaxAge { max_age_seconds }),
        }
    }

    fn is_too_young(&self, world: &World) -> bool {
        self.first_seen.is_some_and(|at| !super::is_older(world.now, at, world.policy.images.min_age))
    }

    /// Why it does not go for space.
    fn is_spared(&self, world: &World) -> Option<KeepReason> {
        if self.last_used.is_some_and(|at| at >= world.now) {
            return Some(KeepReason::UsedMeanwhile {});
        }
        let min_age_seconds = super::seconds(world.policy.images.min_age);
        self.is_too_young(world).then_some(KeepReason::YoungerThanMinAge { min_age_seconds })
    }

    fn action(&self, world: &World, reason: RemoveReason) -> Action {
        let target = Target::RemoveImage {
            id: self.image.id.clone(),
            tags: self.image.tags.clone(),
            estimated_bytes: self.image.size_bytes,
        };
        Action { target, pod: None, age_seconds: self.first_seen.map(|at| world.age_seconds(at)), reason }
    }
}

// === impl ImagePolicy ===

impl ImagePolicy {
    /// Says whether no image ever goes: the kubelet does not even start its loop then (spec 1.2).
    pub fn is_off(&self) -> bool {
        self.high_threshold_percent >= 100 && self.max_age.is_zero() && !self.all_unused
    }
}

impl Default for ImagePolicy {
    fn default() -> Self {
        Self {
            high_threshold_percent: 85,
            low_threshold_percent: 80,
            min_age: Duration::from_mins(2),
            max_age: Duration::ZERO,
            keep: Vec::new(),
            all_unused: false,
        }
    }
}
