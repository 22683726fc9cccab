//! What an object leaves in the graph that was deleted, or that a list, discovery or a read lacks.
//!
//! Only a deletion that the resource itself shows, and a live read, are proofs that an owner is absent (G1). An object whose
//! end is not proven stays a dependent of owners in deletion until a live read proves it (G4).

use std::time::Duration;

use super::super::alternative::next_identity;
use super::changes::Effect;
use super::graph_store::{NodeId, State};
use super::{Graph, ResourceId};
use crate::model::{Identity, OwnerReference, Uid};

// === impl Graph ===

impl Graph {
    pub(super) fn deleted(
        &mut self,
        resource: ResourceId,
        identity: &Identity,
        at: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let Some(id) = self.store.find(&identity.uid) else { return };
        let was_shown = self.store.node(id).is_some_and(|node| node.state.was_shown());
        let is_it = was_shown && self.is_shown_as(id, resource, identity);
        let has_ended = |of: ResourceId, _, object: &Identity| of == resource && object.is_named_as(identity);
        if self.remove_shared(id, has_ended, effects) || !is_it {
            self.references_end(id, identity, at, effects);
            return self.verify_guess(id, &identity.uid, effects);
        }
        self.remove(id, Some((identity, at)), effects);
    }

    /// No worker is about to verify what a guess means now.
    fn verify_guess(&self, id: NodeId, uid: &Uid, effects: &mut Vec<Effect>) {
        if self.store.node(id).is_some_and(|node| node.state == State::Guess) {
            effects.push(Effect::Verify(uid.clone()));
        }
    }

    pub(super) fn proven_absent(&mut self, absent: &Identity, at: Duration, effects: &mut Vec<Effect>) {
        let Some(id) = self.store.find(&absent.uid) else { return };
        let Some(node) = self.store.node(id) else { return };
        let is_it = node.state.was_shown() && self.store.identity(id).is_some_and(|identity| identity == *absent);
        let has_ended = |_, _, object: &Identity| *object == *absent;
        if self.remove_shared(id, has_ended, effects) || !is_it {
            return self.references_end(id, absent, at, effects);
        }
        self.remove(id, Some((absent, at)), effects);
    }

    pub(super) fn removed(&mut self, object: &Identity, effects: &mut Vec<Effect>) {
        let Some(id) = self.store.find(&object.uid) else { return };
        if !self.shared.contains_key(&id) && self.store.identity(id).is_some_and(|identity| identity == *object) {
            self.remove(id, None, effects);
        }
    }

    /// There is no object of this identity, and the node may stand for another one: only what means the identity is to be
    /// checked. A guess becomes the next one that references mean.
    fn references_end(&mut self, id: NodeId, absent: &Identity, at: Duration, effects: &mut Vec<Effect>) {
        let (Some(node), Some(identity)) = (self.store.node(id), self.store.identity(id)) else { return };
        let is_guess = node.state == State::Guess;
        let is_meant = |(dependent, reference): &(Identity, OwnerReference)| {
            *absent == reference.identity(if absent.is_cluster_scoped() { "" } else { &dependent.namespace })
        };
        let (meant, others): (Vec<_>, Vec<_>) = self.references_to(id).into_iter().partition(is_meant);
        if is_guess && others.is_empty() {
            return self.remove(id, Some((absent, at)), effects);
        }
        if !meant.is_empty() {
            self.absent.insert(absent.clone(), at);
            effects.extend(meant.into_iter().map(|(dependent, _)| Effect::TryDelete(dependent.uid)));
        }
        if is_guess && identity == *absent {
            let Some(next) = next_identity(&others, absent) else { return };
            self.store.set_identity(id, &next);
            effects.push(Effect::RetryDelete(absent.uid.clone()));
        }
    }

    pub(super) fn list_ended(&mut self, resource: ResourceId, effects: &mut Vec<Effect>) {
        let list = self.store.current_list(resource);
        self.remove_all_shared(|of, shown_by, _| of == resource && shown_by != list, effects);
        let is_missing = |id: &NodeId| self.store.node(*id).is_some_and(|node| node.list != list);
        let missing: Vec<_> = self.of_resource(resource).into_iter().filter(is_missing).collect();
        for id in missing {
            self.missing(id, effects);
        }
    }

