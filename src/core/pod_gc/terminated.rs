//! Terminated pods over a limit.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use super::{PodGcPolicy, PodLimit, PodMeta, PodsSnapshot, pod_plan as plan};

/// Returns the terminated pods that exceed a limit, in the order of their deletion, with the first limit they exceed. A limit of 0 is none,
/// as in kube-controller-manager.
pub(super) fn over_limits<'a>(snapshot: &'a PodsSnapshot, policy: &PodGcPolicy) -> Vec<(&'a PodMeta, PodLimit)> {
    let terminated = plan::sorted(snapshot.pods.iter().map(|pod| &**pod).filter(|pod| pod.is_terminated()));
    let mut over = HashMap::new();
    let mut add = |limit, most: u64, group: fn(&PodMeta) -> Option<&str>| {
        let mut counts = HashMap::new();
        for (pod, group) in terminated.iter().rev().filter_map(|pod| Some((pod, group(pod)?))) {
            let count = counts.entry(group).or_insert(0);
            *count += 1;
            if most > 0 && *count > most {
                over.entry(&*pod.uid).or_insert(limit);
            }
        }
    };
    add(PodLimit::TerminatedPodThreshold, policy.terminated_pod_threshold, |_| Some(""));
    add(PodLimit::PerNamespace, policy.per_namespace, |pod| Some(&pod.namespace));
    add(PodLimit::FailedPodThreshold, policy.failed_pod_threshold, |pod| (pod.phase == "Failed").then_some(""));
    let old = |pod: &PodMeta| !policy.max_age.is_zero() && age(pod, snapshot.taken_at).unsigned_abs() > policy.max_age;
    let limit = |pod: &PodMeta| over.get(&*pod.uid).copied().or_else(|| old(pod).then_some(PodLimit::MaxAge));
    terminated.into_iter().filter_map(|pod| Some((pod, limit(pod)?))).collect()
}

/// A time in the future counts as now: a clock that is wrong deletes nothing.
fn age(pod: &PodMeta, now: Timestamp) -> SignedDuration {
    now.duration_since(pod.finished_at.unwrap_or(pod.created_at)).max(SignedDuration::ZERO)
}
