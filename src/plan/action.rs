//! The plan as data: what goes, what stays, and why.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KeepReason, Pressure, Profile, RemoveReason};
use crate::model::{
    ContainerId, ContainerState, ImageId, ListBytes, PodList, PodRef, PodSourceReport, SandboxId, Seen,
};

/// What one pass will do, in order, and why everything else stays.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Plan {
    /// Always `Plan`.
    pub kind: PlanKind,
    /// The document's version, 1.
    pub version: u32,
    /// The snapshot's moment.
    pub taken_at: Timestamp,
    /// The node's name; empty where it is not known.
    #[serde(default)]
    pub node: String,
    /// The rules that were applied.
    pub profile: Profile,
    /// Why everything goes that nothing needs, where it does: a disk that is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// Where the knowledge of pods came from, or why there was none.
    #[serde(default)]
    pub pods: Seen<PodKnowledge>,
    /// The runtime's lists that were received in parts because they are too large for one message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListNote>,
    /// What goes, in the order in which it goes.
    pub actions: Vec<Action>,
    /// What stays.
    #[serde(default)]
    pub kept: Vec<Kept>,
    /// What the image step wants and what it found.
    #[serde(default)]
    pub images: ImageSummary,
    /// Why a step could not do its work.
    #[serde(default)]
    pub errors: Vec<PlanError>,
}

/// The word that begins a plan document.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub enum PlanKind {
    /// The only one.
    #[default]
    Plan,
}

/// Where the knowledge of pods came from.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodKnowledge {
    /// The source, or several together.
    pub source: String,
    /// No pod is missing. Without it nothing counts as deleted (I2).
    #[serde(default)]
    pub complete: bool,
    /// How many pods it named.
    #[serde(default)]
    pub pods: u64,
    /// What each source in use said, and how old that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PodSourceReport>,
    /// Why the kubelet's directories of pods are unavailable; `null` = they are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirs_unavailable: Option<String>,
}

/// A list of the runtime that was received in parts.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ListNote {
    /// Which, as the snapshot names it.
    pub list: String,
    /// How many parts were received.
    pub parts: u64,
    /// Encoded bytes of all parts together.
    pub bytes: u64,
    /// No part is missing.
    pub complete: bool,
    /// What the call for the whole list answered.
    #[serde(default)]
    pub cause: String,
}

/// One removal.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Action {
    /// What goes.
    #[serde(flatten)]
    pub target: Target,
    /// The pod that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Seconds since it was made; for an image since it was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The rule, with the setting's value.
    #[serde(flatten)]
    pub reason: RemoveReason,
}

/// What an action removes.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the words of the document")]
pub enum Target {
    /// A dead container, its log files and its log link; the container last.
    RemoveContainer {
        /// Its id.
        id: ContainerId,
        /// Its name in the pod spec.
        #[serde(default)]
        name: String,
        /// Its state when it was planned. A container that changed since is refused.
        state: ContainerState,
    },
    /// A dead sandbox: stopped, then removed.
    RemoveSandbox {
        /// Its id.
        id: SandboxId,
    },
    /// A pod's log directory with all that is in it.
    RemoveLogDir {
        /// Its path: the pod log root and one name.
        path: PathBuf,
    },
    /// A log link that leads nowhere.
    RemoveLogLink {
        /// Its path: the container log root and one name.
        path: PathBuf,
    },
    /// An image with all its tags.
    RemoveImage {
        /// Its id.
        id: ImageId,
        /// Its tags, for people.
        #[serde(default)]
        tags: Vec<String>,
        /// The runtime's size. What really comes back is measured.
        #[serde(default)]
        estimated_bytes: u64,
    },
}

/// A kind of object, as `kept` names it.
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

/// Something that stays.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Kept {
    /// What it is.
    pub kind: Kind,
    /// Its id; for logs its path.
    pub id: String,
    /// The container's name, or the image's first tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The pod that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The rule, with the setting's value.
    #[serde(flatten)]
    pub reason: KeepReason,
}

