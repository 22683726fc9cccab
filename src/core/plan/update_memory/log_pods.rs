//! The pods that rules for logs ask about. Such a rule decides when a pod is deleted, so what it asks must be known from before.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::model::{LogDir, Pod, PodUid, Seen, Snapshot};
use crate::plan::policy::Policy;
use crate::rules::Rule;

/// The most deleted pods. More log directories of that many deleted pods are rare, and the memory is copied for each change.
const MOST_DELETED: usize = 1_000;

/// Returns the listed pods, and the deleted ones that have a log directory, each as it was last seen.
pub(super) fn remember(snapshot: &Snapshot, policy: &Policy) -> Arc<Vec<Pod>> {
    let before = &snapshot.memory.log_pods;
    if !policy.rules.iter().any(Rule::asks_pods_of_logs) {
        return Arc::default();
    }
    let mut pods: BTreeMap<&PodUid, Pod> = before.iter().map(|pod| (&pod.uid, pod.clone())).collect();
    let listed = snapshot.pods.as_ref().map(|list| &list.pods[..]).unwrap_or_default();
    let mut exist = HashSet::new();
    for pod in listed {
        exist.insert(&pod.uid);
        let known = pods.remove(&pod.uid).filter(|known| known.identity() == pod.identity());
        // Not every pass reads the details.
        let details = pod.details.clone().or_else(|| known.and_then(|known| known.details));
        pods.insert(&pod.uid, Pod { details, images: Vec::new(), ..pod.clone() });
    }
    if let Seen::Seen(dirs) = &snapshot.log_dirs {
        let has_logs: HashSet<PodUid> = dirs.iter().map(LogDir::pod_uid).collect();
        pods.retain(|uid, _| exist.contains(uid) || has_logs.contains(uid));
    }
    let mut left = MOST_DELETED;
    pods.retain(|uid, _| exist.contains(uid) || left.checked_sub(1).map(|rest| left = rest).is_some());
    let pods: Vec<_> = pods.into_values().collect();
    if pods == **before { Arc::clone(before) } else { Arc::new(pods) }
}
