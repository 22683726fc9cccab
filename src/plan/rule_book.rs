//! The rules of the operator in a plan: the verdicts on each object, and what the plan says of each rule.

use std::cell::RefCell;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule_facts::FactSource;
use super::{KeepReason, Policy, RemoveReason};
use crate::model::{Container, Image, ImageMemory, Snapshot};
use crate::rules::{Facts, Rule, RuleFor, Then, Verdict};

/// What a pass has seen of a rule.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RuleNote {
    /// The name of the rule.
    pub rule: String,
    /// Whether the day of its `until` has come, so that it no longer applies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// The number of objects that it decides.
    #[serde(default)]
    pub objects: u64,
    /// The number of objects for which its condition could not be evaluated. `keep` keeps those.
    #[serde(default)]
    pub errors: u64,
    /// One of these objects, and the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The rules of a pass.
pub(super) struct RuleBook<'a> {
    rules: Vec<&'a Rule>,
    facts: Option<FactSource<'a>>,
    notes: RefCell<Vec<RuleNote>>,
    day: jiff::civil::Date,
}

/// What a rule does with an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    Keep(KeepReason),
    Remove(RemoveReason),
}

// === impl RuleBook ===

impl<'a> RuleBook<'a> {
    pub fn new(snapshot: &'a Snapshot, policy: &'a Policy) -> Self {
        let rules: Vec<_> = policy.rules.iter().collect();
        let day = snapshot.taken_at.to_zoned(TimeZone::UTC).date();
        let note = |rule: &&Rule| RuleNote {
            rule: rule.text().name.clone(),
            expired: !rule.applies_on(day),
            ..RuleNote::default()
        };
        let notes = RefCell::new(rules.iter().map(note).collect());
        let facts = (!rules.is_empty()).then(|| FactSource::new(snapshot, &rules));
        Self { rules, facts, notes, day }
    }

    /// Returns what the plan says of the rules.
    pub fn notes(&self) -> Vec<RuleNote> {
        self.notes.borrow().clone()
    }

    /// Returns the rule that decides an image.
    pub fn image(&self, image: &Image, past: Option<&ImageMemory>) -> Option<Effect> {
        self.first(RuleFor::Image, image.id.as_str(), |facts| facts.image(image, past))
    }

    /// Returns the rule that decides a container.
    pub fn container(&self, container: &Container) -> Option<Effect> {
        self.first(RuleFor::Container, container.id.as_str(), |facts| facts.container(container))
    }

    /// Returns the first rule whose condition holds.
    fn first(
        &self,
        of: RuleFor,
        id: &str,
        facts: impl for<'f> FnOnce(&'f FactSource<'a>) -> Facts<'f>,
    ) -> Option<Effect> {
        let is_for = |rule: &Rule| rule.text().of == of && rule.applies_on(self.day);
        if !self.rules.iter().any(|rule| is_for(rule)) {
            return None;
        }
        let facts = facts(self.facts.as_ref()?);
        let mut applicable = self.rules.iter().enumerate().filter(|(_, rule)| is_for(rule));
        let (place, rule) = applicable.find(|(place, rule)| self.holds(*place, rule, id, &facts))?;
        self.change(place, |note| note.objects += 1);
        Some(Effect::of(rule))
    }

    /// Returns whether a condition holds. What cannot be evaluated is kept.
    fn holds(&self, place: usize, rule: &Rule, id: &str, facts: &Facts) -> bool {
        match rule.evaluate(facts) {
            Verdict::Holds(holds) => holds,
            Verdict::Error(error) => {
                let error = format!("{id}: {error}");
                self.change(place, |note| {
                    note.errors += 1;
                    // The first by id, so that the order of a list does not matter.
                    note.error = Some(note.error.take().map_or(error.clone(), |known| known.min(error)));
                });
                rule.text().then == Then::Keep
            }
        }
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut RuleNote)) {
        if let Some(note) = self.notes.borrow_mut().get_mut(place) {
            change(note);
        }
    }
}

// === impl Effect ===

impl Effect {
    fn of(rule: &Rule) -> Self {
        let (name, note) = (rule.text().name.clone(), rule.text().note.clone());
        match rule.text().then {
            Then::Keep => Self::Keep(KeepReason::Rule { rule: name, note }),
            Then::Remove => Self::Remove(RemoveReason::Rule { rule: name, note }),
        }
    }
}

#[cfg(test)]
mod tests;
