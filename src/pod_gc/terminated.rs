//! Terminated pods over a limit.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};

use super::{PodGcPolicy, PodMeta, PodOrder, PodsSnapshot};

/// Returns the terminated pods that exceed a limit, in the order of their deletion.
pub(super) fn over_limits<'a>(snapshot: &'a PodsSnapshot, policy: &PodGcPolicy) -> Vec<&'a PodMeta> {
    let terminated = sorted(snapshot, policy.order);
    let mut by_namespace = BTreeMap::<_, Vec<_>>::new();
    for pod in &terminated {
        by_namespace.entry(&pod.namespace).or_default().push(*pod);
    }
    let failed: Vec<_> = terminated.iter().copied().filter(|pod| pod.phase == "Failed").collect();
    let of_namespaces = by_namespace.values().flat_map(|pods| first(pods, policy.per_namespace));
    let over: HashSet<_> = first(&terminated, policy.terminated_pod_threshold)
        .iter()
        .chain(first(&failed, policy.failed_pod_threshold))
        .chain(of_namespaces)
        .map(|pod| &pod.uid)
        .collect();
    let is_old = |pod: &PodMeta| policy.max_age.is_some_and(|max| age(pod, snapshot.taken_at).unsigned_abs() > max);
    terminated.into_iter().filter(|pod| over.contains(&pod.uid) || is_old(pod)).collect()
}

/// Returns the pods that exceed a limit: the first ones.
fn first<'p, 'a>(pods: &'p [&'a PodMeta], limit: Option<usize>) -> &'p [&'a PodMeta] {
    let over = limit.map_or(0, |limit| pods.len().saturating_sub(limit));
    pods.get(..over).unwrap_or_default()
}

fn sorted(snapshot: &PodsSnapshot, order: PodOrder) -> Vec<&PodMeta> {
    let mut pods = super::sorted(snapshot.pods.iter().filter(|pod| pod.is_terminated()));
    if order == PodOrder::Finished {
        pods.sort_by_key(|pod| (!pod.is_evicted(), finished_at(pod)));
    }
    pods
}

fn finished_at(pod: &PodMeta) -> Timestamp {
    pod.finished_at.unwrap_or(pod.created_at)
}

/// A time in the future counts as now: a clock that is wrong deletes nothing.
fn age(pod: &PodMeta, now: Timestamp) -> SignedDuration {
    now.duration_since(finished_at(pod)).max(SignedDuration::ZERO)
}
