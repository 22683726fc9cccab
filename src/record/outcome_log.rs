//! Logs outcomes. No other module does this.

use super::reason::word_and_values;
use crate::plan::{Outcome, Report};

/// The target of these log events.
pub const OUTCOMES: &str = module_path!();

/// Logs the outcome of an action: removals at info, failures at warn, and kept objects at debug.
pub fn log_outcome(report: &Report) {
    let (reason, values) = word_and_values(&report.action.reason);
    let values = serde_json::Value::Object(values);
    // One log event with the common fields, and the fields of this outcome.
    macro_rules! event {
        ($level:ident, $message:literal $(, $field:ident = $value:expr)*) => {
            tracing::$level!(
                target: OUTCOMES,
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
        Outcome::WouldRemove {} => event!(info, "would be removed"),
    }
}
