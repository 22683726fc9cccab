//! Orphaning: removes the reference from each dependent, and then the finalizer `orphan` from the owner.

use std::collections::HashSet;

use futures::{StreamExt as _, stream};

use super::check::UNRESOLVED_RETRY;
use super::decision::{Next, namespace, target, unless_conflict};
use super::engine::Engine;
use crate::kubernetes::{Cause, KubernetesError};
use crate::model::{ORPHAN, ObjectMeta, Uid};
use crate::owners::{ActionWord, Dependent, Item};

/// Dependents of one owner that are changed at once: few, because the calls of one worker are a share (G5).
const AT_ONCE: usize = 4;
/// How often the change of one dependent begins again because it was changed meanwhile.
const CONFLICTS: usize = 5;

impl Engine {
    pub(super) async fn orphan(&self, uid: &Uid) -> Result<Next, KubernetesError> {
        let Some(item) = self.item(uid) else { return Ok(Next::Done) };
        let served = self.served();
        let Some(resource) = served.resource(&item.identity.kind) else { return Ok(self.not_served(&served, item)) };
        if !item.is_deleting || self.filter.leaves_out(resource, &item.identity).is_some() {
            return Ok(Next::Done);
        }
        if !self.has_labels(resource, &item.identity).await? {
            return Ok(Next::Later(UNRESOLVED_RETRY));
        }
        if let Some(next) = self.lacks_lists(&item.identity) {
            return Ok(next);
        }
        let Some(namespace) = namespace(&item, resource) else { return Ok(Next::Done) };
        let live = self.calls.read(resource, namespace, &item.identity.name).await?;
        // It may be deleted with another policy meanwhile.
        let wants = |live: &ObjectMeta| live.uid == *uid && live.is_deleting() && live.has(ORPHAN);
        let Some(live) = live.filter(wants) else { return Ok(Next::Done) };
        let dependents = self.state().graph.dependents(uid);
        if self.is_held(&item.identity, &dependents) {
            return Ok(Next::Parked);
        }
        if !self.may_change_one_more() {
            return Ok(Next::Done);
        }
        let released = dependents.iter().map(|dependent| dependent.item.identity.uid.clone()).collect::<HashSet<_>>();
        self.release_dependents(dependents, uid).await?;
        // A monitor may have shown another one meanwhile.
        if self.state().graph.any_dependent(uid, |dependent, _| !released.contains(dependent)) {
            return Ok(Next::Again);
        }
        let target = target(&item.identity, resource);
        let changed = self.calls.remove_finalizer(target, &live, ORPHAN).await;
        let Some(changed) = unless_conflict(changed)? else { return Ok(Next::Again) };
        if !self.guards.orphan_wait.is_zero() {
            self.state().orphaned.insert(uid.clone());
        }
        self.patched(&item, target, (ActionWord::Orphan, "orphan_requested"), changed).await;
        Ok(Next::Done)
    }

    /// Changes all dependents; one that fails does not stop the others.
    async fn release_dependents(&self, dependents: Vec<Dependent>, owner: &Uid) -> Result<(), KubernetesError> {
        let others = |uid: &Uid| self.state().graph.others_of(uid);
        let items = dependents.into_iter().map(|dependent| dependent.item).flat_map(|item| {
            let others = others(&item.identity.uid).into_iter();
            let others: Vec<_> = others.map(|identity| Item { identity, ..item.clone() }).collect();
            std::iter::once(item).chain(others)
        });
        let released = items.map(|item| self.release(item, owner));
        let released: Vec<_> = stream::iter(released).buffer_unordered(AT_ONCE).collect().await;
        released.into_iter().collect()
    }

    async fn release(&self, item: Item, owner: &Uid) -> Result<(), KubernetesError> {
        let served = self.served();
        // Discovery may have changed since it was found to be in reach.
        let Some(resource) = served.resource(&item.identity.kind) else {
            let cause = served.why_not(&item.identity.kind);
            return Err(Cause::Unreadable(cause).of(format!("release {}", item.identity)));
        };
        if !self.has_labels(resource, &item.identity).await? {
            return Err(
                Cause::InvalidRequest("excluded by --selector".to_owned()).of(format!("release {}", item.identity))
            );
        }
        let target = target(&item.identity, resource);
        let mut conflicts = 0;
        loop {
            let live = self.calls.read(resource, target.namespace, target.name).await?;
            let Some(live) = live.filter(|live| live.uid == item.identity.uid) else { return Ok(()) };
            let rest: Vec<_> = live.owners.iter().filter(|it| it.uid != *owner).cloned().collect();
            if rest.len() == live.owners.len() {
                return Ok(());
            }
            match self.calls.set_references(target, &live, &rest).await {
                Err(error) if error.cause.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
                Err(error) if error.cause.proves_absence(resource, target.name) => return Ok(()),
                Err(error) => return Err(error),
                Ok(changed) => {
                    let why = (ActionWord::DropReferences, "orphan_requested");
                    self.patched(&item, target, why, changed).await;
                    return Ok(());
                }
            }
        }
    }
}
