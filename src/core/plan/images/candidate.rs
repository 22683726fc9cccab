//! Unused images: their ages, and the order in which they are removed.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::Image;
use crate::plan::document::action::{Action, Target};
use crate::plan::document::reason::{KeepReason, RemoveReason};
use crate::plan::policy::image_policy::ImageOrder;
use crate::plan::rules::book::time_limit;
use crate::plan::rules::image_rules::ImageRules;
use crate::plan::step::{Context, Step};
use crate::rules::Rule;

/// An unused image and its history.
pub(super) struct Candidate<'a> {
    pub image: &'a Image,
    /// `None` = before the memory began.
    first_seen: Option<Timestamp>,
    /// `None` = never.
    pub last_used: Option<Timestamp>,
    /// What the rules decide of it.
    pub rules: ImageRules<'a>,
    /// That it was pulled again after a removal for an age or a rule that applies to it now.
    held: Option<KeepReason>,
    /// Its score by `images.order`.
    score: Option<f64>,
}

// === impl Candidate ===

impl<'a> Candidate<'a> {
    /// Creates a candidate. An image without a history counts as first seen now.
    fn new(image: &'a Image, context: &Context) -> Self {
        let past = context.memory_of(image);
        Self {
            image,
            first_seen: past.map_or(Some(context.now), |past| past.first_seen),
            last_used: context.snapshot.memory.last_use_of(image, past).0,
            rules: ImageRules::default(),
            held: None,
            score: None,
        }
    }

    /// Returns whether the image was unused for strictly longer than the maximum age. To the kubelet a never-used image is
    /// infinitely old, even a new one. kubegc counts from the time when it was first seen, and applies the minimum age
    /// too.
    pub fn is_too_old(&self, context: &Context) -> bool {
        let (_, max_age) = self.max_age(context);
        if max_age.is_zero() {
            return false;
        }
        if !context.policy.guards.age_from_first_seen {
            return self.last_used.is_none_or(|at| crate::plan::times::age(context.now, at) > max_age);
        }
        let since = self.last_used.max(self.first_seen);
        since.is_none_or(|at| crate::plan::times::age(context.now, at) > max_age) && self.too_young(context).is_none()
    }

    /// Returns whether the image is not removed for this reason yet, because it was pulled again soon after the last such removal.
    pub fn is_held(&mut self, context: &Context, reason: &RemoveReason) -> bool {
        let held = self.hold(context, reason);
        let is_held = held.is_some();
        self.held = self.held.take().or(held);
        is_held
    }

    fn hold(&self, context: &Context, reason: &RemoveReason) -> Option<KeepReason> {
        let memory = &context.snapshot.memory;
        let removed = memory.removal_of(self.image).filter(|_| context.policy.guards.keep_pulled_again)?;
        let is_same = (&*removed.reason, removed.rule.as_deref()) == (reason.kind(), reason.rule());
        // A removal that a person may undo was not worthwhile if the image is back in that time, whatever it was for.
        let policy = &context.policy.images;
        let window = crate::plan::times::seconds(policy.max_age.max(policy.undo));
        let unused_seconds = removed.hold_seconds(context.now, window).filter(|_| is_same)?;
        let since = self.last_used.max(self.first_seen)?;
        let is_short = context.age_seconds(since) <= unused_seconds;
        is_short.then_some(KeepReason::PulledAgain { removed_at: removed.at, unused_seconds })
    }

    /// Returns why an image is kept that nothing needs to remove: that it was held, if so, or this.
    pub fn held_or(&self, reason: KeepReason) -> KeepReason {
        self.held.clone().unwrap_or(reason)
    }

    /// Returns why the maximum age does not apply, if there is a maximum age or the image was held.
    pub fn why_not_old(&self, context: &Context) -> Option<KeepReason> {
        if self.held.is_some() {
            return self.held.clone();
        }
        let (rule, max_age) = Some(self.max_age(context)).filter(|(_, max_age)| !max_age.is_zero())?;
        let within = || match rule {
            Some(rule) => rule.keeps_within(time_limit("max_age", max_age)),
            None => KeepReason::WithinMaxAge { max_age_seconds: crate::plan::times::seconds(max_age) },
        };
        Some(self.too_young(context).unwrap_or_else(within))
    }

    /// Returns why an image is removed that is too old.
    pub fn why_old(&self, context: &Context) -> RemoveReason {
        let (rule, max_age) = self.max_age(context);
        let unused_seconds = self.last_used.map(|at| context.age_seconds(at));
        match rule {
            Some(rule) => rule.removes(time_limit("max_age", max_age)),
            None => RemoveReason::Age { max_age_seconds: crate::plan::times::seconds(max_age), unused_seconds },
        }
    }

    /// Returns why the image is not removed to reclaim space, if so.
    pub fn why_kept(&self, context: &Context) -> Option<KeepReason> {
        if self.last_used.is_some_and(|at| at >= context.now) {
            return Some(KeepReason::UsedMeanwhile {});
        }
        self.too_young(context)
    }

    /// Returns that the image is younger than its minimum age, if so.
    fn too_young(&self, context: &Context) -> Option<KeepReason> {
        let (rule, min_age) = self.rules.longest(context.policy.images.min_age, |limits| limits.min_age, |age| age);
        self.first_seen.filter(|at| !crate::plan::times::is_older(context.now, *at, min_age))?;
        Some(match rule {
            Some(rule) => rule.keeps_within(time_limit("min_age", min_age)),
            None => KeepReason::YoungerThanMinAge { min_age_seconds: crate::plan::times::seconds(min_age) },
        })
    }

    /// Returns the maximum age, and the rule that sets it. Zero is the longest: there is none.
    fn max_age(&self, context: &Context) -> (Option<&'a Rule>, Duration) {
        let length = |age: Duration| if age.is_zero() { Duration::MAX } else { age };
        self.rules.longest(context.policy.images.max_age, |limits| limits.max_age, length)
    }

    pub fn action(&self, context: &Context, estimated_bytes: u64, reason: RemoveReason) -> Action {
        let age_seconds = self.first_seen.map(|at| context.age_seconds(at));
        target(self.image, estimated_bytes).with(None, age_seconds, context.index.size_of(self.image)).remove(reason)
    }
}

pub(super) fn target(image: &Image, estimated_bytes: u64) -> Target {
    let Image { id, tags, digests, .. } = image.clone();
    Target::RemoveImage { id, tags, digests, estimated_bytes }
}

/// Returns unused images in the order of removal: by the score of `images.order`, the highest first and those without one last;
/// then by last use, never-used images first, then by first sight, then by ID.
pub(super) fn in_order<'i>(step: &mut Step, images: &[&'i Image]) -> Vec<Candidate<'i>> {
    let context = step.context;
    let mut candidates: Vec<_> = images.iter().map(|image| Candidate::new(image, context)).collect();
    candidates.sort_by_key(|candidate| (candidate.last_used, candidate.first_seen, &candidate.image.id));
    if let ImageOrder::Score(order) = &context.policy.images.order {
        for candidate in &mut candidates {
            candidate.score = context.rules.score(order, candidate.image, context.memory_of(candidate.image));
        }
        candidates.sort_by(|one, other| other.score.partial_cmp(&one.score).unwrap_or(Ordering::Equal));
        let scores = candidates.iter().filter_map(|candidate| Some((candidate.image.id.clone(), candidate.score?)));
        step.plan.images.scores = scores.collect();
        step.plan.images.unscored = (candidates.len() - step.plan.images.scores.len()) as u64;
    }
    candidates
}
