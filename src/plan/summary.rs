//! The summary of a whole plan.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Measure, Outcome, Report};

/// The outcomes of a plan, counted.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// The number of actions by kind of object and by name of the outcome.
    #[serde(default)]
    pub outcomes: BTreeMap<Kind, BTreeMap<String, usize>>,
    /// Reclaimed bytes by kind. Containers and sandboxes are measured together, under `container` if at least one
    /// container was removed. No byte counts twice, so the sum is that of the pass.
    #[serde(default)]
    pub freed_bytes: BTreeMap<Kind, u64>,
    /// How `freed_bytes` was determined, for each kind of which something was removed. `unknown` = some of the bytes
    /// are unknown, and `freed_bytes` contains the others.
    #[serde(default)]
    pub measure: BTreeMap<Kind, Measure>,
    /// Actions that were not begun, because of a shutdown or for the reasons in `halts`.
    #[serde(default)]
    pub not_begun: usize,
    /// Why actions were not begun, other than a shutdown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub halts: Vec<Halt>,
    /// Whether a shutdown was requested.
    #[serde(default)]
    pub is_stopped: bool,
    /// Bytes that are missing to reach the plan's target, as measured after the last action. 0 also if there is no
    /// target or the space could not be measured.
    #[serde(default)]
    pub shortfall_bytes: u64,
}

/// Why actions were not begun, other than a shutdown.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Halt {
    /// The kind of objects whose removals ended; `null` = the whole pass ended.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// The call without an answer.
    pub cause: String,
    /// How many planned actions were not begun.
    #[serde(default)]
    pub not_begun: usize,
}

// === impl Summary ===

impl Summary {
    /// Counts a report.
    pub fn add(&mut self, report: &Report) {
        let kind = report.action.target.kind();
        *self.outcomes.entry(kind).or_default().entry(report.outcome.kind().to_owned()).or_default() += 1;
        let bytes = self.freed_bytes.entry(kind).or_default();
        let is_step = matches!(kind, Kind::Container | Kind::Sandbox);
        if !is_step && report.outcome == (Outcome::Removed {}) {
            *bytes += report.freed_bytes.unwrap_or_default();
            self.worsen(kind, report.measure);
        }
    }

    /// Adds a step over containers and sandboxes, which is measured as a whole.
    pub fn add_step(&mut self, kind: Kind, bytes: u64, measure: Measure) {
        *self.freed_bytes.entry(kind).or_default() += bytes;
        self.worsen(kind, measure);
    }

    /// Returns the reclaimed bytes of all kinds that were determined in this way.
    pub fn freed_by(&self, measure: Measure) -> u64 {
        let kinds = self.freed_bytes.iter().filter(|(kind, _)| self.measure.get(kind) == Some(&measure));
        kinds.map(|(_, bytes)| bytes).sum()
    }

    /// Records the measure of a part. The measure of a sum is that of its worst part.
    fn worsen(&mut self, kind: Kind, measure: Measure) {
        self.measure.entry(kind).and_modify(|worst| *worst = measure.max(*worst)).or_insert(measure);
    }

    /// Returns the number of actions of all kinds with this name of [`Outcome::kind`].
    pub fn count(&self, outcome: &str) -> usize {
        self.outcomes.values().filter_map(|outcomes| outcomes.get(outcome)).sum()
    }
}

// === impl Halt ===

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{} removals ended early", kind.as_str().replace('_', " "))?,
            None => f.write_str("pass ended early")?,
        }
        let actions = if self.not_begun == 1 { "action" } else { "actions" };
        write!(f, ": {} ({} {actions} not begun)", self.cause, self.not_begun)
    }
}
