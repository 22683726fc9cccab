//! Nodes and edges in a compact form: some 150 bytes for an object with one owner.
//!
//! The edges of a node to its owners and the edges of an owner to its dependents are linked lists through the same
//! rows, so the two directions cannot disagree.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::iter;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use hashbrown::HashTable;

use super::ResourceId;
use super::intern::Interner;
use super::rows::Rows;
use crate::model::{ApiKind, Identity, OwnerReference, Uid};

pub(super) type NodeId = NonZeroU32;
pub(super) type EdgeId = NonZeroU32;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    /// Only from references; its identity is that of one of them.
    Guess,
    /// A monitor has shown it.
    Observed,
    /// A monitor has shown it. Now its resource is not served, or a list lacks it, so it is unverified.
    Hidden,
    /// It was deleted or proven absent, and references still name it.
    Absent,
}

// === impl State ===

impl State {
    /// Returns whether a monitor has shown it, and nothing else has ended it since.
    pub(super) fn was_shown(self) -> bool {
        matches!(self, Self::Observed | Self::Hidden)
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) uid: Uid,
    name: Box<str>,
    namespace: u32,
    kind: u32,
    /// The list of the resource that showed it last.
    pub(super) list: u32,
    first_owner: Option<EdgeId>,
    first_dependent: Option<EdgeId>,
    pub(super) resource: ResourceId,
    pub(super) state: State,
    pub(super) is_deleting: bool,
    pub(super) waits_for_dependents: bool,
    /// A monitor has shown it, now or earlier.
    pub(super) was_seen: bool,
    /// How many of its owner references are not kept.
    pub(super) left_out_owners: u32,
    /// The version that a monitor has shown last, if only the owner references decide about its deletion.
    pub(super) version: Option<NonZeroU64>,
}

#[derive(Debug)]
struct Edge {
    owner: NodeId,
    dependent: NodeId,
    /// The next reference of the dependent.
    next_owner: Option<EdgeId>,
    /// The neighbors among the references to the owner.
    next_dependent: Option<EdgeId>,
    previous_dependent: Option<EdgeId>,
    controller: Option<bool>,
    blocking: Option<bool>,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    nodes: Rows<Node>,
    edges: Rows<Edge>,
    /// Numbers of nodes, by uid.
    index: HashTable<NodeId>,
    hasher: RandomState,
    kinds: Interner<ApiKind>,
    namespaces: Interner<Arc<str>>,
    /// Kind and name of the references that differ from the owner's node: few.
    others: HashMap<EdgeId, (ApiKind, Arc<str>)>,
    /// How many lists of each resource have begun.
    lists: HashMap<ResourceId, u32>,
}

// === impl Store: nodes ===

impl Store {
    pub(super) fn find(&self, uid: &Uid) -> Option<NodeId> {
        let is_it = |id: &NodeId| self.nodes.get(*id).is_some_and(|node| node.uid == *uid);
        self.index.find(self.hasher.hash_one(uid), is_it).copied()
    }

    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter()
    }

    /// Adds a node for a uid that has none.
    pub(super) fn insert(&mut self, identity: &Identity, state: State) -> Option<NodeId> {
        let node = Node {
            uid: identity.uid.clone(),
            name: (&*identity.name).into(),
            namespace: self.namespaces.acquire(&identity.namespace),
            kind: self.kinds.acquire(&identity.kind),
            list: 0,
            first_owner: None,
            first_dependent: None,
            resource: ResourceId::default(),
            state,
            is_deleting: false,
            waits_for_dependents: false,
            was_seen: false,
            left_out_owners: 0,
            version: None,
        };
        let id = self.nodes.insert(node)?;
        let Self { nodes, index, hasher, .. } = self;
        let rehash = |id: &NodeId| hasher.hash_one(nodes.get(*id).map_or(&identity.uid, |node| &node.uid));
        index.insert_unique(hasher.hash_one(&identity.uid), id, rehash);
        Some(id)
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        let Some(node) = self.nodes.remove(id) else { return };
        if let Ok(entry) = self.index.find_entry(self.hasher.hash_one(&node.uid), |known| *known == id) {
            entry.remove();
        }
        self.kinds.release(node.kind);
        self.namespaces.release(node.namespace);
    }

    /// Returns how many kinds and namespaces are in memory.
    #[cfg(test)]
    pub(super) fn interned(&self) -> usize {
        self.kinds.len() + self.namespaces.len()
    }

    /// Returns whether a node has the namespace and the name of an object.
    pub(super) fn is_named(&self, id: NodeId, identity: &Identity) -> bool {
        let namespace = |node: &Node| self.namespaces.value(node.namespace) == Some(&identity.namespace);
        self.nodes.get(id).is_some_and(|node| *node.name == *identity.name && namespace(node))
    }

    pub(super) fn namespace(&self, id: NodeId) -> Option<Arc<str>> {
        self.namespaces.value(self.nodes.get(id)?.namespace).cloned()
    }

    pub(super) fn has_kind(&self, id: NodeId, kind: &ApiKind) -> bool {
        self.nodes.get(id).is_some_and(|node| self.kinds.value(node.kind) == Some(kind))
    }

    pub(super) fn identity(&self, id: NodeId) -> Option<Identity> {
        let node = self.nodes.get(id)?;
        Some(Identity {
            kind: self.kinds.value(node.kind)?.clone(),
            namespace: Arc::clone(self.namespaces.value(node.namespace)?),
            name: (&*node.name).into(),
            uid: node.uid.clone(),
        })
    }

    /// Gives a node another identity of the same uid. The references to it stay as the dependents wrote them.
    pub(super) fn set_identity(&mut self, id: NodeId, identity: &Identity) {
        let edges: Vec<_> = self.edges_to(id).map(|(edge, _)| edge).collect();
        let references: Vec<_> = edges.iter().map(|edge| self.reference(*edge)).collect();
        if let Some(node) = self.nodes.get_mut(id) {
            let kind = std::mem::replace(&mut node.kind, self.kinds.acquire(&identity.kind));
            let namespace = std::mem::replace(&mut node.namespace, self.namespaces.acquire(&identity.namespace));
            node.name = (&*identity.name).into();
            self.kinds.release(kind);
            self.namespaces.release(namespace);
        }
        for (edge, reference) in edges.into_iter().zip(references) {
            if let Some(reference) = reference {
                self.set_coordinates(edge, identity, &reference);
            }
        }
    }
}

