//! Decides unused images: by rules, by age, and least recently used first between the high and the low threshold.
//!
//! The arithmetic is the kubelet's: the used percentage is rounded up, the amount to reclaim is rounded down. The estimates
//! are those of `reclaim`: without the store of the runtime, sizes that differ from the bytes that a removal reclaims. So
//! the plan also has fallback candidates, the reserve. `execute` measures the file system after each removal. It stops at
//! the target, and continues with the reserve while the space is too small (I9).

pub(super) mod candidate;
mod free_space;
pub(super) mod goal;
pub(super) mod keep;
pub(super) mod other_clients;
pub(super) mod pace;
pub(super) mod reclaim;
mod totals;
pub(super) mod uses;
pub(super) mod volumes;

use super::document::ImageTrigger;
use super::document::plan_error::PlanError;
use super::document::reason::{KeepReason, RemoveReason, RuleReason};
use super::pods::list_sanity::why_untrusted;
use super::policy::pressure::Pressure;
use super::policy::{NamedBy, Policy};
use super::step::{Context, Step};
use crate::model::{Container, Image};
use candidate::{Candidate, in_order};
use free_space::{free_space, usage};
use keep::ImageRetention;
use reclaim::Estimates;
use uses::by_id;
use volumes::UnknownVolumes;

pub(super) fn decide(step: &mut Step) {
    let context = step.context;
    let Some(images) = step.need("images", &context.snapshot.images) else { return };
    let images = by_id(images, &context.policy.guards);
    let Some(containers) = needed(step) else {
        return keep_all(step, images.values(), &KeepReason::StepFailed {});
    };
    let retention = ImageRetention::new(context, containers, images.values());
    let volumes = UnknownVolumes::new(context, containers);
    let mut unused = Vec::new();
    for image in images.values() {
        match retention.keep(context, image).or_else(|| volumes.keep(image)) {
            Some(reason) => keep_image(step, image, reason),
            None => unused.push(image),
        }
    }
    if let Some(error) = volumes.unresolved() {
        return keep_unknown(step, unused, error);
    }
    let mut candidates = in_order(step, &unused);
    candidates.retain_mut(|candidate| !is_kept_by_rule(step, candidate));
    decide_unused(step, candidates);
    pace::limit(step);
}

/// Returns the containers, if all was observed that can keep an image.
fn needed<'a>(step: &mut Step<'_, 'a>) -> Option<&'a Vec<Container>> {
    let Context { snapshot, policy, .. } = step.context;
    let containers = step.need("containers", &snapshot.containers)?;
    step.need("image_uses", &snapshot.image_uses)?;
    if policy.guards.keep_sandbox_image {
        step.need("sandbox_image", &snapshot.sandbox_image())?;
    }
    if policy.keeps_workload_images() {
        // The snapshot may be made for other settings.
        step.need("workloads", &snapshot.workloads)?;
    }
    Some(containers)
}

/// Records that a rule keeps a candidate, if so. Other rules are noted in the candidate.
fn is_kept_by_rule<'a: 'i, 'i>(step: &mut Step<'_, 'a>, candidate: &mut Candidate<'i>) -> bool {
    let context = step.context;
    match context.rules.image(candidate.image, context.memory_of(candidate.image)) {
        Ok(rules) => candidate.rules = rules,
        Err(reason) => {
            keep_image(step, candidate.image, reason);
            return true;
        }
    }
    false
}

/// Keeps all images without a known use, because a container may have them mounted.
fn keep_unknown(step: &mut Step, unused: Vec<&Image>, error: PlanError) {
    if let PlanError::ImageVolumesUnknown { container, .. } = &error {
        keep_all(step, unused, &KeepReason::ImageVolumesUnknown { container: container.to_string() });
    }
    step.fail(error);
}

fn decide_unused(step: &mut Step, candidates: Vec<Candidate>) {
    let context = step.context;
    let policy = &context.policy.images;
    if let Some(reason) = why_untrusted(context.snapshot, &context.policy.guards) {
        return keep_all(step, candidates.iter().map(|candidate| candidate.image), &reason);
    }
    // The kubelet adds up the reported sizes.
    let index = context.index.get().filter(|_| context.policy.guards.measure_space);
    step.plan.images.knows_store = index.is_some();
    let mut estimates = Estimates::new(index.cloned());
    if let Some(reason) = context.policy.all_unused() {
        if reason.is_for_space() {
            free_space::delete_undo_leases(step, &mut estimates, &reason, i128::MAX);
        }
        remove_all(step, &mut estimates, candidates, &reason);
        step.plan.images.triggered_by = Some(ImageTrigger::AllUnused);
        return;
    }
    let candidates = remove_by_rule(step, &mut estimates, candidates);
    let rest = remove_old(step, &mut estimates, candidates);
    let rest = totals::remove_over(step, &mut estimates, rest);
    if policy.is_off() && context.policy.pass.pressure.is_none() {
        return keep_all_off(step, &rest);
    }
    free_space(step, estimates, rest);
}

