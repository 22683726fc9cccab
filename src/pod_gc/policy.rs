//! The settings of pod collection.

use std::time::Duration;

/// The settings. The defaults are those of the profile `safe`.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGcPolicy {
    /// The most terminated pods in the cluster; `None` = no limit. Default 12,500, as in kube-controller-manager.
    pub terminated_pod_threshold: Option<usize>,
    /// The most terminated pods in a namespace; `None` = no limit, the default.
    pub per_namespace: Option<usize>,
    /// The most pods in the phase Failed; `None` = no limit, the default.
    pub failed_pod_threshold: Option<usize>,
    /// The longest time since a terminated pod finished, or since its creation if that is unknown; `None` = no limit,
    /// the default.
    pub max_age: Option<Duration>,
    /// Which terminated pods are deleted first.
    pub order: PodOrder,
    /// Pods that are already deleted and wait for a finalizer are left out.
    pub skip_held: bool,
    /// How long a node must be missing before a live read may prove it deleted. Default 40 s.
    pub node_quarantine: Duration,
}

/// Which terminated pods are deleted first. Evicted pods always come before others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PodOrder {
    /// The oldest by creation, as in kube-controller-manager.
    #[default]
    Created,
    /// Those that finished first.
    Finished,
}

// === impl PodGcPolicy ===

impl PodGcPolicy {
    /// Returns the rules of kube-controller-manager and nothing more.
    pub fn upstream() -> Self {
        Self { skip_held: false, ..Self::default() }
    }
}

impl Default for PodGcPolicy {
    fn default() -> Self {
        Self {
            terminated_pod_threshold: Some(12_500),
            per_namespace: None,
            failed_pod_threshold: None,
            max_age: None,
            order: PodOrder::Created,
            skip_held: true,
            node_quarantine: Duration::from_secs(40),
        }
    }
}
