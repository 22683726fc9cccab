//! What is on a disk besides the runtime's store: the kubelet's directories of pods, and what is in none of these.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{DiskUse, PodUid};

/// What a walk over a disk found.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskContent {
    /// What names the disk.
    pub disk: DiskUse,
    /// The kubelet's own files.
    #[serde(default)]
    pub kubelet: DirUsage,
    /// The directory of the runtime, without the next.
    #[serde(default)]
    pub runtime: DirUsage,
    /// The directories in it that have what the store of the runtime has.
    #[serde(default)]
    pub runtime_store: DirUsage,
    /// All other files, except those in the directories of pods.
    #[serde(default)]
    pub other: DirUsage,
    /// The largest directories and files, without those of the store. One beneath another does not count for it.
    #[serde(default)]
    pub largest: Vec<PathUsage>,
    /// All deleted files that a process holds open.
    #[serde(default)]
    pub deleted: DirUsage,
    /// The largest of them.
    #[serde(default)]
    pub largest_deleted: Vec<DeletedFile>,
    /// What could not be read.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// A directory or file, and what it takes.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PathUsage {
    /// Its path on the host.
    pub path: String,
    /// Whether it is the kubelet's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_kubelets: bool,
    /// Whether it is in the directory of the runtime, outside of the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_runtimes: bool,
    /// Its size.
    #[serde(flatten)]
    pub usage: DirUsage,
}

/// A deleted file that a process holds open.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DeletedFile {
    /// The path that it had, as the process sees it.
    pub path: String,
    /// The name of a process that holds it open.
    pub process: String,
    /// The id of that process.
    pub pid: i32,
    /// Bytes that its end would free.
    pub bytes: u64,
}

// === impl DiskContent ===

impl DiskContent {
    /// Creates the content of a disk without what was found.
    pub fn of(disk: DiskUse) -> Self {
        Self { disk, ..Self::default() }
    }
}

/// What the directory of a pod takes.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodDirUsage {
    pub uid: PodUid,
    /// Its volumes on this disk. What is mounted from elsewhere has no bytes.
    pub volumes: Vec<VolumeUsage>,
    /// Everything else: termination logs, the file of hosts, data of plugins.
    pub other: DirUsage,
}

/// What a volume takes.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct VolumeUsage {
    /// The plugin of the volume, such as `empty-dir`.
    pub plugin: String,
    /// The name of the volume in the pod spec; of one that an image declares, its name in the runtime.
    pub name: String,
    /// Whether an image declares it. It is on the disk of the runtime then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_image: bool,
    /// Its size.
    #[serde(flatten)]
    pub usage: DirUsage,
}

/// The size of a directory on its disk.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DirUsage {
    pub bytes: u64,
    pub inodes: u64,
    /// Whether it has at least this size: a part of it was not read, because the time was over or it cannot be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

// === impl PodDirUsage ===

impl PodDirUsage {
    pub fn volumes_on_kubelet_disk(&self) -> impl Iterator<Item = &VolumeUsage> {
        self.volumes.iter().filter(|volume| !volume.of_image)
    }

    /// Returns what it takes on the disk of the kubelet.
    pub fn on_kubelet_disk(&self) -> DirUsage {
        self.volumes_on_kubelet_disk().fold(self.other, |sum, volume| sum.and(volume.usage))
    }
}

// === impl DirUsage ===

impl DirUsage {
    /// Returns the size of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
            at_least: self.at_least || other.at_least,
        }
    }

    /// Returns what it has besides a part of it; at least nothing, if that part may be larger.
    #[must_use]
    pub fn without(self, part: Self) -> Self {
        if part.at_least {
            return Self { at_least: true, ..Self::default() };
        }
        let (bytes, inodes) = (self.bytes.saturating_sub(part.bytes), self.inodes.saturating_sub(part.inodes));
        Self { bytes, inodes, ..self }
    }
}
