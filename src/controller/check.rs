//! The check of one object: a live read of it and of each of its owners, the decision, the change.

use std::sync::Arc;
use std::time::Duration;

use super::convert;
use super::engine::{Engine, Key, Notice};
use super::outcome::{ClusterOutcome, ClusterResult};
use super::served::Served;
use crate::kubernetes::{ApiResource, Deleted, KubernetesError, ObjectMetadata, OwnerReferenceMetadata, Target};
use crate::owners::{
    ActionWord, BrakeAnswer, DeleteReason, Event, FOREGROUND, Item, KeepReason, Meaning, OwnerReference, OwnerState,
    Propagation, Uid, Verdict, decide,
};

/// When an object is checked again whose owner's kind is not served, if discovery shows no change before.
const UNRESOLVED_RETRY: Duration = Duration::from_mins(5);

/// What follows a check.
pub(super) enum Next {
    /// Nothing, until an event says otherwise.
    Done,
    /// The check is repeated with a back-off: the object has changed meanwhile, or no monitor has shown it yet.
    Again,
    /// It is repeated later.
    Later(Duration),
    /// It is repeated when the API server serves something else.
    Parked,
}

/// One object under check.
struct Checked<'a> {
    item: Item,
    resource: &'a ApiResource,
    live: ObjectMetadata,
}

// === impl Engine: workers ===

impl Engine {
    /// Processes keys until the queue is closed.
    pub(super) async fn work(&self) {
        while let Some(key) = self.queue.next().await {
            self.process(&key).await;
        }
    }

    async fn process(&self, key: &Key) {
        let (Key::Check(uid) | Key::Orphan(uid)) = key;
        let identity = self.graph().item(uid).map(|item| item.identity);
        let result = match key {
            Key::Check(uid) => self.check(uid).await,
            Key::Orphan(uid) => self.orphan(uid).await,
        };
        match result {
            Err(error) => {
                if let Some(identity) = identity {
                    self.failed(identity, error.to_string());
                }
                self.queue.fail(key, error.retry_after().unwrap_or_default());
            }
            Ok(Next::Again) => self.queue.fail(key, Duration::ZERO),
            Ok(next) => {
                self.recovered(uid);
                match next {
                    Next::Later(wait) => self.queue.defer(key, wait),
                    Next::Parked => {
                        self.park(key);
                        self.queue.defer(key, UNRESOLVED_RETRY);
                    }
                    Next::Done | Next::Again => self.queue.done(key),
                }
            }
        }
    }

    async fn check(&self, uid: &Uid) -> Result<Next, KubernetesError> {
        let Some(item) = self.graph().item(uid) else { return Ok(Next::Done) };
        if item.is_deleting && !item.waits_for_dependents {
            return Ok(Next::Done);
        }
        let served = self.served();
        let Some(resource) = served.resource(&item.identity.kind) else { return Ok(Next::Parked) };
        let Some(namespace) = namespace(&item, resource) else { return Ok(Next::Done) };
        let live = self.calls.read(resource, &namespace, &item.identity.name).await?;
        let Some(live) = live.filter(|live| Uid::new(&live.uid) == *uid) else {
            self.apply(Event::ProvenAbsent(item.identity));
            // References may mean another object of this uid, which is to be verified then.
            return Ok(if self.graph().item(uid).is_some() { Next::Again } else { Next::Done });
        };
        let states = self.owner_states(&served, &live).await?;
        let dependents = self.graph().dependents(uid);
        let verdict = decide(&convert::live(item.identity.clone(), &live), &states, &dependents);
        self.carry_out(Checked { item, resource, live }, verdict).await
    }

