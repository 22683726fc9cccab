//! Logs and counts passes. No other module does this.

use std::time::Duration;

use jiff::Timestamp;

use super::outcome_log::{OUTCOMES, log_kept};
use crate::metrics::{AgentMetrics, PassMetrics};
use crate::plan::{Pass, Scope};

/// The limits on log files that are not met, of which one pass logs so many.
const MOST_LIMITS: usize = 10;

/// The end of a pass.
#[derive(Clone, Copy, Debug)]
pub struct PassEnd {
    /// The kinds of objects.
    pub scope: Scope,
    /// How long it took; `None` = not known.
    pub duration: Option<Duration>,
    /// When it ended.
    pub at: Timestamp,
}

/// Counts a pass, and shows its plan in the metrics.
pub fn count_pass(end: PassEnd, pass: &Pass, metrics: &AgentMetrics) {
    let PassEnd { scope, duration, at: ended_at } = end;
    let (is_success, summary) = (pass.is_success() && !pass.is_short(), Some(&pass.summary));
    metrics.passed(PassMetrics { scope, is_success, summary, duration, ended_at });
    metrics.planned(scope, &pass.plan);
}

/// Counts a pass that could not begin, because the runtime is unavailable.
pub fn count_no_pass(metrics: &AgentMetrics, scope: Scope) {
    let ended_at = Timestamp::UNIX_EPOCH;
    metrics.passed(PassMetrics { scope, is_success: false, summary: None, duration: None, ended_at });
}

/// Logs the result of a pass of the service, and at debug each kept object.
pub fn log_pass(scope: Scope, pass: &Pass) {
    // Without the check each pass would turn thousands of reasons into text for nothing.
    if tracing::enabled!(target: OUTCOMES, tracing::Level::DEBUG) {
        pass.plan.kept.iter().for_each(log_kept);
    }
    for error in &pass.plan.errors {
        tracing::warn!(%scope, %error, "pass failed in part");
    }
    for limit in pass.plan.log_limits.iter().take(MOST_LIMITS) {
        tracing::warn!(%scope, %limit, "a limit on log files is not met");
    }
    for halt in &pass.summary.halts {
        tracing::warn!(%scope, %halt, "pass did not begin all actions");
    }
    if let Some(cause) = &pass.not_recorded {
        tracing::error!(%scope, cause, "pass is not recorded on disk");
    }
    let total = pass.summary.total();
    tracing::info!(
        %scope,
        removed = total.removed,
        would_remove = (total.would_remove > 0).then_some(total.would_remove),
        refused = total.refused,
        failed = total.failed,
        freed_bytes = pass.summary.total_measured_bytes(),
        kept = pass.plan.kept.len(),
        suspended = pass.summary.suspended,
        "pass done"
    );
}
