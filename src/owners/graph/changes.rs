//! What each event changes in the graph, and what is to be done then.

use std::num::NonZeroU64;

use super::super::alternative::next_identity;
use super::super::{Identity, OwnerReference, Uid};
use super::store::{NodeId, State};
use super::{Graph, ResourceId};

/// News about one object or one list.
#[derive(Clone, Debug)]
pub enum Event {
    /// A monitor shows an object, new or changed.
    Seen(Observed),
    /// A monitor shows that an object was deleted.
    Deleted(Identity),
    /// A live read proves that there is no object of this identity.
    ProvenAbsent(Identity),
    /// A monitor begins a complete list of its resource.
    ListBegins(ResourceId),
    /// A complete list has ended. Every object of the resource that it did not show was deleted.
    ListEnds(ResourceId),
    /// The API server no longer serves the resource. What it showed is unverified from now on.
    Unserved(ResourceId),
}

/// An object as a monitor shows it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub identity: Identity,
    /// The resource of the monitor.
    pub resource: ResourceId,
    /// It has a deletionTimestamp.
    pub is_deleting: bool,
    /// It has the finalizer `orphan`.
    pub orphans: bool,
    /// It has the finalizer `foregroundDeletion`.
    pub is_foreground: bool,
    /// Its owner references, in order.
    pub owners: Vec<OwnerReference>,
    /// Its resourceVersion; `None` if that is not a number, as it always was up to now.
    pub version: Option<NonZeroU64>,
}

/// What is to be done after an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Check whether this object is to be deleted.
    TryDelete(Uid),
    /// Check whether this owner exists, which only references name. Needless if a monitor shows it before that.
    Verify(Uid),
    /// Check it later, with a back-off.
    RetryDelete(Uid),
    /// Remove this owner from its dependents, then its finalizer `orphan`.
    TryOrphan(Uid),
    /// Report a reference to an owner in another namespace, which Kubernetes does not allow.
    WrongNamespace {
        /// The dependent.
        dependent: Identity,
        /// Its reference.
        reference: OwnerReference,
    },
}

// === impl Graph ===

