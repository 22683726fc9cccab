//! The counts of a pass. `execute` fills them, and the history, the log, the events and the commands show them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Measure, Outcome, Report};

/// The outcomes of a plan, counted.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// The number of actions by kind of object and by outcome.
    #[serde(default)]
    pub outcomes: BTreeMap<Kind, Counts>,
    /// Reclaimed bytes by kind. Containers and sandboxes are measured together, under `container` if at least one
    /// container was removed. No byte counts twice, so the sum is that of the pass.
    #[serde(default)]
    pub freed_bytes: BTreeMap<Kind, u64>,
    /// How `freed_bytes` was determined, for each kind of which something was removed. `unknown` = some of the bytes
    /// are unknown, and `freed_bytes` contains the others.
    #[serde(default)]
    pub measure: BTreeMap<Kind, Measure>,
    /// The part of `freed_bytes` that was measured.
    #[serde(skip)]
    pub measured_bytes: BTreeMap<Kind, u64>,
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

/// The number of actions by outcome. 0 is left out of documents.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Counts {
    /// Already removed before the action.
    #[serde(skip_serializing_if = "is_zero")]
    pub already_gone: usize,
    /// Failed to be removed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: usize,
    /// Images whose removal was not needed.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_needed: usize,
    /// Kept by the recheck.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused: usize,
    /// Removed by kubegc.
    #[serde(skip_serializing_if = "is_zero")]
    pub removed: usize,
    /// Would be removed without dry run.
    #[serde(skip_serializing_if = "is_zero")]
    pub would_remove: usize,
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
        self.outcomes.entry(kind).or_default().add(&report.outcome);
        let bytes = self.freed_bytes.entry(kind).or_default();
        let is_step = matches!(kind, Kind::Container | Kind::Sandbox);
        if !is_step && report.outcome == (Outcome::Removed {}) {
            *bytes += report.freed_bytes.unwrap_or_default();
            *self.measured_bytes.entry(kind).or_default() += report.measured_bytes().unwrap_or_default();
            self.worsen(kind, report.measure);
        }
    }

    /// Adds a step over containers and sandboxes, which is measured as a whole.
    pub fn add_step(&mut self, kind: Kind, bytes: u64, measure: Measure) {
        *self.freed_bytes.entry(kind).or_default() += bytes;
        if measure == Measure::Measured {
            *self.measured_bytes.entry(kind).or_default() += bytes;
        }
        self.worsen(kind, measure);
    }

    /// Returns the number of actions of one kind.
    pub fn of(&self, kind: Kind) -> Counts {
        self.outcomes.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the number of actions of all kinds.
    pub fn total(&self) -> Counts {
        self.outcomes.values().fold(Counts::default(), Counts::plus)
    }

    /// Returns the measured bytes of all kinds.
    pub fn total_measured_bytes(&self) -> u64 {
        self.measured_bytes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
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
}

// === impl Counts ===

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Removed {} => &mut self.removed,
            Outcome::AlreadyGone {} => &mut self.already_gone,
            Outcome::Refused { .. } => &mut self.refused,
            Outcome::Failed { .. } => &mut self.failed,
            Outcome::NotNeeded {} => &mut self.not_needed,
            Outcome::WouldRemove {} => &mut self.would_remove,
        } += 1;
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            already_gone: self.already_gone + other.already_gone,
            failed: self.failed + other.failed,
            not_needed: self.not_needed + other.not_needed,
            refused: self.refused + other.refused,
            removed: self.removed + other.removed,
            would_remove: self.would_remove + other.would_remove,
        }
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