    async fn carry_out(&self, checked: Checked<'_>, verdict: Verdict) -> Result<Next, KubernetesError> {
        match verdict {
            Verdict::Keep(reason) => Ok(self.keep(&checked, reason)),
            _ if self.is_exhausted() => Ok(Next::Done),
            Verdict::DropReferences(references) => self.drop_references(&checked, &references).await,
            Verdict::Delete { propagation, unblock, reason } => {
                self.delete(checked, propagation, unblock, reason).await
            }
            Verdict::WaitForDependents(dependents) => {
                dependents.into_iter().for_each(|dependent| self.queue.add(Key::Check(dependent)));
                Ok(Next::Done)
            }
            Verdict::EndForeground => self.end_foreground(&checked).await,
            Verdict::Orphan(_) => {
                self.queue.add(Key::Orphan(checked.item.identity.uid.clone()));
                Ok(Next::Done)
            }
        }
    }

    fn keep(&self, checked: &Checked<'_>, reason: KeepReason) -> Next {
        let object = || checked.item.identity.clone();
        match reason {
            KeepReason::OwnerKindNotServed(owner) => {
                (self.report)(Notice::NotServed(object(), owner));
                Next::Parked
            }
            KeepReason::OwnerNamespaced(owner) => {
                (self.report)(Notice::WrongNamespace(object(), owner));
                Next::Done
            }
            // Its kind is in a group-version whose discovery failed.
            KeepReason::OwnerUnverified(_, cause) => {
                self.failed(object(), cause);
                Next::Parked
            }
            _ if checked.item.is_virtual && self.has_monitors => Next::Again,
            _ => Next::Done,
        }
    }
}

// === impl Engine: owners ===

impl Engine {
    /// Returns the state of each owner, in the order of the references.
    async fn owner_states(&self, served: &Served, live: &ObjectMetadata) -> Result<Vec<OwnerState>, KubernetesError> {
        let mut states = Vec::new();
        for reference in convert::references(&live.owner_references) {
            states.push(self.owner_state(served, &live.namespace, &reference).await?);
        }
        Ok(states)
    }

    async fn owner_state(
        &self,
        served: &Served,
        namespace: &str,
        reference: &OwnerReference,
    ) -> Result<OwnerState, KubernetesError> {
        if self.orphaned().touch(&reference.uid) {
            return Ok(OwnerState::Orphaned);
        }
        if self.is_known_absent(namespace, reference) {
            return Ok(self.absent(namespace, reference));
        }
        let owner = match served.kinds.meaning(reference, namespace) {
            Meaning::Object(owner) => owner,
            Meaning::NotServed => return Ok(OwnerState::KindNotServed),
            Meaning::Namespaced => return Ok(OwnerState::Namespaced),
            Meaning::Unavailable(cause) => return Ok(OwnerState::Unverified(cause)),
        };
        let Some(resource) = served.resource(&owner.kind) else { return Ok(OwnerState::KindNotServed) };
        let live = self.calls.read(resource, &owner.namespace, &owner.name).await?;
        match live.filter(|live| Uid::new(&live.uid) == owner.uid) {
            Some(live) if convert::waits_for_dependents(&live) => Ok(OwnerState::WaitsForDependents),
            Some(_) => Ok(OwnerState::Exists),
            None => {
                self.graph().absent.insert(owner);
                Ok(self.absent(namespace, reference))
            }
        }
    }

    /// An owner that is absent in the cluster scope or in the namespace of the dependent.
    fn is_known_absent(&self, namespace: &str, reference: &OwnerReference) -> bool {
        let mut graph = self.graph();
        graph.absent.touch(&reference.identity("")) || graph.absent.touch(&reference.identity(namespace))
    }

    fn absent(&self, namespace: &str, reference: &OwnerReference) -> OwnerState {
        let is_elsewhere = |item: &Item| {
            !item.is_virtual && !item.identity.is_cluster_scoped() && *item.identity.namespace != *namespace
        };
        let elsewhere = self.graph().item(&reference.uid).filter(is_elsewhere);
        if self.guards.keep_cross_namespace && elsewhere.is_some() {
            return OwnerState::InOtherNamespace;
        }
        OwnerState::Absent
    }
}

// === impl Engine: changes ===

