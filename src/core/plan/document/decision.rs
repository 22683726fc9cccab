//! What a plan decides about one object, whichever of its lists has it.

use std::borrow::Cow;
use std::collections::HashMap;

use super::action::{Action, Kind, key};
use super::explain::Explanation;
use super::{Kept, Plan};
use crate::model::PodRef;

/// The decision about one object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision<'a> {
    Remove(&'a Action),
    /// It is removed if the removals before it reclaim too little.
    IfNeeded(&'a Action),
    Keep(&'a Kept),
}

// === impl Decision ===

impl<'a> Decision<'a> {
    /// Returns the word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remove(_) => "remove",
            Self::IfNeeded(_) => "next_in_line",
            Self::Keep(_) => "keep",
        }
    }

    /// Returns the kind of the object.
    pub fn kind(self) -> Kind {
        match self {
            Self::Remove(action) | Self::IfNeeded(action) => action.target.kind(),
            Self::Keep(kept) => kept.kind,
        }
    }

    /// Returns the ID of the object; for logs, the path.
    pub fn id(self) -> Cow<'a, str> {
        match self {
            Self::Remove(action) | Self::IfNeeded(action) => action.target.id().into(),
            Self::Keep(kept) => (&kept.id).into(),
        }
    }

    /// Returns the pod of the object.
    pub fn pod(self) -> Option<&'a PodRef> {
        match self {
            Self::Remove(action) | Self::IfNeeded(action) => action.pod.as_ref(),
            Self::Keep(kept) => kept.pod.as_ref(),
        }
    }

    pub fn explain(self) -> Explanation {
        match self {
            Self::Remove(action) | Self::IfNeeded(action) => action.reason.explain(),
            Self::Keep(kept) => kept.reason.explain(),
        }
    }
}

// === impl Plan ===

impl Plan {
    /// Returns the decisions: removals, fallback candidates, and then what is kept. A fallback candidate is in the list of kept
    /// images too, and comes once more with the reason why it is kept first.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = Decision<'_>> {
        let removed = self.actions.iter().map(Decision::Remove);
        removed.chain(self.images.reserve.iter().map(Decision::IfNeeded)).chain(self.kept.iter().map(Decision::Keep))
    }

    /// Returns the decision about an object; `None` = the plan does not have it.
    pub fn of(&self, kind: Kind, id: &str) -> Option<Decision<'_>> {
        self.decisions().find(|decision| decision.kind() == kind && decision.id() == id)
    }

    /// Returns the same decisions by the keys of the objects, for a caller that looks up many.
    pub fn by_key(&self) -> HashMap<String, Decision<'_>> {
        self.decisions().rev().map(|decision| (key(decision.kind(), &decision.id()), decision)).collect()
    }

    /// Leaves out the decisions that are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(Decision<'_>) -> bool) {
        self.actions.retain(|action| is_wanted(Decision::Remove(action)));
        self.images.reserve.retain(|action| is_wanted(Decision::IfNeeded(action)));
        self.kept.retain(|kept| is_wanted(Decision::Keep(kept)));
    }

    /// Returns what may be removed: the removals, then the fallback candidates.
    pub fn removals(&self) -> impl Iterator<Item = &Action> {
        self.actions.iter().chain(&self.images.reserve)
    }

    /// Returns whether the pass over images must free space.
    pub fn needs_space(&self) -> bool {
        self.images.stop_at_available_bytes > 0 || self.images.stop_at_free_inodes > 0
    }

    /// Returns whether objects of a kind are removed.
    pub fn removes(&self, kind: Kind) -> bool {
        self.actions.iter().any(|action| action.target.kind() == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::node::{MIB, node};

    #[test]
    fn a_fallback_candidate_is_one_decision_in_two_lists() {
        let images = ["a", "b", "c"].into_iter().fold(node().disk_of(2000 * MIB, 250 * MIB), |node, id| {
            node.image(id, 300).which(|image| image.size_bytes = 100 * MIB)
        });
        let mut plan = images.plan();
        let (kind, id) = (Kind::Image, plan.images.reserve[0].target.id());
        let decision = plan.of(kind, &id).unwrap();
        assert!(matches!(decision, Decision::IfNeeded(_)), "{decision:?}");
        assert_eq!(plan.by_key()[&key(kind, &id)], decision);
        let words: Vec<_> = plan.decisions().map(Decision::as_str).collect();
        assert_eq!(words, ["remove", "remove", "next_in_line", "keep"]);
        plan.retain(|decision| decision.id() != id);
        assert_eq!((plan.of(kind, &id), plan.actions.len()), (None, 2));
    }
}
