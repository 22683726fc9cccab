//! Compares what two collectors left, object by object. An object is the same if its forest and its id are.
//!
//! An object loses its references to absent owners if it is checked while another owner exists, and goes with all references if
//! that owner went before. Which comes first depends on the order of two calls, in kube-controller-manager too, and nothing reads
//! the references of an object in deletion. So those to owners that never existed do not count there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::on_node::owner_forests::forest::{Forest, Left, State};

/// The middle of each uid of an owner that never existed.
pub const NEVER_EXISTED: &str = "-0000-4000-";

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
        let is_different = |id: &&String| !is_same(upstream.get(*id), ours.get(*id));
        ids.into_iter().filter(is_different).map(difference).collect::<Vec<_>>()
    };
    forests.iter().flat_map(different).collect()
}

/// Returns whether two collectors left an object alike.
pub fn is_same(one: Option<&Left>, other: Option<&Left>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one.terminating && other.terminating => {
            without_absent_owners(one) == without_absent_owners(other)
        }
        _ => one == other,
    }
}

fn without_absent_owners(left: &Left) -> Left {
    let owners = left.owners.iter().filter(|(id, ..)| !id.contains(NEVER_EXISTED)).cloned();
    Left { owners: owners.collect(), ..left.clone() }
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