impl Engine {
    async fn drop_references(
        &self,
        checked: &Checked<'_>,
        references: &[OwnerReference],
    ) -> Result<Next, KubernetesError> {
        let is_dropped = |reference: &OwnerReferenceMetadata| {
            convert::references(std::slice::from_ref(reference)).iter().any(|it| references.contains(it))
        };
        let rest: Vec<_> =
            checked.live.owner_references.iter().filter(|reference| !is_dropped(reference)).cloned().collect();
        let changed = self.changes.set_references(&self.calls, checked.target(), &checked.live, &rest).await;
        let Some(changed) = unless_conflict(changed)? else { return Ok(Next::Again) };
        self.changed(checked, ActionWord::DropReferences, "another_owner_exists", &changed);
        let is_orphaned = references.iter().any(|reference| self.orphaned().touch(&reference.uid));
        if is_orphaned && !self.changes.is_dry_run() {
            // The other owners were not considered.
            self.queue.add(Key::Check(checked.item.identity.uid.clone()));
        }
        Ok(Next::Done)
    }

    async fn end_foreground(&self, checked: &Checked<'_>) -> Result<Next, KubernetesError> {
        let changed = self.changes.remove_finalizer(&self.calls, checked.target(), &checked.live, FOREGROUND).await;
        let Some(changed) = unless_conflict(changed)? else { return Ok(Next::Again) };
        self.changed(checked, ActionWord::EndForeground, "no_blocking_dependents", &changed);
        Ok(Next::Done)
    }

    async fn delete(
        &self,
        mut checked: Checked<'_>,
        propagation: Propagation,
        unblock: bool,
        reason: DeleteReason,
    ) -> Result<Next, KubernetesError> {
        if reason == DeleteReason::OwnersAbsent && !self.brake_permits(&checked) {
            return Ok(Next::Parked);
        }
        if unblock {
            let unblocked = |reference: &OwnerReferenceMetadata| OwnerReferenceMetadata {
                block_owner_deletion: reference.block_owner_deletion.map(|_| false),
                ..reference.clone()
            };
            let references: Vec<_> = checked.live.owner_references.iter().map(unblocked).collect();
            let changed = self.changes.set_references(&self.calls, checked.target(), &checked.live, &references).await;
            let Some(changed) = unless_conflict(changed)? else { return Ok(Next::Again) };
            checked.live = changed;
        }
        let Some(deleted) = self.delete_now(&checked, propagation).await? else { return Ok(Next::Again) };
        self.deleted(&checked, propagation, reason.into(), deleted);
        Ok(Next::Done)
    }

    /// Deletes the object as it was read. After a conflict that concerns neither its owners nor its deletion it is deleted
    /// by its uid alone, so that a busy writer of its status cannot prevent the deletion. `None` = it has changed.
    async fn delete_now(
        &self,
        checked: &Checked<'_>,
        propagation: Propagation,
    ) -> Result<Option<DeleteResult>, KubernetesError> {
        let Checked { live, .. } = checked;
        let delete = |version| self.changes.delete(&self.calls, checked.target(), live, version, propagation);
        match checked.or_gone(delete(Some(live.resource_version.clone())).await) {
            Err(error) if error.is_conflict() => {}
            deleted => return deleted.map(Some),
        }
        let now = self.calls.read(checked.resource, &live.namespace, &live.name).await?;
        let Some(now) = now.filter(|now| now.uid == live.uid) else { return Ok(Some(DeleteResult::AlreadyDeleted)) };
        if !self.may_delete_still(live, &now) {
            return Ok(None);
        }
        unless_conflict(checked.or_gone(delete(None).await))
    }

    fn may_delete_still(&self, before: &ObjectMetadata, now: &ObjectMetadata) -> bool {
        let is_same = before.finalizers == now.finalizers && before.deletion_timestamp == now.deletion_timestamp;
        before.owner_references == now.owner_references && (is_same || !self.guards.compare_after_conflict)
    }

    /// Asks the brake, if none of the owners was ever seen alive.
    fn brake_permits(&self, checked: &Checked<'_>) -> bool {
        if !self.has_monitors {
            return true;
        }
        let resource = checked.item.resource;
        let answer = {
            let graph = self.graph();
            if checked.live.owner_references.iter().any(|owner| graph.was_seen(&Uid::new(&owner.uid))) {
                return true;
            }
            self.brake().ask(resource, (self.clock)(), &self.guards, || graph.count(resource))
        };
        if answer == BrakeAnswer::PausedNow {
            (self.report)(Notice::Paused(self.name(resource)));
        }
        answer == BrakeAnswer::Permitted
    }

