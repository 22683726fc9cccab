//! The settings of the collection of pods. The `Default` impls are the only place of the defaults.

use std::time::Duration;

use crate::controller::calls::CallLimits;
use crate::pod_gc::PodGcPolicy;

#[derive(Clone, Debug, PartialEq)]
pub struct PodGcSettings {
    pub calls: CallLimits,
    pub policy: PodGcPolicy,
    /// A node is deleted only if a `Status` of the API server names it. Off: any answer with the code 404 is a proof.
    pub strict_not_found: bool,
    /// The time between the end of a pass and the next one. Default 20 s, as in kube-controller-manager.
    pub interval: Duration,
}

// === impl PodGcSettings ===

impl Default for PodGcSettings {
    fn default() -> Self {
        Self {
            calls: CallLimits::default(),
            policy: PodGcPolicy::default(),
            strict_not_found: true,
            interval: Duration::from_secs(20),
        }
    }
}
