//! The settings of the controller. The `Default` impls are the only place of the defaults.

use std::time::Duration;

use super::calls::CallLimits;
use super::collect::object_rules::ObjectRules;
use crate::kubernetes::LeaseName;
use crate::owners::OwnerGuards;

/// How many objects are checked at once, pods deleted and nodes read: as in kube-controller-manager. More would only wait
/// for the limits on calls.
pub(super) const WORKERS: usize = 20;
/// Lists in flight at once: the API server holds each in memory.
pub(super) const LISTS: usize = 8;
/// After this time the API server ends a watch, and the next one begins where it ended. kube's client permits no more than
/// 295 s.
pub(super) const WATCH: Duration = Duration::from_mins(4);

/// All settings of the collection by owner references.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerSettings {
    pub calls: CallLimits,
    pub guards: OwnerGuards,
    /// The interval of discovery. Default 30 s, as in kube-controller-manager.
    pub discovery: Duration,
    /// The Lease of the leader election, with `--leader-elect`.
    pub lease: LeaseName,
    /// What deletes objects by their metadata and age. Default: nothing.
    pub rules: ObjectRules,
    /// Ends the deletions of namespaces too, which needs all resources. Default off.
    pub namespaces: bool,
    /// How long a start waits for the first list of each resource before objects are checked. Default 30 s.
    pub first_lists: Duration,
}

// === impl ControllerSettings ===

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            calls: CallLimits::default(),
            guards: OwnerGuards::default(),
            discovery: Duration::from_secs(30),
            lease: LeaseName { namespace: "kubegc-system".to_owned(), name: "kubegc-controller".to_owned() },
            rules: ObjectRules::default(),
            namespaces: false,
            first_lists: Duration::from_secs(30),
        }
    }
}
