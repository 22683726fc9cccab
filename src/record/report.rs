//! Logs and counts outcomes. No other module does this.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reason::word_and_values;
use crate::plan::{Kind, Measure, Outcome, Report, Summary};

/// The number of actions by outcome.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Tally {
    /// Removed by kubegc.
    pub removed: u64,
    /// Already removed before the action.
    pub already_gone: u64,
    /// Kept by the recheck.
    pub refused: u64,
    /// Failed to be removed.
    pub failed: u64,
    /// Images whose removal was not needed.
    pub not_needed: u64,
    /// Would be removed without dry run.
    pub would_remove: u64,
    /// Reclaimed bytes, where measured.
    pub freed_bytes: u64,
}

/// The tallies of a pass, by kind of object.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Tallies {
    by_kind: BTreeMap<Kind, Tally>,
}

/// Logs the outcome of an action, and counts it.
///
/// Removals are logged at info, failures at warn, and kept objects at debug.
pub fn note(report: &Report, tallies: &mut Tallies) {
    tallies.by_kind.entry(report.action.target.kind()).or_default().count(report);
    log(report);
}

// === impl Tallies ===

impl Tallies {
    /// Returns the tally of one kind.
    pub fn of(&self, kind: Kind) -> Tally {
        self.by_kind.get(&kind).copied().unwrap_or_default()
    }

    /// Adds the reclaimed bytes that were measured for whole steps. Single reports do not have them.
    pub fn take_measured(&mut self, summary: &Summary) {
        for (kind, tally) in &mut self.by_kind {
            let measured = summary.measure.get(kind) == Some(&Measure::Measured);
            tally.freed_bytes =
                summary.freed_bytes.get(kind).copied().filter(|_| measured).unwrap_or(tally.freed_bytes);
        }
    }

    /// Returns the sum of all kinds.
    pub fn total(&self) -> Tally {
        self.by_kind.values().fold(Tally::default(), Tally::plus)
    }

    /// Lists each kind that had actions, in the order of a pass.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &Tally)> {
        self.by_kind.iter().map(|(kind, tally)| (*kind, tally))
    }
}

// === impl Tally ===

impl Tally {
    fn count(&mut self, report: &Report) {
        let counter = match report.outcome {
            Outcome::Removed {} => &mut self.removed,
            Outcome::AlreadyGone {} => &mut self.already_gone,
            Outcome::Refused { .. } => &mut self.refused,
            Outcome::Failed { .. } => &mut self.failed,
            Outcome::NotNeeded {} => &mut self.not_needed,
            Outcome::WouldRemove {} => &mut self.would_remove,
        };
        *counter += 1;
        self.freed_bytes = self.freed_bytes.saturating_add(report.measured_bytes().unwrap_or(0));
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            removed: self.removed + other.removed,
            already_gone: self.already_gone + other.already_gone,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
            not_needed: self.not_needed + other.not_needed,
            would_remove: self.would_remove + other.would_remove,
            freed_bytes: self.freed_bytes.saturating_add(other.freed_bytes),
        }
    }
}

fn log(report: &Report) {
    let (reason, values) = word_and_values(&report.action.reason);
    let values = serde_json::Value::Object(values);
    // One log event with the common fields, and the fields of this outcome.
    macro_rules! event {
        ($level:ident, $message:literal $(, $field:ident = $value:expr)*) => {
            tracing::$level!(
                kind = report.action.target.kind().as_str(),
                id = report.action.target.id(),
                name = report.action.target.name(),
                pod = report.action.pod.as_ref().map(tracing::field::display),
                reason,
                values = %values,
                age_seconds = report.action.age_seconds,
                freed_bytes = report.freed_bytes,
                measure = report.freed_bytes.map(|_| report.measure.as_str()),
                note = report.note,
                $($field = $value,)*
                $message
            )
        };
    }
    match &report.outcome {
        Outcome::Removed {} => event!(info, "removed"),
        Outcome::Failed { error } => event!(warn, "could not be removed", error = error),
        Outcome::Refused { refusal } => event!(debug, "kept on recheck", refusal = tracing::field::display(refusal)),
        Outcome::AlreadyGone {} => event!(debug, "already removed"),
        Outcome::NotNeeded {} => event!(debug, "not needed any more"),
        Outcome::WouldRemove {} => event!(debug, "would be removed"),
    }
}
