//! The plan as data: what is removed, what is kept, and why.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KeepReason, Pressure, Profile, RemoveReason};
use crate::model::{
    ContainerId, ContainerState, ImageId, ListBytes, PodList, PodRef, PodSourceReport, SandboxId, Seen,
};

/// What one pass removes, in order, and why everything else is kept.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Plan {
    /// Always `Plan`.
    pub kind: PlanKind,
    /// The version of the document, 1.
    pub version: u32,
    /// When the snapshot was taken.
    pub taken_at: Timestamp,
    /// The name of the node; empty if it is unknown.
    #[serde(default)]
    pub node: String,
    /// The profile of the rules.
    pub profile: Profile,
    /// Why the pass removes everything unused: disk pressure, or a flag. Absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// The pod sources, or why none is available.
    #[serde(default)]
    pub pods: Seen<PodKnowledge>,
    /// The runtime's lists that were received in parts because they are too large for one message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListNote>,
    /// The objects to remove, in order.
    pub actions: Vec<Action>,
    /// The objects to keep.
    #[serde(default)]
    pub kept: Vec<Kept>,
    /// The goal of the image step, and its result.
    #[serde(default)]
    pub images: ImageSummary,
    /// Why a step could not be completed.
    #[serde(default)]
    pub errors: Vec<PlanError>,
}

/// The `kind` of a plan document.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub enum PlanKind {
    /// The only value.
    #[default]
    Plan,
}

/// Where the list of pods comes from.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodKnowledge {
    /// The pod source, or several of them together.
    pub source: String,
    /// Whether the list has all pods. If not, no pod counts as deleted (I2).
    #[serde(default)]
    pub complete: bool,
    /// The number of pods in the list.
    #[serde(default)]
    pub pods: u64,
    /// Each pod source in use: its result, and how old that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PodSourceReport>,
    /// Why the kubelet's pod directories are unavailable; `null` = they are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirs_unavailable: Option<String>,
}

/// A list of the runtime that was received in parts.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ListNote {
    /// The name of the list in the snapshot.
    pub list: String,
    /// The number of parts received.
    pub parts: u64,
    /// Encoded bytes of all parts together.
    pub bytes: u64,
    /// Whether all parts were received.
    pub complete: bool,
    /// The error of the call for the whole list.
    #[serde(default)]
    pub cause: String,
}

/// One removal.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Action {
    /// The object to remove.
    #[serde(flatten)]
    pub target: Target,
    /// The pod of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Seconds since the object was created; for an image, since it was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The rule, with the value of the setting.
    #[serde(flatten)]
    pub reason: RemoveReason,
}

/// The object that an action removes.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the words of the document")]
pub enum Target {
    /// A dead container with its log files and its log symlink. The container is removed last.
    RemoveContainer {
        /// The ID of the container.
        id: ContainerId,
        /// The name of the container in the pod spec.
        #[serde(default)]
        name: String,
        /// The state of the container in the snapshot. The container is not removed if its state has changed since.
        state: ContainerState,
    },
    /// A dead sandbox. It is stopped, then removed.
    RemoveSandbox {
        /// The ID of the sandbox.
        id: SandboxId,
    },
    /// A pod's log directory with all its content.
    RemoveLogDir {
        /// The path: the pod log root and one name.
        path: PathBuf,
    },
    /// A dangling log symlink.
    RemoveLogLink {
        /// The path: the container log root and one name.
        path: PathBuf,
    },
    /// An image with all its tags.
    RemoveImage {
        /// The ID of the image.
        id: ImageId,
        /// The tags of the image, for information only.
        #[serde(default)]
        tags: Vec<String>,
        /// The size that the runtime reports. The reclaimed bytes are measured.
        #[serde(default)]
        estimated_bytes: u64,
    },
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A container.
    Container,
    /// A pod sandbox.
    Sandbox,
    /// An entry of the pod log root.
    LogDir,
    /// An entry of the container log root.
    LogLink,
    /// An image.
    Image,
}

/// An object to keep.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Kept {
    /// The kind of the object.
    pub kind: Kind,
    /// The ID of the object; for logs, the path.
    pub id: String,
    /// The name of the container, or the first tag of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The pod of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The rule, with the value of the setting.
    #[serde(flatten)]
    pub reason: KeepReason,
}

/// Why the image step removes images.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageTrigger {
    /// The used space reached the high threshold.
    PercentUsed,
    /// Images were unused for longer than the maximum age. The used space is below the high threshold.
    Age,
    /// The removal of all unused images is requested.
    AllUnused,
}

