//! Carries out what was decided about one object.

use std::time::Duration;

use super::decision::{Checked, Next, unless_conflict};
use super::engine::{Engine, Key, Notice, State, observed};
use super::outcome::{ClusterOutcome, ClusterResult};
use super::waiting::STUCK;
use crate::kubernetes::{Deleted, KubernetesError, WriteTarget};
use crate::model::{FOREGROUND, ObjectMeta, OwnerReference, Uid, cut_text};
use crate::owners::{ActionWord, BrakeAnswer, DeleteReason, Event, Item, Propagation, Verdict};

/// How often a deletion begins again at once because a writer of something else came first.
const CONFLICTS: usize = 5;
/// The most owners in the report of a deletion, and the longest name of one.
const OWNERS: usize = 10;
const LONGEST_NAME: usize = 300;
/// The wait for the ends of deletions that count for the brake.
const BRAKE: Duration = Duration::from_millis(100);

// === impl Engine ===

impl Engine {
    pub(super) async fn change(&self, checked: Checked, verdict: Verdict) -> Result<Next, KubernetesError> {
        match verdict {
            Verdict::Keep(_) => Ok(Next::Done),
            Verdict::WaitForDependents(dependents) => Ok(self.wait(&checked, dependents)),
            Verdict::Orphan(_) => {
                self.add(Key::Orphan(checked.item.identity.uid.clone()));
                Ok(Next::Done)
            }
            Verdict::EndForeground if let Some(next) = self.delays_end(&checked.item) => Ok(next),
            _ if !self.may_change_one_more() => Ok(Next::Done),
            Verdict::DropReferences(references) => self.drop_references(&checked, &references).await,
            Verdict::Delete { propagation, unblock, reason } => {
                self.delete(checked, propagation, unblock, reason).await
            }
            Verdict::EndForeground => self.end_foreground(&checked).await,
        }
    }

    fn wait(&self, checked: &Checked, dependents: Vec<Uid>) -> Next {
        let owner = &checked.item.identity;
        let deleted = checked.live.deletion_timestamp.map(|at| (self.clock)().duration_since(at));
        // The clock of the API server may be ahead.
        let waited = deleted.and_then(|it| Duration::try_from(it).ok()).unwrap_or_default();
        self.waits(owner, waited, &dependents);
        let all = self.state().graph.dependents(&owner.uid);
        let is_held = self.is_held(owner, all.iter().filter(|dependent| dependent.reference.blocks()));
        for dependent in dependents {
            self.add(Key::Check(dependent));
        }
        match (is_held, self.is_in_waves) {
            (true, _) => Next::Parked,
            (false, true) => Next::Done,
            (false, false) => Next::Later(STUCK),
        }
    }
}

// === impl Engine: changes of one object ===

impl Engine {
    async fn drop_references(&self, checked: &Checked, references: &[OwnerReference]) -> Result<Next, KubernetesError> {
        let rest: Vec<_> = checked.live.owners.iter().filter(|owner| !references.contains(owner)).cloned().collect();
        let changed = self.calls.set_references(checked.target(), &checked.live, &rest).await;
        let Some(changed) = unless_conflict(changed)? else { return Ok(Next::Again) };
        let why = (ActionWord::DropReferences, "another_owner_exists");
        self.patched(&checked.item, checked.target(), why, changed).await;
        let is_orphaned = references.iter().any(|reference| self.state().orphaned.touch(&reference.uid));
        if is_orphaned && !self.calls.is_dry_run {
            // The other owners were not considered.
            self.add(Key::Check(checked.item.identity.uid.clone()));
        }
        Ok(Next::Done)
    }

    async fn end_foreground(&self, checked: &Checked) -> Result<Next, KubernetesError> {
        let changed = self.calls.remove_finalizer(checked.target(), &checked.live, FOREGROUND).await;
        let Some(changed) = unless_conflict(changed)? else { return Ok(Next::Again) };
        let why = (ActionWord::EndForeground, "no_blocking_dependents");
        self.patched(&checked.item, checked.target(), why, changed).await;
        Ok(Next::Done)
    }

    async fn delete(
        &self,
        mut checked: Checked,
        propagation: Propagation,
        unblock: bool,
        reason: DeleteReason,
    ) -> Result<Next, KubernetesError> {
        let owners = || checked.live.owners.iter().map(|owner| &owner.uid);
        let brakes = (reason == DeleteReason::OwnersAbsent).then(|| self.brakes(&checked.item, owners()));
        if let Some(next) = brakes.flatten() {
            return Ok(next);
        }
        if unblock {
            // Only an owner that waits leads here, so the brake counts nothing.
            let mut references = checked.live.owners.clone();
            references.iter_mut().for_each(OwnerReference::unblock);
            let changed = self.calls.set_references(checked.target(), &checked.live, &references).await;
            let Some(changed) = unless_conflict(changed)? else { return Ok(Next::Again) };
            checked.live = changed;
        }
        let deleted = self.delete_now(&checked, propagation).await;
        self.brake_ends(&checked.item, &deleted);
        let Some(deleted) = deleted? else { return Ok(Next::Again) };
        Ok(self.confirm_and_report(&checked, propagation, reason.into(), deleted).await)
    }

