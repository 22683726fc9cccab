//! What the rules decide of an image under each of its names.

use std::time::Duration;

use crate::rules::{Limits, Rule, Then};

/// The rule that decides an image, for each of its repositories; `None` = the settings decide. None of them keeps it.
#[derive(Default)]
pub struct ImageRules<'a>(Vec<Option<&'a Rule>>);

// === impl ImageRules ===

impl<'a> ImageRules<'a> {
    pub fn new(rules: Vec<Option<&'a Rule>>) -> Self {
        Self(rules)
    }

    /// Returns the rule that removes the image: under every name one does.
    pub fn removing(&self) -> Option<&'a Rule> {
        let removes = |rule: Option<&Rule>| rule.is_some_and(|rule| rule.text().then == Then::Remove);
        self.0.iter().all(|rule| removes(*rule)).then(|| self.0.first().copied().flatten())?
    }

    /// Returns whether a list may remove the image: no rule decides otherwise under one of its names.
    pub fn permit_lists(&self) -> bool {
        self.0.iter().flatten().all(|rule| rule.text().then == Then::Remove)
    }

    /// Returns the limit that keeps the image longest, and the rule that sets it; `None` = the settings do. Where a rule does not
    /// set the limit, that of the settings applies.
    pub fn longest(
        &self,
        setting: Duration,
        limit: impl Fn(&Limits) -> Option<Duration>,
        length: impl Fn(Duration) -> Duration,
    ) -> (Option<&'a Rule>, Duration) {
        let of_rule = |rule: Option<&'a Rule>| {
            let set = rule.and_then(|rule| Some((rule, limit(rule.limits()?)?)));
            set.map_or((None, setting), |(rule, limit)| (Some(rule), limit))
        };
        self.0.iter().copied().map(of_rule).max_by_key(|(_, limit)| length(*limit)).unwrap_or((None, setting))
    }
}
