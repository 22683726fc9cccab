//! Decides what happens to one object, from a live read of it and of its owners. The graph supplies the dependents.
//!
//! An owner is absent only if the API server itself says so: a `Status` with code 404, reason `NotFound`, the name,
//! and the resource or none. A 404 for a version that is not served has no name. kube-controller-manager takes it for
//! a proof and deletes the dependents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

use super::Dependent;
use crate::model::{FOREGROUND, Identity, ORPHAN, ObjectMeta, OwnerReference, Uid};

/// What a live read shows about the owner that a reference means.
#[derive(Clone, Debug, Eq, IntoStaticStr, PartialEq)]
#[strum(serialize_all = "snake_case")]
pub enum OwnerState {
    Exists,
    /// The owner exists, and its foreground deletion waits for its dependents.
    WaitsForDependents,
    /// The API server answered that no such object exists, or that the object of this name has another uid.
    Absent,
    /// No version of the API server serves this apiVersion and kind.
    KindNotServed,
    /// The owner's kind is namespaced and the dependent is cluster-scoped, which Kubernetes does not allow.
    Namespaced,
    /// The owner was deleted with the policy orphan, and the dependent was created during that: its reference is removed, and it
    /// is kept.
    Orphaned,
    /// The API server gave no answer that proves anything; the cause.
    Unverified(String),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Keep(ObjectKeepReason),
    /// These references are removed: their owners are absent or wait, and another owner exists.
    DropReferences(Vec<OwnerReference>),
    Delete {
        /// What the API server does with its dependents.
        propagation: Propagation,
        /// Before the deletion, its references stop to block their owners: its dependents wait as well, so the
        /// references may form a circle.
        unblock: bool,
        reason: DeleteReason,
    },
    /// Its foreground deletion waits for these dependents, which are to be checked.
    WaitForDependents(Vec<Uid>),
    /// Its foreground deletion has no more dependents to wait for: the finalizer is removed.
    EndForeground,
    /// Its dependents lose their reference to it, then the finalizer `orphan` is removed.
    Orphan(Vec<Uid>),
}

#[derive(Clone, Copy, Debug, Deserialize, Display, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize)]
pub enum Propagation {
    /// The object is deleted at once, its dependents afterward.
    Background,
    /// Its dependents are deleted first.
    Foreground,
    /// Its dependents lose their reference and stay.
    Orphan,
}

#[derive(Clone, Debug, Eq, IntoStaticStr, PartialEq)]
#[strum(serialize_all = "snake_case")]
pub enum ObjectKeepReason {
    NoOwner,
    OwnerExists,
    /// Its deletion is in progress, and other finalizers hold it.
    BeingDeleted,
    /// The kind of an owner is not served, so its absence cannot be proven.
    OwnerKindNotServed(OwnerReference),
    /// It is cluster-scoped and names a namespaced owner.
    OwnerNamespaced(OwnerReference),
    /// This object has the same uid, and is not to be deleted.
    SharesUid(Identity),
    /// Not all of its owner references are known; the cause.
    OwnersNotRead(String),
    /// The state of an owner is unknown; the cause.
    OwnerUnverified(OwnerReference, String),
    /// Its deletion would end, but these resources have no list, and may have dependents of it (G4).
    DependentsNotListed(Vec<String>),
}

#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, PartialEq)]
#[strum(serialize_all = "snake_case")]
pub enum DeleteReason {
    /// All owners are proven absent.
    OwnersAbsent,
    /// No owner exists that does not wait for its dependents to be deleted.
    OwnerWaits,
}

// === impl OwnerState ===

impl OwnerState {
    /// Returns the state of an owner that exists.
    pub fn of_existing(waits_for_dependents: bool) -> Self {
        if waits_for_dependents { Self::WaitsForDependents } else { Self::Exists }
    }
}

