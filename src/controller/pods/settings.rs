//! The settings of the collection of pods. The `Default` impls are the only place of the defaults.

use std::time::Duration;

use crate::controller::CallLimits;
use crate::pod_gc::PodGcPolicy;

/// All settings of the collection of pods.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGcSettings {
    /// Limits on the calls.
    pub calls: CallLimits,
    /// Which pods are deleted.
    pub policy: PodGcPolicy,
    /// A node is deleted only if a `Status` of the API server names it. Off: any answer with the code 404 is a proof.
    pub strict_not_found: bool,
    /// How many pods are deleted, and nodes read, at once. Default 20.
    pub workers: u64,
    /// The time between the end of a pass and the next one. Default 20 s, as in kube-controller-manager.
    pub interval: Duration,
    /// After this time the API server ends a watch, and the next one begins where it ended. Default 4 min.
    pub watch: Duration,
}

// === impl PodGcSettings ===

impl Default for PodGcSettings {
    fn default() -> Self {
        Self {
            calls: CallLimits::default(),
            policy: PodGcPolicy::default(),
            strict_not_found: true,
            workers: 20,
            interval: Duration::from_secs(20),
            watch: Duration::from_mins(4),
        }
    }
}
