//! The usage of a disk, in the kubelet's integer arithmetic (1.36, `image_gc_manager.go`).

use crate::model::FileSystem;

/// A file system with a capacity above 0, and at most that capacity available.
pub(in crate::plan) struct Usage {
    capacity: i128,
    available: i128,
}

// === impl Usage ===

impl Usage {
    /// Returns the usage of a file system; `None` = its capacity is 0.
    pub fn of_disk(disk: &FileSystem) -> Option<Self> {
        (disk.capacity_bytes > 0).then(|| Self::of(disk.capacity_bytes, disk.available_bytes))
    }

    /// Creates the usage of so many bytes or inodes, which are not 0.
    pub fn of(capacity: u64, available: u64) -> Self {
        Self { capacity: capacity.into(), available: available.min(capacity).into() }
    }

    /// Returns the used space in percent, rounded up: 15.9 % free is 85 % used.
    pub fn used_percent(&self) -> u64 {
        u64::try_from(100 - self.available * 100 / self.capacity).unwrap_or(0)
    }

    /// Returns the bytes to reclaim to reach a threshold. 0 or less if the threshold is already reached, also by
    /// rounding alone.
    pub fn bytes_to_free(&self, low_threshold_percent: u64) -> i128 {
        i128::from(self.available_at(low_threshold_percent)) - self.available
    }

    /// Returns the available bytes at which a threshold is reached.
    pub fn available_at(&self, low_threshold_percent: u64) -> u64 {
        let free_percent = 100 - i128::from(low_threshold_percent.min(100));
        u64::try_from(self.capacity * free_percent / 100).unwrap_or(u64::MAX)
    }
}
