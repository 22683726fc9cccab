//! The rules of the operator in a plan: the verdicts on each object, and what the plan says of each rule.

use std::cell::RefCell;
use std::time::Duration;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule_facts::FactSource;
use super::{ImageOrder, KeepReason, Policy, RemoveReason, RuleReason};
use crate::model::{Container, Image, ImageMemory, LeftoverLog, LogDir, PodRef, Sandbox, Snapshot, duration_text};
use crate::rules::{Facts, Rule, RuleFor, Score, Then, Verdict};

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
    /// Their bytes, as far as they are known: the sizes of images as the runtime reports them, and of logs.
    #[serde(default)]
    pub bytes: u64,
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

/// An object, as the notes of the rules have it.
#[derive(Clone, Copy)]
struct Object<'o> {
    of: RuleFor,
    id: &'o str,
    bytes: Option<u64>,
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
        let needs_facts = !rules.is_empty() || policy.images.order != ImageOrder::LeastRecentlyUsed;
        let facts = needs_facts.then(|| FactSource::new(snapshot, policy.facts_in_use()));
        Self { rules, facts, notes, day }
    }

    /// Returns what the plan says of the rules.
    pub fn notes(&self) -> Vec<RuleNote> {
        self.notes.borrow().clone()
    }

    /// Returns the rule that decides an image.
    pub fn image(&self, image: &Image, past: Option<&ImageMemory>) -> Option<&'a Rule> {
        let object = Object { of: RuleFor::Image, id: image.id.as_str(), bytes: Some(image.size_bytes) };
        self.first(object, |facts| facts.image(image, past))
    }

    /// Returns the score of an image.
    pub fn score(&self, score: &Score, image: &Image, past: Option<&ImageMemory>) -> Option<f64> {
        score.evaluate(&self.facts.as_ref()?.image(image, past))
    }

    /// Returns the rule that decides a container.
    pub fn container(&self, container: &Container) -> Option<&'a Rule> {
        let object = Object { of: RuleFor::Container, id: container.id.as_str(), bytes: container.log_bytes };
        self.first(object, |facts| facts.container(container))
    }

    /// Returns the rule for containers that decides the log of an instance which the runtime no longer lists.
    pub fn leftover_log(&self, log: &LeftoverLog, path: &str) -> Option<&'a Rule> {
        let object = Object { of: RuleFor::Container, id: path, bytes: Some(log.size_bytes) };
        self.first(object, |facts| facts.leftover_log(log))
    }

    /// Returns the rule that decides a sandbox.
    pub fn sandbox(&self, sandbox: &Sandbox) -> Option<&'a Rule> {
        let object = Object { of: RuleFor::Sandbox, id: sandbox.id.as_str(), bytes: None };
        self.first(object, |facts| facts.sandbox(sandbox))
    }

    /// Returns the rule that decides the log directory of a pod that is missing for so long.
    pub fn log_dir(&self, dir: &LogDir, pod: &PodRef, missing_for: Duration) -> Option<&'a Rule> {
        let object = Object { of: RuleFor::Log, id: &dir.name, bytes: dir.size_bytes };
        self.first(object, |facts| facts.log_dir(dir, pod, missing_for))
    }

    /// Returns the first rule whose condition holds.
    fn first(&self, object: Object, facts: impl for<'f> FnOnce(&'f FactSource<'a>) -> Facts<'f>) -> Option<&'a Rule> {
        let is_for = |rule: &Rule| rule.text().of == object.of && rule.applies_on(self.day);
        if !self.rules.iter().any(|rule| is_for(rule)) {
            return None;
        }
        let facts = facts(self.facts.as_ref()?);
        let mut applicable = self.rules.iter().enumerate().filter(|(_, rule)| is_for(rule));
        let (place, rule) = applicable.find(|(place, rule)| self.holds(*place, rule, object.id, &facts))?;
        self.change(place, |note| {
            note.objects += 1;
            note.bytes += object.bytes.unwrap_or_default();
        });
        Some(rule)
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

/// Formats a limit of a rule as the configuration has it.
pub(super) fn time_limit(name: &str, limit: Duration) -> String {
    format!("{name} = {}", duration_text(limit))
}

// === impl Rule ===

impl Rule {
    /// Returns why the rule keeps an object.
    pub(super) fn keeps(&self) -> KeepReason {
        self.keeps_within(None)
    }

    /// Returns why an object is kept that is within a limit of the rule.
    pub(super) fn keeps_within(&self, limit: impl Into<Option<String>>) -> KeepReason {
        KeepReason::Rule(self.reason(limit.into()))
    }

    /// Returns why an object is removed: it is over a limit of the rule; `None` = the rule removes it.
    pub(super) fn removes(&self, limit: impl Into<Option<String>>) -> RemoveReason {
        RemoveReason::Rule(self.reason(limit.into()))
    }

    /// Returns how many dead instances of a container the rule keeps; `None` = it does not say so.
    pub(super) fn max_per_pod_container(&self) -> Option<u64> {
        if self.text().then == Then::Remove { Some(0) } else { self.limits()?.max_per_pod_container }
    }

    /// Returns the same limit as the configuration has it; `None` = the rule has none, as one that removes.
    pub(super) fn max_per_pod_container_text(&self) -> Option<String> {
        let limit = self.limits()?.max_per_pod_container?;
        Some(format!("max_per_pod_container = {limit}"))
    }

    fn reason(&self, limit: Option<String>) -> RuleReason {
        RuleReason { rule: self.text().name.clone(), limit, note: self.text().note.clone() }
    }
}

#[cfg(test)]
mod tests;