/// What set the image step off.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageTrigger {
    /// The disk reached the high threshold.
    PercentUsed,
    /// Images were unused for longer than the maximum age; the disk is below the threshold.
    Age,
    /// Everything unused was asked for.
    AllUnused,
}

/// What the image step wants and what it found.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageSummary {
    /// What set it off; `null` = nothing to do.
    #[serde(default)]
    pub triggered_by: Option<ImageTrigger>,
    /// Used space in percent, rounded up as the kubelet does; `null` = not looked at.
    #[serde(default)]
    pub used_percent: Option<u64>,
    /// Bytes to free to come down to the low threshold.
    #[serde(default)]
    pub target_bytes: u64,
    /// Bytes by which all removable images together, as the runtime counts them, miss the target.
    #[serde(default)]
    pub shortfall_bytes: u64,
    /// Available bytes at which the collection stops; 0 = it does not stop early.
    #[serde(default)]
    pub stop_at_available_bytes: u64,
    /// Next in line, in order: taken only if the measured space is still short when the actions are done (I9).
    #[serde(default)]
    pub reserve: Vec<Action>,
}

/// Why a step could not do its work.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum PlanError {
    /// A list that the step needs could not be had.
    NotSeen {
        /// Which, as the snapshot names it.
        source: String,
        /// Why.
        cause: String,
    },
    /// The image volumes of a container are not known, and neither is its pod's spec: no image is proven unused (I6).
    ImageVolumesUnknown {
        /// The container.
        container: ContainerId,
        /// Its pod.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pod: Option<Box<PodRef>>,
        /// Why its status failed.
        cause: String,
        /// How many other containers are in the same case.
        #[serde(default)]
        others: u64,
    },
    /// The image file system says that it has no bytes (the kubelet's `InvalidDiskCapacity`).
    InvalidDiskCapacity {
        /// The file system.
        mountpoint: PathBuf,
    },
    /// All that may go is not enough (the kubelet's `FreeDiskSpaceFailed`).
    FreeDiskSpaceFailed {
        /// Bytes to free.
        target_bytes: u64,
        /// Bytes that the removable images are said to have.
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
    /// A note for each list that came in parts.
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
    /// Says whether the plan lacks something that could not be observed, rather than something to remove.
    pub fn is_unobserved(&self) -> bool {
        matches!(self, Self::NotSeen { .. } | Self::ImageVolumesUnknown { .. })
    }
}

// === impl Target ===

impl Target {
    /// What kind of object goes.
    pub fn kind(&self) -> Kind {
        match self {
            Self::RemoveContainer { .. } => Kind::Container,
            Self::RemoveSandbox { .. } => Kind::Sandbox,
            Self::RemoveLogDir { .. } => Kind::LogDir,
            Self::RemoveLogLink { .. } => Kind::LogLink,
            Self::RemoveImage { .. } => Kind::Image,
        }
    }

    /// The object's id; for logs its path.
    pub fn id(&self) -> String {
        match self {
            Self::RemoveContainer { id, .. } => id.to_string(),
            Self::RemoveSandbox { id } => id.to_string(),
            Self::RemoveLogDir { path } | Self::RemoveLogLink { path } => path.display().to_string(),
            Self::RemoveImage { id, .. } => id.to_string(),
        }
    }

    /// The container's name or the image's first tag.
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
    /// What the memory knows this object by: kind and id.
    pub fn key(&self) -> String {
        key(self.target.kind(), &self.target.id())
    }
}

/// What the memory knows an object by.
pub fn key(kind: Kind, id: &str) -> String {
    format!("{}/{id}", kind.as_str())
}

// === impl Kind ===

impl Kind {
    /// All kinds, in the order in which a pass treats them.
    pub const ALL: [Self; 5] = [Self::Container, Self::Sandbox, Self::LogDir, Self::LogLink, Self::Image];

    /// The word in documents.
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
            Self::NotSeen { source, cause } => write!(f, "{source} not seen: {cause}"),
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
