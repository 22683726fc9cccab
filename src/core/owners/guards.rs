//! The guards of the collection by owner references: each keeps an object that kube-controller-manager would delete.

use std::time::Duration;

/// The guards. The defaults are those of the profile `safe`.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerGuards {
    /// An owner is absent only if a `Status` of the API server names it. Off: any answer with the code 404 is a proof,
    /// even for a version that is not served any more, and then data are deleted.
    pub strict_not_found: bool,
    /// After a conflict, an object is deleted only if its owner references, finalizers and deletionTimestamp are those
    /// of the first read. Off: only the owner references count, so a finalizer `orphan` set in between is lost.
    pub compare_after_conflict: bool,
    /// How long the dependents of an owner with the finalizer `orphan` wait for resources that were never listed. A
    /// dependent that appears later loses its reference. The default is that of kube-controller-manager after its start. 0 = no
    /// wait, and a late dependent is deleted (kubernetes#125796).
    pub orphan_wait: Duration,
    /// In `run`: how many objects of a resource may be deleted in ten minutes if no owner of them was ever seen alive,
    /// before this pauses. Where a twentieth of the resource is more, that counts. 0 = no limit.
    pub brake_count: u64,
}

// === impl OwnerGuards ===

impl OwnerGuards {
    /// Returns the profile of kube-controller-manager: no guard.
    pub fn none() -> Self {
        Self { strict_not_found: false, compare_after_conflict: false, orphan_wait: Duration::ZERO, brake_count: 0 }
    }
}

impl Default for OwnerGuards {
    fn default() -> Self {
        Self {
            strict_not_found: true,
            compare_after_conflict: true,
            orphan_wait: Duration::from_secs(30),
            brake_count: 100,
        }
    }
}
