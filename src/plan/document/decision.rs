//! What a plan decides about one object, whichever of its lists has it.

use super::Kept;
use super::Plan;
use super::action::{Action, Kind};
use super::explain::Explanation;
use super::reason::{KeepReason, RemoveReason};
use crate::model::PodRef;

/// The decision about one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<'a> {
    /// The kind of the object.
    pub kind: Kind,
    /// The ID of the object; for logs, the path.
    pub id: String,
    /// The pod of the object.
    pub pod: Option<&'a PodRef>,
    /// What is done with it.
    pub verdict: Verdict<'a>,
}

/// What is done with an object, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict<'a> {
    /// It is removed.
    Remove(&'a RemoveReason),
    /// It is removed if the removals before it reclaim too little.
    IfNeeded(&'a RemoveReason),
    /// It is kept.
    Keep(&'a KeepReason),
}

// === impl Verdict ===

impl Verdict<'_> {
    /// Returns the word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remove(_) => "remove",
            Self::IfNeeded(_) => "next_in_line",
            Self::Keep(_) => "keep",
        }
    }

    /// Explains the reason.
    pub fn explain(self) -> Explanation {
        match self {
            Self::Remove(reason) | Self::IfNeeded(reason) => reason.explain(),
            Self::Keep(reason) => reason.explain(),
        }
    }
}

// === impl Decision ===

impl<'a> Decision<'a> {
    fn remove(action: &'a Action, verdict: Verdict<'a>) -> Self {
        Self { kind: action.target.kind(), id: action.target.id(), pod: action.pod.as_ref(), verdict }
    }

    fn keep(kept: &'a Kept) -> Self {
        let Kept { kind, id, pod, reason, .. } = kept;
        Self { kind: *kind, id: id.clone(), pod: pod.as_ref(), verdict: Verdict::Keep(reason) }
    }
}

// === impl Plan ===

impl Plan {
    /// Returns the decisions about the objects of a kind: removals, fallback candidates, and then what is kept. A fallback
    /// candidate is in the list of kept images too, and comes once more with the reason why it is kept first.
    pub fn decisions(&self, kind: Kind) -> impl Iterator<Item = Decision<'_>> {
        let removed = self.actions.iter().map(|action| Decision::remove(action, Verdict::Remove(&action.reason)));
        let next = self.images.reserve.iter().map(|action| Decision::remove(action, Verdict::IfNeeded(&action.reason)));
        let kept = self.kept.iter().map(Decision::keep);
        removed.chain(next).chain(kept).filter(move |decision| decision.kind == kind)
    }

    /// Returns the decision about an object; `None` = the plan does not have it.
    pub fn of(&self, kind: Kind, id: &str) -> Option<Decision<'_>> {
        self.decisions(kind).find(|decision| decision.id == id)
    }
}
