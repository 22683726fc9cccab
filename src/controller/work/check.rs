//! The check of one object: a live read of it and of each of its owners, and the decision.

use std::sync::Arc;
use std::time::Duration;

use super::decision::{Checked, Decision, Next, namespace, namespace_in_path};
use super::engine::{Engine, Key, Notice};
use crate::controller::watch::served::Served;
use crate::kubernetes::{ApiResource, Cause, KubernetesError, is_path_segment};
use crate::model::{Identity, ObjectMeta, Uid, left_out_owners};
use crate::owners::{Dependent, Event, Item, ObjectKeepReason, OwnerState, VALID, Verdict, decide, is_kept};

/// When an object is checked again whose owner's kind is not served, if discovery shows no change before, or that lacks labels.
pub(super) const UNRESOLVED_RETRY: Duration = Duration::from_mins(5);

// === impl Engine: workers ===

impl Engine {
    pub(in crate::controller) async fn work(&self) {
        while let Some(key) = self.queue.next().await {
            self.process(&key).await;
        }
    }

    pub(in crate::controller) async fn process(&self, key: &Key) {
        if let Some(decision) = self.decide(key).await {
            self.carry_out(key, decision).await;
        }
    }

    /// Checks a key. `None` = nothing is to be changed, and the processing of the key has ended.
    pub(in crate::controller) async fn decide(&self, key: &Key) -> Option<Decision> {
        self.leave_park(key);
        let item = self.item(key.uid());
        let is_shown = item.as_ref().is_some_and(|item| !item.is_virtual);
        let result = match key {
            Key::Verify(_) if is_shown => Ok(Next::Done.into()),
            Key::Check(uid) | Key::Verify(uid) => self.check(uid).await,
            Key::Orphan(uid) => return Some(Decision::Release(uid.clone())),
        };
        let next = match result {
            Ok(Decision::Next(next)) => Ok(next),
            Err(error) => Err(error),
            Ok(decision) => return Some(decision),
        };
        self.end(key, item.map(|item| item.identity), next);
        None
    }

    /// Carries out what was decided about a key, and ends the processing of the key. Returns whether it is done.
    pub(in crate::controller) async fn carry_out(&self, key: &Key, decision: Decision) -> bool {
        let (identity, next) = match decision {
            Decision::Next(next) => (None, Ok(next)),
            Decision::Change(checked, verdict) => {
                (Some(checked.item.identity.clone()), self.change(*checked, verdict).await)
            }
            Decision::AsShown(checked) => {
                (Some(checked.item.identity.clone()), self.delete_as_shown_or_read(*checked).await)
            }
            Decision::Release(owner) => (self.item(&owner).map(|item| item.identity), self.orphan(&owner).await),
        };
        let is_done = matches!(next, Ok(Next::Done));
        self.end(key, identity, next);
        is_done
    }

    /// Deletes an object as it was shown. If it has changed since, it is read and decided about.
    async fn delete_as_shown_or_read(&self, checked: Checked) -> Result<Next, KubernetesError> {
        let (item, resource) = (checked.item.clone(), Arc::clone(&checked.resource));
        if let Some(next) = self.delete_as_shown(checked).await? {
            return Ok(next);
        }
        match self.check_read(&self.served(), item, &resource).await? {
            Decision::Change(checked, verdict) => self.change(*checked, verdict).await,
            Decision::Next(next) => Ok(next),
            // What was read is not decided as it was shown, and dependents are released by a key of their own.
            Decision::AsShown(_) | Decision::Release(_) => Ok(Next::Again),
        }
    }

    fn end(&self, key: &Key, identity: Option<Identity>, result: Result<Next, KubernetesError>) {
        match result {
            Err(KubernetesError { cause: Cause::Ended, .. }) => self.queue.pause(key),
            // It ended meanwhile: nothing of it is to wait.
            _ if self.item(key.uid()).is_none() => {
                self.recovered(key.uid());
                self.queue.done(key);
            }
            Err(error) => {
                if let Some(identity) = identity {
                    self.failed(identity, error.to_string());
                }
                let wait = error.cause.retry_after().unwrap_or_default();
                if error.cause.is_of_request() {
                    self.queue.defer(key, UNRESOLVED_RETRY);
                } else if error.cause.is_throttled() && !wait.is_zero() {
                    self.queue.throttled(key, wait);
                } else {
                    self.queue.fail(key, wait);
                }
            }
            Ok(Next::Again) => self.queue.fail(key, Duration::ZERO),
            Ok(Next::Later(wait)) => self.queue.defer(key, wait),
            Ok(Next::Parked) => {
                self.park(key);
                self.queue.defer(key, UNRESOLVED_RETRY);
            }
            Ok(Next::Done) => {
                self.recovered(key.uid());
                if let Key::Check(uid) = key {
                    self.state().waiting.end(uid);
                }
                self.queue.done(key);
            }
        }
    }

