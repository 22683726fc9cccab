//! Objects that share a uid: two resources show them, as an aggregated API that mirrors core objects, or two names do.
//!
//! The node has the identity of the one that was shown first. Its references are those of all, so that no owner loses a
//! dependent. None of them is deleted as shown (G3), and the end of one says nothing about the others (G1).

use super::changes::{Effect, Observed};
use super::graph_store::{NodeId, State};
use super::{Graph, ResourceId};
use crate::model::{Identity, OwnerReference, Uid};

#[derive(Clone, Debug)]
pub(super) struct SharedObject {
    identity: Identity,
    resource: ResourceId,
    list: u32,
    owners: Vec<OwnerReference>,
    /// Its resource is not served now, or a list lacks it.
    is_hidden: bool,
}

// === impl Graph ===

impl Graph {
    /// Lists the other objects that have the uid of an object, if several share it.
    pub fn others_of(&self, uid: &Uid) -> Vec<Identity> {
        let Some(id) = self.store.find(uid) else { return Vec::new() };
        let sharing = self.shared.get(&id).into_iter().flatten();
        let others = sharing.filter(|object| !self.is_shown_as(id, object.resource, &object.identity));
        others.map(|object| object.identity.clone()).collect()
    }

    /// Returns whether a node stands for this object, so that what its resource shows is about the node. Only references
    /// name a guess, so it may become any.
    pub(super) fn is_shown_as(&self, id: NodeId, resource: ResourceId, identity: &Identity) -> bool {
        let Some(node) = self.store.node(id) else { return false };
        !node.state.was_shown() || node.resource == resource && self.store.is_named(id, identity)
    }

    /// Adds or changes an object that shares the uid of a node.
    pub(super) fn seen_elsewhere(&mut self, id: NodeId, observed: &Observed, effects: &mut Vec<Effect>) -> Option<()> {
        self.share(id)?;
        self.store.node_mut(id)?.version = None;
        self.update_shared(id, observed, effects);
        Some(())
    }

    /// The node of a hidden object is from now on that of an object with its uid that a monitor shows.
    pub(super) fn give_to_shown(&mut self, id: NodeId, observed: &Observed) -> Option<()> {
        self.share(id)?;
        self.take_over(id, &self.shared_object(observed));
        Some(())
    }

    fn share(&mut self, id: NodeId) -> Option<()> {
        if !self.shared.contains_key(&id) {
            let first = self.first_shown(id)?;
            self.shared.insert(id, vec![first]);
        }
        Some(())
    }

    pub(super) fn update_shared(&mut self, id: NodeId, observed: &Observed, effects: &mut Vec<Effect>) {
        let object = self.shared_object(observed);
        let sharing = self.shared.entry(id).or_default();
        match sharing.iter_mut().find(|known| known.is_same(object.resource, &object.identity)) {
            Some(known) => *known = object,
            None => sharing.push(object),
        }
        self.join_owners(id, effects);
    }

    fn shared_object(&self, observed: &Observed) -> SharedObject {
        let (resource, owners) = (observed.resource, observed.meta.owners.clone());
        SharedObject {
            identity: observed.identity(),
            resource,
            list: self.store.current_list(resource),
            owners,
            is_hidden: false,
        }
    }

    /// Removes those of the objects that share the uid of a node for which `has_ended` holds. Returns whether others remain;
    /// then one of them has the node.
    pub(super) fn remove_shared(
        &mut self,
        id: NodeId,
        has_ended: impl Fn(ResourceId, u32, &Identity) -> bool,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(mut sharing) = self.shared.remove(&id) else { return false };
        let had = sharing.len();
        sharing.retain(|object| !has_ended(object.resource, object.list, &object.identity));
        sharing.sort_by_key(|object| object.is_hidden);
        let (Some(first), is_same) = (sharing.first().cloned(), sharing.len() == had) else { return false };
        let has_node = sharing.iter().any(|object| self.is_shown_as(id, object.resource, &object.identity));
        self.shared.insert(id, sharing);
        if is_same {
            return true;
        }
        if !has_node {
            self.take_over(id, &first);
        }
        self.join_owners(id, effects);
        if self.shared.get(&id).is_some_and(|sharing| sharing.len() == 1) {
            self.shared.remove(&id);
        }
        let uid = first.identity.uid;
        effects.push(if first.is_hidden { Effect::Verify(uid) } else { Effect::TryDelete(uid) });
        self.forget_unnamed(id);
        true
    }

    /// Removes all objects for which `has_ended` holds from the nodes that several share.
    pub(super) fn remove_all_shared(
        &mut self,
        has_ended: impl Fn(ResourceId, u32, &Identity) -> bool + Copy,
        effects: &mut Vec<Effect>,
    ) {
        let ids: Vec<_> = self.shared.keys().copied().collect();
        for id in ids {
            self.remove_shared(id, has_ended, effects);
        }
    }

    /// The object takes over the node. What its last event said of its deletion, its next one says again.
    fn take_over(&mut self, id: NodeId, object: &SharedObject) {
        self.store.set_identity(id, &object.identity);
        if let Some(node) = self.store.node_mut(id) {
            node.state = if object.is_hidden { State::Hidden } else { State::Observed };
            (node.resource, node.list, node.version) = (object.resource, object.list, None);
            (node.is_deleting, node.waits_for_dependents) = (false, false);
        }
    }

    fn join_owners(&mut self, id: NodeId, effects: &mut Vec<Effect>) {
        let Some(identity) = self.store.identity(id) else { return };
        let mut all = Vec::new();
        for owner in self.shared.get(&id).into_iter().flatten().flat_map(|object| &object.owners) {
            if !all.contains(owner) {
                all.push(owner.clone());
            }
        }
        self.update_owners(id, &identity, &all, effects);
    }

    fn first_shown(&self, id: NodeId) -> Option<SharedObject> {
        let (identity, node) = (self.store.identity(id)?, self.store.node(id)?);
        let (resource, list, is_hidden) = (node.resource, node.list, node.state == State::Hidden);
        Some(SharedObject { identity, resource, list, owners: self.store.references(id), is_hidden })
    }
}

// === impl SharedObject ===

impl SharedObject {
    fn is_same(&self, resource: ResourceId, identity: &Identity) -> bool {
        self.resource == resource && self.identity.is_named_as(identity)
    }
}