// === impl Store: edges ===

impl Store {
    /// Lists the references to a node, and the dependent of each.
    pub(super) fn edges_to(&self, owner: NodeId) -> impl Iterator<Item = (EdgeId, NodeId)> {
        let first = self.nodes.get(owner).and_then(|node| node.first_dependent);
        let next = |edge: &EdgeId| self.edges.get(*edge).and_then(|edge| edge.next_dependent);
        let edges = iter::successors(first, next);
        edges.filter_map(|edge| Some((edge, self.edges.get(edge)?.dependent)))
    }

    /// Lists the references of a node in their order, and the owner of each.
    pub(super) fn edges_of(&self, dependent: NodeId) -> impl Iterator<Item = (EdgeId, NodeId)> {
        let first = self.nodes.get(dependent).and_then(|node| node.first_owner);
        let next = |edge: &EdgeId| self.edges.get(*edge).and_then(|edge| edge.next_owner);
        let edges = iter::successors(first, next);
        edges.filter_map(|edge| Some((edge, self.edges.get(edge)?.owner)))
    }

    pub(super) fn has_dependents(&self, owner: NodeId) -> bool {
        self.edges_to(owner).next().is_some()
    }

    /// Returns the reference as the dependent writes it.
    pub(super) fn reference(&self, id: EdgeId) -> Option<OwnerReference> {
        let edge = self.edges.get(id)?;
        let owner = self.identity(edge.owner)?;
        let (kind, name) = match self.others.get(&id) {
            Some((kind, name)) => (kind.clone(), Arc::clone(name)),
            None => (owner.kind, owner.name),
        };
        Some(OwnerReference { kind, name, uid: owner.uid, controller: edge.controller, blocking: edge.blocking })
    }

    /// Returns whether a reference blocks the foreground deletion of its owner.
    pub(super) fn blocks(&self, id: EdgeId) -> bool {
        self.edges.get(id).is_some_and(|edge| edge.blocking == Some(true))
    }

    pub(super) fn references(&self, dependent: NodeId) -> Vec<OwnerReference> {
        self.edges_of(dependent).filter_map(|(edge, _)| self.reference(edge)).collect()
    }

    /// Adds a reference before the others of the dependent.
    pub(super) fn link(&mut self, dependent: NodeId, owner: NodeId, reference: &OwnerReference) -> Option<()> {
        let next_owner = self.nodes.get(dependent)?.first_owner;
        let next_dependent = self.nodes.get(owner)?.first_dependent;
        let edge = self.edges.insert(Edge {
            owner,
            dependent,
            next_owner,
            next_dependent,
            previous_dependent: None,
            controller: reference.controller,
            blocking: reference.blocking,
        })?;
        if let Some(next) = next_dependent.and_then(|next| self.edges.get_mut(next)) {
            next.previous_dependent = Some(edge);
        }
        self.nodes.get_mut(dependent)?.first_owner = Some(edge);
        self.nodes.get_mut(owner)?.first_dependent = Some(edge);
        let identity = self.identity(owner)?;
        self.set_coordinates(edge, &identity, reference);
        Some(())
    }

    /// Removes all references of a node and returns their owners.
    pub(super) fn unlink(&mut self, dependent: NodeId) -> Vec<NodeId> {
        let edges: Vec<_> = self.edges_of(dependent).collect();
        if let Some(node) = self.nodes.get_mut(dependent) {
            node.first_owner = None;
        }
        for (edge, _) in &edges {
            self.unlink_from_owner(*edge);
        }
        edges.into_iter().map(|(_, owner)| owner).collect()
    }

    fn unlink_from_owner(&mut self, id: EdgeId) {
        self.others.remove(&id);
        let Some(edge) = self.edges.remove(id) else { return };
        if let Some(next) = edge.next_dependent.and_then(|next| self.edges.get_mut(next)) {
            next.previous_dependent = edge.previous_dependent;
        }
        match edge.previous_dependent.and_then(|previous| self.edges.get_mut(previous)) {
            Some(previous) => previous.next_dependent = edge.next_dependent,
            None => {
                if let Some(owner) = self.nodes.get_mut(edge.owner) {
                    owner.first_dependent = edge.next_dependent;
                }
            }
        }
    }

    fn set_coordinates(&mut self, id: EdgeId, owner: &Identity, reference: &OwnerReference) {
        let is_exact = owner.kind == reference.kind && owner.name == reference.name;
        if is_exact {
            self.others.remove(&id);
        } else {
            self.others.insert(id, (reference.kind.clone(), Arc::clone(&reference.name)));
        }
    }
}

// === impl Store: lists ===

impl Store {
    pub(super) fn begin_list(&mut self, resource: ResourceId) {
        *self.lists.entry(resource).or_default() += 1;
    }

    /// Returns the number of the resource's newest list.
    pub(super) fn current_list(&self, resource: ResourceId) -> u32 {
        self.lists.get(&resource).copied().unwrap_or_default()
    }
}
