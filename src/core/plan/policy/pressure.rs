//! Disk pressure: when a disk has it, and what it changes.
//!
//! Under disk pressure a pass removes what the kubelet's eviction removes before it evicts a pod: all dead containers of
//! terminated pods with their log files, as always with a container, their sandboxes, and unused images. The directories of
//! their logs stay. The guards apply all the same. The kubelet removes every unused image; kubegc keeps the most recently used
//! ones if the disk is out of pressure before, and all of them if they are on another disk. This module does not decide when a
//! disk is measured.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PassState, Policy};
use crate::model::{FileSystem, exact_size_text, size_text};

/// The limits for disk pressure. They apply to the image file system, the one of pod logs and the one of the kubelet.
/// One exceeded limit is enough.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[expect(clippy::struct_field_names, reason = "the keys of the settings")]
pub struct PressurePolicy {
    pub free_bytes: u64,
    pub free_percent: u64,
    pub free_inodes_percent: u64,
}

/// Why a pass reclaims space without regard to the thresholds.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Pressure {
    /// A flag requests it.
    Requested {},
    /// Too few free bytes.
    FreeBytes {
        /// A directory on the disk.
        mountpoint: PathBuf,
        /// Free bytes.
        free_bytes: u64,
        /// The value of `pressure.free_bytes`.
        limit_bytes: u64,
    },
    /// Too little free space in percent.
    FreePercent {
        /// A directory on the disk.
        mountpoint: PathBuf,
        /// Free space in percent, rounded down.
        free_percent: u64,
        /// The value of `pressure.free_percent`.
        limit_percent: u64,
    },
    /// Too few free inodes.
    FreeInodesPercent {
        /// A directory on the disk.
        mountpoint: PathBuf,
        /// Free inodes in percent, rounded down.
        free_percent: u64,
        /// The value of `pressure.free_inodes_percent`.
        limit_percent: u64,
    },
}

// === impl PressurePolicy ===

impl PressurePolicy {
    /// Returns whether all limits are off.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the free bytes below which this disk has pressure; `None` = no limit.
    pub(in crate::plan) fn below_bytes(&self, disk: &FileSystem) -> Option<u64> {
        let limit = part(disk.capacity_bytes, self.free_percent).max(self.free_bytes);
        (limit > 0 && disk.capacity_bytes > 0).then_some(limit)
    }

    /// Returns the free inodes below which this disk has pressure; `None` = no limit.
    pub(in crate::plan) fn below_inodes(&self, disk: &FileSystem) -> Option<u64> {
        Some(part(disk.inodes?, self.free_inodes_percent)).filter(|limit| *limit > 0)
    }

    /// Returns why a disk has disk pressure, if so. A value that the disk does not report is not compared, such as a
    /// capacity of 0 or no inodes.
    pub fn judge(&self, disk: &FileSystem) -> Option<Pressure> {
        let mountpoint = || disk.mountpoint.clone();
        let space = percent(disk.available_bytes, disk.capacity_bytes, self.free_percent);
        let inodes = disk.inodes.zip(disk.inodes_free);
        let inodes = inodes.and_then(|(all, free)| percent(free, all, self.free_inodes_percent));
        if disk.capacity_bytes > 0 && disk.available_bytes < self.free_bytes {
            let (free_bytes, limit_bytes) = (disk.available_bytes, self.free_bytes);
            return Some(Pressure::FreeBytes { mountpoint: mountpoint(), free_bytes, limit_bytes });
        }
        let limit_percent = self.free_percent;
        let space =
            space.map(|free_percent| Pressure::FreePercent { mountpoint: mountpoint(), free_percent, limit_percent });
        let limit_percent = self.free_inodes_percent;
        space.or_else(|| {
            inodes.map(|free_percent| Pressure::FreeInodesPercent {
                mountpoint: mountpoint(),
                free_percent,
                limit_percent,
            })
        })
    }
}

// === impl PressurePolicy: the end of disk pressure ===

impl PressurePolicy {
    /// Returns the bytes and the inodes that are missing until no limit is exceeded, with a tenth of the limit to spare.
    pub(in crate::plan) fn missing(&self, disk: &FileSystem) -> (i128, i128) {
        let percent_of = |all: u64, percent: u64| i128::from(all) * i128::from(percent) / 100;
        let missing =
            |limit: i128, free: u64| if i128::from(free) < limit { limit + limit / 10 - i128::from(free) } else { 0 };
        let space = missing(percent_of(disk.capacity_bytes, self.free_percent), disk.available_bytes);
        let bytes = space.max(missing(self.free_bytes.into(), disk.available_bytes));
        let inodes = disk.inodes.zip(disk.inodes_free);
        let inodes = inodes.map(|(all, free)| missing(percent_of(all, self.free_inodes_percent), free));
        (bytes, inodes.unwrap_or_default())
    }
}

/// Returns a percentage of a number, rounded up: less than that is less than the percentage.
fn part(all: u64, percent: u64) -> u64 {
    u64::try_from((u128::from(all) * u128::from(percent)).div_ceil(100)).unwrap_or(u64::MAX)
}