    /// Reports a deletion, and shows the graph what became of the object.
    fn deleted(&self, checked: &Checked<'_>, propagation: Propagation, reason: &str, result: DeleteResult) {
        let Checked { item: Item { identity, resource, .. }, .. } = checked;
        let result = match result {
            _ if self.changes.is_dry_run() => ClusterResult::DryRun,
            DeleteResult::Gone => ClusterResult::Removed,
            DeleteResult::AlreadyDeleted => ClusterResult::AlreadyDeleted,
            DeleteResult::Accepted(held) => {
                self.show(&identity.kind, *resource, &held);
                ClusterResult::Accepted
            }
        };
        if matches!(result, ClusterResult::Removed | ClusterResult::AlreadyDeleted) {
            self.apply(Event::Deleted(identity.clone()));
        }
        let (object, propagation) = (identity.clone(), Some(propagation));
        let reason = reason.to_owned();
        (self.report)(Notice::Done(ClusterOutcome { action: ActionWord::Delete, object, propagation, reason, result }));
    }

    /// Reports a change, and shows the graph what became of the object.
    fn changed(&self, checked: &Checked<'_>, action: ActionWord, reason: &str, now: &ObjectMetadata) {
        self.patched(&checked.item, action, reason, now);
    }

    /// As [`Self::changed`], for an object that was not checked.
    pub(super) fn patched(&self, item: &Item, action: ActionWord, reason: &str, now: &ObjectMetadata) {
        let result = if self.changes.is_dry_run() {
            ClusterResult::DryRun
        } else {
            self.show_or_forget(item, now);
            ClusterResult::Changed
        };
        let (object, reason) = (item.identity.clone(), reason.to_owned());
        (self.report)(Notice::Done(ClusterOutcome { action, object, propagation: None, reason, result }));
    }

    /// The API server removes an object with its last finalizer.
    fn show_or_forget(&self, item: &Item, now: &ObjectMetadata) {
        if now.deletion_timestamp.is_some() && !now.is_held() {
            self.apply(Event::Deleted(item.identity.clone()));
        } else {
            self.show(&item.identity.kind, item.resource, now);
        }
    }
}

/// What became of an object that was to be deleted.
enum DeleteResult {
    Gone,
    AlreadyDeleted,
    Accepted(Box<ObjectMetadata>),
}

// === impl Checked ===

impl Checked<'_> {
    fn target(&self) -> Target<'_> {
        Target { resource: self.resource, namespace: &self.live.namespace, name: &self.live.name }
    }

    /// An object that is not there is as good as deleted: its uid was read a moment ago.
    fn or_gone(&self, deleted: Result<Deleted, KubernetesError>) -> Result<DeleteResult, KubernetesError> {
        match deleted {
            Ok(Deleted::Gone) => Ok(DeleteResult::Gone),
            Ok(Deleted::Accepted(held)) => Ok(DeleteResult::Accepted(held)),
            Err(error) if error.proves_absence(&self.resource.resource, &self.live.name) => {
                Ok(DeleteResult::AlreadyDeleted)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the namespace to read an object in. `None` = it is a guess without the namespace that its kind needs.
pub(super) fn namespace(item: &Item, resource: &ApiResource) -> Option<Arc<str>> {
    match (resource.namespaced, item.identity.is_cluster_scoped()) {
        (true, true) => None,
        (true, false) => Some(Arc::clone(&item.identity.namespace)),
        (false, _) => Some("".into()),
    }
}

/// Returns nothing if the object has changed since the read, and was not changed.
pub(super) fn unless_conflict<T>(made: Result<T, KubernetesError>) -> Result<Option<T>, KubernetesError> {
    match made {
        Err(error) if error.is_conflict() => Ok(None),
        made => made.map(Some),
    }
}
