//! Compares what two collectors left, object by object. An object is the same if its forest and its id are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::on_node::owner_forests::forest::{Left, State};

/// An object that two collectors left in different states.
#[derive(Clone, Debug)]
pub struct Difference {
    pub forest: String,
    pub id: String,
    /// `None` = it is deleted.
    upstream: Option<Left>,
    ours: Option<Left>,
    /// The objects of the forest that exist on both sides.
    exist: BTreeSet<String>,
}

/// A difference that is known, and why it is none of the rules.
struct Explanation {
    reason: &'static str,
    holds: fn(&Difference) -> bool,
}

/// How many differences may be explained at a time.
const MOST_EXPLAINED: usize = 10;

const EXPLANATIONS: [Explanation; 1] = [Explanation {
    reason: "its owners were deleted in one cascade, and a finalizer of others holds it: a collector that checks it before \
             the last owner is deleted drops the references to the others first, and one that checks it later keeps all",
    holds: is_order_of_owners,
}];

/// Compares the states of all forests.
pub fn compare(upstream: &BTreeMap<String, State>, ours: &BTreeMap<String, State>) -> Vec<Difference> {
    let exist = |forest: &str| -> BTreeSet<String> {
        let ids =
            |states: &BTreeMap<String, State>| states.get(forest).into_iter().flat_map(State::keys).cloned().collect();
        let (upstream, ours): (BTreeSet<_>, BTreeSet<_>) = (ids(upstream), ids(ours));
        &upstream & &ours
    };
    let (upstream, ours) = (by_object(upstream), by_object(ours));
    let all: BTreeSet<_> = upstream.keys().chain(ours.keys()).collect();
    let different = all.into_iter().filter(|object| upstream.get(*object) != ours.get(*object));
    different
        .map(|object| Difference {
            forest: object.0.to_owned(),
            id: object.1.to_owned(),
            upstream: upstream.get(object).map(|left| (*left).clone()),
            ours: ours.get(object).map(|left| (*left).clone()),
            exist: exist(object.0),
        })
        .collect()
}

fn by_object(states: &BTreeMap<String, State>) -> BTreeMap<(&str, &str), &Left> {
    states.iter().flat_map(|(forest, state)| state.iter().map(move |(id, left)| ((&**forest, &**id), left))).collect()
}

/// Both sides delete the object, one with fewer of its references. What both have is of owners that are deleted.
fn is_order_of_owners(difference: &Difference) -> bool {
    let (Some(upstream), Some(ours)) = (&difference.upstream, &difference.ours) else { return false };
    let owners = |left: &Left| left.owners.iter().cloned().collect::<BTreeSet<_>>();
    let (of_upstream, of_ours) = (owners(upstream), owners(ours));
    let common = &of_upstream & &of_ours;
    let is_subset = common == of_upstream || common == of_ours;
    let is_deleted = |(owner, ..): &(String, String, bool)| !difference.exist.contains(owner);
    let is_same = Left { owners: Vec::new(), ..upstream.clone() } == Left { owners: Vec::new(), ..ours.clone() };
    is_same && upstream.terminating && is_subset && !common.is_empty() && common.iter().all(is_deleted)
}

/// Returns the differences that no explanation of the table holds for.
pub fn unexplained(different: Vec<Difference>) -> Vec<Difference> {
    let (known, unknown): (Vec<_>, Vec<_>) = different.into_iter().partition(|it| explanation(it).is_some());
    // An explanation of many differences would hide a rule.
    if known.len() > MOST_EXPLAINED { known.into_iter().chain(unknown).collect() } else { unknown }
}

/// Prints the differences that are known, and why.
pub fn print_explained(different: &[Difference]) {
    for difference in different {
        if let Some(Explanation { reason, .. }) = explanation(difference) {
            println!("{difference}\n  because {reason}");
        }
    }
}

fn explanation(difference: &Difference) -> Option<&'static Explanation> {
    EXPLANATIONS.iter().find(|explanation| (explanation.holds)(difference))
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
        let Self { forest, id, upstream, ours, .. } = self;
        write!(f, "{forest}/{id}: kube-controller-manager left {upstream:?}, kubegc left {ours:?}")
    }
}
