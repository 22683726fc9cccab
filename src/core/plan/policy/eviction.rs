//! When the kubelet evicts pods because a disk is full.

use crate::model::{DiskUse, FileSystem, NodeDisk};

/// Free space below which the kubelet evicts pods: `evictionHard` in its configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EvictionLimits {
    /// `imagefs.available`; `None` = no limit.
    pub images: Option<FreeSpace>,
    /// `nodefs.available`, of the disk of pods and logs; `None` = no limit.
    pub node: Option<FreeSpace>,
}

/// An amount of free space.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FreeSpace {
    /// Bytes.
    Bytes(u64),
    /// Millionths of the capacity: a percentage of the kubelet may have a fraction.
    Millionths(u64),
}

// === impl EvictionLimits ===

impl EvictionLimits {
    /// Returns the free bytes of a disk below which pods are evicted; `None` = no limit.
    pub fn below_bytes(&self, disk: &NodeDisk) -> Option<u64> {
        let applies = [
            self.images.filter(|_| disk.holds.contains(&DiskUse::Images)),
            self.node.filter(|_| disk.holds.iter().any(|of| *of != DiskUse::Images)),
        ];
        applies.into_iter().flatten().map(|limit| limit.of(&disk.file_system)).max()
    }
}

/// As the kubelet without `evictionHard` (1.36, `pkg/kubelet/eviction/defaults_linux.go`).
impl Default for EvictionLimits {
    fn default() -> Self {
        Self { images: Some(FreeSpace::Millionths(150_000)), node: Some(FreeSpace::Millionths(100_000)) }
    }
}

// === impl FreeSpace ===

impl FreeSpace {
    fn of(self, disk: &FileSystem) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Millionths(share) => {
                let bytes = u128::from(disk.capacity_bytes) * u128::from(share) / 1_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}
