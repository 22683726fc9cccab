//! Logs what people have to know of a rule, once for each rule: that it has ended, or that it cannot be evaluated.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::plan::RuleNote;

/// The rules that were logged.
#[derive(Default)]
pub(super) struct RuleLog(Mutex<BTreeSet<(String, bool)>>);

// === impl RuleLog ===

impl RuleLog {
    /// Logs what is new in a plan.
    pub fn log(&self, notes: &[RuleNote]) {
        for RuleNote { rule, expired, errors, error, .. } in self.news(notes) {
            if *expired {
                tracing::warn!(rule, "the rule has expired and no longer applies");
            } else {
                tracing::warn!(rule, objects = errors, error, "the condition of the rule cannot be evaluated");
            }
        }
    }

    /// Returns the notes that were not logged yet.
    fn news<'n>(&self, notes: &'n [RuleNote]) -> Vec<&'n RuleNote> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = |note: &&RuleNote| note.expired || note.error.is_some();
        notes.iter().filter(is_news).filter(|note| known.insert((note.rule.clone(), note.expired))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_logged_once_for_an_error_and_once_when_it_ends() {
        let note = |rule: &str, expired, error: Option<&str>| RuleNote {
            rule: rule.to_owned(),
            expired,
            error: error.map(str::to_owned),
            ..RuleNote::default()
        };
        let log = RuleLog::default();
        let news = |notes: &[RuleNote]| log.news(notes).iter().map(|note| note.rule.clone()).collect::<Vec<_>>();
        let errs = [note("fine", false, None), note("errs", false, Some("x: No such key: last_used"))];
        assert_eq!([news(&errs), news(&errs)], [vec!["errs".to_owned()], vec![]]);
        assert_eq!(news(&[note("fine", true, None), note("errs", true, None)]), ["fine", "errs"]);
    }
}
