//! Compares what two collectors left, object by object. An object is the same if its forest and its id are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::on_node::owner_forests::forest::{Forest, ForestObject, Left, State, Step};

/// An object that two collectors left in different states.
#[derive(Clone, Debug)]
pub struct Difference {
    pub forest: String,
    pub id: String,
    /// `None` = it is deleted.
    upstream: Option<Left>,
    ours: Option<Left>,
    /// The whole forest on both sides.
    all_of_upstream: State,
    all_of_ours: State,
    /// The objects that the steps so far deleted with the policy foreground.
    in_foreground: BTreeSet<String>,
    /// The objects with an owner in another namespace that is deleted with the policy orphan, and their dependents.
    orphaned_elsewhere: BTreeSet<String>,
}

/// A difference that is known, and why it is none of the rules.
struct Explanation {
    reason: &'static str,
    holds: fn(&Difference) -> bool,
}

/// The id or uid of an owner, its kind, whether the reference blocks it.
type Reference = (String, String, bool);

/// How many differences may be explained at a time.
const MOST_EXPLAINED: usize = 10;

const EXPLANATIONS: [Explanation; 3] = [
    Explanation {
        reason: "its owners were deleted in one cascade, and a finalizer of others holds it: a collector that checks it \
                 before the last owner is deleted drops the references to the others first, and one that checks it later \
                 keeps all",
        holds: is_order_of_owners,
    },
    Explanation {
        reason: "its owner was deleted in foreground, does not wait for it, and is held by a finalizer of others: \
                 kube-controller-manager may end the foreground deletion before it checks the dependents, and then keeps \
                 them until the owner is gone",
        holds: is_order_of_foreground,
    },
    Explanation {
        reason: "an owner in another namespace, which counts as absent, is deleted with the policy orphan: the object loses the \
                 reference to it and lives, or is deleted before",
        holds: is_order_of_orphaning,
    },
];

/// Compares the states of these forests after `steps` steps.
pub fn compare(
    forests: &[Forest],
    steps: usize,
    (upstream, ours): (&BTreeMap<String, State>, &BTreeMap<String, State>),
) -> Vec<Difference> {
    let none = State::default();
    let different = |forest: &Forest| {
        let (all_of_upstream, all_of_ours) =
            (upstream.get(&forest.name).unwrap_or(&none), ours.get(&forest.name).unwrap_or(&none));
        let ids: BTreeSet<_> = all_of_upstream.keys().chain(all_of_ours.keys()).collect();
        let difference = |id: &String| Difference {
            forest: forest.name.clone(),
            upstream: all_of_upstream.get(id).cloned(),
            ours: all_of_ours.get(id).cloned(),
            id: id.clone(),
            all_of_upstream: all_of_upstream.clone(),
            all_of_ours: all_of_ours.clone(),
            in_foreground: in_foreground(forest, steps),
            orphaned_elsewhere: orphaned_elsewhere(forest),
        };
        let is_different = |id: &&String| all_of_upstream.get(*id) != all_of_ours.get(*id);
        ids.into_iter().filter(is_different).map(difference).collect::<Vec<_>>()
    };
    forests.iter().flat_map(different).collect()
}

fn in_foreground(forest: &Forest, steps: usize) -> BTreeSet<String> {
    let deleted = |step: &Step| match step {
        Step::Delete { delete, policy } if policy == "Foreground" => Some(delete.clone()),
        Step::Delete { .. } | Step::Release { .. } => None,
    };
    forest.steps.iter().take(steps).filter_map(deleted).collect()
}