    async fn check(&self, uid: &Uid) -> Result<Decision, KubernetesError> {
        let Some(item) = self.item(uid) else { return Ok(Next::Done.into()) };
        // Without a uid, a read proves nothing: any object of that name matches.
        if uid.is_empty() || item.is_deleting && !item.waits_for_dependents {
            return Ok(Next::Done.into());
        }
        if item.is_virtual && !is_path_segment(&item.identity.name) {
            self.check_dependents(uid);
            return Ok(Next::Done.into());
        }
        let served = self.served();
        let Some(resource) = served.resource(&item.identity.kind) else {
            return Ok(self.not_served(&served, item).into());
        };
        if self.filter.leaves_out(resource, &item.identity).is_some() && !item.is_virtual {
            return Ok(Next::Done.into());
        }
        if let Some(cause) = left_out_owners(item.left_out_owners).filter(|_| !item.is_deleting) {
            self.failed(item.identity, cause);
            return Ok(Next::Parked.into());
        }
        if !item.is_virtual && !self.has_labels(resource, &item.identity).await? {
            return Ok(Next::Later(UNRESOLVED_RETRY).into());
        }
        let Some(namespace) = namespace(&item, resource) else { return Ok(Next::Done.into()) };
        if let Some(decision) = self.without_read(&served, &item, resource, namespace).await? {
            return Ok(decision);
        }
        self.check_read(&served, item, resource).await
    }

    /// Returns whether an object has the labels of those that may be changed.
    pub(super) async fn has_labels(&self, resource: &ApiResource, object: &Identity) -> Result<bool, KubernetesError> {
        self.calls.has_labels(resource, object, self.filter.labels.as_deref()).await
    }

    /// Checks an object by a live read.
    async fn check_read(
        &self,
        served: &Served,
        item: Item,
        resource: &Arc<ApiResource>,
    ) -> Result<Decision, KubernetesError> {
        let Some(namespace) = namespace(&item, resource) else { return Ok(Next::Done.into()) };
        let read = match self.read_shown(resource, &item.identity, namespace).await {
            Err(error) if self.is_broken(resource) => {
                self.failed(item.identity, error.to_string());
                return Ok(Next::Parked.into());
            }
            read => read?,
        };
        let Some(live) = read else {
            // References may mean another object of this uid, which is to be verified then.
            return Ok(if self.item(&item.identity.uid).is_some() { Next::Again } else { Next::Done }.into());
        };
        // A collection changes only what a list shows, as its plan says.
        if item.is_virtual && self.is_in_waves {
            if live.waits_for_dependents() {
                self.check_dependents(&item.identity.uid);
            }
            return Ok(Next::Done.into());
        }
        if self.filter.leaves_out(resource, &item.identity).is_some() {
            return Ok(self.until_shown().into());
        }
        self.judge(served, Checked { item, resource: Arc::clone(resource), live }).await
    }

    /// Returns what is decided without a read of the object. In a wave, the end of a foreground deletion comes after all
    /// decisions.
    async fn without_read(
        &self,
        served: &Served,
        item: &Item,
        resource: &Arc<ApiResource>,
        namespace: &str,
    ) -> Result<Option<Decision>, KubernetesError> {
        match self.delays_end(item).filter(|_| !self.is_in_waves) {
            None => self.decide_as_shown(served, item, resource, namespace).await,
            Some(next) => Ok(Some(next.into())),
        }
    }

    /// Returns what follows for an object that exists and that no monitor has shown. No list of a wave shows it either.
    fn until_shown(&self) -> Next {
        if self.is_in_waves { Next::Done } else { Next::Again }
    }

