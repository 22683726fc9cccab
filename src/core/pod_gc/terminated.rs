//! Terminated pods over a limit.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};

use super::{PodGcPolicy, PodLimit, PodMeta, PodsSnapshot, pod_plan as plan};

/// Returns the terminated pods that exceed a limit, in the order of their deletion, with the first limit they exceed.
pub(super) fn over_limits<'a>(snapshot: &'a PodsSnapshot, policy: &PodGcPolicy) -> Vec<(&'a PodMeta, PodLimit)> {
    let terminated = plan::sorted(snapshot.pods.iter().map(|pod| &**pod).filter(|pod| pod.is_terminated()));
    let failed: Vec<_> = terminated.iter().copied().filter(|pod| pod.phase == "Failed").collect();
    let is_old =
        |pod: &&PodMeta| !policy.max_age.is_zero() && age(pod, snapshot.taken_at).unsigned_abs() > policy.max_age;
    let old: Vec<_> = terminated.iter().copied().filter(is_old).collect();
    let mut by_namespace = BTreeMap::<_, Vec<_>>::new();
    for pod in &terminated {
        by_namespace.entry(&pod.namespace).or_default().push(*pod);
    }
    let mut over = HashMap::new();
    let mut add = |pods: &[&'a PodMeta], limit| {
        for pod in pods {
            over.entry(&*pod.uid).or_insert(limit);
        }
    };
    add(first(&terminated, policy.terminated_pod_threshold), PodLimit::TerminatedPodThreshold);
    for pods in by_namespace.values() {
        add(first(pods, policy.per_namespace), PodLimit::PerNamespace);
    }
    add(first(&failed, policy.failed_pod_threshold), PodLimit::FailedPodThreshold);
    add(&old, PodLimit::MaxAge);
    terminated.into_iter().filter_map(|pod| Some((pod, *over.get(&*pod.uid)?))).collect()
}

/// Returns the pods that exceed a limit: the first ones. A limit of 0 is none, as in kube-controller-manager.
fn first<'p, 'a>(pods: &'p [&'a PodMeta], limit: u64) -> &'p [&'a PodMeta] {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let over = if limit == 0 { 0 } else { pods.len().saturating_sub(limit) };
    pods.get(..over).unwrap_or_default()
}

/// A time in the future counts as now: a clock that is wrong deletes nothing.
fn age(pod: &PodMeta, now: Timestamp) -> SignedDuration {
    now.duration_since(pod.finished_at.unwrap_or(pod.created_at)).max(SignedDuration::ZERO)
}
