//! What the next pass would remove, and what is kept and why: a plan, reduced to what a page shows.

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;

use crate::plan::{Action, KeptFor, Kind, Plan, Report};
use crate::store::CategoryEntry;

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
    /// What fills the image file system; empty = not known.
    pub disk: Vec<CategoryEntry>,
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

/// One object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The kind of the object.
    pub kind: Kind,
    /// The name of a container or an image, else the ID or path.
    pub name: String,
    /// The pod, as namespace/name; empty = none.
    pub pod: String,
    /// Bytes, estimated; `None` = not known.
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
            disk: Vec::new(),
        }
    }

    /// Adds what fills the image file system.
    #[must_use]
    pub fn with_disk(self, disk: Vec<CategoryEntry>) -> Self {
        Self { disk, ..self }
    }

    /// Combines the outlooks of two passes over different kinds of objects. A pass has none under disk pressure.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let next = self.next.and(other.next);
        let kept = self.kept.into_iter().chain(other.kept).collect();
        let errors = self.errors.into_iter().chain(other.errors).collect();
        let disk = if self.disk.is_empty() { other.disk } else { self.disk };
        Self { at: self.at.max(other.at), next, under_pressure: None, kept, errors, disk }
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
            bytes: action.bytes(),
            reason: action.reason.explain().phrase.into_owned(),
        }
    }
}
