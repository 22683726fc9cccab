//! Which pods are deleted, in the order of kube-controller-manager, and which are kept although a rule concerns them.

use std::collections::HashSet;

use super::nodes::{NodeAnswer, NodeState, NodeStates};
use super::pod_document::{PodAction, PodKeepReason, PodKept, PodLimit, PodMark, PodPlan, PodReason};
use super::{NodeMeta, PodGcPolicy, PodMeta, PodsSnapshot, terminated};

type Selected<'a> = (&'a PodMeta, PodReason, Option<PodLimit>);

/// Plans the pods of a cluster. `missing` has the state of each node that pods name and the list of nodes lacks.
pub fn plan(snapshot: &PodsSnapshot, missing: &NodeStates, policy: &PodGcPolicy) -> PodPlan {
    let mut selected = selected(snapshot, missing, policy);
    let mut seen = HashSet::new();
    selected.retain(|(pod, ..)| seen.insert(&*pod.uid));
    let (held, selected): (Vec<_>, Vec<_>) = selected.into_iter().partition(|it| policy.skip_held && is_held(it));
    let mut kept: Vec<_> = held.into_iter().map(|(pod, ..)| keep(pod, PodKeepReason::HeldByFinalizers)).collect();
    kept.extend(waiting(snapshot, missing, &seen));
    kept.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    PodPlan {
        taken_at: snapshot.taken_at,
        server: snapshot.server.clone(),
        actions: selected.into_iter().map(action).collect(),
        kept,
        errors: missing.values().filter_map(NodeState::error).map(str::to_owned).collect(),
    }
}

/// Returns why a pod that was selected because of its node is kept, after a live read of the node; `None` = it is
/// deleted (kubernetes#141887).
pub fn recheck_node(reason: PodReason, answer: &NodeAnswer) -> Option<PodKeepReason> {
    match answer {
        NodeAnswer::NotFound if reason == PodReason::Orphaned => None,
        NodeAnswer::Exists(_) if reason == PodReason::Orphaned => Some(PodKeepReason::NodeExists),
        NodeAnswer::Exists(node) if node.is_ready => Some(PodKeepReason::NodeReady),
        NodeAnswer::Exists(node) if !node.is_out_of_service => Some(PodKeepReason::TaintRemoved),
        NodeAnswer::Exists(_) => None,
        NodeAnswer::NotFound => Some(PodKeepReason::NodeDeleted),
        NodeAnswer::Unavailable(_) => Some(PodKeepReason::NodeUnverified),
    }
}

/// Returns what the four steps select. A pod can be in several.
fn selected<'a>(snapshot: &'a PodsSnapshot, missing: &NodeStates, policy: &PodGcPolicy) -> Vec<Selected<'a>> {
    let out_of_service: HashSet<_> = tainted(snapshot).filter(|node| !node.is_ready).map(|node| &*node.name).collect();
    let is_deleted = |node: &str| missing.get(node) == Some(&NodeState::Deleted);
    let over_limits = terminated::over_limits(snapshot, policy).into_iter();
    let mut selected: Vec<_> = over_limits.map(|(pod, limit)| (pod, PodReason::Terminated, Some(limit))).collect();
    let mut step = |reason, selects: &dyn Fn(&PodMeta) -> bool| {
        let pods = snapshot.pods.iter().map(|pod| &**pod).filter(|pod| selects(pod));
        selected.extend(sorted(pods).into_iter().map(|pod| (pod, reason, None)));
    };
    step(PodReason::OutOfService, &|pod| pod.is_terminating() && out_of_service.contains(&*pod.node));
    step(PodReason::Orphaned, &|pod| is_deleted(&pod.node));
    step(PodReason::Unscheduled, &|pod| pod.is_terminating() && pod.node.is_empty());
    selected
}

/// Returns the pods that no step selects yet because of the state of their node.
fn waiting(snapshot: &PodsSnapshot, missing: &NodeStates, selected: &HashSet<&str>) -> Vec<PodKept> {
    let ready: HashSet<_> = tainted(snapshot).filter(|node| node.is_ready).map(|node| &*node.name).collect();
    let reason = |pod: &PodMeta| match missing.get(&pod.node) {
        Some(NodeState::InQuarantine(_)) => Some(PodKeepReason::NodeInQuarantine),
        Some(NodeState::Exists) => Some(PodKeepReason::NodeExists),
        Some(NodeState::Unavailable(_)) => Some(PodKeepReason::NodeUnverified),
        _ => (pod.is_terminating() && ready.contains(&*pod.node)).then_some(PodKeepReason::NodeReady),
    };
    let since = |pod: &PodMeta| match missing.get(&pod.node) {
        Some(NodeState::InQuarantine(since)) => Some(*since),
        _ => None,
    };
    let others = snapshot.pods.iter().filter(|pod| !selected.contains(&*pod.uid));
    others.filter_map(|pod| Some(PodKept { since: since(pod), ..keep(pod, reason(pod)?) })).collect()
}

fn tainted(snapshot: &PodsSnapshot) -> impl Iterator<Item = &NodeMeta> {
    snapshot.nodes.iter().filter(|node| node.is_out_of_service)
}

/// A held pod without a final phase is marked once more: the owner of its finalizer may wait for that phase, as the Job
/// controller does.
fn is_held((pod, reason, _): &Selected<'_>) -> bool {
    pod.is_held() && mark(pod, *reason).is_none()
}

fn mark(pod: &PodMeta, reason: PodReason) -> Option<PodMark> {
    // A terminated pod has its final phase; a pod that the first step selects has no phase to lose.
    (reason != PodReason::Terminated && !pod.has_finished()).then(|| PodMark {
        disruption_target: reason == PodReason::Orphaned,
        is_disrupted: pod.is_disrupted,
        generation: pod.generation,
    })
}

fn action((pod, reason, limit): Selected<'_>) -> PodAction {
    PodAction {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
        reason,
        limit,
        mark: mark(pod, reason),
    }
}

fn keep(pod: &PodMeta, reason: PodKeepReason) -> PodKept {
    PodKept {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
        reason,
        since: None,
    }
}

/// Evicted pods first, then the oldest, then by name.
pub(super) fn sorted<'a>(pods: impl Iterator<Item = &'a PodMeta>) -> Vec<&'a PodMeta> {
    let mut pods: Vec<_> = pods.collect();
    pods.sort_by_key(|pod| (!pod.is_evicted(), pod.created_at, &pod.name, &pod.namespace));
    pods
}
