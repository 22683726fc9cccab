//! What the images have that a plan keeps: why a disk stays full.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::model::size_text;
use crate::plan::document::action::Kind;
use crate::plan::document::reason::KeepReason;
use crate::plan::document::{Kept, Plan};

/// The most reasons of a text.
const MOST_REASONS: usize = 4;

/// The images that a plan keeps for one reason.
#[derive(Debug, PartialEq)]
struct KeptImages {
    images: u64,
    bytes: u64,
    /// When the first of them is old enough; `None` = time changes nothing.
    until: Option<Timestamp>,
}

/// Describes the images that a plan keeps, the largest reason first: `3.5GiB in 12 images: younger than …`.
pub fn kept_images_text(plan: &Plan) -> String {
    let mut reasons: Vec<_> = by_reason(plan).into_iter().collect();
    reasons.sort_by(|(one, a), (other, b)| b.bytes.cmp(&a.bytes).then_with(|| one.cmp(other)));
    let text = |(phrase, KeptImages { images, bytes, until }): (String, KeptImages)| {
        let (plural, until) =
            (if images == 1 { "" } else { "s" }, until.map(|at| format!(" until {at:.0}")).unwrap_or_default());
        format!("{} in {images} image{plural}: {phrase}{until}", size_text(bytes))
    };
    reasons.into_iter().take(MOST_REASONS).map(text).collect::<Vec<_>>().join("; ")
}

fn by_reason(plan: &Plan) -> BTreeMap<String, KeptImages> {
    let mut reasons = BTreeMap::new();
    for kept in plan.kept.iter().filter(|kept| kept.kind == Kind::Image) {
        let of = reasons.entry(kept.reason.explain().phrase.into_owned()).or_insert(KeptImages {
            images: 0,
            bytes: 0,
            until: None,
        });
        of.images += 1;
        of.bytes = of.bytes.saturating_add(kept.size.known().unwrap_or_default());
        let until = old_enough_at(plan, kept);
        of.until = of.until.map_or(until, |known| until.map(|at| at.min(known)));
    }
    reasons
}

/// Returns when an image that is too young is old enough.
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
