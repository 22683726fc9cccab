//! Decides unused images: by age, and least recently used first between the high and the low threshold.
//!
//! The arithmetic is the kubelet's: the used percentage is rounded up, the amount to reclaim is rounded down. The estimates
//! are those of `reclaim`: without the store of the runtime, sizes that differ from the bytes that a removal reclaims. So
//! the plan also has fallback candidates, the reserve. `execute` measures the file system after each removal. It stops at
//! the target, and continues with the reserve while the space is too small (I9).
//!
//! Removes for `age`, `space`, `target`, `unused`, `rule`. Keeps for `in_use`, `image_volume`, `pinned`, `younger_than_min_age`,
//! `below_threshold`, `target_reached`, `beyond_pace`, `frees_nothing`, `image_gc_off`, `used_meanwhile`, `within_max_age`, `step_failed`,
//! `possible_image_volume`, `image_volumes_unknown`, `rule`, and by the guards `sandbox_image`, `keep_pattern`, `being_pulled`,
//! `named_by_pod` (all I6), `named_by_workload`, `used_by_other_client`, `runtime_just_started`, `list_fell` (I12), `backing_off`.

pub(super) mod candidate;
pub(super) mod disk_usage;
pub(super) mod goal;
pub(super) mod keep;
mod kept_bytes;
pub(super) mod other_clients;
pub(super) mod pace;
pub(super) mod pattern;
pub(super) mod ranks;
pub(super) mod reclaim;
pub(super) mod users;
pub(super) mod uses;
pub(super) mod volumes;

use std::time::Duration;

use super::account::store_index::StoreIndex;
use super::document::action::Kind;
use super::document::plan_error::PlanError;
use super::document::reason::{KeepReason, RemoveReason};
use super::document::{ImageTrigger, Kept};
use super::plan_builder::{Context, PlanBuilder};
use super::pods::list_sanity::why_untrusted;
use crate::model::{FileSystem, Image, Seen, Workload};
use crate::rules::Score;
use candidate::{Candidate, in_order};
use disk_usage::{self as disk, Usage};
use goal::{Goal, ImageTarget};
use keep::ImageRetention;
pub use kept_bytes::kept_images_text;
use pace::Pace;
use reclaim::{Estimates, Order};
use uses::by_id;
use volumes::UnknownVolumes;

/// When to remove images (kubelet settings of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePolicy {
    /// `images.high_threshold_percent`
    pub high_threshold_percent: u64,
    /// `images.low_threshold_percent`
    pub low_threshold_percent: u64,
    /// `images.min_age`
    pub min_age: Duration,
    /// `images.max_age`
    pub max_age: Duration,
    /// `images.keep`
    pub keep: Vec<self::pattern::Pattern>,
    /// `images.all_unused`
    pub all_unused: bool,
    /// `images.targets`
    pub targets: Vec<ImageTarget>,
    /// `images.pace`
    pub pace: Pace,
    /// `images.order`
    pub order: ImageOrder,
}

/// Which unused image is removed first.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ImageOrder {
    /// The one that was used least recently, as in the kubelet.
    #[default]
    LeastRecentlyUsed,
    /// The one with the highest score.
    Score(Score),
}

/// Decides all images.
pub(super) fn decide<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>) {
    let Some(images) = builder.need("images", &context.snapshot.images) else { return };
    let images = by_id(images, &context.policy.guards);
    let Some(containers) = builder.need("containers", &context.snapshot.containers) else {
        return keep_all(context, builder, images.values(), &KeepReason::StepFailed {});
    };
    if builder.need("image_uses", &context.snapshot.image_uses).is_none() {
        return keep_all(context, builder, images.values(), &KeepReason::StepFailed {});
    }
    if context.policy.guards.keep_sandbox_image
        && builder.need("sandbox_image", &context.snapshot.sandbox_image()).is_none()
    {
        return keep_all(context, builder, images.values(), &KeepReason::StepFailed {});
    }
    if context.policy.keeps_workload_images()
        && builder.need("workloads", context.snapshot.workloads.as_ref().unwrap_or(&not_read())).is_none()
    {
        return keep_all(context, builder, images.values(), &KeepReason::StepFailed {});
    }
    let retention = ImageRetention::new(context, containers, images.values());
    let volumes = UnknownVolumes::new(context, containers);
    let mut unused = Vec::new();
    for image in images.values() {
        match retention.keep(context, image).or_else(|| volumes.keep(image)) {
            Some(reason) => keep(context, builder, image, reason),
            None => unused.push(image),
        }
    }
    if let Some(error) = volumes.unresolved() {
        return keep_unknown(context, builder, unused, error);
    }
    let mut candidates = in_order(context, builder, &unused);
    candidates.retain_mut(|candidate| !is_kept_by_rule(context, builder, candidate));
    decide_unused(context, builder, candidates);
    pace::limit(context, builder);
}

