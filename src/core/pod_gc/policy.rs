//! The settings of pod collection.

use std::time::Duration;

/// The settings. The defaults are those of the profile `safe`.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGcPolicy {
    /// The most terminated pods in the cluster; 0 = no limit. Default 12,500, as in kube-controller-manager.
    pub terminated_pod_threshold: u64,
    /// The most terminated pods in a namespace; 0 = no limit, the default.
    pub per_namespace: u64,
    /// The most pods in the phase Failed; 0 = no limit, the default.
    pub failed_pod_threshold: u64,
    /// The longest time since a terminated pod finished, or since its creation if that is unknown; 0 = no limit,
    /// the default.
    pub max_age: Duration,
    /// Pods that are already deleted and wait for a finalizer are left out. Off: they are deleted again in each pass
    /// (kubernetes#141190).
    pub skip_held: bool,
    /// A pod is deleted only if it has the uid of the plan. Off: a new pod of the same name is deleted.
    pub uid_precondition: bool,
    /// Before a pod is deleted because its node is out of service, its node is read again, and the pod is kept if the
    /// node is ready or has lost the taint (kubernetes#141887).
    pub recheck_nodes: bool,
    /// In `run`: no pass while the pods or the nodes cannot be watched, because what is known of them may be old.
    pub require_watches: bool,
    /// How long a node must be missing before a live read may prove it deleted. Default 40 s.
    pub node_quarantine: Duration,
}

// === impl PodGcPolicy ===

impl PodGcPolicy {
    /// Returns the rules of kube-controller-manager and nothing more.
    pub fn upstream() -> Self {
        Self {
            skip_held: false,
            uid_precondition: false,
            recheck_nodes: false,
            require_watches: false,
            ..Self::default()
        }
    }
}

impl Default for PodGcPolicy {
    fn default() -> Self {
        Self {
            terminated_pod_threshold: 12_500,
            per_namespace: 0,
            failed_pod_threshold: 0,
            max_age: Duration::ZERO,
            skip_held: true,
            uid_precondition: true,
            recheck_nodes: true,
            require_watches: true,
            node_quarantine: Duration::from_secs(40),
        }
    }
}
