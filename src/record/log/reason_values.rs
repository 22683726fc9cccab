//! Converts a rule to its form in the history and the log: its word, and its values.

use serde::Serialize;
use serde_json::{Map, Value};

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