    /// A list lacks the object. That is no proof.
    fn missing(&mut self, id: NodeId, effects: &mut Vec<Effect>) {
        if self.holds_owners(id) {
            self.hide(id, effects);
        } else {
            self.remove(id, None, effects);
        }
    }

    pub(super) fn unserved(&mut self, resource: ResourceId, effects: &mut Vec<Effect>) {
        self.remove_all_shared(|of, _, _| of == resource, effects);
        for id in self.of_resource(resource) {
            self.hide(id, effects);
            self.forget_unnamed(id);
        }
    }

    pub(super) fn dropped(&mut self, resource: ResourceId, effects: &mut Vec<Effect>) {
        self.remove_all_shared(|of, _, _| of == resource, effects);
        for id in self.of_resource(resource) {
            self.remove(id, None, effects);
        }
    }

    /// The object is unverified. It keeps its references: until it is done, its owners wait for it.
    fn hide(&mut self, id: NodeId, effects: &mut Vec<Effect>) {
        let Some(node) = self.store.node_mut(id) else { return };
        (node.state, node.is_deleting, node.waits_for_dependents) = (State::Hidden, false, false);
        node.version = None;
        if let Some(identity) =
            self.store.identity(id).filter(|_| self.store.has_dependents(id) || self.holds_owners(id))
        {
            effects.push(Effect::Verify(identity.uid));
        }
    }

    /// Returns whether an owner of the object is in deletion, and may wait for it.
    fn holds_owners(&self, id: NodeId) -> bool {
        let mut owners = self.store.edges_of(id).filter_map(|(_, owner)| self.store.node(owner));
        owners.any(|owner| owner.is_deleting)
    }

    fn of_resource(&self, resource: ResourceId) -> Vec<NodeId> {
        let nodes = self.store.nodes();
        let shown = nodes.filter(|(_, node)| node.state.was_shown() && node.resource == resource);
        shown.map(|(id, _)| id).collect()
    }

    /// Removes an object. Its dependents are to be checked, and each owner that waits for it. While references name the
    /// object, its node stays, marked absent.
    fn remove(&mut self, id: NodeId, proof: Option<(&Identity, Duration)>, effects: &mut Vec<Effect>) {
        self.shared.remove(&id);
        let owners = self.store.references(id);
        let previous = self.store.unlink(id);
        if let Some(node) = self.store.node_mut(id) {
            (node.state, node.is_deleting, node.waits_for_dependents) = (State::Absent, false, false);
            node.version = None;
            self.ended.push(node.uid.clone());
        }
        if self.store.has_dependents(id) {
            if let Some((identity, at)) = proof {
                self.absent.insert(identity.clone(), at);
            }
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

    /// Removes the node of an object that no monitor shows, if no reference names it and it names none.
    pub(super) fn forget_unnamed(&mut self, id: NodeId) {
        let Some(node) = self.store.node(id).filter(|node| node.state != State::Observed) else { return };
        if !self.store.has_dependents(id) && self.store.edges_of(id).next().is_none() {
            if node.state != State::Absent {
                self.ended.push(node.uid.clone());
            }
            self.store.remove(id);
        }
    }

    pub(super) fn try_delete_dependents(&self, id: NodeId, effects: &mut Vec<Effect>) {
        effects.extend(self.references_to(id).into_iter().map(|(dependent, _)| Effect::TryDelete(dependent.uid)));
    }

    pub(super) fn try_waiting_owner(&self, uid: &Uid, effects: &mut Vec<Effect>) {
        if self.item(uid).is_some_and(|owner| owner.waits_for_dependents) {
            effects.push(Effect::TryDelete(uid.clone()));
        }
    }

    pub(super) fn references_to(&self, id: NodeId) -> Vec<(Identity, OwnerReference)> {
        let edges = self.store.edges_to(id);
        edges
            .filter_map(|(edge, dependent)| Some((self.store.identity(dependent)?, self.store.reference(edge)?)))
            .collect()
    }
}