    /// Reports a deletion that has begun.
    pub(super) async fn confirm_and_report(
        &self,
        checked: &Checked,
        propagation: Propagation,
        reason: &str,
        deleted: DeleteResult,
    ) -> Next {
        let Some(deleted) = self.confirmed(checked, deleted).await else {
            self.calls.take_back();
            self.failed(checked.item.identity.clone(), "its deletion was accepted, and has not begun".to_owned());
            return Next::Again;
        };
        self.deleted(checked, propagation, reason, deleted);
        Next::Done
    }

    /// Deletes the object as it was read. After a conflict that concerns neither its owners nor its deletion it is deleted
    /// as it is then, so that a writer of its status cannot prevent the deletion. `None` = it has changed.
    async fn delete_now(
        &self,
        checked: &Checked,
        propagation: Propagation,
    ) -> Result<Option<DeleteResult>, KubernetesError> {
        let Checked { live, .. } = checked;
        let WriteTarget { resource, namespace, name, .. } = checked.target();
        let mut version = live.version.clone();
        for _ in 0..CONFLICTS {
            let deleted = self.calls.delete(checked.target(), live, &version, propagation).await;
            if let Some(deleted) = unless_conflict(checked.or_missing(deleted))? {
                return Ok(Some(deleted));
            }
            let now = self.calls.read(resource, namespace, name).await?;
            let Some(now) = now.filter(|now| now.uid == live.uid) else {
                return Ok(Some(DeleteResult::AlreadyDeleted));
            };
            if !self.may_delete_still(live, &now) {
                return Ok(None);
            }
            version = now.version;
        }
        Ok(None)
    }

    fn may_delete_still(&self, before: &ObjectMeta, now: &ObjectMeta) -> bool {
        let is_same = before.finalizers == now.finalizers && before.deletion_timestamp == now.deletion_timestamp;
        before.owners == now.owners && (is_same || !self.guards.compare_after_conflict)
    }

    /// Returns what follows instead of a deletion that the brake does not permit. Only owners that were never seen alive
    /// count.
    pub(super) fn brakes<'a>(&self, item: &Item, owners: impl IntoIterator<Item = &'a Uid>) -> Option<Next> {
        let resource = item.resource;
        let answer = {
            let State { graph, brake, .. } = &mut *self.state();
            if owners.into_iter().any(|owner| graph.was_seen(owner)) {
                return None;
            }
            let object = (resource, &item.identity.uid);
            brake.permits(object, (self.clock)(), &self.guards, || graph.count(resource))
        };
        match answer {
            BrakeAnswer::Permitted => return None,
            BrakeAnswer::Wait => return Some(Next::Later(BRAKE)),
            BrakeAnswer::Paused => {}
            BrakeAnswer::PausedNow => (self.report)(Notice::Paused(self.name(resource), item.identity.clone())),
        }
        Some(Next::Parked)
    }

    pub(super) fn brake_ends(&self, item: &Item, end: &Result<Option<DeleteResult>, KubernetesError>) {
        let is_deleted = matches!(end, Ok(Some(DeleteResult::Unheld | DeleteResult::Accepted(_))));
        self.state().brake.ended((item.resource, &item.identity.uid), (self.clock)(), is_deleted);
    }

    /// Reports a deletion, and shows the graph what became of the object.
    pub(super) fn deleted(&self, checked: &Checked, propagation: Propagation, reason: &str, result: DeleteResult) {
        let Checked { item: Item { identity, .. }, .. } = checked;
        let is_proven = matches!(result, DeleteResult::Missing | DeleteResult::AlreadyDeleted);
        let result = match result {
            _ if self.calls.is_dry_run => ClusterResult::DryRun,
            // Nothing shows yet that it does not exist.
            DeleteResult::Unread => ClusterResult::Accepted,
            DeleteResult::Unheld if self.is_in_waves => {
                self.accepted(identity);
                ClusterResult::Removed
            }
            DeleteResult::Unheld => {
                self.is_unproven(&identity.uid);
                ClusterResult::Removed
            }
            DeleteResult::Missing => ClusterResult::Removed,
            DeleteResult::AlreadyDeleted => ClusterResult::AlreadyDeleted,
            DeleteResult::Accepted(held) => {
                self.changed(seen(&checked.item, *held));
                ClusterResult::Accepted
            }
        };
        if is_proven && !self.calls.is_dry_run {
            self.changed(Event::ProvenAbsent(identity.clone()));
        }
        let (object, propagation) = (identity.clone(), Some(propagation));
        let (reason, action) = (reason.to_owned(), ActionWord::Delete);
        let owners = owner_names(&checked.live.owners);
        (self.report)(Notice::Done(ClusterOutcome { action, object, propagation, owners, reason, result }));
    }

    /// Reports a change, and shows the graph what became of the object.
    pub(super) async fn patched(
        &self,
        item: &Item,
        target: WriteTarget<'_>,
        (action, reason): (ActionWord, &str),
        now: ObjectMeta,
    ) {
        let is_dry_run = self.calls.is_dry_run;
        if self.is_in_waves && !is_dry_run {
            self.show_or_forget(item, target, now).await;
        } else if !is_dry_run && now.is_deleting() && now.finalizers.is_empty() {
            // An owner that no monitor has shown ends unseen.
            self.is_unproven(&item.identity.uid);
        }
        let result = if is_dry_run { ClusterResult::DryRun } else { ClusterResult::Changed };
        let (object, reason) = (item.identity.clone(), reason.to_owned());
        let (propagation, owners) = (None, Vec::new());
        (self.report)(Notice::Done(ClusterOutcome { action, object, propagation, owners, reason, result }));
    }
}

