//! The ownership graph: a node for each object that a monitor has shown or a reference names, and an edge for each owner
//! reference.
//!
//! The graph never proves that an object is absent: an owner that no monitor has shown is a guess, to be verified by a
//! live read. [`Graph::apply`] takes one event and returns what to do next.
//!
//! A relist finds what may have been deleted during a gap of the watch: each object has the number of the list that
//! showed it last, and what the list lacks is read before it counts as absent (G1). A deleted owner that references
//! still name stays in the graph as absent.
//!
//! An owner that only references name is verified once, and only if no monitor shows it first. At the start, lists
//! show most dependents before their owners, so each of these owners would cost a live read.

mod changes;
mod ends;
mod graph_store;
mod intern;
mod rows;
mod shared;

pub use changes::{Effect, Event, Observed};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use graph_store::{NodeId, State, Store};
use shared::SharedObject;

use super::Absences;
use crate::model::{Identity, OwnerReference, Uid};

/// The number of a resource, as deployments.apps; the caller assigns it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResourceId(pub u16);

#[derive(Debug, Default)]
pub struct Graph {
    store: Store,
    /// Owners that were proven absent last.
    pub absent: Absences,
    /// The objects of each node that several objects with one uid share: few.
    shared: HashMap<NodeId, Vec<SharedObject>>,
    /// The objects that ended since the last call of [`Graph::take_ended`].
    ended: Vec<Uid>,
}

/// What the graph contains about one object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Item {
    /// Its identity; a guess if `is_virtual`.
    pub identity: Identity,
    /// No monitor shows it: only references name it, or its resource is not served now, or a list lacks it.
    pub is_virtual: bool,
    pub is_deleting: bool,
    /// It has a deletionTimestamp and the finalizer `foregroundDeletion`.
    pub waits_for_dependents: bool,
    /// How many of its owner references are not kept.
    pub left_out_owners: usize,
    /// The resource of the monitor that showed it; meaningless if none did.
    pub resource: ResourceId,
}

/// One version of an object, as a monitor has shown it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShownVersion {
    /// Its resourceVersion.
    pub version: NonZeroU64,
    /// The owner references of this version, in order.
    pub owners: Vec<OwnerReference>,
}

/// A dependent, and its reference to the owner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dependent {
    pub item: Item,
    pub reference: OwnerReference,
}

// === impl Graph ===

impl Graph {
    /// Returns what is known of an object. `None` if neither a monitor nor a reference names it, and for a deleted
    /// owner that references still name.
    pub fn item(&self, uid: &Uid) -> Option<Item> {
        self.store.find(uid).and_then(|node| self.item_of(node))
    }

    /// Lists the dependents of an object, one entry for each reference, in no order.
    pub fn dependents(&self, uid: &Uid) -> Vec<Dependent> {
        let Some(owner) = self.store.find(uid) else { return Vec::new() };
        let edges = self.store.edges_to(owner);
        edges
            .filter_map(|(edge, dependent)| {
                Some(Dependent { item: self.item_of(dependent)?, reference: self.store.reference(edge)? })
            })
            .collect()
    }

    /// Returns the namespace of an object, or of what references mean by it. Empty for a cluster-scoped and an unknown one.
    pub fn namespace(&self, uid: &Uid) -> Arc<str> {
        self.store.find(uid).and_then(|node| self.store.namespace(node)).unwrap_or_default()
    }

    /// Returns whether `is_it` holds for a dependent of an object: its uid, and whether it blocks.
    pub fn any_dependent(&self, uid: &Uid, is_it: impl Fn(&Uid, bool) -> bool) -> bool {
        let Some(owner) = self.store.find(uid) else { return false };
        let mut edges = self.store.edges_to(owner);
        edges.any(|(edge, dependent)| {
            let uid = self.store.node(dependent).map(|node| &node.uid);
            uid.is_some_and(|uid| is_it(uid, self.store.blocks(edge)))
        })
    }

    /// Returns whether `is_it` holds for a dependent of an object, or for another owner of one.
    pub fn any_relative(&self, uid: &Uid, is_it: impl Fn(&Uid) -> bool) -> bool {
        let Some(id) = self.store.find(uid) else { return false };
        let is_node = |id| self.store.node(id).is_some_and(|node| is_it(&node.uid));
        let mut dependents = self.store.edges_to(id).map(|(_, dependent)| dependent);
        dependents.any(|it| is_node(it) || self.store.edges_of(it).any(|(_, owner)| owner != id && is_node(owner)))
    }

    /// Returns the version of an object that a monitor has shown last. `None` if none did, if its deletion has begun, if a
    /// finalizer of garbage collection decides how it is deleted, and if another object has its uid (G3).
    pub fn shown_version(&self, uid: &Uid) -> Option<ShownVersion> {
        let id = self.store.find(uid)?;
        let version = self.store.node(id)?.version?;
        Some(ShownVersion { version, owners: self.store.references(id) })
    }

    /// Returns the objects that ended since the last call, and the guesses that nothing names any more.
    pub fn take_ended(&mut self) -> Vec<Uid> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the number of objects that a monitor has shown and that still exist.
    pub fn len(&self) -> usize {
        self.store.nodes().filter(|(_, node)| node.state == State::Observed).count()
    }

    /// Returns the number of objects that the monitor of a resource has shown and that still exist.
    pub fn count(&self, resource: ResourceId) -> usize {
        let is_of = |node: &&graph_store::Node| node.state == State::Observed && node.resource == resource;
        self.store.nodes().map(|(_, node)| node).filter(is_of).count()
    }

    /// Returns whether a monitor has ever shown the object, as long as it exists or references name it.
    pub fn was_seen(&self, uid: &Uid) -> bool {
        self.store.find(uid).and_then(|id| self.store.node(id)).is_some_and(|node| node.was_seen)
    }

    /// Returns whether no monitor has shown an object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn item_of(&self, node: NodeId) -> Option<Item> {
        let identity = self.store.identity(node)?;
        let node = self.store.node(node).filter(|node| node.state != State::Absent)?;
        Some(Item {
            identity,
            is_virtual: node.state != State::Observed,
            is_deleting: node.is_deleting,
            waits_for_dependents: node.waits_for_dependents,
            left_out_owners: usize::try_from(node.left_out_owners).unwrap_or(usize::MAX),
            resource: node.resource,
        })
    }
}

#[cfg(test)]
mod tests;
