//! The settings of the controller. The `Default` impls are the only place of the defaults.

use std::time::Duration;

use super::CallLimits;
use crate::kubernetes::LeaseName;
use crate::owners::OwnerGuards;

/// All settings of the collection by owner references.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerSettings {
    /// Limits on the calls of the workers.
    pub calls: CallLimits,
    /// The guards.
    pub guards: OwnerGuards,
    /// How many objects are checked at once. Default 20, as in kube-controller-manager.
    pub workers: u64,
    /// Lists in flight at once. Default 8.
    pub lists: u64,
    /// The interval of discovery. Default 30 s, as in kube-controller-manager.
    pub discovery: Duration,
    /// After this time the API server ends a watch, and the next one begins where it ended. Default 4 min.
    pub watch: Duration,
    /// The Lease of the leader election, with `--leader-elect`.
    pub lease: LeaseName,
    /// How long a start waits for the first list of each resource before objects are checked. Default 30 s.
    pub first_lists: Duration,
}

/// Returns a setting as a number of tasks or calls at once: at least one, and at most as many as make sense.
pub(super) fn at_once(setting: u64) -> usize {
    usize::try_from(setting).unwrap_or(usize::MAX).clamp(1, 10_000)
}

// === impl ControllerSettings ===

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            calls: CallLimits::default(),
            guards: OwnerGuards::default(),
            workers: 20,
            lists: 8,
            discovery: Duration::from_secs(30),
            watch: Duration::from_mins(4),
            lease: LeaseName { namespace: "kubegc-system".to_owned(), name: "kubegc-controller".to_owned() },
            first_lists: Duration::from_secs(30),
        }
    }
}