// === impl Engine: what a change leaves, in waves. A service has monitors, which show it without a call ===

impl Engine {
    /// Reads whether an object still exists whose deletion was accepted. `None` = it is there, and is not being deleted. For
    /// an API server of Kubernetes the list of the next round shows it.
    async fn confirmed(&self, checked: &Checked, result: DeleteResult) -> Option<DeleteResult> {
        let is_read = self.is_in_waves && matches!(result, DeleteResult::Unheld);
        if !is_read || self.is_trusted(&checked.resource, &checked.item.identity.uid) {
            return Some(result);
        }
        match self.remains(checked.target()).await {
            Ok(None) => Some(DeleteResult::Missing),
            Ok(Some(now)) => now.is_deleting().then(|| DeleteResult::Accepted(Box::new(now))),
            Err(_) => Some(DeleteResult::Unread),
        }
    }

    /// The API server removes most objects with their last finalizer. Then the answer is older than the end of the object.
    async fn show_or_forget(&self, item: &Item, target: WriteTarget<'_>, now: ObjectMeta) {
        let ends = now.is_deleting() && now.finalizers.is_empty();
        let remains = if ends { self.remains(target).await } else { Ok(Some(now.clone())) };
        self.changed(match remains {
            Ok(None) => Event::ProvenAbsent(item.identity.clone()),
            Ok(Some(now)) => seen(item, now),
            Err(_) => seen(item, now),
        });
    }

    /// Reads the object again; `None` = it does not exist any more.
    async fn remains(&self, target: WriteTarget<'_>) -> Result<Option<ObjectMeta>, KubernetesError> {
        let now = self.calls.read(target.resource, target.namespace, target.name).await?;
        Ok(now.filter(|now| now.uid == *target.uid))
    }
}

/// Names the first owners. The history keeps them, and a tenant decides how many and how long they are (G5).
fn owner_names(owners: &[OwnerReference]) -> Vec<String> {
    let name =
        |owner: &OwnerReference| cut_text(&format!("{}/{}", owner.kind.kind, owner.name), LONGEST_NAME).into_owned();
    let more = owners.len().saturating_sub(OWNERS);
    let more = (more > 0).then(|| format!("{more} more"));
    owners.iter().take(OWNERS).map(name).chain(more).collect()
}

fn seen(item: &Item, now: ObjectMeta) -> Event {
    Event::Seen(observed(&item.identity.kind, item.resource, now))
}

/// What became of an object that was to be deleted.
pub(super) enum DeleteResult {
    /// The API server has accepted the deletion, and shows nothing that holds the object.
    Unheld,
    /// As `Unheld`, and the read after it failed.
    Unread,
    /// A read proves that it does not exist any more.
    Missing,
    /// It did not exist any more.
    AlreadyDeleted,
    Accepted(Box<ObjectMeta>),
}

// === impl Checked ===

impl Checked {
    /// Counts an object that does not exist as deleted: its uid was read right before.
    pub(super) fn or_missing(
        &self,
        deleted: Result<Deleted, KubernetesError>,
    ) -> Result<DeleteResult, KubernetesError> {
        match deleted {
            Ok(Deleted::Unheld) => Ok(DeleteResult::Unheld),
            Ok(Deleted::Accepted(held)) => Ok(DeleteResult::Accepted(held)),
            Err(error) if error.cause.proves_absence(&self.resource, &self.item.identity.name) => {
                Ok(DeleteResult::AlreadyDeleted)
            }
            Err(error) => Err(error),
        }
    }
}
