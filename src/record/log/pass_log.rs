//! Logs passes. No other module does this.

use super::outcome_log::{OUTCOMES, log_kept};
use crate::plan::Pass;

/// The limits on log files that are not met, of which one pass logs so many.
const MOST_LIMITS: usize = 10;

/// Logs the result of a pass of the service, and at debug each kept object.
pub fn log_pass(pass: &Pass) {
    let scope = pass.scope;
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
