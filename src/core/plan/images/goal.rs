//! How much a pass must reclaim with images, and why: the thresholds, the targets, disk pressure.
//!
//! Each has a limit where removal begins and another where it ends. If several have begun, all of them must be reached. The
//! plan names the first.
//!
//! A replay has thousands of passes, most of which remove nothing. So it first asks whether one must free space, and whether it can
//! remove an image at all.

use jiff::Timestamp;

use crate::model::FileSystem;
use crate::plan::disk_usage::Usage;
use crate::plan::document::plan_error::PlanError;
use crate::plan::document::reason::RemoveReason;
use crate::plan::policy::Policy;
use crate::plan::policy::image_target::ImageTarget;
use crate::plan::policy::pressure::Pressure;
use crate::rules::RuleSubject;

/// What a pass must reclaim.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Goal {
    pub reason: RemoveReason,
    pub bytes: i128,
    pub inodes: i128,
    /// Whether the disk must have so much more free space. A total of all images is none of that: what others write meanwhile must not
    /// make it remove every unused image, and neither must leases that hold the bytes of removed images.
    pub is_of_disk: bool,
}

// === impl Goal ===

impl Goal {
    /// Returns the goal of a pass; `None` = nothing has begun. `all_images` are the bytes of all images.
    pub fn of(policy: &Policy, disk: &FileSystem, usage: &Usage, all_images: u64) -> Option<Self> {
        let targets = policy.images.targets.iter();
        let mut goals = Self::of_pressure(policy, disk)
            .into_iter()
            .chain(Self::of_thresholds(policy, usage))
            .chain(targets.filter_map(|target| Self::of_target(policy, *target, (disk, usage), all_images)));
        let first = goals.next()?;
        Some(goals.fold(first, |goal, other| Self {
            bytes: goal.bytes.max(other.bytes),
            inodes: goal.inodes.max(other.inodes),
            is_of_disk: goal.is_of_disk || other.is_of_disk,
            ..goal
        }))
    }

    /// Returns the goal of disk pressure: to end it, with a tenth to spare, so that the next pull does not bring it back.
    fn of_pressure(policy: &Policy, disk: &FileSystem) -> Option<Self> {
        let is_of_images = |pressure: &&Pressure| pressure.mountpoint() == Some(&*disk.mountpoint);
        policy.pass.pressure.as_ref().filter(is_of_images)?;
        let (bytes, inodes) = policy.pressure.missing(disk);
        let reason = RemoveReason::Unused { pressure: true };
        Some(Self { reason, bytes, inodes, is_of_disk: true })
    }

    /// Returns the goal of the thresholds. Equal ones leave nothing to reclaim; the kubelet removes an image then.
    fn of_thresholds(policy: &Policy, usage: &Usage) -> Option<Self> {
        let images = &policy.images;
        let (used_percent, high_threshold_percent) = (usage.used_percent(), images.high_threshold_percent);
        let bytes = usage.bytes_to_free(images.low_threshold_percent);
        (used_percent >= high_threshold_percent && (bytes > 0 || !policy.guards.measure_space)).then_some(Self {
            reason: RemoveReason::Space { high_threshold_percent, used_percent },
            bytes,
            inodes: 0,
            is_of_disk: true,
        })
    }

    /// Returns the goal of a target that has begun. One that the disk cannot meet would remove every unused image, so it ends at the
    /// low threshold.
    fn of_target(policy: &Policy, target: ImageTarget, (disk, usage): (&FileSystem, &Usage), all: u64) -> Option<Self> {
        let goal = target.goal(disk, all)?;
        if !target.is_beyond(disk) {
            return Some(goal);
        }
        let bytes = goal.bytes.min(usage.bytes_to_free(policy.images.low_threshold_percent));
        (bytes > 0).then_some(Self { bytes, ..goal })
    }

    /// Returns whether so much is enough. Inodes that are not known are: the disk is measured after each removal, and the reserve
    /// goes on (I9).
    pub fn is_reached(&self, bytes: i128, inodes: Option<i128>) -> bool {
        bytes >= self.bytes && inodes.is_none_or(|inodes| inodes >= self.inodes)
    }
}

// === impl ImageTarget ===

impl ImageTarget {
    /// Returns the goal, if the target has begun. A value that the disk does not report is not compared.
    fn goal(self, disk: &FileSystem, all_images: u64) -> Option<Goal> {
        let goal = |value, bytes: u64, inodes: u64| Goal {
            reason: RemoveReason::Target { target: self, value },
            bytes: bytes.into(),
            inodes: inodes.into(),
            is_of_disk: !matches!(self, Self::Total { .. }),
        };
        match self {
            Self::Free { below_bytes, until_bytes } => {
                let free = disk.available_bytes;
                (free < below_bytes).then(|| goal(free, until_bytes.saturating_sub(free), 0))
            }
            Self::Inodes { from_percent, until_percent } => {
                let (all, free) = (disk.inodes.filter(|all| *all > 0)?, disk.inodes_free?);
                let used = all.saturating_sub(free);
                let percent = Usage::of(all, free).used_percent();
                let most = u64::try_from(u128::from(all) * u128::from(until_percent) / 100).unwrap_or(u64::MAX);
                let missing = used.saturating_sub(most);
                (percent >= from_percent).then(|| goal(percent, 0, missing))
            }
            Self::Total { above_bytes, until_bytes } => {
                (all_images > above_bytes).then(|| goal(all_images, all_images.saturating_sub(until_bytes), 0))
            }
        }
    }

    /// Returns whether the disk is too small for the end of the target.
    fn is_beyond(self, disk: &FileSystem) -> bool {
        matches!(self, Self::Free { until_bytes, .. } if until_bytes > disk.capacity_bytes)
    }

    /// Returns the error of a target that has begun and cannot be met.
    pub(super) fn error(self, disk: &FileSystem) -> Option<PlanError> {
        let has_begun = || self.goal(disk, 0).is_some();
        let (target, capacity_bytes) = (self.to_string(), disk.capacity_bytes);
        (self.is_beyond(disk) && has_begun()).then_some(PlanError::TargetBeyondDisk { target, capacity_bytes })
    }
}

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

#[cfg(test)]
mod tests;