/// The snapshot was made for other settings.
fn not_read() -> Seen<Vec<Workload>> {
    Seen::NotSeen("the snapshot has no workloads".to_owned())
}

/// Records that a rule keeps a candidate, if so. Other rules are noted in the candidate.
fn is_kept_by_rule<'a: 'i, 'i>(
    context: &Context<'a>,
    builder: &mut PlanBuilder,
    candidate: &mut Candidate<'i>,
) -> bool {
    match context.rules.image(candidate.image, context.memory_of(candidate.image)) {
        Ok(rules) => candidate.rules = rules,
        Err(reason) => {
            keep(context, builder, candidate.image, reason);
            return true;
        }
    }
    false
}

/// Keeps all images without a known use, because a container may have them mounted.
fn keep_unknown(context: &Context, builder: &mut PlanBuilder, unused: Vec<&Image>, error: PlanError) {
    if let PlanError::ImageVolumesUnknown { container, .. } = &error {
        keep_all(context, builder, unused, &KeepReason::ImageVolumesUnknown { container: container.to_string() });
    }
    builder.fail(error);
}

fn decide_unused<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>, candidates: Vec<Candidate>) {
    let policy = &context.policy.images;
    if let Some(reason) = why_untrusted(context.snapshot, &context.policy.guards) {
        return keep_all(context, builder, candidates.iter().map(|candidate| candidate.image), &reason);
    }
    let index = index(context);
    builder.images.knows_store = index.is_some();
    let mut estimates = Estimates::new(index);
    if let Some(reason) = context.policy.all_unused() {
        builder.images.triggered_by = Some(ImageTrigger::AllUnused);
        return remove_all(context, builder, &mut estimates, candidates, &reason);
    }
    let candidates = remove_by_rule(context, builder, &mut estimates, candidates);
    let rest = remove_old(context, builder, &mut estimates, candidates);
    if policy.is_off() && context.policy.under_pressure.is_none() {
        return keep_all_off(context, builder, &rest);
    }
    free_space(context, builder, estimates, rest);
}

/// Returns the store of the runtime for the estimates, if it is known whole. The kubelet adds up the reported sizes.
fn index<'a>(context: &Context<'a>) -> Option<StoreIndex<'a>> {
    let store = context.snapshot.store.as_ref()?.as_ref()?;
    let images = context.snapshot.images.as_ref()?;
    (context.policy.guards.measure_space && store.missing.is_empty()).then(|| StoreIndex::new(store, images))
}

fn remove_all<'a>(
    context: &Context<'a>,
    builder: &mut PlanBuilder<'a>,
    estimates: &mut Estimates,
    candidates: Vec<Candidate>,
    reason: &RemoveReason,
) {
    for candidate in candidates {
        remove_unless_young(context, builder, estimates, &candidate, reason.clone());
    }
}

/// Removes an image whatever the disk usage, unless it is too young or was in use at the start of the pass. Returns whether it
/// does.
fn remove_unless_young(
    context: &Context,
    builder: &mut PlanBuilder,
    estimates: &mut Estimates,
    candidate: &Candidate,
    reason: RemoveReason,
) -> bool {
    if let Some(reason) = candidate.why_kept(context) {
        keep(context, builder, candidate.image, reason);
        return false;
    }
    remove(context, builder, estimates, candidate, reason);
    true
}

/// Removes the images that a rule removes, unless they are too young. Returns the other candidates.
fn remove_by_rule<'i>(
    context: &Context,
    builder: &mut PlanBuilder,
    estimates: &mut Estimates,
    candidates: Vec<Candidate<'i>>,
) -> Vec<Candidate<'i>> {
    let mut rest = Vec::new();
    for candidate in candidates {
        let Some(rule) = candidate.rules.removing() else {
            rest.push(candidate);
            continue;
        };
        if remove_unless_young(context, builder, estimates, &candidate, rule.removes(None)) {
            builder.images.triggered_by = Some(ImageTrigger::Rule);
        }
    }
    rest
}

