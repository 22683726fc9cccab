//! Why a step of the plan could not be completed.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{ContainerId, PodRef, size_text};

/// Why a step could not be completed.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum PlanError {
    /// A list that the step needs is unavailable.
    NotSeen {
        /// The name of the list in the snapshot.
        source: String,
        /// Why the list is unavailable.
        cause: String,
    },
    /// The image volumes of a container and the spec of its pod are unknown. So no image is proven unused (I6).
    ImageVolumesUnknown {
        container: ContainerId,
        /// The pod of the container.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pod: Option<Box<PodRef>>,
        /// Why the status of the container is unavailable.
        cause: String,
        /// The number of other containers with the same problem.
        #[serde(default)]
        others: u64,
    },
    /// The image file system reports a capacity of 0 bytes (the kubelet's `InvalidDiskCapacity`).
    InvalidDiskCapacity {
        /// The mount point of the file system.
        mountpoint: PathBuf,
    },
    /// Removing all removable images does not reach the low threshold (the kubelet's `FreeDiskSpaceFailed`).
    FreeDiskSpaceFailed {
        /// Bytes to reclaim.
        target_bytes: u64,
        /// The size of the removable images that the runtime reports, in bytes.
        estimated_bytes: u64,
        used_percent: u64,
        /// The target in `images.targets` that began the removal, and its state; `null` = none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        began_by: Option<String>,
    },
    /// A target of `images.targets` ends at more free space than the disk has. Removal ends at the low threshold.
    TargetBeyondDisk {
        /// The target, as in the settings.
        target: String,
        capacity_bytes: u64,
    },
}

// === impl PlanError ===

impl PlanError {
    /// Returns whether an observation is missing. Otherwise the error is about disk space.
    pub fn is_unobserved(&self) -> bool {
        matches!(self, Self::NotSeen { .. } | Self::ImageVolumesUnknown { .. })
    }
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSeen { source, cause } => write!(f, "{source} unavailable: {cause}"),
            Self::ImageVolumesUnknown { container, pod, cause, others } => {
                write!(f, "cannot determine the image volumes of container {container}")?;
                pod.as_ref().map_or(Ok(()), |pod| write!(f, " of pod {pod}"))?;
                if *others > 0 {
                    write!(f, " and of {others} more")?;
                }
                write!(
                    f,
                    ": {cause}; no image is removed; \
                     hint: inspect it with `crictl inspect {container}`, restart the runtime or delete the pod, \
                     or configure a pod source that knows pod specs (pods.source = kube-api or kubelet)"
                )
            }
            Self::InvalidDiskCapacity { mountpoint } => {
                write!(f, "invalid capacity 0 on image filesystem {}", mountpoint.display())
            }
            Self::TargetBeyondDisk { target, capacity_bytes } => write!(
                f,
                "cannot meet images.targets {target:?}: the image disk has {}; removal ends at images.low_threshold_percent",
                size_text(*capacity_bytes)
            ),
            Self::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent, began_by } => {
                match began_by {
                    Some(target) => f.write_str(target)?,
                    None => write!(f, "image disk usage is {used_percent}%")?,
                }
                write!(f, ": {} must be freed, and ", size_text(*target_bytes))?;
                match estimated_bytes {
                    0 => f.write_str("no image can be removed"),
                    estimated => write!(f, "all removable images have {}", size_text(*estimated)),
                }
            }
        }
    }
}
