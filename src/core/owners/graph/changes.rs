//! What each event changes in the graph, and what is to be done then: objects that a monitor shows. For objects that end,
//! see [`super::ends`].

use std::time::Duration;

use super::graph_store::{NodeId, State};
use super::{Graph, ResourceId};
use crate::model::{ApiKind, FOREGROUND, Identity, ORPHAN, ObjectMeta, OwnerReference, Uid};

/// News about one object or one list.
#[derive(Clone, Debug)]
pub enum Event {
    /// A monitor shows an object, new or changed.
    Seen(Observed),
    /// The monitor of this resource shows that an object was deleted.
    Deleted(ResourceId, Identity),
    /// A live read proves that there is no object of this identity.
    ProvenAbsent(Identity),
    /// The API server has accepted the deletion of an object that nothing holds. That is no proof (G1).
    Removed(Identity),
    ListBegins(ResourceId),
    /// A complete list has ended. What it did not show is unverified from now on.
    ListEnds(ResourceId),
    /// The API server no longer serves the resource. What it showed is unverified from now on.
    Unserved(ResourceId),
    /// The resource was deleted with all its objects.
    Dropped(ResourceId),
    /// A monitor was interrupted: the API server may have been restored to an older state.
    Interrupted,
}

/// An object as a monitor shows it.
#[derive(Clone, Debug)]
pub struct Observed {
    pub kind: ApiKind,
    /// The resource of the monitor.
    pub resource: ResourceId,
    pub meta: ObjectMeta,
}

/// What is to be done after an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Check whether this object is to be deleted.
    TryDelete(Uid),
    /// Check whether this object exists, which no monitor shows now. Needless if a monitor shows it before that.
    Verify(Uid),
    /// Check it later, with a back-off.
    RetryDelete(Uid),
    /// Remove this owner from its dependents, then its finalizer `orphan`.
    TryOrphan(Uid),
    /// Report a reference to an owner in another namespace, which Kubernetes does not allow.
    WrongNamespace { dependent: Identity, reference: OwnerReference },
}

// === impl Observed ===

impl Observed {
    pub(super) fn identity(&self) -> Identity {
        self.meta.identity(&self.kind)
    }
}

// === impl Graph ===

