//! Objects that share a uid: two resources show them, as an aggregated API that mirrors core objects, or two names do.
//!
//! The node has the identity of the one that was shown first. Its references are those of all, so that no owner loses a
//! dependent. None of them is deleted as shown (G3), and the end of one says nothing about the others (G1).

use super::super::{Identity, OwnerReference, Uid};
use super::changes::{Effect, Observed};
use super::store::NodeId;
use super::{Graph, ResourceId};

/// One of the objects.
#[derive(Clone, Debug)]
pub(super) struct Face {
    identity: Identity,
    resource: ResourceId,
    list: u32,
    owners: Vec<OwnerReference>,
}

// === impl Graph ===

impl Graph {
    /// Lists the other objects that have the uid of an object, if several share it.
    pub fn others_of(&self, uid: &Uid) -> Vec<Identity> {
        let Some(id) = self.store.find(uid) else { return Vec::new() };
        let faces = self.shared.get(&id).into_iter().flatten();
        let others = faces.filter(|face| !self.is_shown_as(id, face.resource, &face.identity));
        others.map(|face| face.identity.clone()).collect()
    }

    /// Returns whether a node stands for this object, so that what its resource shows is about the node. Only references
    /// name a guess, so it may become any.
    pub(super) fn is_shown_as(&self, id: NodeId, resource: ResourceId, identity: &Identity) -> bool {
        let Some(node) = self.store.node(id) else { return false };
        !node.state.was_shown() || node.resource == resource && self.store.is_named(id, identity)
    }

    /// Adds or changes an object that shares the uid of a node.
    pub(super) fn seen_elsewhere(&mut self, id: NodeId, observed: &Observed, effects: &mut Vec<Effect>) -> Option<()> {
        if !self.shared.contains_key(&id) {
            let home = self.home(id)?;
            self.shared.insert(id, vec![home]);
        }
        self.store.node_mut(id)?.version = None;
        self.update_face(id, observed, effects);
        Some(())
    }

    pub(super) fn update_face(&mut self, id: NodeId, observed: &Observed, effects: &mut Vec<Effect>) {
        let Observed { identity, resource, owners, .. } = observed;
        let list = self.store.current_list(*resource);
        let face = Face { identity: identity.clone(), resource: *resource, list, owners: owners.clone() };
        let faces = self.shared.entry(id).or_default();
        match faces.iter_mut().find(|known| known.is_same(*resource, identity)) {
            Some(known) => *known = face,
            None => faces.push(face),
        }
        self.join_owners(id, effects);
    }

    /// Removes those of the objects that share the uid of a node for which `is_lost` holds. Returns whether others remain;
    /// then one of them has the node.
    pub(super) fn lose_faces(
        &mut self,
        id: NodeId,
        is_lost: impl Fn(ResourceId, u32, &Identity) -> bool,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(mut faces) = self.shared.remove(&id) else { return false };
        let had = faces.len();
        faces.retain(|face| !is_lost(face.resource, face.list, &face.identity));
        let (Some(first), is_same) = (faces.first().cloned(), faces.len() == had) else { return false };
        let has_home = faces.iter().any(|face| self.is_shown_as(id, face.resource, &face.identity));
        self.shared.insert(id, faces);
        if is_same {
            return true;
        }
        if !has_home {
            self.adopt(id, &first);
        }
        self.join_owners(id, effects);
        self.shared.retain(|known, faces| *known != id || faces.len() > 1);
        effects.push(Effect::TryDelete(first.identity.uid));
        true
    }

    /// Removes all objects for which `is_lost` holds from the nodes that several share.
    pub(super) fn lose_all_faces(
        &mut self,
        is_lost: impl Fn(ResourceId, u32, &Identity) -> bool + Copy,
        effects: &mut Vec<Effect>,
    ) {
        let ids: Vec<_> = self.shared.keys().copied().collect();
        for id in ids {
            self.lose_faces(id, is_lost, effects);
        }
    }

    /// The object takes over the node. What its last event said of its deletion, its next one says again.
    fn adopt(&mut self, id: NodeId, face: &Face) {
        self.store.set_identity(id, &face.identity);
        if let Some(node) = self.store.node_mut(id) {
            (node.resource, node.list, node.version) = (face.resource, face.list, None);
            (node.is_deleting, node.waits_for_dependents) = (false, false);
        }
    }

    fn join_owners(&mut self, id: NodeId, effects: &mut Vec<Effect>) {
        let Some(identity) = self.store.identity(id) else { return };
        let mut all = Vec::new();
        for owner in self.shared.get(&id).into_iter().flatten().flat_map(|face| &face.owners) {
            if !all.contains(owner) {
                all.push(owner.clone());
            }
        }
        self.update_owners(id, &identity, &all, effects);
    }

    fn home(&self, id: NodeId) -> Option<Face> {
        let (identity, node) = (self.store.identity(id)?, self.store.node(id)?);
        Some(Face { identity, resource: node.resource, list: node.list, owners: self.store.references(id) })
    }
}

// === impl Face ===

impl Face {
    fn is_same(&self, resource: ResourceId, identity: &Identity) -> bool {
        self.resource == resource && self.identity.is_named_as(identity)
    }
}