/// Returns the free percentage, if it is below the limit.
fn percent(free: u64, all: u64, limit: u64) -> Option<u64> {
    let is_below = u128::from(free) * 100 < u128::from(all) * u128::from(limit);
    let percent = u128::from(free) * 100 / u128::from(all).max(1);
    is_below.then(|| u64::try_from(percent).unwrap_or(u64::MAX))
}

// === impl Policy ===

impl Policy {
    /// Returns the same policy under disk pressure: it removes the dead containers and sandboxes of terminated pods, and
    /// unused images until the disk has no pressure, or every unused image if a flag requests it.
    #[must_use]
    pub fn under_pressure(&self, pressure: Pressure) -> Self {
        let pass = PassState { pressure: Some(pressure), ..self.pass.clone() };
        Self { pass, ..self.clone() }
    }

    /// Returns the same policy if the disk still has pressure after that: it removes the logs of terminated pods, too.
    #[must_use]
    pub fn as_last_resort(&self, pressure: Pressure) -> Self {
        let mut policy = self.under_pressure(pressure);
        policy.pass.is_last_resort = true;
        policy
    }

    /// Returns whether the objects of terminated pods are removed.
    pub(in crate::plan) fn evicts_terminated_pods(&self) -> bool {
        self.containers.evict_terminated_pods || self.pass.pressure.is_some()
    }
}

// === impl Pressure ===

impl Pressure {
    /// Returns a directory on the disk; `None` = a flag requests it.
    pub fn mountpoint(&self) -> Option<&std::path::Path> {
        match self {
            Self::Requested {} => None,
            Self::FreeBytes { mountpoint, .. }
            | Self::FreePercent { mountpoint, .. }
            | Self::FreeInodesPercent { mountpoint, .. } => Some(mountpoint),
        }
    }
}

impl std::fmt::Display for Pressure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Requested {} => f.write_str("requested by a flag"),
            Self::FreeBytes { mountpoint, free_bytes, limit_bytes } => {
                let (free, limit) = (size_text(*free_bytes), exact_size_text(*limit_bytes));
                write!(f, "{} has {free} free, pressure.free_bytes = {limit}", mountpoint.display())
            }
            Self::FreePercent { mountpoint, free_percent, limit_percent } => {
                write!(f, "{} is {free_percent} % free, pressure.free_percent = {limit_percent}", mountpoint.display())
            }
            Self::FreeInodesPercent { mountpoint, free_percent, limit_percent } => write!(
                f,
                "{} has {free_percent} % of its inodes free, pressure.free_inodes_percent = {limit_percent}",
                mountpoint.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(available_bytes: u64, inodes: Option<(u64, u64)>) -> FileSystem {
        FileSystem {
            mountpoint: "/d".into(),
            capacity_bytes: 1000,
            available_bytes,
            inodes: inodes.map(|(all, _)| all),
            inodes_free: inodes.map(|(_, free)| free),
            fsid: None,
            free_bytes: None,
        }
    }

    #[test]
    fn disk_pressure_begins_below_a_limit_not_at_it() {
        let policy = |free_bytes, free_percent, free_inodes_percent| PressurePolicy {
            free_bytes,
            free_percent,
            free_inodes_percent,
        };
        let rows = [
            ("off", policy(0, 0, 0), disk(0, Some((10, 0))), ""),
            ("at the bytes", policy(100, 0, 0), disk(100, None), ""),
            ("below the bytes", policy(100, 0, 0), disk(99, None), "/d has 99B free, pressure.free_bytes = 100B"),
            ("at the percentage", policy(0, 10, 0), disk(100, None), ""),
            ("below it by a byte", policy(0, 10, 0), disk(99, None), "/d is 9 % free, pressure.free_percent = 10"),
            ("at the inodes", policy(0, 0, 5), disk(1000, Some((100, 5))), ""),
            (
                "below the inodes",
                policy(0, 0, 5),
                disk(1000, Some((100, 4))),
                "/d has 4 % of its inodes free, pressure.free_inodes_percent = 5",
            ),
            ("inodes are not counted there", policy(0, 0, 5), disk(1000, None), ""),
            ("no capacity is reported", policy(1, 1, 0), FileSystem::default(), ""),
        ];
        for (sentence, policy, disk, expected) in rows {
            let text = policy.judge(&disk).map(|pressure| pressure.to_string()).unwrap_or_default();
            assert_eq!(text, expected, "{sentence}");
        }
    }

    #[test]
    fn the_limits_are_off_only_if_all_are_0() {
        let policy = |[free_bytes, free_percent, free_inodes_percent]: [u64; 3]| PressurePolicy {
            free_bytes,
            free_percent,
            free_inodes_percent,
        };
        let rows = [([0, 0, 0], true), ([1, 0, 0], false), ([0, 1, 0], false), ([0, 0, 1], false)];
        for (limits, is_off) in rows {
            assert_eq!(policy(limits).is_off(), is_off, "{limits:?}");
        }
    }

    #[test]
    fn the_end_of_disk_pressure_is_a_tenth_above_its_limit() {
        let missing = |free_bytes, free_inodes| {
            let policy = PressurePolicy { free_bytes: 100, free_percent: 0, free_inodes_percent: 20 };
            policy.missing(&disk(free_bytes, Some((100, free_inodes))))
        };
        assert_eq!([missing(100, 20), missing(99, 20), missing(100, 19)], [(0, 0), (11, 0), (0, 3)]);
    }
}
