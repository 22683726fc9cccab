//! The outcome of an action: what `execute` reports about each action of a plan.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::Plan;
use super::action::Action;

/// One action and its outcome.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Report {
    pub action: Action,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Reclaimed bytes. An image is measured on its file system. For log entries, these are the blocks of the removed
    /// files. For a container, they are the same plus the size of its writable layer as the runtime reported it. `null`
    /// = unknown.
    pub freed_bytes: Option<u64>,
    /// How `freed_bytes` was determined.
    #[serde(default)]
    pub measure: Measure,
    /// The pod source that proved the pod deleted, if that is the reason of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_by: Option<String>,
    /// Details: why a path was refused, or which log file was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Until when the content of a removed image is kept for `kubegc undo`; `null` = it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Timestamp>,
}

/// How a number of reclaimed bytes was determined, best first.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[derive(IntoStaticStr, JsonSchema, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Measure {
    /// Measured on the file system, or from the blocks of the removed files.
    Measured,
    /// From sizes that the runtime reported.
    Estimated,
    /// Unknown, at least in part.
    #[default]
    Unknown,
}

/// The outcome of an action.
#[derive(Clone, Debug, IntoStaticStr, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// kubegc removed the object.
    Removed {},
    /// A dry run would have removed the object.
    WouldRemove {},
    /// The object no longer existed: another program or an earlier attempt removed it.
    AlreadyRemoved {},
    /// The recheck right before the removal refused the action.
    Refused {
        /// The reason.
        refusal: Refusal,
    },
    /// The measured free space reached its target before this image was removed.
    NotNeeded {},
    /// The removal failed.
    Failed {
        /// The cause, as text for users.
        error: String,
        /// The cause in one word.
        #[serde(default)]
        cause: FailureCause,
    },
}

/// Why a removal failed, in one word.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[derive(IntoStaticStr, JsonSchema, Deserialize, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FailureCause {
    /// The runtime did not answer in time, or an earlier removal of the object has no answer yet.
    Timeout,
    /// The runtime could not be reached, or the connection broke.
    Unreachable,
    /// The runtime answered with an error.
    Runtime,
    /// The runtime reported a success, but still has the object.
    StillListed,
    /// A file or directory could not be removed, or its file system did not respond.
    FileSystem,
    /// A shutdown ended the wait.
    Shutdown,
    /// A document without the cause.
    #[default]
    Unknown,
}

/// Why a recheck refused an action.
#[derive(Clone, Debug, Eq, IntoStaticStr, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Refusal {
    /// The state of the container is not the planned one. For example, the container started in the meantime (I1).
    StateChanged,
    /// The sandbox is ready (I1).
    Ready,
    /// The sandbox has containers, or the pod of the log directory has objects in the runtime (I1).
    HasContainers,
    /// A container uses the image (I6).
    InUse,
    /// The runtime pinned the image (I6).
    Pinned,
    /// A pod names the image by now (I6).
    NamedByPod,
    /// The path is not directly beneath a configured root, or not the planned kind of entry (I7).
    ForeignPath,
    /// The target of the log symlink exists, or its container has not exited.
    InUseLink,
    /// The pod exists (I11).
    PodPresent,
    /// A live lookup of the pod gave no answer (I2, I11).
    PodNotProven,
    /// A removal of the object is in progress: an earlier one, or one of another client.
    RemovalInProgress,
    /// Another image of its set was not removed, so this removal would reclaim nothing.
    SetIncomplete,
}

// === impl Plan ===

impl Plan {
    /// Puts reports in the order of the plan. They come in the order in which the actions ended, which differs from run to
    /// run. Reports of other actions, those of a saved plan that are not carried out, come first.
    pub fn put_in_order(&self, reports: &mut [Report]) {
        let order: HashMap<_, _> = self.removals().zip(0_usize..).map(|(action, at)| (action.key(), at)).collect();
        reports.sort_by_cached_key(|report| order.get(&report.action.key()).copied());
    }
}

// === impl Report ===

impl Report {
    /// Returns the keys of the objects that no longer exist.
    pub fn removed(reports: &[Self]) -> HashSet<String> {
        let is_removed = |report: &&Self| matches!(report.outcome, Outcome::Removed {} | Outcome::AlreadyRemoved {});
        reports.iter().filter(is_removed).map(|report| report.action.key()).collect()
    }

    /// Returns the reclaimed bytes, only if they were measured.
    pub fn measured_bytes(&self) -> Option<u64> {
        self.freed_bytes.filter(|_| self.measure == Measure::Measured)
    }
}

// === impl Measure ===

impl Measure {
    /// Returns the name of the measure in documents and tables.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

// === impl Outcome ===

impl Outcome {
    /// Returns whether the object does not exist any more, or would not if this were no dry run.
    pub fn is_removal(&self) -> bool {
        matches!(self, Self::Removed {} | Self::WouldRemove {} | Self::AlreadyRemoved {})
    }

    /// Returns the name of the outcome in documents and metric labels.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

// === impl FailureCause ===

impl FailureCause {
    /// Returns the word in documents and metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

// === impl Refusal ===

impl Refusal {
    /// Returns the word in documents and metrics.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

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
            Self::PodNotProven => "the deletion of its pod could not be confirmed",
            Self::RemovalInProgress => "an earlier removal is still in progress",
            Self::SetIncomplete => "an image with the same layers was not removed",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outcomes_and_measures_have_the_names_that_documents_use() {
        let outcomes = [
            Outcome::Removed {},
            Outcome::WouldRemove {},
            Outcome::AlreadyRemoved {},
            Outcome::Refused { refusal: Refusal::InUse },
            Outcome::NotNeeded {},
            Outcome::Failed { error: "busy".to_owned(), cause: FailureCause::Runtime },
        ];
        for outcome in outcomes {
            assert_eq!(json!(outcome)["outcome"], outcome.kind());
        }
        for measure in [Measure::Measured, Measure::Estimated, Measure::Unknown] {
            assert_eq!(json!(measure), measure.as_str());
        }
    }

    #[test]
    fn only_measured_bytes_are_measured() {
        let report = |measure: &str| -> Report {
            let action = json!({ "action": "remove_image", "id": "i", "reason": "unused" });
            let report = json!({ "action": action, "outcome": "removed", "freed_bytes": 9, "measure": measure });
            serde_json::from_value(report).unwrap()
        };
        let bytes = ["measured", "estimated", "unknown"].map(|measure| report(measure).measured_bytes());
        assert_eq!(bytes, [Some(9), None, None]);
    }

    #[test]
    fn a_refusal_says_what_the_recheck_found() {
        assert_eq!(Refusal::StateChanged.to_string(), "its state changed");
        assert_eq!(Refusal::PodPresent.to_string(), "its pod is back");
    }
}
