//! What a plan keeps, by kind and reason, and why a disk stays full.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::action::Kind;
use super::reason::KeepReason;
use super::{Kept, Plan};
use crate::model::{count_text, size_text};

const MOST_REASONS: usize = 4;

/// Objects that are kept for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptFor {
    /// The kind of the objects.
    pub kind: Kind,
    pub reason: String,
    /// Whether it is a guard: a rule that keeps what the kubelet would remove.
    pub is_guard: bool,
    pub count: usize,
    /// Their bytes, where known.
    pub bytes: u64,
    /// When the first of them is old enough; `None` = time changes nothing.
    #[serde(skip)]
    pub until: Option<Timestamp>,
}

// === impl Plan ===

impl Plan {
    /// Returns what is kept, by kind and reason.
    pub fn kept_for(&self) -> Vec<KeptFor> {
        let mut found = BTreeMap::new();
        for one in &self.kept {
            let (kind, explained) = (one.kind, one.reason.explain());
            let (reason, is_guard) = (explained.phrase.into_owned(), explained.is_guard);
            let new = KeptFor { kind, reason: reason.clone(), is_guard, count: 0, bytes: 0, until: None };
            let known = found.entry((kind, reason)).or_insert(new);
            known.count += 1;
            known.bytes = known.bytes.saturating_add(one.size.known().unwrap_or_default());
            known.until = known.until.into_iter().chain(old_enough_at(self, one)).min();
        }
        found.into_values().collect()
    }
}

/// Describes the images that a plan keeps, the largest reason first: `3.5GiB in 12 images: younger than …`.
pub fn kept_images_text(plan: &Plan) -> String {
    let mut images = plan.kept_for();
    images.retain(|kept| kept.kind == Kind::Image);
    images.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.reason.cmp(&other.reason)));
    let text = |KeptFor { kind, reason, count, bytes, until, .. }: KeptFor| {
        let until = until.map(|at| format!(" until {at:.0}")).unwrap_or_default();
        format!("{} in {}: {reason}{until}", size_text(bytes), count_text(count, kind.noun()))
    };
    images.into_iter().take(MOST_REASONS).map(text).collect::<Vec<_>>().join("; ")
}

/// Returns when an object that is too young is old enough.
fn old_enough_at(plan: &Plan, kept: &Kept) -> Option<Timestamp> {
    let KeepReason::YoungerThanMinAge { min_age_seconds } = kept.reason else { return None };
    let left = min_age_seconds.saturating_sub(kept.age_seconds?);
    plan.taken_at.checked_add(SignedDuration::from_secs(left)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::node::node;

    #[test]
    fn kept_images_have_their_bytes_by_reason() {
        let plan = node()
            .image("pinned", 90)
            .which(|image| (image.size_bytes, image.pinned) = (5 << 30, true))
            .image("young", 2)
            .which(|image| image.size_bytes = 1 << 30)
            .image("younger", 1)
            .which(|image| image.size_bytes = 2 << 30)
            .disk(100)
            .set(|policy| policy.images.min_age = std::time::Duration::from_mins(10))
            .plan();
        let until = plan.taken_at + SignedDuration::from_mins(8);
        let young = format!("3.0GiB in 2 images: younger than min_age (10m) until {until:.0}");
        assert_eq!(kept_images_text(&plan), format!("5.0GiB in 1 image: pinned by the runtime; {young}"));
    }
}
