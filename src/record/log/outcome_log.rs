//! Logs and counts outcomes. No other module does this.

use std::sync::Arc;

use super::reason_values::word_and_values;
use crate::metrics::AgentMetrics;
use crate::model::{ImageId, RemovedImage};
use crate::plan::{Kept, Kind, Outcome, Report};

/// The target of these log events.
pub const OUTCOMES: &str = module_path!();

/// Returns the kind in words, spelled as in sentences: `log_directory`.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::LogDir => "log_directory",
        other => other.as_str(),
    }
}

/// Formats the values of a rule as `limit=1 used_percent=91`: a document in a text field would have quoted quotes.
fn words(values: &serde_json::Map<String, serde_json::Value>) -> String {
    values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Counts the outcome of an action, and logs it unless the pass before has already done so.
pub fn count_and_log_outcome(report: &Report, metrics: &AgentMetrics, is_logged: bool) {
    metrics.outcome(report);
    if !is_logged {
        log_outcome(report);
    }
}

/// Counts and logs the removed images that are pulled again.
pub fn count_and_log_pulled_again(images: &[(ImageId, Arc<RemovedImage>)], metrics: &AgentMetrics) {
    for (id, image) in images {
        metrics.pulled_again(image);
        let RemovedImage { at, reason, rule, bytes, .. } = &**image;
        tracing::info!(target: OUTCOMES, %id, removed_at = %at, reason, rule, bytes, "pulled again after its removal");
    }
}

/// Logs an object that a plan keeps, at debug.
pub(super) fn log_kept(kept: &Kept) {
    let (reason, values) = word_and_values(&kept.reason);
    tracing::debug!(
        target: OUTCOMES,
        kind = kind(kept.kind),
        id = kept.id,
        name = kept.name,
        pod = kept.pod.as_ref().map(tracing::field::display),
        reason,
        values = (!values.is_empty()).then(|| words(&values)),
        "kept"
    );
}

/// Logs the outcome of an action: removals at info, failures at warn, and kept objects at debug.
pub(in crate::record) fn log_outcome(report: &Report) {
    let (reason, values) = word_and_values(&report.action.reason);
    let values = (!values.is_empty()).then(|| words(&values));
    // One log event with the common fields, and the fields of this outcome.
    macro_rules! event {
        ($level:ident, $message:literal $(, $field:ident = $value:expr)*) => {
            tracing::$level!(
                target: OUTCOMES,
                kind = kind(report.action.target.kind()),
                id = report.action.target.id(),
                name = report.action.target.name(),
                pod = report.action.pod.as_ref().map(tracing::field::display),
                reason,
                values,
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
        Outcome::Failed { error, .. } => event!(warn, "could not be removed", error = error),
        Outcome::Refused { refusal } => event!(debug, "kept on recheck", refusal = tracing::field::display(refusal)),
        Outcome::AlreadyRemoved {} => event!(debug, "already removed"),
        Outcome::NotNeeded {} => event!(debug, "no longer needed"),
        Outcome::WouldRemove {} => event!(info, "would be removed"),
    }
}
