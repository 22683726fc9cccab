//! Compares what two collectors left, object by object. An object is the same if its forest and its id are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::on_node::owner_forests::forest::{Forest, Left, State};

/// An object that two collectors left in different states.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub forest: String,
    pub id: String,
    /// `None` = it is deleted.
    upstream: Option<Left>,
    pub ours: Option<Left>,
}

/// Compares the states of these forests, forest by forest.
pub fn compare(
    forests: &[Forest],
    (upstream, ours): (&BTreeMap<String, State>, &BTreeMap<String, State>),
) -> Vec<Difference> {
    let none = State::default();
    let different = |forest: &Forest| {
        let (upstream, ours) = (upstream.get(&forest.name).unwrap_or(&none), ours.get(&forest.name).unwrap_or(&none));
        let ids: BTreeSet<_> = upstream.keys().chain(ours.keys()).collect();
        let difference = |id: &String| Difference {
            forest: forest.name.clone(),
            id: id.clone(),
            upstream: upstream.get(id).cloned(),
            ours: ours.get(id).cloned(),
        };
        let is_different = |id: &&String| upstream.get(*id) != ours.get(*id);
        ids.into_iter().filter(is_different).map(difference).collect::<Vec<_>>()
    };
    forests.iter().flat_map(different).collect()
}

// === impl Difference ===

impl Difference {
    /// Returns whether our collector left the object in deletion.
    pub fn is_terminating(&self) -> bool {
        self.ours.as_ref().is_some_and(|left| left.terminating)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { forest, id, upstream, ours } = self;
        write!(f, "{forest}/{id}: kube-controller-manager left {upstream:?}, kubegc left {ours:?}")
    }
}