/// Keeps all candidates if image removal is off. A disk without a capacity is still an error of the plan.
fn keep_all_off(context: &Context, builder: &mut PlanBuilder, candidates: &[Candidate]) {
    if let Err(error @ PlanError::InvalidDiskCapacity { .. }) = usage(context) {
        builder.fail(error);
    }
    keep_all(context, builder, candidates.iter().map(|candidate| candidate.image), &KeepReason::ImageGcOff {});
}

/// Removes the images that were unused for longer than the maximum age. Returns the other candidates.
fn remove_old<'i>(
    context: &Context,
    builder: &mut PlanBuilder,
    estimates: &mut Estimates,
    candidates: Vec<Candidate<'i>>,
) -> Vec<Candidate<'i>> {
    let (old, rest): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| candidate.is_too_old(context) && may_judge_age(context));
    if !old.is_empty() {
        builder.images.triggered_by = Some(ImageTrigger::Age);
    }
    for candidate in old {
        remove(context, builder, estimates, &candidate, candidate.why_old(context));
    }
    rest
}

/// Returns whether ages can be judged. The kubelet loses its memory when it starts, so it waits for one maximum age.
/// kubegc has a persistent memory and does not wait.
fn may_judge_age(context: &Context) -> bool {
    let max_age = context.policy.images.max_age;
    let started = context.snapshot.memory.agent_started_at;
    context.policy.guards.age_from_first_seen
        || started.is_some_and(|started| super::times::age(context.now, started) > max_age)
}

/// Removes images until the goal is reached, if there is one.
fn free_space(context: &Context, builder: &mut PlanBuilder, estimates: Estimates, candidates: Vec<Candidate>) {
    let (disk, usage) = match usage(context) {
        Ok(usage) => usage,
        Err(error) => {
            builder.fail(error);
            return keep_unless_old(context, builder, &candidates, &KeepReason::StepFailed {});
        }
    };
    let (used_percent, high_threshold_percent) = (usage.used_percent(), context.policy.images.high_threshold_percent);
    builder.images.used_percent = Some(used_percent);
    context.policy.images.targets.iter().filter_map(|target| target.error(disk)).for_each(|error| builder.fail(error));
    let Some(goal) = Goal::of(context, disk, &usage, all_images(context, &estimates)) else {
        let below = KeepReason::BelowThreshold { used_percent, high_threshold_percent };
        return keep_unless_old(context, builder, &candidates, &below);
    };
    set_goal(builder, &goal, disk);
    let order = Order::new(estimates, keep_young(context, builder, candidates));
    free(context, builder, order, &goal);
    report_shortfall(builder, used_percent);
}

/// Records where the pass stops removing images.
fn set_goal(builder: &mut PlanBuilder, goal: &Goal, disk: &FileSystem) {
    let number = |number: i128| u64::try_from(number).unwrap_or_default();
    let images = &mut builder.images;
    images.triggered_by = Some(goal.trigger);
    images.began_by =
        matches!(goal.reason, RemoveReason::Target { .. }).then(|| goal.reason.explain().phrase.into_owned());
    (images.target_bytes, images.target_inodes) = (number(goal.bytes), number(goal.inodes));
    let available = disk.available_bytes.min(disk.capacity_bytes);
    images.stop_at_available_bytes = number(i128::from(available) + goal.bytes);
    let free = disk.inodes_free.filter(|_| goal.inodes > 0);
    images.stop_at_free_inodes = free.map_or(0, |free| number(i128::from(free) + goal.inodes));
}

/// Returns the bytes of all images: those of the disk if the store is known, else those that the runtime reports.
fn all_images(context: &Context, estimates: &Estimates) -> u64 {
    let listed = context.snapshot.images.as_ref().into_iter().flatten();
    let reported = || listed.map(|image| image.size_bytes).fold(0, u64::saturating_add);
    estimates.all_bytes().unwrap_or_else(reported)
}

fn usage<'a>(context: &Context<'a>) -> Result<(&'a FileSystem, Usage), PlanError> {
    match &context.snapshot.image_filesystem {
        Seen::Seen(file_system) => Ok((file_system, disk::usage(file_system)?)),
        Seen::NotSeen(cause) => Err(PlanError::NotSeen { source: "image_filesystem".to_owned(), cause: cause.clone() }),
    }
}

