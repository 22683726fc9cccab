//! The result of one pass, for the log, the metrics, the events, the socket and the commands.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Plan;
use super::action::key;
use super::plan_error::PlanError;
use super::report::Report;
use super::summary::Summary;
use crate::plan::policy::Scope;

/// The result of one pass.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Pass {
    /// The kinds of objects.
    pub scope: Scope,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How long it took; `None` = not known.
    #[serde(skip)]
    pub duration: Option<Duration>,
    pub plan: Plan,
    /// The reports of its actions, in order.
    pub reports: Vec<Report>,
    /// The counts: outcomes, bytes, which actions were not begun and why, and how much space is still missing.
    pub summary: Summary,
    /// Why the store's file does not have the pass; `None` = it has.
    pub not_recorded: Option<String>,
}

/// The last pass of a kind, and the counts of its outcomes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PassCounts {
    /// `containers`, `images` or `all`.
    #[schemars(length(max = 16))]
    pub scope: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Objects removed.
    #[schemars(with = "i64")]
    pub removed: u64,
    /// Objects that an observing agent would have removed.
    #[schemars(with = "i64")]
    pub would_remove: u64,
    /// Failed removals.
    #[schemars(with = "i64")]
    pub failed: u64,
    /// Reclaimed bytes, measured.
    #[schemars(with = "i64")]
    pub freed_bytes: u64,
    /// When the next one is due, on the socket alone; `null` = unknown, because this one failed and has a back-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub next_at: Option<Timestamp>,
    /// What the pass could not do, on the socket alone. The condition `Healthy` has the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub errors: Vec<String>,
}

// === impl Pass ===

impl Pass {
    /// Returns whether the pass could observe everything that it needs and was not ended by a runtime that hangs. A disk
    /// that remains full or an object that cannot be removed is no failure of the pass: each has its own back-off.
    pub fn is_success(&self) -> bool {
        let is_blind = self.plan.errors.iter().any(|error| matches!(error, PlanError::NotSeen { .. }));
        let is_cut_short = self.summary.halts.iter().any(|halt| halt.kind.is_none());
        !is_blind && !is_cut_short
    }

    /// Returns whether the pass was to reclaim space, and less than it needed.
    pub fn is_short(&self) -> bool {
        self.summary.shortfall_bytes > 0 || self.plan.images.shortfall_bytes > 0
    }

    /// Lists what the pass could not do.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let errors = self.plan.errors.iter().map(ToString::to_string);
        errors.chain(self.summary.halts.iter().map(ToString::to_string))
    }

    /// Returns how many objects were kept. This can be fewer than the plan kept, because fallback candidates may be
    /// removed.
    pub fn kept(&self) -> usize {
        let removed = Report::removed(&self.reports);
        self.plan.kept.iter().filter(|kept| !removed.contains(&key(kept.kind, &kept.id))).count()
    }
}

// === impl PassCounts ===

impl From<&Pass> for PassCounts {
    fn from(pass: &Pass) -> Self {
        let total = pass.summary.total();
        Self {
            scope: pass.scope.as_str().to_owned(),
            at: Some(pass.ended_at),
            removed: total.removed as u64,
            would_remove: total.would_remove as u64,
            failed: total.failed as u64,
            freed_bytes: pass.summary.total_measured_bytes(),
            next_at: None,
            errors: pass.errors().chain(pass.not_recorded.clone()).collect(),
        }
    }
}

impl PassCounts {
    /// Returns what the pass could not do, the first; `None` = it could do all.
    pub fn fault(&self) -> Option<String> {
        let failed = || (self.failed > 0).then(|| format!("{} removals failed", self.failed));
        self.errors.first().cloned().or_else(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::node::{node, now};

    #[test]
    fn a_pass_is_short_by_its_plan_or_its_outcomes() {
        let is_short = |planned, left| {
            let mut plan = node().plan();
            plan.images.shortfall_bytes = planned;
            let summary = Summary { shortfall_bytes: left, ..Summary::default() };
            let (scope, ended_at, reports) = (Scope::Images, now(), Vec::new());
            Pass { scope, ended_at, duration: None, plan, reports, summary, not_recorded: None }.is_short()
        };
        assert_eq!([is_short(0, 0), is_short(1, 0), is_short(0, 1)], [false, true, true]);
    }

    #[test]
    fn the_fault_of_a_pass_is_its_first_error_before_failed_removals() {
        let fault = |failed, errors: &[&str]| {
            let errors = errors.iter().map(ToString::to_string).collect();
            PassCounts { failed, errors, ..PassCounts::default() }.fault().unwrap_or_default()
        };
        assert_eq!([fault(0, &[]), fault(2, &[]), fault(2, &["a", "b"])], ["", "2 removals failed", "a"]);
    }
}