fn remove_all(step: &mut Step, estimates: &mut Estimates, candidates: Vec<Candidate>, reason: &RemoveReason) {
    for candidate in candidates {
        remove_unless_young(step, estimates, &candidate, reason.clone());
    }
}

/// Removes an image whatever the disk usage, unless it is too young or was in use at the start of the pass.
fn remove_unless_young(step: &mut Step, estimates: &mut Estimates, candidate: &Candidate, reason: RemoveReason) {
    match candidate.why_kept(step.context) {
        Some(reason) => keep_image(step, candidate.image, reason),
        None => remove(step, estimates, candidate, reason),
    }
}

/// Removes the images that a rule removes or that are listed, unless they are too young. Returns the other candidates.
fn remove_by_rule<'i>(
    step: &mut Step,
    estimates: &mut Estimates,
    candidates: Vec<Candidate<'i>>,
) -> Vec<Candidate<'i>> {
    let mut rest = Vec::new();
    for mut candidate in candidates {
        let of_rule = candidate.rules.removing().map(|rule| rule.removes(None));
        let reason = of_rule.or_else(|| step.context.policy.listing(&candidate));
        let Some(reason) = reason.filter(|reason| !candidate.is_held(step.context, reason)) else {
            rest.push(candidate);
            continue;
        };
        remove_unless_young(step, estimates, &candidate, reason);
    }
    rest
}

/// Keeps all candidates if image removal is off. A disk without a capacity is still an error of the plan.
fn keep_all_off(step: &mut Step, candidates: &[Candidate]) {
    if let Err(error @ PlanError::InvalidDiskCapacity { .. }) = usage(step.context) {
        step.fail(error);
    }
    for candidate in candidates {
        keep_image(step, candidate.image, candidate.held_or(KeepReason::ImageGcOff {}));
    }
}

/// Removes the images that were unused for longer than the maximum age. Returns the other candidates.
fn remove_old<'i>(step: &mut Step, estimates: &mut Estimates, candidates: Vec<Candidate<'i>>) -> Vec<Candidate<'i>> {
    let context = step.context;
    let mut rest = Vec::new();
    for mut candidate in candidates {
        let reason = (candidate.is_too_old(context) && may_judge_age(context)).then(|| candidate.why_old(context));
        let Some(reason) = reason.filter(|reason| !candidate.is_held(context, reason)) else {
            rest.push(candidate);
            continue;
        };
        remove(step, estimates, &candidate, reason);
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

fn keep_all<'i>(step: &mut Step, images: impl IntoIterator<Item = &'i Image>, reason: &KeepReason) {
    for image in images {
        keep_image(step, image, reason.clone());
    }
}

fn keep_image(step: &mut Step, image: &Image, reason: KeepReason) {
    let context = step.context;
    let first_seen = context.memory_of(image).and_then(|memory| memory.first_seen);
    let (age_seconds, size) = (first_seen.map(|at| context.age_seconds(at)), context.index.size_of(image));
    step.keep(candidate::target(image, 0).with(None, age_seconds, size).keep(reason));
}

fn remove(step: &mut Step, estimates: &mut Estimates, candidate: &Candidate, reason: RemoveReason) {
    step.plan.images.triggered_by = ImageTrigger::of(&reason);
    step.remove(candidate.action(step.context, estimates.remove(candidate).bytes, reason));
}

// === impl Policy ===

impl Policy {
    /// Returns that an image is listed, if no rule decides it otherwise.
    fn listing(&self, candidate: &Candidate) -> Option<RemoveReason> {
        let mut lists = self.pass.listed.iter().filter(|_| candidate.rules.permit_lists());
        let (by, _) = lists.find(|(_, names)| candidate.image.first_of(*names).is_some())?;
        Some(RemoveReason::Rule(RuleReason { rule: by.clone(), ..RuleReason::default() }))
    }

    /// Returns the reason to remove every unused image, if they are to be removed.
    pub(in crate::plan) fn all_unused(&self) -> Option<RemoveReason> {
        let named = self.pass.named_by.map(|by| match by {
            NamedBy::List => RemoveReason::Listed {},
            NamedBy::Arguments => RemoveReason::Named {},
        });
        let is_requested = matches!(self.pass.pressure, Some(Pressure::Requested {}));
        let pressure = !self.images.all_unused;
        named.or_else(|| (self.images.all_unused || is_requested).then_some(RemoveReason::Unused { pressure }))
    }
}

#[cfg(test)]
mod tests;