fn orphaned_elsewhere(forest: &Forest) -> BTreeSet<String> {
    let named = |object: &ForestObject| -> Vec<String> {
        object.owners.iter().chain(&object.late_owners).filter_map(|owner| owner.to.clone()).collect()
    };
    let crosses = |object: &ForestObject| {
        named(object).iter().map(|owner| forest.object(owner)).any(|owner| {
            owner.ns.is_some() && owner.ns != object.ns && owner.finalizers.iter().any(|known| known == "orphan")
        })
    };
    let mut found: BTreeSet<_> =
        forest.objects.iter().filter(|it| crosses(it)).map(|object| object.id.clone()).collect();
    loop {
        let depends = |object: &&ForestObject| named(object).iter().any(|owner| found.contains(owner));
        let more: Vec<_> = forest.objects.iter().filter(depends).map(|object| object.id.clone()).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

/// One side deletes the object, and the other keeps it.
fn is_order_of_orphaning(difference: &Difference) -> bool {
    difference.orphaned_elsewhere.contains(&difference.id)
        && (difference.upstream.is_none() || difference.ours.is_none())
}

/// Both sides delete the object, one with fewer of its references. What both have is of owners that are deleted.
fn is_order_of_owners(difference: &Difference) -> bool {
    let (Some(upstream), Some(ours)) = (&difference.upstream, &difference.ours) else { return false };
    let (of_upstream, of_ours) = (owners(upstream), owners(ours));
    let common = &of_upstream & &of_ours;
    let is_subset = common == of_upstream || common == of_ours;
    let exists = |id: &String| difference.all_of_upstream.contains_key(id) && difference.all_of_ours.contains_key(id);
    upstream.terminating
        && differ_in_owners_only(upstream, ours)
        && is_subset
        && !common.is_empty()
        && common.iter().all(|(owner, ..)| !exists(owner))
}

/// kube-controller-manager keeps the object, or a reference of it, because of owners that kubegc saw wait.
fn is_order_of_foreground(difference: &Difference) -> bool {
    let Some(upstream) = difference.upstream.as_ref().filter(|left| !left.terminating) else { return false };
    match &difference.ours {
        Some(ours) if !ours.terminating => {
            let (of_upstream, of_ours) = (owners(upstream), owners(ours));
            differ_in_owners_only(upstream, ours)
                && of_ours.is_subset(&of_upstream)
                && (&of_upstream - &of_ours).iter().all(|owner| difference.waited_without(owner))
        }
        _ => difference.lives_by_order(upstream, difference.all_of_upstream.len()),
    }
}

fn owners(left: &Left) -> BTreeSet<Reference> {
    left.owners.iter().cloned().collect()
}

fn differ_in_owners_only(a: &Left, b: &Left) -> bool {
    Left { owners: Vec::new(), ..a.clone() } == Left { owners: Vec::new(), ..b.clone() }
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
    /// Returns whether the owner of a reference was deleted in foreground and did not wait for this dependent, and only
    /// the finalizers of others hold it.
    fn waited_without(&self, (owner, _, blocks): &Reference) -> bool {
        let is_held = |left: &Left| left.terminating && !left.finalizers.iter().any(|it| it == "foregroundDeletion");
        !blocks && self.in_foreground.contains(owner) && self.all_of_upstream.get(owner).is_some_and(is_held)
    }

    /// Returns whether each owner of an object waited without it, or lives for that reason itself. `depth` bounds circles.
    fn lives_by_order(&self, left: &Left, depth: usize) -> bool {
        let lives = |owner: &str| {
            let is_alive = |states: &State| states.get(owner).is_some_and(|left| !left.terminating);
            let left = self.all_of_upstream.get(owner).filter(|left| !left.terminating);
            depth > 0 && !is_alive(&self.all_of_ours) && left.is_some_and(|left| self.lives_by_order(left, depth - 1))
        };
        let is_known = |owner: &Reference| self.waited_without(owner) || lives(&owner.0);
        !left.owners.is_empty() && left.owners.iter().all(is_known)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_node::owner_forests::forest::{ForestObject, Reference as ToOwner};

    /// o0 is held by a finalizer of others, o1 is its dependent, o2 that of o1.
    fn forest(policy: &str) -> Forest {
        let object = |id: &str, owner: Option<&str>| ForestObject {
            id: id.to_owned(),
            kind: "ConfigMap".to_owned(),
            ns: Some(0),
            owners: owner.map(|to| ToOwner { to: Some(to.to_owned()), ..ToOwner::default() }).into_iter().collect(),
            late_owners: Vec::new(),
            finalizers: Vec::new(),
        };
        Forest {
            name: "f".to_owned(),
            objects: vec![object("o0", None), object("o1", Some("o0")), object("o2", Some("o1"))],
            steps: vec![Step::Delete { delete: "o0".to_owned(), policy: policy.to_owned() }],
            states: Vec::new(),
        }
    }

    fn left(terminating: bool, finalizers: &[&str], owners: &[(&str, bool)]) -> Left {
        let owners = owners.iter().map(|(id, blocks)| ((*id).to_owned(), "ConfigMap".to_owned(), *blocks));
        let finalizers = finalizers.iter().map(|it| (*it).to_owned()).collect();
        Left { terminating, finalizers, owners: owners.collect() }
    }

    fn states(objects: &[(&str, Left)]) -> BTreeMap<String, State> {
        let state = objects.iter().map(|(id, left)| ((*id).to_owned(), left.clone())).collect();
        BTreeMap::from([("f".to_owned(), state)])
    }

    fn unexplained_of(policy: &str, blocks: bool, ours: &[(&str, Left)]) -> Vec<String> {
        let held = left(true, &["example.com/hold"], &[]);
        let upstream =
            [("o0", held), ("o1", left(false, &[], &[("o0", blocks)])), ("o2", left(false, &[], &[("o1", false)]))];
        let different = compare(&[forest(policy)], 1, (&states(&upstream), &states(ours)));
        unexplained(different).into_iter().map(|difference| difference.id).collect()
    }

    #[test]
    fn only_foreground_deletion_without_waiting_explains_remaining_dependents() {
        let held = [("o0", left(true, &["example.com/hold"], &[]))];
        assert_eq!(unexplained_of("Foreground", false, &held), [] as [&str; 0]);
        assert_eq!(unexplained_of("Background", false, &held), ["o1", "o2"]);
        assert_eq!(unexplained_of("Foreground", true, &held), ["o1", "o2"], "the owner waited for it");
        let kept = [held[0].clone(), ("o1", left(false, &[], &[("o0", false)]))];
        assert_eq!(unexplained_of("Foreground", false, &kept), ["o2"], "its owner lives on both sides");
    }
}
