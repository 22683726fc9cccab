//! Removes images until the disk has enough space: down to the low threshold, or to the end of a target.

use super::candidate::Candidate;
use super::goal::Goal;
use super::keep_image;
use super::reclaim::{Estimates, Order};
use crate::model::FileSystem;
use crate::plan::disk_usage::Usage;
use crate::plan::document::ImageTrigger;
use crate::plan::document::action::Target;
use crate::plan::document::plan_error::PlanError;
use crate::plan::document::reason::{KeepReason, RemoveReason};
use crate::plan::policy::image_target::ImageTarget;
use crate::plan::step::{Context, Step};

/// Removes images until the goal is reached, if there is one.
pub(super) fn free_space(step: &mut Step, mut estimates: Estimates, candidates: Vec<Candidate>) {
    let context = step.context;
    let (disk, usage) = match usage(context) {
        Ok(usage) => usage,
        Err(error) => {
            step.fail(error);
            return keep_unless_old(step, &candidates, &KeepReason::StepFailed {});
        }
    };
    let (used_percent, high_threshold_percent) = (usage.used_percent(), context.policy.images.high_threshold_percent);
    step.plan.images.used_percent = Some(used_percent);
    context.policy.images.targets.iter().filter_map(|target| target.error(disk)).for_each(|error| step.fail(error));
    let Some(goal) = Goal::of(context.policy, disk, &usage, all_images(context, &estimates)) else {
        let below = KeepReason::BelowThreshold { used_percent, high_threshold_percent };
        return keep_unless_old(step, &candidates, &below);
    };
    set_goal(step, &goal, disk);
    let before = i128::from(step.images_by_rule()) + delete_undo_leases(step, &mut estimates, &goal.reason, goal.bytes);
    let order = Order::new(estimates, keep_young(step, candidates));
    free(step, order, &goal, before);
    report_shortfall(step, used_percent);
}

/// Records where the pass stops removing images.
fn set_goal(step: &mut Step, goal: &Goal, disk: &FileSystem) {
    let number = |number: i128| u64::try_from(number).unwrap_or_default();
    let images = &mut step.plan.images;
    images.triggered_by = ImageTrigger::of(&goal.reason);
    images.began_by =
        matches!(goal.reason, RemoveReason::Target { .. }).then(|| goal.reason.explain().phrase.into_owned());
    (images.target_bytes, images.target_inodes) = (number(goal.bytes), number(goal.inodes));
    if !goal.is_of_disk {
        return;
    }
    let available = disk.available_bytes.min(disk.capacity_bytes);
    images.stop_at_available_bytes = number(i128::from(available) + goal.bytes);
    let free = disk.inodes_free.filter(|_| goal.inodes > 0);
    images.stop_at_free_inodes = free.map_or(0, |free| number(i128::from(free) + goal.inodes));
}

/// Deletes leases on removed images, oldest first, until so many bytes are reclaimed. Returns how many are. They go before another
/// image, and count toward no total of images.
pub(super) fn delete_undo_leases(
    step: &mut Step,
    estimates: &mut Estimates,
    reason: &RemoveReason,
    bytes: i128,
) -> i128 {
    let mut reclaimed = 0;
    let of_total = matches!(reason, RemoveReason::Target { target: ImageTarget::Total { .. }, .. });
    while reclaimed < bytes
        && !of_total
        && let Some((lease, freed)) = estimates.remove_undo_lease()
    {
        let target = Target::DeleteUndoLease { lease: lease.name.clone() };
        let age_seconds = lease.created_at.map(|at| step.context.age_seconds(at));
        step.remove(target.with(None, age_seconds, Some(freed)).remove(reason.clone()));
        reclaimed += i128::from(freed);
    }
    reclaimed
}

/// Returns the bytes of all images: those of the disk if the store is known, else those that the runtime reports.
fn all_images(context: &Context, estimates: &Estimates) -> u64 {
    let listed = context.snapshot.images.as_ref().into_iter().flatten();
    let reported = || listed.map(|image| image.size_bytes).fold(0, u64::saturating_add);
    estimates.all_bytes().unwrap_or_else(reported)
}

/// Returns the image disk and its usage.
pub(super) fn usage<'a>(context: &Context<'a>) -> Result<(&'a FileSystem, Usage), PlanError> {
    match context.snapshot.image_filesystem.result() {
        Ok(disk) => {
            let mountpoint = || disk.mountpoint.clone();
            let usage =
                Usage::of_disk(disk).ok_or_else(|| PlanError::InvalidDiskCapacity { mountpoint: mountpoint() })?;
            Ok((disk, usage))
        }
        Err(cause) => Err(PlanError::NotSeen { source: "image_filesystem".to_owned(), cause: cause.to_owned() }),
    }
}

/// Keeps the candidates that are not removed to reclaim space. Returns the others.
fn keep_young<'i>(step: &mut Step, candidates: Vec<Candidate<'i>>) -> Vec<Candidate<'i>> {
    let is_free = |candidate: &Candidate| match candidate.why_kept(step.context) {
        Some(reason) => {
            keep_image(step, candidate.image, reason);
            false
        }
        None => true,
    };
    candidates.into_iter().filter(is_free).collect()
}

/// Removes images in order until their estimates add up to the goal. The first one is removed before anything is added, as
/// in the kubelet. What goes `before` counts too: images by rules, and leases. With the guard `measure_space`, the images beyond a goal of the disk become the reserve (I9).
fn free(step: &mut Step, mut order: Order, goal: &Goal, before: i128) {
    let context = step.context;
    let (mut bytes, mut inodes) = (before, Some(0));
    let (has_reserve, mut is_enough) =
        (context.policy.guards.measure_space && goal.is_of_disk, before > 0 && goal.is_reached(bytes, inodes));
    while let Some(set) = order.next() {
        if set.len() > 1 {
            step.plan.images.together.push(set.iter().map(|(candidate, _)| candidate.image.id.clone()).collect());
        }
        for (candidate, reclaimed) in &set {
            let action = candidate.action(context, reclaimed.bytes, goal.reason.clone());
            if is_enough {
                keep_image(step, candidate.image, candidate.held_or(KeepReason::TargetReached {}));
                step.plan.images.reserve.extend(has_reserve.then_some(action));
            } else {
                bytes += i128::from(reclaimed.bytes);
                inodes = inodes.zip(reclaimed.inodes).map(|(sum, inodes)| sum + i128::from(inodes));
                step.remove(action);
            }
        }
        is_enough |= goal.is_reached(bytes, inodes);
    }
    for candidate in order.into_useless() {
        keep_image(step, candidate.image, candidate.held_or(KeepReason::FreesNothing {}));
    }
    step.plan.images.shortfall_bytes = u64::try_from(goal.bytes - bytes).unwrap_or(0);
}

/// Records that the target cannot be reached, as the kubelet's `FreeDiskSpaceFailed` does.
fn report_shortfall(step: &mut Step, used_percent: u64) {
    let (target_bytes, shortfall) = (step.plan.images.target_bytes, step.plan.images.shortfall_bytes);
    if shortfall > 0 {
        let estimated_bytes = target_bytes.saturating_sub(shortfall);
        let began_by = step.plan.images.began_by.clone();
        step.fail(PlanError::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent, began_by });
    }
}

/// Keeps all candidates. If there is a maximum age, the reason is why it does not apply.
fn keep_unless_old(step: &mut Step, candidates: &[Candidate], reason: &KeepReason) {
    for candidate in candidates {
        keep_image(step, candidate.image, candidate.why_not_old(step.context).unwrap_or_else(|| reason.clone()));
    }
}
