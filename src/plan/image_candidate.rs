//! Unused images: their ages, and the order in which they are removed.

use jiff::Timestamp;

use super::plan_builder::Context;
use super::{Action, KeepReason, RemoveReason, Target};
use crate::model::{Image, ImageMemory};

/// An unused image and its history.
pub(super) struct Candidate<'a> {
    pub image: &'a Image,
    /// `None` = before the memory began.
    first_seen: Option<Timestamp>,
    /// `None` = never.
    pub last_used: Option<Timestamp>,
    /// Why a rule removes it, if one does.
    pub removed_by_rule: Option<RemoveReason>,
}

// === impl Candidate ===

impl<'a> Candidate<'a> {
    /// Creates a candidate. An image without a history counts as first seen now.
    fn new(image: &'a Image, past: Option<&ImageMemory>, now: Timestamp) -> Self {
        let first_seen = past.map_or(Some(now), |past| past.first_seen);
        Self { image, first_seen, last_used: past.and_then(|past| past.last_used), removed_by_rule: None }
    }

    /// Returns whether the image was unused for strictly longer than the maximum age. To the kubelet a never-used image is
    /// infinitely old, even a new one. kubegc counts from the time when it was first seen, and applies the minimum age
    /// too.
    pub fn is_too_old(&self, context: &Context) -> bool {
        let max_age = context.policy.images.max_age;
        if !context.policy.guards.age_from_first_seen {
            return self.last_used.is_none_or(|at| super::age(context.now, at) > max_age);
        }
        let since = self.last_used.max(self.first_seen);
        since.is_none_or(|at| super::age(context.now, at) > max_age) && !self.is_too_young(context)
    }

    /// Returns why the maximum age does not apply, if there is a maximum age.
    pub fn why_not_old(&self, context: &Context) -> Option<KeepReason> {
        let policy = &context.policy.images;
        let min_age_seconds = super::seconds(policy.min_age);
        let max_age_seconds = super::seconds(policy.max_age);
        match self.is_too_young(context) {
            _ if policy.max_age.is_zero() => None,
            true => Some(KeepReason::YoungerThanMinAge { min_age_seconds }),
            false => Some(KeepReason::WithinMaxAge { max_age_seconds }),
        }
    }

    fn is_too_young(&self, context: &Context) -> bool {
        self.first_seen.is_some_and(|at| !super::is_older(context.now, at, context.policy.images.min_age))
    }

    /// Returns why the image is not removed to reclaim space, if so.
    pub fn why_kept(&self, context: &Context) -> Option<KeepReason> {
        if self.last_used.is_some_and(|at| at >= context.now) {
            return Some(KeepReason::UsedMeanwhile {});
        }
        let min_age_seconds = super::seconds(context.policy.images.min_age);
        self.is_too_young(context).then_some(KeepReason::YoungerThanMinAge { min_age_seconds })
    }

    pub fn action(&self, context: &Context, estimated_bytes: u64, reason: RemoveReason) -> Action {
        let target = Target::RemoveImage { id: self.image.id.clone(), tags: self.image.tags.clone(), estimated_bytes };
        let age_seconds = self.first_seen.map(|at| context.age_seconds(at));
        Action { target, pod: None, age_seconds, size_bytes: None, reason }
    }
}

/// Returns unused images in the order of removal: by last use, never-used images first, then by first sight, then by
/// ID.
pub(super) fn in_order<'i>(context: &Context, images: &[&'i Image]) -> Vec<Candidate<'i>> {
    let mut candidates: Vec<_> =
        images.iter().map(|image| Candidate::new(image, context.memory_of(image), context.now)).collect();
    candidates.sort_by_key(|candidate| (candidate.last_used, candidate.first_seen, &candidate.image.id));
    candidates
}
