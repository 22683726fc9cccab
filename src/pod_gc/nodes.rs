//! Which nodes were deleted. A node that the list lacks is in quarantine first, then a live read decides.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::PodsSnapshot;

/// The nodes that pods name and the list lacks, since when.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MissingNodes(BTreeMap<String, Timestamp>);

/// The answer to the live read of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodeAnswer {
    /// It exists.
    Exists,
    /// A `Status` with the reason `NotFound` and the name of the node.
    NotFound,
    /// No answer that proves anything.
    Unavailable,
}

// === impl MissingNodes ===

impl MissingNodes {
    /// Updates the quarantine with a snapshot, and returns the nodes to read live: those whose quarantine has ended. A
    /// node that is in the list again, or that no pod names any more, leaves the quarantine.
    pub fn observe(&mut self, snapshot: &PodsSnapshot, quarantine: Duration) -> Vec<String> {
        let known: HashSet<_> = snapshot.nodes.iter().map(|node| &node.name).collect();
        let named = snapshot.pods.iter().map(|pod| &pod.node).filter(|node| !node.is_empty());
        let missing: HashSet<_> = named.filter(|node| !known.contains(node)).collect();
        self.0.retain(|node, _| missing.contains(node));
        for node in missing {
            self.0.entry(node.clone()).or_insert(snapshot.taken_at);
        }
        let is_due = |since: Timestamp| snapshot.taken_at.duration_since(since).unsigned_abs() >= quarantine;
        let due = self.0.iter().filter(|(_, since)| **since <= snapshot.taken_at && is_due(**since));
        due.map(|(node, _)| node.clone()).collect()
    }

    /// Applies the answers of the live reads and returns the nodes that are proven deleted. Every other node begins its
    /// quarantine again in the next pass.
    pub fn resolve(&mut self, answers: impl IntoIterator<Item = (String, NodeAnswer)>) -> BTreeSet<String> {
        let mut deleted = BTreeSet::new();
        for (node, answer) in answers {
            self.0.remove(&node);
            if answer == NodeAnswer::NotFound {
                deleted.insert(node);
            }
        }
        deleted
    }

    /// Lists the nodes in quarantine, and since when.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.0.iter().map(|(node, since)| (node.as_str(), *since))
    }
}