/// Keeps the candidates that are not removed to reclaim space. Returns the others.
fn keep_young<'i>(context: &Context, builder: &mut PlanBuilder, candidates: Vec<Candidate<'i>>) -> Vec<Candidate<'i>> {
    let is_free = |candidate: &Candidate| match candidate.why_kept(context) {
        Some(reason) => {
            keep(context, builder, candidate.image, reason);
            false
        }
        None => true,
    };
    candidates.into_iter().filter(is_free).collect()
}

/// Removes images in order until their estimates add up to the goal. The first one is removed before anything is added, as
/// in the kubelet. What rules remove counts too. With the guard `measure_space`, the images beyond the goal become the reserve (I9).
fn free(context: &Context, builder: &mut PlanBuilder, mut order: Order, goal: &Goal) {
    let by_rule = i128::from(builder.images_by_rule());
    let (mut bytes, mut inodes) = (by_rule, Some(0));
    let mut is_enough = by_rule > 0 && goal.is_reached(bytes, inodes);
    while let Some(set) = order.next() {
        if set.len() > 1 {
            builder.images.together.push(set.iter().map(|(candidate, _)| candidate.image.id.clone()).collect());
        }
        for (candidate, reclaimed) in &set {
            let action = candidate.action(context, reclaimed.bytes, goal.reason.clone());
            if is_enough {
                keep(context, builder, candidate.image, KeepReason::TargetReached {});
                builder.images.reserve.extend(context.policy.guards.measure_space.then_some(action));
            } else {
                bytes += i128::from(reclaimed.bytes);
                inodes = inodes.zip(reclaimed.inodes).map(|(sum, inodes)| sum + i128::from(inodes));
                builder.remove(action);
            }
        }
        is_enough |= goal.is_reached(bytes, inodes);
    }
    for candidate in order.into_useless() {
        keep(context, builder, candidate.image, KeepReason::FreesNothing {});
    }
    builder.images.shortfall_bytes = u64::try_from(goal.bytes - bytes).unwrap_or(0);
}

/// Records that the target cannot be reached, as the kubelet's `FreeDiskSpaceFailed` does.
fn report_shortfall(builder: &mut PlanBuilder, used_percent: u64) {
    let (target_bytes, shortfall) = (builder.images.target_bytes, builder.images.shortfall_bytes);
    if shortfall > 0 {
        let estimated_bytes = target_bytes.saturating_sub(shortfall);
        let began_by = builder.images.began_by.clone();
        builder.fail(PlanError::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent, began_by });
    }
}

/// Keeps all candidates. If there is a maximum age, the reason is why it does not apply.
fn keep_unless_old(context: &Context, builder: &mut PlanBuilder, candidates: &[Candidate], reason: &KeepReason) {
    for candidate in candidates {
        keep(context, builder, candidate.image, candidate.why_not_old(context).unwrap_or_else(|| reason.clone()));
    }
}

fn keep_all<'i>(
    context: &Context,
    builder: &mut PlanBuilder,
    images: impl IntoIterator<Item = &'i Image>,
    reason: &KeepReason,
) {
    for image in images {
        keep(context, builder, image, reason.clone());
    }
}

fn keep(context: &Context, builder: &mut PlanBuilder, image: &Image, reason: KeepReason) {
    let first_seen = context.memory_of(image).and_then(|memory| memory.first_seen);
    builder.keep(Kept {
        kind: Kind::Image,
        id: image.id.to_string(),
        name: image.tags.first().filter(|tag| !tag.is_empty()).cloned(),
        pod: None,
        age_seconds: first_seen.map(|at| context.age_seconds(at)),
        size_bytes: Some(image.size_bytes),
        reason,
    });
}

fn remove(
    context: &Context,
    builder: &mut PlanBuilder,
    estimates: &mut Estimates,
    candidate: &Candidate,
    reason: RemoveReason,
) {
    builder.remove(candidate.action(context, estimates.remove(candidate).bytes, reason));
}

// === impl ImagePolicy ===

impl ImagePolicy {
    /// Returns whether the bytes of all images together can be a reason.
    pub fn has_total(&self) -> bool {
        self.targets.iter().any(|target| matches!(target, ImageTarget::Total { .. }))
    }

    /// Returns whether image removal is off. The kubelet does not start its loop then (1.36).
    pub fn is_off(&self) -> bool {
        let has_thresholds = self.high_threshold_percent < 100;
        !has_thresholds && self.max_age.is_zero() && !self.all_unused && self.targets.is_empty()
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
            targets: Vec::new(),
            pace: Pace::default(),
            order: ImageOrder::default(),
        }
    }
}

#[cfg(test)]
mod tests;