impl Graph {
    /// Applies one event and returns what to do next, in order.
    pub fn apply(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Seen(observed) => drop(self.seen(&observed, &mut effects)),
            Event::Deleted(identity) => self.deleted(&identity, &mut effects),
            Event::ProvenAbsent(identity) => self.proven_absent(&identity, &mut effects),
            Event::ListBegins(resource) => self.store.begin_list(resource),
            Event::ListEnds(resource) => self.list_ended(resource, &mut effects),
            Event::Unserved(resource) => self.unserved(resource, &mut effects),
        }
        effects
    }

    fn seen(&mut self, observed: &Observed, effects: &mut Vec<Effect>) -> Option<()> {
        self.absent.remove(&observed.identity);
        let id = match self.store.find(&observed.identity.uid) {
            Some(id) => id,
            None => self.store.insert(&observed.identity, State::Observed)?,
        };
        self.observe(id, &observed.identity, effects);
        self.update_owners(id, &observed.identity, &observed.owners, effects);
        let list = self.store.current_list(observed.resource);
        let node = self.store.node_mut(id)?;
        (node.resource, node.list, node.is_deleting) = (observed.resource, list, observed.is_deleting);
        node.waits_for_dependents = observed.is_deleting && observed.is_foreground;
        let has_own_policy = observed.is_deleting || observed.orphans || observed.is_foreground;
        node.version = observed.version.filter(|_| !has_own_policy);
        node.was_seen = true;
        if observed.is_deleting && observed.orphans {
            effects.push(Effect::TryOrphan(observed.identity.uid.clone()));
        } else if node.waits_for_dependents {
            // Before the owner, so that a dependent that does not block is deleted before its owner too.
            self.try_delete_dependents(id, effects);
            effects.push(Effect::TryDelete(observed.identity.uid.clone()));
        }
        Some(())
    }

    /// Takes over the identity of an object that was a guess or absent until now. Each dependent that meant something
    /// else is to be checked.
    fn observe(&mut self, id: NodeId, identity: &Identity, effects: &mut Vec<Effect>) {
        if self.store.node(id).is_none_or(|node| node.state == State::Observed) {
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
        if let Some(node) = self.store.node_mut(id) {
            node.state = State::Observed;
        }
    }

    fn update_owners(&mut self, id: NodeId, of: &Identity, owners: &[OwnerReference], effects: &mut Vec<Effect>) {
        let before = self.store.references(id);
        if before == owners {
            return;
        }
        let named =
            |references: &[OwnerReference], uid: &Uid| references.iter().rfind(|known| known.uid == *uid).cloned();
        for old in &before {
            let blocks_still = named(owners, &old.uid).is_some_and(|new| new.blocking);
            if old.blocking && !blocks_still {
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
        for reference in owners.iter().filter(|new| named(&before, &new.uid).is_none()) {
            is_doubtful = is_doubtful || self.is_doubtful(reference, of, effects);
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
    /// may be another object than the one that the reference means.
    fn is_doubtful(&self, reference: &OwnerReference, dependent: &Identity, effects: &mut Vec<Effect>) -> bool {
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
            || node.state == State::Guess && lacks_namespace
    }

    fn deleted(&mut self, identity: &Identity, effects: &mut Vec<Effect>) {
        let Some(id) = self.store.find(&identity.uid) else { return };
        self.observe(id, identity, effects);
        self.remove(id, effects);
    }

    fn proven_absent(&mut self, absent: &Identity, effects: &mut Vec<Effect>) {
        let Some(id) = self.store.find(&absent.uid) else { return };
        let (Some(node), Some(identity)) = (self.store.node(id), self.store.identity(id)) else { return };
        let state = node.state;
        let is_meant = |(dependent, reference): &(Identity, OwnerReference)| {
            *absent == reference.identity(if absent.is_cluster_scoped() { "" } else { &dependent.namespace })
        };
        let (meant, others): (Vec<_>, Vec<_>) = self.references_to(id).into_iter().partition(is_meant);
        if state == State::Observed && identity == *absent || state == State::Guess && others.is_empty() {
            return self.remove(id, effects);
        }
        if !meant.is_empty() {
            self.absent.insert(absent.clone());
            effects.extend(meant.into_iter().map(|(dependent, _)| Effect::TryDelete(dependent.uid)));
        }
        if state == State::Guess && identity == *absent {
            let Some(next) = next_identity(&others, absent) else { return };
            self.store.set_identity(id, &next);
            effects.push(Effect::RetryDelete(absent.uid.clone()));
        }
    }

    fn list_ended(&mut self, resource: ResourceId, effects: &mut Vec<Effect>) {
        let list = self.store.current_list(resource);
        let is_missing = |id: &NodeId| self.store.node(*id).is_some_and(|node| node.list != list);
        let missing: Vec<_> = self.of_resource(resource).into_iter().filter(is_missing).collect();
        for id in missing {
            self.remove(id, effects);
        }
    }

    fn unserved(&mut self, resource: ResourceId, effects: &mut Vec<Effect>) {
        for id in self.of_resource(resource) {
            let previous = self.store.unlink(id);
            if let Some(node) = self.store.node_mut(id) {
                (node.state, node.is_deleting, node.waits_for_dependents) = (State::Guess, false, false);
                node.version = None;
            }
            if let Some(identity) = self.store.identity(id).filter(|_| self.store.has_dependents(id)) {
                effects.push(Effect::Verify(identity.uid));
            }
            self.forget_unnamed(id);
            for owner in previous {
                self.forget_unnamed(owner);
            }
        }
    }

    fn of_resource(&self, resource: ResourceId) -> Vec<NodeId> {
        let nodes = self.store.nodes();
        let shown = nodes.filter(|(_, node)| node.state == State::Observed && node.resource == resource);
        shown.map(|(id, _)| id).collect()
    }

    /// Removes an object that is absent. Its dependents are to be checked, and each owner that waits for it. While
    /// references name the object, its node stays, marked absent.
    fn remove(&mut self, id: NodeId, effects: &mut Vec<Effect>) {
        let Some(identity) = self.store.identity(id) else { return };
        let owners = self.store.references(id);
        let previous = self.store.unlink(id);
        if let Some(node) = self.store.node_mut(id) {
            (node.state, node.is_deleting, node.waits_for_dependents) = (State::Absent, false, false);
            node.version = None;
        }
        if self.store.has_dependents(id) {
            self.absent.insert(identity);
            self.try_delete_dependents(id, effects);
        }
        for owner in &owners {
            self.try_waiting_owner(&owner.uid, effects);
        }
        self.forget_unnamed(id);
        for owner in previous {
            self.forget_unnamed(owner);
        }
    }

    /// Removes the node of an object that no monitor has shown, if no reference names it.
    fn forget_unnamed(&mut self, id: NodeId) {
        let is_unobserved = self.store.node(id).is_some_and(|node| node.state != State::Observed);
        if is_unobserved && !self.store.has_dependents(id) {
            self.store.remove(id);
        }
    }

    fn try_delete_dependents(&self, id: NodeId, effects: &mut Vec<Effect>) {
        effects.extend(self.references_to(id).into_iter().map(|(dependent, _)| Effect::TryDelete(dependent.uid)));
    }

    fn try_waiting_owner(&self, uid: &Uid, effects: &mut Vec<Effect>) {
        if self.item(uid).is_some_and(|owner| owner.waits_for_dependents) {
            effects.push(Effect::TryDelete(uid.clone()));
        }
    }

    fn references_to(&self, id: NodeId) -> Vec<(Identity, OwnerReference)> {
        let edges = self.store.edges_to(id);
        edges
            .filter_map(|(edge, dependent)| Some((self.store.identity(dependent)?, self.store.reference(edge)?)))
            .collect()
    }
}