/// Returns what happens to `live`, the metadata of a live read. `owners` has the state of each of its owner references, in their order; what it lacks
/// counts as unverified. `dependents` are those of the graph.
///
/// The table of kube-controller-manager: one owner that exists keeps the object; one whose state is unknown keeps it
/// too, whatever the others are.
pub fn decide(live: &ObjectMeta, owners: &[OwnerState], dependents: &[Dependent]) -> Verdict {
    if live.is_deleting() {
        return continue_deletion(live, dependents);
    }
    if let Some(cause) = live.unknown_owners() {
        return Verdict::Keep(ObjectKeepReason::OwnersNotRead(cause));
    }
    if live.owners.is_empty() {
        return Verdict::Keep(ObjectKeepReason::NoOwner);
    }
    let missing = OwnerState::Unverified("it was not read".to_owned());
    let states = owners.iter().chain(std::iter::repeat(&missing));
    let states: Vec<_> = live.owners.iter().zip(states).collect();
    if let Some(reason) = states.iter().find_map(|(reference, state)| unknown(reference, state)) {
        return Verdict::Keep(reason);
    }
    let is_orphaned = |(_, state): &&(&OwnerReference, &OwnerState)| **state == OwnerState::Orphaned;
    let orphaned: Vec<_> = states.iter().filter(is_orphaned).map(|(reference, _)| (*reference).clone()).collect();
    if !orphaned.is_empty() {
        return Verdict::DropReferences(orphaned);
    }
    let (exist, others): (Vec<_>, Vec<_>) = states.into_iter().partition(|(_, state)| **state == OwnerState::Exists);
    let waits = others.iter().any(|(_, state)| **state == OwnerState::WaitsForDependents);
    match (exist.is_empty(), others.is_empty()) {
        (false, true) => Verdict::Keep(ObjectKeepReason::OwnerExists),
        (false, false) => Verdict::DropReferences(others.into_iter().map(|(reference, _)| reference.clone()).collect()),
        (true, _) => delete(live, waits, dependents),
    }
}

/// Returns whether an object that shares its uid with others keeps all of them: it is not to be deleted (G3). One request to an
/// API that mirrors another may delete both.
pub fn is_kept(live: &ObjectMeta, owners: &[OwnerState]) -> bool {
    !live.is_deleting() && !matches!(decide(live, owners, &[]), Verdict::Delete { .. })
}

/// An object that is deleted stays until its finalizers are removed. Only the two of garbage collection concern us.
fn continue_deletion(live: &ObjectMeta, dependents: &[Dependent]) -> Verdict {
    if live.has(ORPHAN) {
        return Verdict::Orphan(dependents.iter().map(|dependent| dependent.item.identity.uid.clone()).collect());
    }
    if !live.has(FOREGROUND) {
        return Verdict::Keep(ObjectKeepReason::BeingDeleted);
    }
    let blocking: Vec<_> = dependents.iter().filter(|dependent| dependent.reference.blocks()).collect();
    if blocking.is_empty() {
        return Verdict::EndForeground;
    }
    // One that waits for its own dependents is checked when they are deleted.
    let to_check = blocking.into_iter().filter(|dependent| !dependent.item.waits_for_dependents);
    Verdict::WaitForDependents(to_check.map(|dependent| dependent.item.identity.uid.clone()).collect())
}

fn unknown(reference: &OwnerReference, state: &OwnerState) -> Option<ObjectKeepReason> {
    match state {
        OwnerState::Exists | OwnerState::WaitsForDependents | OwnerState::Absent | OwnerState::Orphaned => None,
        OwnerState::KindNotServed => Some(ObjectKeepReason::OwnerKindNotServed(reference.clone())),
        OwnerState::Namespaced => Some(ObjectKeepReason::OwnerNamespaced(reference.clone())),
        OwnerState::Unverified(cause) => Some(ObjectKeepReason::OwnerUnverified(reference.clone(), cause.clone())),
    }
}

/// Without a waiting owner, a finalizer that is on the object already selects the policy: a client has requested it.
fn delete(live: &ObjectMeta, waits: bool, dependents: &[Dependent]) -> Verdict {
    let in_foreground = waits && !dependents.is_empty();
    let propagation = match (in_foreground, live.has(ORPHAN), live.has(FOREGROUND)) {
        (false, true, _) => Propagation::Orphan,
        (false, false, false) => Propagation::Background,
        (true, _, _) | (false, false, true) => Propagation::Foreground,
    };
    let unblock = in_foreground && dependents.iter().any(|dependent| dependent.item.waits_for_dependents);
    let reason = if waits { DeleteReason::OwnerWaits } else { DeleteReason::OwnersAbsent };
    Verdict::Delete { propagation, unblock, reason }
}

#[cfg(test)]
mod tests;