    /// Decides about an object that was read.
    async fn judge(&self, served: &Served, checked: Checked) -> Result<Decision, KubernetesError> {
        let Checked { item, live, .. } = &checked;
        let begun = self.now();
        // Its owners decide nothing any more about an object in deletion.
        let states = if live.is_deleting() {
            Vec::new()
        } else {
            self.owner_states(served, checked.target().namespace, live).await?
        };
        if self.now().saturating_sub(begun) > VALID {
            let cause = "the reads of its owners took too long to prove anything";
            self.failed(item.identity.clone(), cause.to_owned());
            return Ok(Next::Again.into());
        }
        let dependents = self.state().graph.dependents(&item.identity.uid);
        let verdict = match decide(live, &states, &dependents) {
            Verdict::Delete { .. } if let Some(other) = self.another_lives(served, &item.identity).await? => {
                Verdict::Keep(ObjectKeepReason::SharesUid(other))
            }
            verdict => verdict,
        };
        Ok(match verdict {
            Verdict::Keep(reason) => self.keep(&checked, reason).into(),
            verdict => Decision::Change(Box::new(checked), verdict),
        })
    }

    /// Checks what names an owner that is never requested, so that each dependent is reported.
    fn check_dependents(&self, owner: &Uid) {
        let dependents = self.state().graph.dependents(owner);
        for dependent in dependents {
            self.add(Key::Check(dependent.item.identity.uid));
        }
    }

    /// Reads an object. `None` = there is none with this uid, which the graph knows then.
    async fn read_shown(
        &self,
        resource: &ApiResource,
        object: &Identity,
        namespace: &str,
    ) -> Result<Option<ObjectMeta>, KubernetesError> {
        let at = self.now();
        let live = self.calls.read(resource, namespace, &object.name).await?;
        let live = live.filter(|live| live.uid == object.uid);
        if live.is_none() {
            self.apply_at(Event::ProvenAbsent(object.clone()), at);
        }
        Ok(live)
    }

    /// Nothing can be done to an object whose kind is not served, and nothing proves that it is absent.
    pub(super) fn not_served(&self, served: &Served, item: Item) -> Next {
        let dependents = self.state().graph.dependents(&item.identity.uid);
        if self.state().graph.was_seen(&item.identity.uid) {
            let cause = served.why_not(&item.identity.kind);
            self.failed(item.identity, cause);
        } else {
            // References of other kinds may name the same uid, and a group-version may only be unavailable.
            let is_of_none = |Dependent { item, reference }: &Dependent| {
                served.kinds.owner(reference, &item.identity.namespace) == Err(OwnerState::KindNotServed)
            };
            if let Some(Dependent { item, reference }) = dependents.into_iter().find(is_of_none) {
                (self.report)(Notice::NotServed(item.identity, reference));
            }
        }
        Next::Parked
    }

    /// Returns another object with the same uid that is not to be deleted.
    async fn another_lives(&self, served: &Served, object: &Identity) -> Result<Option<Identity>, KubernetesError> {
        let others = self.state().graph.others_of(&object.uid);
        for other in others {
            if self.is_kept(served, &other).await? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    async fn is_kept(&self, served: &Served, object: &Identity) -> Result<bool, KubernetesError> {
        let Some(resource) = served.resource(&object.kind) else { return Ok(true) };
        let namespace = namespace_in_path(object, resource);
        let live = self.read_shown(resource, object, namespace).await?;
        let Some(live) = live else { return Ok(false) };
        let states = self.owner_states(served, namespace, &live).await?;
        Ok(is_kept(&live, &states))
    }

    fn keep(&self, checked: &Checked, reason: ObjectKeepReason) -> Next {
        let object = || checked.item.identity.clone();
        match reason {
            ObjectKeepReason::OwnerKindNotServed(owner) => {
                (self.report)(Notice::NotServed(object(), owner));
                Next::Parked
            }
            ObjectKeepReason::OwnerNamespaced(owner) => {
                (self.report)(Notice::WrongNamespace(object(), owner));
                Next::Done
            }
            ObjectKeepReason::SharesUid(other) => {
                self.failed(object(), format!("{other} has the same uid, and is not to be deleted"));
                Next::Parked
            }
            // Its kind is in a group-version whose discovery failed, or it has no name of an object.
            ObjectKeepReason::OwnerUnverified(_, cause) | ObjectKeepReason::OwnersNotRead(cause) => {
                self.failed(object(), cause);
                Next::Parked
            }
            _ if checked.item.is_virtual => self.until_shown(),
            _ => Next::Done,
        }
    }
}
