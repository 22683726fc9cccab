//! Decides which pods are deleted because no kubelet finishes them: terminated pods over a limit, pods of nodes that
//! are out of service or deleted, and pods in deletion that no node runs. Pure: no clock, no I/O, no async.
//!
//! The rules are those of the pod garbage collector of kube-controller-manager 1.36, in its order. What goes beyond them
//! is a setting in [`PodGcPolicy`].

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod nodes;
mod policy;
mod snapshot;
mod terminated;

use std::collections::{BTreeSet, HashSet};

pub use nodes::{MissingNodes, NodeAnswer};
pub use policy::{PodGcPolicy, PodOrder};
pub use snapshot::{NodeMeta, PodMeta, PodsSnapshot};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One pod to delete.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PodAction {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid, a precondition of the deletion.
    pub uid: String,
    /// Why.
    pub reason: PodReason,
    /// Before the deletion, the phase becomes Failed: the pod has not terminated, and no kubelet will report that.
    pub marks_failed: bool,
    /// With the phase, the condition `DisruptionTarget` is set.
    pub marks_disrupted: bool,
}

/// Why a pod is deleted. The words are the values of the label `reason` of kube-controller-manager's metrics.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PodReason {
    /// It has terminated, and there are more such pods than the limit.
    Terminated,
    /// It is in deletion, and its node is not ready and has the taint `node.kubernetes.io/out-of-service`.
    OutOfService,
    /// Its node was deleted.
    Orphaned,
    /// It is in deletion and has no node.
    Unscheduled,
}

/// Returns the pods to delete, in order. `deleted_nodes` are the nodes that a live read proved deleted.
pub fn plan(snapshot: &PodsSnapshot, deleted_nodes: &BTreeSet<String>, policy: &PodGcPolicy) -> Vec<PodAction> {
    let out_of_service = snapshot.nodes.iter().filter(|node| node.is_out_of_service && !node.is_ready);
    let out_of_service: HashSet<_> = out_of_service.map(|node| node.name.as_str()).collect();
    let terminating = |pod: &&PodMeta| pod.deletion_timestamp.is_some();
    let of = |reason, pods: Vec<&PodMeta>| pods.into_iter().map(move |pod| action(pod, reason)).collect::<Vec<_>>();
    let steps = [
        of(PodReason::Terminated, terminated::over_limits(snapshot, policy)),
        of(
            PodReason::OutOfService,
            sorted(snapshot.pods.iter().filter(terminating).filter(|pod| out_of_service.contains(&*pod.node))),
        ),
        of(PodReason::Orphaned, snapshot.pods.iter().filter(|pod| deleted_nodes.contains(&pod.node)).collect()),
        of(
            PodReason::Unscheduled,
            snapshot.pods.iter().filter(terminating).filter(|pod| pod.node.is_empty()).collect(),
        ),
    ];
    let mut seen = HashSet::new();
    let held: HashSet<_> =
        snapshot.pods.iter().filter(|pod| policy.skip_held && pod.is_held()).map(|pod| &pod.uid).collect();
    let actions = steps.into_iter().flatten();
    actions.filter(|action| !held.contains(&action.uid) && seen.insert(action.uid.clone())).collect()
}

fn action(pod: &PodMeta, reason: PodReason) -> PodAction {
    // A terminated pod has its final phase; a pod that step 1 selects has no phase to lose.
    let marks_failed = reason != PodReason::Terminated && !pod.has_finished();
    PodAction {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        reason,
        marks_failed,
        marks_disrupted: marks_failed && reason == PodReason::Orphaned,
    }
}

/// Evicted pods first, then the oldest, then by name.
fn sorted<'a>(pods: impl Iterator<Item = &'a PodMeta>) -> Vec<&'a PodMeta> {
    let mut pods: Vec<_> = pods.collect();
    pods.sort_by_key(|pod| (!pod.is_evicted(), pod.created_at, &pod.name, &pod.namespace));
    pods
}

#[cfg(test)]
mod tests;
