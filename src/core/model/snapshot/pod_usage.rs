//! What the kubelet's directories of pods take on their disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::PodUid;

/// What the directory of a pod takes.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodDirUsage {
    /// The pod.
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
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
    /// Whether it has at least this size: a part of it was not read, because the time was over or it cannot be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
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
