//! The plan for pods as a document: what is deleted, what is kept, and why.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which pods are deleted, and which are kept although a rule concerns them.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PodPlan {
    pub taken_at: Timestamp,
    /// The address of the API server, and the credentials.
    pub server: String,
    pub actions: Vec<PodAction>,
    /// The pods that a rule concerns and that are kept for now, by namespace and name.
    pub kept: Vec<PodKept>,
    /// What could not be read, so that the plan may lack something.
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PodAction {
    pub namespace: String,
    pub name: String,
    /// The uid, a precondition of the deletion.
    pub uid: String,
    /// The name of its node; empty = not scheduled.
    pub node: String,
    pub reason: PodReason,
    /// Of a terminated pod: the limit that it exceeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PodLimit>,
    /// What its status says before the deletion; `None` = its status does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<PodMark>,
}

/// Why a pod is deleted. The words are the values of the label `reason` of kube-controller-manager's metrics.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[derive(Deserialize, JsonSchema, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PodReason {
    /// It has terminated, and there are more such pods than a limit.
    Terminated,
    /// It is in deletion, and its node is not ready and has the taint `node.kubernetes.io/out-of-service`.
    OutOfService,
    /// Its node was deleted.
    Orphaned,
    /// It is in deletion and has no node.
    Unscheduled,
}

/// A limit on terminated pods. The words are those of the settings.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PodLimit {
    /// Of the whole cluster.
    TerminatedPodThreshold,
    /// Of each namespace.
    PerNamespace,
    /// On pods in the phase Failed.
    FailedPodThreshold,
    /// On the time since the pod finished.
    MaxAge,
}

/// The phase becomes Failed before the deletion: the pod has not terminated, and no kubelet will report that.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PodMark {
    /// The condition `DisruptionTarget` is set.
    pub disruption_target: bool,
    /// That condition is already true, so the time of its last transition does not change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_disrupted: bool,
    /// The generation of the pod, written as `observedGeneration`. `None` = the API server does not count generations of
    /// pods, so it does not know that field either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// A pod that a rule concerns and that is kept.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PodKept {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The name of its node; empty = not scheduled.
    pub node: String,
    pub reason: PodKeepReason,
    /// Of a node in quarantine: since when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[derive(Deserialize, JsonSchema, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PodKeepReason {
    /// It is already deleted without a grace period, and finalizers hold it.
    HeldByFinalizers,
    /// The list of nodes lacks its node, for less than the quarantine.
    NodeInQuarantine,
    /// The list of nodes lacks its node, and a live read found the node.
    NodeExists,
    /// The live read of its node failed.
    NodeUnverified,
    /// It is in deletion, and its node has the taint `node.kubernetes.io/out-of-service` and is ready.
    NodeReady,
    /// It was to be deleted because of that taint, and a live read shows that the node does not have it any more.
    TaintRemoved,
    /// It was to be deleted because of that taint, and a live read shows that the node does not exist any more.
    NodeDeleted,
}

// === impl PodAction ===

impl PodAction {
    /// Returns the pod as one that is kept.
    pub fn kept(&self, reason: PodKeepReason) -> PodKept {
        let Self { namespace, name, uid, node, .. } = self.clone();
        PodKept { namespace, name, uid, node, reason, since: None }
    }
}