/// The goal of the image step, and its result.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageSummary {
    /// Why images are removed; `null` = no image is removed.
    #[serde(default)]
    pub triggered_by: Option<ImageTrigger>,
    /// Used space in percent, rounded up as in the kubelet; `null` = not determined.
    #[serde(default)]
    pub used_percent: Option<u64>,
    /// Bytes to reclaim to reach the low threshold.
    #[serde(default)]
    pub target_bytes: u64,
    /// The part of `target_bytes` that removing all removable images does not reach, by the sizes that the runtime
    /// reports.
    #[serde(default)]
    pub shortfall_bytes: u64,
    /// The pass stops removing images at this number of available bytes; 0 = it does not stop early.
    #[serde(default)]
    pub stop_at_available_bytes: u64,
    /// Fallback candidates, in order. They are removed only if the measured space is still too small after all actions
    /// (I9).
    #[serde(default)]
    pub reserve: Vec<Action>,
}

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
        /// The container.
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
        /// Used space in percent.
        used_percent: u64,
    },
}

// === impl PodKnowledge ===

impl From<&PodList> for PodKnowledge {
    fn from(list: &PodList) -> Self {
        let PodList { source, complete, pods, sources, .. } = list;
        let (source, sources) = (source.clone(), sources.clone());
        Self { source, complete: *complete, pods: pods.len() as u64, sources, dirs_unavailable: None }
    }
}

// === impl ListNote ===

impl ListNote {
    /// Returns a note for each list that was received in parts.
    pub(super) fn all(sizes: &ListBytes) -> Vec<Self> {
        let in_parts = sizes.receipts().filter_map(|(list, receipt)| Some((list, receipt, receipt.refused.as_ref()?)));
        let note = |(list, receipt, refused): (&str, &crate::model::ListReceipt, &String)| Self {
            list: list.to_owned(),
            parts: receipt.parts,
            bytes: receipt.bytes,
            complete: receipt.missing.is_empty(),
            cause: refused.clone(),
        };
        in_parts.map(note).collect()
    }
}

// === impl PlanError ===

impl PlanError {
    /// Says whether an observation is missing. Otherwise the error is about disk space.
    pub fn is_unobserved(&self) -> bool {
        matches!(self, Self::NotSeen { .. } | Self::ImageVolumesUnknown { .. })
    }
}

// === impl Target ===

impl Target {
    /// Returns the kind of the object.
    pub fn kind(&self) -> Kind {
        match self {
            Self::RemoveContainer { .. } => Kind::Container,
            Self::RemoveSandbox { .. } => Kind::Sandbox,
            Self::RemoveLogDir { .. } => Kind::LogDir,
            Self::RemoveLogLink { .. } => Kind::LogLink,
            Self::RemoveImage { .. } => Kind::Image,
        }
    }

    /// Returns the object's ID; for logs its path.
    pub fn id(&self) -> String {
        match self {
            Self::RemoveContainer { id, .. } => id.to_string(),
            Self::RemoveSandbox { id } => id.to_string(),
            Self::RemoveLogDir { path } | Self::RemoveLogLink { path } => path.display().to_string(),
            Self::RemoveImage { id, .. } => id.to_string(),
        }
    }

    /// Returns the container's name or the image's first tag.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::RemoveContainer { name, .. } => Some(name),
            Self::RemoveImage { tags, .. } => tags.first().map(String::as_str),
            _ => None,
        }
    }
}

// === impl Action ===

impl Action {
    /// Returns the key of the object in the memory: kind and ID.
    pub fn key(&self) -> String {
        key(self.target.kind(), &self.target.id())
    }
}

/// Returns the key of an object in the memory: kind and ID.
pub fn key(kind: Kind, id: &str) -> String {
    format!("{}/{id}", kind.as_str())
}

// === impl Kind ===

impl Kind {
    /// All kinds, in the order in which a pass handles them.
    pub const ALL: [Self; 5] = [Self::Container, Self::Sandbox, Self::LogDir, Self::LogLink, Self::Image];

    /// Returns the name of the kind in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Sandbox => "sandbox",
            Self::LogDir => "log_dir",
            Self::LogLink => "log_link",
            Self::Image => "image",
        }
    }
}

// === impl PlanError ===

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
            Self::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent } => write!(
                f,
                "{used_percent} % used, {target_bytes} bytes to free, but all removable images have {estimated_bytes} bytes"
            ),
        }
    }
}
