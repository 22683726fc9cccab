//! The pods and nodes of a cluster, as plain data: only what decides.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods and nodes at one moment.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct PodsSnapshot {
    /// When the first list began.
    pub taken_at: Timestamp,
    /// The address of the API server, and the credentials.
    #[serde(default)]
    pub server: String,
    /// All pods. The service keeps each pod once, for all its passes.
    pub pods: Vec<Arc<PodMeta>>,
    pub nodes: Vec<NodeMeta>,
}

/// What decides about a pod.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct PodMeta {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The name of its node; empty = not scheduled.
    pub node: String,
    /// As `Running`; empty if the API server returned none.
    pub phase: String,
    /// `status.reason`, as `Evicted`.
    pub reason: String,
    pub created_at: Timestamp,
    /// When its last container terminated, if that is known.
    pub finished_at: Option<Timestamp>,
    /// When its deletion is to be complete.
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period of its deletion, in seconds.
    pub deletion_grace_seconds: Option<i64>,
    pub has_finalizers: bool,
    /// The condition `DisruptionTarget` is `True`.
    pub is_disrupted: bool,
    /// Its generation. API servers before 1.33 do not count it.
    pub generation: Option<i64>,
}

/// What decides about the pods of a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct NodeMeta {
    pub name: String,
    /// The condition `Ready` is `True`. A node without that condition is not ready.
    pub is_ready: bool,
    /// It has a taint `node.kubernetes.io/out-of-service`, whatever its effect and value.
    pub is_out_of_service: bool,
}

// === impl PodMeta ===

impl PodMeta {
    /// Returns whether all its containers have terminated for good. As in kube-controller-manager, an empty phase
    /// counts as terminated.
    pub fn is_terminated(&self) -> bool {
        !matches!(&*self.phase, "Pending" | "Running" | "Unknown")
    }

    pub fn has_finished(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub fn is_evicted(&self) -> bool {
        self.phase == "Failed" && self.reason == "Evicted"
    }

    /// Returns whether it is already deleted without a grace period, so that only a finalizer holds it. A further
    /// deletion changes nothing (kubernetes#141190).
    pub fn is_held(&self) -> bool {
        self.is_terminating() && self.deletion_grace_seconds == Some(0) && self.has_finalizers
    }
}
