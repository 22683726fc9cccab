//! Logs passes, logs and counts outcomes. No other module does this. A reason has its word and its values here and in the history.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::metrics::AgentMetrics;
use crate::model::{ImageId, RemovedImage};
use crate::plan::{Kept, Kind, Outcome, Pass, Report};

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
    for (id, image) in images.iter().filter(|(_, image)| image.pulled_again_at.is_some()) {
        metrics.pulled_again(image);
        let RemovedImage { at, reason, rule, bytes, .. } = &**image;
        tracing::info!(target: OUTCOMES, %id, removed_at = %at, reason, rule, bytes, "pulled again after its removal");
    }
}

/// Logs an object that a plan keeps, at debug.
fn log_kept(kept: &Kept) {
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

/// Returns the word of a `RemoveReason` or `KeepReason` and its values, as in plans.
///
/// They are stored separately, not as the enum, so that records of a removed rule remain readable.
pub(in crate::record) fn word_and_values(reason: &impl Serialize) -> (String, Map<String, Value>) {
    let Ok(Value::Object(mut values)) = serde_json::to_value(reason) else { return Default::default() };
    let word = values.remove("reason").and_then(|word| word.as_str().map(str::to_owned));
    (word.unwrap_or_default(), values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RemoveReason;

    #[test]
    fn a_rule_is_one_word_and_its_values() {
        let (word, values) = word_and_values(&RemoveReason::OverMaxPerPodContainer { limit: 1 });
        assert_eq!(
            (word.as_str(), Value::Object(values)),
            ("over_max_per_pod_container", serde_json::json!({"limit": 1}))
        );
        assert_eq!(word_and_values(&RemoveReason::PodDeleted {}), ("pod_deleted".to_owned(), Map::new()));
    }
}
