//! The result of one pass, for the log, the metrics, the events, the socket and the commands.

use std::time::Duration;

use jiff::Timestamp;
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
    #[serde(default)]
    pub not_recorded: Option<String>,
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
