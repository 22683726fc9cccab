//! Whether a pass over images must free space, and whether it can remove an image at all: a replay has thousands of passes, and most
//! remove nothing.

use jiff::Timestamp;

use super::goal::Goal;
use crate::model::FileSystem;
use crate::plan::disk_usage::Usage;
use crate::plan::policy::Policy;
use crate::rules::RuleSubject;

/// Returns whether a pass at `now` may remove one of the unused images. `false` is certain; `true` only means that a plan must decide.
/// `unused_since` is the earliest time since which an image is unused that may be old enough, `None` = there is none. `all_images` are
/// the bytes of all images.
pub fn may_remove_images(
    policy: &Policy,
    disk: &FileSystem,
    all_images: u64,
    unused_since: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let max_age = policy.images.max_age;
    let is_old = |since: Timestamp| now.duration_since(since).unsigned_abs() > max_age;
    policy.rules.iter().any(|rule| rule.text().subject == RuleSubject::Image)
        || policy.all_unused().is_some()
        || !policy.pass.listed.is_empty()
        || (!max_age.is_zero() && unused_since.is_some_and(is_old))
        || is_over_goal(policy, disk, all_images)
}

/// Returns whether the images have more of a disk than the thresholds and the targets permit. `all_images` are the bytes of all images.
pub fn is_over_goal(policy: &Policy, disk: &FileSystem, all_images: u64) -> bool {
    Usage::of_disk(disk).is_some_and(|usage| Goal::of(policy, disk, &usage, all_images).is_some())
}
