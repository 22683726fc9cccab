//! Compares what two collectors left, object by object. An object is the same if its forest and its id are.
//!
//! An object loses its references to absent owners if it is checked while another owner exists, and goes with all references if
//! that owner went before. Which comes first depends on the order of two calls, in kube-controller-manager too, and nothing reads
//! the references of an object in deletion. So those to owners that never existed do not count there. An owner of another kind than
//! the reference names never existed either. In a namespace in deletion, those to owners that are gone do not count:
//! kube-controller-manager drops one from an object whose deletion has just begun if its watch has not shown that yet, and kubegc,
//! which reads the object, does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::on_node::owner_forests::forest::{Forest, Left, State};

/// The middle of each uid of an owner that never existed.
pub const NEVER_EXISTED: &str = "-0000-4000-";

/// The ids of the namespaces.
const NAMESPACES: [&str; 2] = ["a", "b"];

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
        let state = |states: &BTreeMap<String, State>| comparable(forest, states.get(&forest.name).unwrap_or(&none));
        let (upstream, ours) = (state(upstream), state(ours));
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

/// Returns the state of a forest without the references that do not count.
pub fn comparable(forest: &Forest, state: &State) -> State {
    let existed = |id: &str, kind: &str| {
        !id.contains(NEVER_EXISTED) && forest.objects.iter().all(|object| object.id != id || object.kind == kind)
    };
    let mut state = state.clone();
    // While pods are left, kube-controller-manager 1.36.2 writes that nothing is, and kubegc what is.
    for (ns, id) in (0..).zip(NAMESPACES) {
        let mut pods = forest.objects.iter().filter(|object| object.kind == "Pod" && object.ns == Some(ns));
        if pods.any(|pod| state.contains_key(&pod.id))
            && let Some(namespace) = state.get_mut(id)
        {
            namespace.owners.clear();
        }
    }
    let left_ids: BTreeSet<_> = state.keys().cloned().collect();
    for (id, left) in state.iter_mut().filter(|(_, left)| left.terminating) {
        let is_of_namespace = forest
            .objects
            .iter()
            .any(|it| it.id == *id && it.ns.is_some_and(|ns| left_ids.contains(NAMESPACES[usize::from(ns)])));
        left.owners.retain(|(id, kind, _)| existed(id, kind) && (!is_of_namespace || left_ids.contains(id)));
    }
    state
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

#[test]
fn only_in_deletion_references_to_owners_that_never_existed_do_not_count() {
    let object =
        |id: &str, kind: &str| serde_json::json!({ "id": id, "kind": kind, "ns": 0, "owners": [], "finalizers": [] });
    let forest = serde_json::json!({ "name": "r", "steps": [], "states": [],
        "objects": [object("o3", "Secret"), object("o5", "ConfigMap")] });
    let forest: Forest = serde_json::from_value(forest).unwrap();
    let owners = |left: &[(&str, &str)]| left.iter().map(|(id, kind)| ((*id).into(), (*kind).into(), true)).collect();
    let of = |terminating, left: &[(&str, &str)]| -> State {
        [("o8".to_owned(), Left { terminating, finalizers: Vec::new(), owners: owners(left) })].into()
    };
    let (all, some) = ([("3b15-0000-4000-8000", "Pod"), ("o3", "Widget"), ("o5", "ConfigMap")], [("o5", "ConfigMap")]);
    assert_eq!(comparable(&forest, &of(true, &all)), of(true, &some));
    assert_eq!(comparable(&forest, &of(false, &all)), of(false, &all));
}
