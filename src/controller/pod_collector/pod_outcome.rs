//! What a pass over the pods did, as data.

use schemars::JsonSchema;
use serde::Serialize;

use crate::metrics::ControllerMetrics;
use crate::pod_gc::{PodAction, PodKept};

#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct PodReport {
    pub outcomes: Vec<PodOutcome>,
    /// The pods that a rule concerns and that are kept for now.
    pub kept: Vec<PodKept>,
    /// The pods that could not be marked as failed or deleted.
    pub failures: Vec<PodFailure>,
    /// What could not be read, so that pods may be left.
    pub errors: Vec<String>,
    /// It was ended by a signal.
    pub interrupted: bool,
}

/// One action on a pod, and its result.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PodOutcome {
    #[serde(flatten)]
    pub action: PodAction,
    pub result: PodResult,
}

/// The result of an action on a pod.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PodResult {
    /// The pod does not exist any more.
    Removed,
    /// Its deletion has begun; finalizers hold the pod.
    Accepted,
    AlreadyDeleted,
    /// A precondition failed: another pod has this name now, or the pod was changed at the same moment. The next pass
    /// decides again.
    Refused,
    DryRun,
}

/// A pod that could not be marked as failed or deleted.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PodFailure {
    #[serde(flatten)]
    pub action: PodAction,
    pub cause: String,
}

/// News for the log and for metrics.
#[derive(Clone, Copy, Debug)]
pub enum PodNotice<'a> {
    Done(&'a PodOutcome),
    /// An action failed. `is_new` = for the first time, or for another cause than in the last pass.
    Failed {
        failure: &'a PodFailure,
        is_new: bool,
    },
}

// === impl PodResult ===

impl PodResult {
    pub fn is_deletion(self) -> bool {
        matches!(self, Self::Removed | Self::Accepted)
    }
}

// === impl PodNotice ===

impl PodNotice<'_> {
    /// Counts and logs an act or a failure.
    pub fn count_and_log(&self, metrics: &ControllerMetrics) {
        match self {
            Self::Done(PodOutcome { action, result }) if result.is_deletion() => {
                metrics.pod_deleted(action.reason.into());
            }
            Self::Done(_) => {}
            Self::Failed { failure, .. } => {
                metrics.pod_failed(failure.action.reason.into());
            }
        }
        self.log();
    }

    /// Logs one line for each act, and for each failure that is new.
    pub fn log(&self) {
        match self {
            Self::Done(PodOutcome { action, result }) if !result.is_deletion() => {
                let PodAction { namespace, name, uid, node, reason, .. } = action;
                tracing::debug!(namespace, name, uid, node, %reason, %result, "pod not deleted");
            }
            Self::Done(PodOutcome { action, result }) => {
                let PodAction { namespace, name, uid, node, reason, limit, mark } = action;
                let (limit, marked_failed) = (limit.map(|limit| limit.to_string()), mark.is_some());
                tracing::info!(namespace, name, uid, node, %reason, limit, marked_failed, %result, "pod deleted");
            }
            Self::Failed { failure: PodFailure { action, cause }, is_new: true } => {
                let PodAction { namespace, name, uid, node, reason, .. } = action;
                tracing::warn!(namespace, name, uid, node, %reason, cause, "cannot delete pod");
            }
            Self::Failed { .. } => {}
        }
    }
}
