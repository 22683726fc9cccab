//! What the next pass would remove, and what is kept and why: a plan, reduced to what a page shows.

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;

use super::contents::Contents;
use crate::plan::{Action, DiskState, KeptFor, Kind, Plan, Report};

/// Objects of a list that are named. The others are counted.
const NAMED: usize = 20;

/// What is known of the next pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// When the node was observed.
    pub at: Timestamp,
    /// What would be removed by the rules in force, in order.
    pub next: Removals,
    /// What would be removed under disk pressure, in order; `None` = not known.
    pub under_pressure: Option<Removals>,
    /// What is kept, by kind and reason.
    pub kept: Vec<KeptFor>,
    /// What could not be observed or planned.
    pub errors: Vec<String>,
    /// The disks with their limits and forecasts.
    pub states: Vec<DiskState>,
    /// What fills the disks.
    #[serde(flatten)]
    pub contents: Contents,
}

/// Objects that would be removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Removals {
    /// All of them.
    pub count: usize,
    /// Estimated bytes of all of them.
    pub bytes: u64,
    /// The first ones.
    pub first: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The kind of the object.
    pub kind: Kind,
    /// The name of a container or an image, else the ID or path.
    pub name: String,
    /// The pod, as namespace/name; empty = none.
    pub pod: String,
    /// Its size; `None` = not known.
    pub bytes: Option<u64>,
    /// Why it is removed.
    pub reason: String,
}

// === impl Outlook ===

impl Outlook {
    /// Makes an outlook of the plan of a pass. What the pass removed is left out. `under_pressure` is the plan under disk
    /// pressure of the same snapshot, which `kubegc report` makes; a pass plans once.
    pub fn new(plan: &Plan, under_pressure: Option<&Plan>, reports: &[Report]) -> Self {
        let (done, mut kept) = (Report::removed(reports), plan.kept_for());
        kept.sort_by_key(|one| (Reverse(one.is_guard), one.kind, Reverse(one.count)));
        Self {
            at: plan.taken_at,
            next: Removals::new(plan, &done),
            under_pressure: under_pressure.map(|plan| Removals::new(plan, &done)),
            kept,
            errors: plan.errors.iter().map(ToString::to_string).collect(),
            states: plan.disks.clone(),
            contents: Contents::default(),
        }
    }

    /// Adds what fills the disks.
    #[must_use]
    pub fn with_contents(self, contents: Contents) -> Self {
        Self { contents, ..self }
    }

    /// Combines the outlooks of two passes over different kinds of objects. A pass has none under disk pressure.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let next = self.next.and(other.next);
        let kept = self.kept.into_iter().chain(other.kept).collect();
        let errors = self.errors.into_iter().chain(other.errors).collect();
        let states = if self.at > other.at { self.states } else { other.states };
        Self { at: self.at.max(other.at), next, under_pressure: None, kept, errors, states, contents: self.contents }
    }
}

// === impl Removals ===

impl Removals {
    fn new(plan: &Plan, done: &HashSet<String>) -> Self {
        let actions: Vec<_> = plan.actions.iter().filter(|action| !done.contains(&action.key())).collect();
        Self {
            count: actions.len(),
            bytes: actions.iter().filter_map(|action| action.bytes()).sum(),
            first: actions.iter().take(NAMED).map(|action| Line::new(action)).collect(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            first: self.first.into_iter().chain(other.first).take(NAMED).collect(),
        }
    }
}

// === impl Line ===

impl Line {
    fn new(action: &Action) -> Self {
        Self {
            kind: action.target.kind(),
            name: action.target.name().map_or_else(|| action.target.id(), str::to_owned),
            pod: action.pod.as_ref().map(ToString::to_string).unwrap_or_default(),
            bytes: action.size(),
            reason: action.reason.explain().phrase.into_owned(),
        }
    }
}
