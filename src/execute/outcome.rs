//! What became of an action.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Action;

/// One action and what became of it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Report {
    /// The action.
    pub action: Action,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Reclaimed bytes. For an image measured on its file system, for log entries the blocks of the removed files, for a
    /// container the same plus the size of its writable layer as the runtime reported it. `null` = unknown.
    #[serde(default)]
    pub freed_bytes: Option<u64>,
    /// How `freed_bytes` was determined.
    #[serde(default)]
    pub measure: Measure,
    /// Who said that the pod is gone, of what went for that reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_by: Option<String>,
    /// What else there is to say: why a path was refused, or which log file was left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How a number of reclaimed bytes was determined, best first.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// On the file system, or from the blocks of the removed files.
    Measured,
    /// From sizes that the runtime reported.
    Estimated,
    /// Not determined, at least in part.
    #[default]
    Unknown,
}

/// What became of an action.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It is gone, and we saw to it.
    Removed {},
    /// A dry run came this far.
    WouldRemove {},
    /// It was gone already: another collector, or an earlier try.
    AlreadyGone {},
    /// The recheck right before found that it must stay.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// The measured space reached its target before this image's turn.
    NotNeeded {},
    /// It could not be removed.
    Failed {
        /// Why, for people.
        error: String,
    },
}

/// Why a recheck refused.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The container's state is not the planned one, as one that started meanwhile (I1).
    StateChanged,
    /// The sandbox is ready (I1).
    Ready,
    /// The sandbox has containers, or the log directory's pod is in the runtime (I1).
    HasContainers,
    /// A container uses the image (I6).
    InUse,
    /// The runtime pinned the image (I6).
    Pinned,
    /// A pod names the image by now (I6).
    NamedByPod,
    /// The path is not directly beneath a configured root, or not the kind of entry that was planned (I7).
    ForeignPath,
    /// The link leads somewhere, or its container has not ended.
    InUseLink,
    /// The pod is back, or was never away (I11).
    PodPresent,
    /// Asked anew whether the pod still exists, its source gave no answer (I2, I11).
    PodNotProven,
    /// An earlier removal of the object has no answer yet.
    RemovalInProgress,
}

// === impl Report ===

impl Report {
    /// Reclaimed bytes, only if they were measured.
    pub fn measured_bytes(&self) -> Option<u64> {
        self.freed_bytes.filter(|_| self.measure == Measure::Measured)
    }
}

// === impl Measure ===

impl Measure {
    /// The word in documents and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
            Self::Unknown => "unknown",
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// The word in documents, and a metric's label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Removed {} => "removed",
            Self::WouldRemove {} => "would_remove",
            Self::AlreadyGone {} => "already_gone",
            Self::Refused { .. } => "refused",
            Self::NotNeeded {} => "not_needed",
            Self::Failed { .. } => "failed",
        }
    }
}

// === impl Refusal ===

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::StateChanged => "its state changed",
            Self::Ready => "the sandbox is ready",
            Self::HasContainers => "it has containers",
            Self::InUse => "a container uses it",
            Self::Pinned => "it is pinned",
            Self::NamedByPod => "a pod names it",
            Self::ForeignPath => "the path is not ours",
            Self::InUseLink => "the link is in use",
            Self::PodPresent => "its pod is back",
            Self::PodNotProven => "it could not be proven that its pod is gone",
            Self::RemovalInProgress => "an earlier removal is still in progress",
        })
    }
}
