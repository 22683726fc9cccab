//! The file systems of a node, and when the kubelet evicts pods because one is full.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::FileSystem;

/// A file system of the node.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct NodeDisk {
    /// What it holds. The first names it.
    pub holds: Vec<DiskUse>,
    /// How full it is.
    pub file_system: FileSystem,
}

/// What a file system holds: the value of the label `filesystem` of metrics.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[derive(Deserialize, JsonSchema, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DiskUse {
    /// The images of the runtime.
    #[default]
    Images,
    /// The logs of pods.
    Logs,
    /// The kubelet's directories of pods.
    Kubelet,
}

/// What earlier passes learned of a disk.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskMemory {
    pub holds: Vec<DiskUse>,
    /// When it was last measured for this memory.
    pub at: Timestamp,
    /// Bytes that were not available then.
    pub used_bytes: u64,
    /// Bytes that kubegc has reclaimed on it since.
    #[serde(default)]
    pub reclaimed_bytes: u64,
    /// What was written to it in the last hours, oldest first.
    #[serde(default)]
    pub growth: Vec<DiskGrowth>,
}

/// What was written to a disk in a period, without what others removed.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskGrowth {
    /// When the period began.
    pub since: Timestamp,
    /// The time that was observed.
    pub seconds: u64,
    /// Bytes by which the used space grew, with what kubegc reclaimed.
    pub bytes: i64,
}

/// Free space below which the kubelet evicts pods: `evictionHard` in its configuration.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct EvictionLimits {
    /// `imagefs.available`; `None` = no limit.
    pub images: Option<FreeSpace>,
    /// `nodefs.available`, of the disk of pods and logs; `None` = no limit.
    pub node: Option<FreeSpace>,
}

/// An amount of free space.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FreeSpace {
    Bytes(u64),
    /// Millionths of the capacity: a percentage of the kubelet may have a fraction.
    Millionths(u64),
}

// === impl NodeDisk ===

impl NodeDisk {
    pub fn name(&self) -> Option<DiskUse> {
        self.holds.first().copied()
    }

    /// Adds what a directory holds: to the disk that it is on, or as another disk.
    pub fn add(disks: &mut Vec<Self>, of: DiskUse, file_system: FileSystem) {
        match disks.iter_mut().find(|known| known.file_system.is_same_disk(&file_system)) {
            Some(known) => known.holds.push(of),
            None => disks.push(Self { holds: vec![of], file_system }),
        }
    }
}

// === impl DiskUse ===

impl DiskUse {
    /// Returns the words for people.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Logs => "pod logs",
            Self::Kubelet => "pods of the kubelet",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(fsid: u64) -> FileSystem {
        FileSystem { capacity_bytes: 100, inodes: Some(9), fsid: Some(fsid), ..FileSystem::default() }
    }

    #[test]
    fn directories_on_one_disk_are_one_and_disks_of_the_same_size_are_two() {
        let holds = |logs: u64| {
            let mut disks = Vec::new();
            for (of, fsid) in [(DiskUse::Images, 1), (DiskUse::Logs, logs), (DiskUse::Kubelet, 1)] {
                NodeDisk::add(&mut disks, of, disk(fsid));
            }
            disks.into_iter().map(|disk| disk.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds(1), [vec![DiskUse::Images, DiskUse::Logs, DiskUse::Kubelet]]);
        assert_eq!(holds(2), [vec![DiskUse::Images, DiskUse::Kubelet], vec![DiskUse::Logs]]);
    }
}
