//! The counts of a pass. `execute` fills them, and the history, the log, the events and the commands show them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Kind;
use super::report::{Measure, Outcome, Report};

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
    /// Actions that were not begun: because of a shutdown, for the reasons in `halts`, or for that in `suspended`.
    #[serde(default)]
    pub not_begun: usize,
    /// Why actions were not begun, other than a shutdown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub halts: Vec<Halt>,
    /// Why nothing, or nothing more, was removed although the settings permit it: a pause or quiet hours. `null` = there was neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<String>,
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
    pub already_removed: usize,
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
    pub kind: Option<Kind>,
    /// The call without an answer.
    pub cause: String,
    /// How many planned actions were not begun.
    #[serde(default)]
    pub not_begun: usize,
}

// === impl Summary ===

impl Summary {
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

    /// Counts a failure in place of the removal that was reported before.
    pub fn was_not_removed(&mut self, failed: &Report) {
        let counts = self.outcomes.entry(failed.action.target.kind()).or_default();
        counts.removed = counts.removed.saturating_sub(1);
        counts.add(&failed.outcome);
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
            Outcome::AlreadyRemoved {} => &mut self.already_removed,
            Outcome::Refused { .. } => &mut self.refused,
            Outcome::Failed { .. } => &mut self.failed,
            Outcome::NotNeeded {} => &mut self.not_needed,
            Outcome::WouldRemove {} => &mut self.would_remove,
        } += 1;
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            already_removed: self.already_removed + other.already_removed,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The removal of one object of a kind.
    fn action(kind: &str) -> Value {
        match kind {
            "container" => {
                json!({ "action": "remove_container", "id": "c", "state": "exited", "reason": "pod_deleted" })
            }
            "log_dir" => json!({ "action": "remove_log_dir", "path": "/logs/a", "reason": "pod_deleted" }),
            _ => json!({ "action": "remove_image", "id": "i", "reason": "unused" }),
        }
    }

    /// Counts reports: kind of object, outcome, reclaimed bytes and measure.
    fn summary(reports: &[(&str, Value, u64, &str)]) -> Summary {
        let mut summary = Summary::default();
        for (kind, outcome, bytes, measure) in reports {
            let mut report = outcome.clone();
            report["action"] = action(kind);
            (report["freed_bytes"], report["measure"]) = (json!(bytes), json!(measure));
            summary.add(&serde_json::from_value(report).unwrap());
        }
        summary
    }

    fn removed() -> Value {
        json!({ "outcome": "removed" })
    }

    #[test]
    fn each_outcome_has_a_count_of_its_own() {
        let outcomes = [
            json!({ "outcome": "already_removed" }),
            json!({ "outcome": "failed", "error": "busy" }),
            json!({ "outcome": "not_needed" }),
            json!({ "outcome": "refused", "refusal": "in_use" }),
            removed(),
            json!({ "outcome": "would_remove" }),
        ];
        // The first outcome once for an image, the second twice, and so on. Each once for a container.
        let reports = outcomes.iter().zip(1..).flat_map(|(outcome, count)| {
            let of_images = std::iter::repeat_n(("image", outcome.clone(), 0, "unknown"), count);
            of_images.chain([("container", outcome.clone(), 0, "unknown")])
        });
        let summary = summary(&reports.collect::<Vec<_>>());
        let counts = |counts: Counts| {
            let Counts { already_removed, failed, not_needed, refused, removed, would_remove } = counts;
            [already_removed, failed, not_needed, refused, removed, would_remove]
        };
        assert_eq!(counts(summary.of(Kind::Image)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(counts(summary.of(Kind::Container)), [1; 6]);
        assert_eq!(counts(summary.of(Kind::Sandbox)), [0; 6]);
        assert_eq!(counts(summary.total()), [2, 3, 4, 5, 6, 7]);
        let none = json!({ "removed": 1 });
        assert_eq!(json!(Counts { removed: 1, ..Counts::default() }), none, "a document has no counts of 0");
    }

    #[test]
    fn bytes_of_removed_objects_are_counted_once() {
        let mut summary = summary(&[
            ("image", removed(), 100, "measured"),
            ("image", removed(), 20, "measured"),
            ("image", json!({ "outcome": "already_removed" }), 7, "measured"),
            ("log_dir", removed(), 3, "estimated"),
            ("container", removed(), 5, "measured"),
        ]);
        summary.add_step(Kind::Container, 40, Measure::Measured);
        summary.add_step(Kind::Container, 2, Measure::Measured);
        summary.add_step(Kind::Sandbox, 9, Measure::Estimated);
        assert_eq!(json!(summary.freed_bytes), json!({ "container": 42, "image": 120, "log_dir": 3, "sandbox": 9 }));
        assert_eq!(json!(summary.measured_bytes), json!({ "container": 42, "image": 120, "log_dir": 0 }));
        assert_eq!(summary.total_measured_bytes(), 162);
        let freed = [Measure::Measured, Measure::Estimated, Measure::Unknown].map(|measure| summary.freed_by(measure));
        assert_eq!(freed, [162, 12, 0]);
    }

    #[test]
    fn a_sum_has_the_lowest_certainty_of_its_parts() {
        let image = |measure| ("image", removed(), 1, measure);
        let rows = [
            (vec![image("measured"), image("measured")], Measure::Measured),
            (vec![image("measured"), image("estimated")], Measure::Estimated),
            (vec![image("unknown"), image("measured")], Measure::Unknown),
        ];
        for (reports, expected) in rows {
            assert_eq!(summary(&reports).measure[&Kind::Image], expected, "{reports:?}");
        }
    }

    #[test]
    fn an_early_end_names_its_kind_and_cause() {
        let text = |kind, not_begun| Halt { kind, cause: "RemoveImage: no answer".to_owned(), not_begun }.to_string();
        assert_eq!(
            text(Some(Kind::LogDir), 2),
            "log dir removals ended early: RemoveImage: no answer (2 actions not begun)"
        );
        assert_eq!(text(None, 1), "pass ended early: RemoveImage: no answer (1 action not begun)");
    }
}
