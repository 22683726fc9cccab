//! Which nodes were deleted. A node that the list lacks is in quarantine first, then a live read decides.
//!
//! One command has no memory of missing nodes, so it keeps their pods as in quarantine, unless the quarantine is 0.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{NodeMeta, PodsSnapshot};

/// The nodes that pods name and the list lacks, since when: by the wall clock for people, and by the monotonic clock for the
/// quarantine (I15).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MissingNodes(BTreeMap<String, (Timestamp, Duration)>);

/// The answer to the live read of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodeAnswer {
    Exists(NodeMeta),
    /// A `Status` with the reason `NotFound` and the name of the node.
    NotFound,
    /// No answer that proves anything, and the cause.
    Unavailable(String),
}

/// The state of a node that pods name and the list of nodes lacks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodeState {
    /// It is missing since then, and its quarantine has not ended.
    InQuarantine(Timestamp),
    /// A live read found it.
    Exists,
    /// A live read proved that it was deleted.
    Deleted,
    /// The live read failed with this cause.
    Unavailable(String),
}

pub type NodeStates = BTreeMap<String, NodeState>;

// === impl MissingNodes ===

impl MissingNodes {
    /// Updates the quarantine with a snapshot, and returns the nodes to read live: those whose quarantine has ended. A
    /// node that is in the list again, or that no pod names any more, leaves the quarantine. `now` is the time of a
    /// monotonic clock, since any start.
    pub fn observe(&mut self, snapshot: &PodsSnapshot, now: Duration, quarantine: Duration) -> Vec<String> {
        let known: HashSet<_> = snapshot.nodes.iter().map(|node| &node.name).collect();
        let named = snapshot.pods.iter().map(|pod| &pod.node).filter(|node| !node.is_empty());
        let missing: HashSet<_> = named.filter(|node| !known.contains(node)).collect();
        self.0.retain(|node, _| missing.contains(node));
        for node in missing {
            self.0.entry(node.clone()).or_insert((snapshot.taken_at, now));
        }
        let due = self.0.iter().filter(|(_, (_, since))| now.saturating_sub(*since) >= quarantine);
        due.map(|(node, _)| node.clone()).collect()
    }

    /// Applies the answers of the live reads and returns the state of each missing node. After any answer the quarantine
    /// of the node begins again with the next pass that misses it.
    pub fn resolve(&mut self, answers: impl IntoIterator<Item = (String, NodeAnswer)>) -> NodeStates {
        let mut states = NodeStates::new();
        for (node, answer) in answers {
            self.0.remove(&node);
            let state = match answer {
                NodeAnswer::Exists(_) => NodeState::Exists,
                NodeAnswer::NotFound => NodeState::Deleted,
                NodeAnswer::Unavailable(cause) => NodeState::Unavailable(cause),
            };
            states.insert(node, state);
        }
        states.extend(self.0.iter().map(|(node, (since, _))| (node.clone(), NodeState::InQuarantine(*since))));
        states
    }

    /// Lists the nodes in quarantine, and since when.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.0.iter().map(|(node, (since, _))| (node.as_str(), *since))
    }
}

// === impl NodeState ===

impl NodeState {
    /// Returns why the node could not be read.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Unavailable(cause) => Some(cause),
            _ => None,
        }
    }
}
