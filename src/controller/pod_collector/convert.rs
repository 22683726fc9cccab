//! Pods and nodes of the API server as data of `pod_gc`, and the patch of a pod's status.
//!
//! `observedGeneration` is written if the pod has a generation: an API server that counts the generations of pods has
//! that field too (KEP-5067).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kubernetes::{ApiNode, ApiPod};
use crate::pod_gc::{NodeMeta, PodMark, PodMeta};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Returns what decides about a pod.
pub(super) fn pod(pod: &ApiPod) -> PodMeta {
    let (metadata, status) = (&pod.metadata, &pod.status);
    PodMeta {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        node: pod.spec.node_name.clone().unwrap_or_default(),
        phase: status.phase.clone().unwrap_or_default(),
        reason: status.reason.clone().unwrap_or_default(),
        created_at: metadata.creation_timestamp.unwrap_or_default(),
        finished_at: pod.finished_at(),
        deletion_timestamp: metadata.deletion_timestamp,
        deletion_grace_seconds: metadata.deletion_grace_period_seconds,
        has_finalizers: metadata.finalizers.iter().flatten().next().is_some(),
        is_disrupted: pod.has_condition(DISRUPTION_TARGET),
        // An API server that counts the generations of pods has the field `observedGeneration` too (KEP-5067).
        generation: metadata.generation.filter(|generation| *generation > 0),
    }
}

/// Returns what decides about the pods of a node.
pub(super) fn node(node: &ApiNode) -> NodeMeta {
    NodeMeta {
        name: node.metadata.name.as_str().to_owned(),
        is_ready: node.is_ready(),
        is_out_of_service: node.has_taint(OUT_OF_SERVICE),
    }
}

/// Returns the fields of the status that mark a pod as failed: only what changes, because an apply of the whole status is
/// refused for pods with duplicated names of variables or ports (kubernetes#118261).
pub(super) fn failed_status(mark: &PodMark, now: Timestamp) -> Value {
    let mut status = json!({"phase": "Failed"});
    let conditions = mark.disruption_target.then(|| ("conditions", json!([disruption_target(mark, now)])));
    let generation = mark.generation.map(|generation| ("observedGeneration", json!(generation)));
    extend(&mut status, [conditions, generation]);
    status
}

fn disruption_target(mark: &PodMark, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    });
    // The API has times in whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let transition = (!mark.is_disrupted).then(|| ("lastTransitionTime", json!(now)));
    let generation = mark.generation.map(|generation| ("observedGeneration", json!(generation)));
    extend(&mut condition, [transition, generation]);
    condition
}

fn extend(object: &mut Value, fields: [Option<(&str, Value)>; 2]) {
    if let Some(object) = object.as_object_mut() {
        object.extend(fields.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)));
    }
}