impl Graph {
    /// Applies one event and returns what to do next, in order. `at` is when the event arrived, or when the read began that
    /// proves it.
    pub fn apply(&mut self, event: Event, at: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Seen(observed) => drop(self.seen(&observed, at, &mut effects)),
            Event::Deleted(resource, identity) => self.deleted(resource, &identity, at, &mut effects),
            Event::ProvenAbsent(identity) => self.proven_absent(&identity, at, &mut effects),
            Event::Removed(identity) => self.removed(&identity, &mut effects),
            // What was deleted before a list may exist in it again (G1).
            Event::ListBegins(resource) => {
                self.absent.distrust(at);
                self.store.begin_list(resource);
            }
            Event::ListEnds(resource) => self.list_ended(resource, &mut effects),
            Event::Unserved(resource) => self.unserved(resource, &mut effects),
            Event::Dropped(resource) => self.dropped(resource, &mut effects),
            Event::Interrupted => self.absent.distrust(at),
        }
        effects.dedup();
        effects
    }

    fn seen(&mut self, observed: &Observed, at: Duration, effects: &mut Vec<Effect>) -> Option<()> {
        let (resource, meta, identity) = (&observed.resource, &observed.meta, &observed.identity());
        // All objects without a uid would be one (G3).
        if identity.uid.is_empty() {
            return None;
        }
        self.absent.remove(identity);
        let id = match self.store.find(&identity.uid) {
            Some(id) if self.is_shown_as(id, *resource, identity) => id,
            Some(id) if self.store.node(id).is_some_and(|node| node.state == State::Hidden) => {
                self.give_to_shown(id, observed)?;
                id
            }
            Some(id) => return self.seen_elsewhere(id, observed, effects),
            None => self.store.insert(identity, State::Observed)?,
        };
        self.observe(id, identity, effects);
        if self.went_backward(id, meta) {
            self.absent.distrust(at);
        }
        let is_shared = self.shared.contains_key(&id);
        if is_shared {
            self.update_shared(id, observed, effects);
        } else {
            self.update_owners(id, identity, &meta.owners, effects);
        }
        let list = self.store.current_list(*resource);
        let has_own_policy = meta.is_deleting() || meta.has(ORPHAN) || meta.has(FOREGROUND);
        let node = self.store.node_mut(id)?;
        (node.resource, node.list, node.is_deleting) = (*resource, list, meta.is_deleting());
        node.waits_for_dependents = meta.waits_for_dependents();
        node.version = meta.version_number().filter(|_| !has_own_policy && !is_shared && meta.left_out_owners == 0);
        node.left_out_owners = u32::try_from(meta.left_out_owners).unwrap_or(u32::MAX);
        node.was_seen = true;
        self.continue_deletion(id, meta, effects);
        Some(())
    }

    fn continue_deletion(&self, id: NodeId, meta: &ObjectMeta, effects: &mut Vec<Effect>) {
        if meta.is_deleting() && meta.has(ORPHAN) {
            effects.push(Effect::TryOrphan(meta.uid.clone()));
        } else if meta.waits_for_dependents() {
            // Before the owner, so that a dependent that does not block is deleted before its owner too.
            self.try_delete_dependents(id, effects);
            effects.push(Effect::TryDelete(meta.uid.clone()));
        }
    }

    /// Versions only grow, unless an older state was restored.
    fn went_backward(&self, id: NodeId, meta: &ObjectMeta) -> bool {
        let before = self.store.node(id).and_then(|node| node.version);
        before.zip(meta.version_number()).is_some_and(|(before, now)| now < before)
    }

    /// Takes over the identity of an object that was a guess or absent until now, or that another version of its resource
    /// showed. Each dependent that meant something else than the guess is to be checked.
    fn observe(&mut self, id: NodeId, identity: &Identity, effects: &mut Vec<Effect>) {
        let Some(node) = self.store.node_mut(id) else { return };
        if std::mem::replace(&mut node.state, State::Observed).was_shown() {
            if !self.store.has_kind(id, &identity.kind) {
                self.store.set_identity(id, identity);
            }
            return;
        }
        for (dependent, reference) in self.references_to(id) {
            if identity.is_meant_by(&reference, &dependent.namespace) {
                continue;
            }
            effects.push(Effect::TryDelete(dependent.uid.clone()));
            if !identity.is_cluster_scoped() && identity.namespace != dependent.namespace {
                effects.push(Effect::WrongNamespace { dependent, reference });
            }
        }
        self.store.set_identity(id, identity);
    }

    pub(super) fn update_owners(
        &mut self,
        id: NodeId,
        of: &Identity,
        owners: &[OwnerReference],
        effects: &mut Vec<Effect>,
    ) {
        let before = self.store.references(id);
        if before == owners {
            return;
        }
        let named =
            |references: &[OwnerReference], uid: &Uid| references.iter().rfind(|known| known.uid == *uid).cloned();
        for old in &before {
            let blocks_still = named(owners, &old.uid).is_some_and(|new| new.blocks());
            if old.blocks() && !blocks_still {
                self.try_waiting_owner(&old.uid, effects);
            }
        }
        let previous = self.store.unlink(id);
        let mut is_doubtful = false;
        // Backward, because a new reference comes before the others.
        for reference in owners.iter().rev() {
            let owner = self.owner(reference, of, effects);
            let Some(owner) = owner else { continue };
            self.store.link(id, owner, reference);
        }
        // The one that is removed may have kept the object.
        let lost_one = before.iter().any(|old| named(owners, &old.uid).is_none());
        for reference in owners.iter().filter(|it| lost_one || named(&before, &it.uid).is_none()) {
            is_doubtful = is_doubtful || self.is_doubtful(reference, of, lost_one, effects);
        }
        if is_doubtful {
            effects.push(Effect::TryDelete(of.uid.clone()));
        }
        for owner in previous {
            self.forget_unnamed(owner);
        }
    }

    /// Returns the node of an owner. An owner without a node gets one, as a guess to be verified.
    fn owner(&mut self, reference: &OwnerReference, dependent: &Identity, effects: &mut Vec<Effect>) -> Option<NodeId> {
        self.store.find(&reference.uid).or_else(|| {
            effects.push(Effect::Verify(reference.uid.clone()));
            self.store.insert(&reference.identity(&dependent.namespace), State::Guess)
        })
    }

    /// Returns whether the dependent of this reference is to be checked: the owner waits for its dependents, is absent, or
    /// may be another object than the one that the reference means. If the dependent has lost a reference, a guess may have
    /// been verified while that one kept it.
    fn is_doubtful(
        &self,
        reference: &OwnerReference,
        dependent: &Identity,
        lost_one: bool,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(id) = self.store.find(&reference.uid) else { return true };
        let (Some(node), Some(owner)) = (self.store.node(id), self.store.identity(id)) else { return true };
        if !owner.is_cluster_scoped() && owner.namespace != dependent.namespace {
            if node.state == State::Observed {
                let (dependent, reference) = (dependent.clone(), reference.clone());
                effects.push(Effect::WrongNamespace { dependent, reference });
            }
            return true;
        }
        // The scope of a guess is unknown, so a cluster-scoped dependent makes one without a namespace of a namespaced
        // owner too (kubernetes#98040).
        let lacks_namespace = owner.is_cluster_scoped() && !dependent.is_cluster_scoped();
        // An owner that waits deletes its dependents, those that appear late too.
        node.state == State::Absent
            || node.waits_for_dependents
            || !owner.is_meant_by(reference, &dependent.namespace)
            || node.state == State::Guess && (lacks_namespace || lost_one)
    }
}
