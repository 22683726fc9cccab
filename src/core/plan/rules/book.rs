//! The rules of the operator in a plan: the verdicts on each object, and what the plan says of each rule.

#[cfg(test)]
pub(super) mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use jiff::tz::TimeZone;

pub(super) use super::image_rules::ImageRules;

use super::object_facts::FactSource;
use crate::model::{
    Container, Image, ImageMemory, Leftover, LeftoverLog, LogDir, PodRef, Sandbox, Snapshot, duration_text,
    exact_size_text,
};
use crate::plan::document::RuleNote;
use crate::plan::document::reason::{KeepReason, RemoveReason, RuleReason};
use crate::plan::policy::Policy;
use crate::plan::policy::image_policy::ImageOrder;
use crate::rules::{Budget, Facts, ImageTotal, Rule, RuleSubject, Score, Then};
use crate::store::SnapshotIndex;

/// The rules of a pass.
pub(in crate::plan) struct RuleBook<'a> {
    rules: Vec<&'a Rule>,
    facts: Option<FactSource<'a>>,
    notes: RefCell<Vec<RuleNote>>,
    day: jiff::civil::Date,
}

/// Why conditions could not be evaluated for an object, by the place of their rule.
type Errors = BTreeMap<usize, String>;

/// An object, as the notes of the rules have it.
#[derive(Clone, Copy)]
struct Object<'o> {
    of: RuleSubject,
    id: &'o str,
    bytes: Option<u64>,
}

// === impl RuleBook ===

impl<'a> RuleBook<'a> {
    pub fn new(snapshot: &'a Snapshot, policy: &'a Policy, index: &Rc<SnapshotIndex<'a>>) -> Self {
        let rules: Vec<_> = policy.rules.iter().collect();
        let day = snapshot.taken_at.to_zoned(TimeZone::UTC).date();
        let note = |rule: &&Rule| RuleNote {
            rule: rule.text().name.clone(),
            expired: !rule.applies_on(day),
            ..RuleNote::default()
        };
        let notes = RefCell::new(rules.iter().map(note).collect());
        let needs_facts = !rules.is_empty() || policy.images.order != ImageOrder::LeastRecentlyUsed;
        let facts = needs_facts.then(|| FactSource::new(snapshot, policy.facts_in_use(), Rc::clone(index)));
        Self { rules, facts, notes, day }
    }

    /// Returns what the plan says of the rules.
    pub fn notes(&self) -> Vec<RuleNote> {
        self.notes.borrow().clone()
    }

    /// Returns what the rules decide of an image: each of its repositories is decided by itself, and what keeps the image longest
    /// counts. So a name that somebody adds never takes a protection away.
    pub fn image(&self, image: &Image, past: Option<&ImageMemory>) -> Result<ImageRules<'a>, KeepReason> {
        let object = Object { of: RuleSubject::Image, id: image.id.as_str(), bytes: Some(image.size_bytes) };
        let Some(source) = self.facts_for(object.of) else { return Ok(ImageRules::default()) };
        let (mut errors, budget) = (Errors::new(), Budget::default());
        let mut first = |repository: Option<String>| {
            self.first(&budget, object.of, &source.image(image, repository.as_deref(), past), &mut errors)
        };
        let found: Vec<_> = source.repositories(image).into_iter().map(&mut first).collect();
        let keeping = found.iter().flatten().find(|(_, rule)| rule.text().then == Then::Keep).copied();
        let rules = ImageRules::new(found.iter().map(|found| found.map(|(_, rule)| rule)).collect());
        let counts = |place: usize, rule: &Rule| match keeping {
            Some((keeping, _)) => place == keeping,
            None => rules.removing().is_some() || rule.text().then != Then::Remove,
        };
        let deciding = found.iter().flatten().filter(|(place, rule)| counts(*place, rule)).map(|(place, _)| *place);
        self.note(object, &deciding.collect(), &errors);
        unless_kept(keeping, &errors).map(|_| rules)
    }

    /// Lists the rules that limit the bytes of images, each with its place.
    pub fn totals(&self) -> impl Iterator<Item = (usize, &'a Rule, ImageTotal)> {
        let rules = self.rules.iter().copied().enumerate().filter(|(_, rule)| self.applies(rule, RuleSubject::Image));
        rules.filter_map(|(place, rule)| Some((place, rule, rule.total()?)))
    }

    /// Returns the places of the rules that decide an image, one for each of its repositories; `None` = the settings do. The plan
    /// says nothing of it.
    pub fn places_of(&self, image: &Image, past: Option<&ImageMemory>) -> Vec<Option<usize>> {
        let (source, budget) = (self.facts.as_ref(), Budget::default());
        let first = |source: &FactSource<'a>, repository: Option<String>| {
            let facts = source.image(image, repository.as_deref(), past);
            self.first(&budget, RuleSubject::Image, &facts, &mut Errors::new()).map(|(place, _)| place)
        };
        let of = |source: &FactSource<'a>| -> Vec<_> {
            source.repositories(image).into_iter().map(|repository| first(source, repository)).collect()
        };
        source.map(of).unwrap_or_default()
    }

    /// Notes how many bytes the images of a rule have.
    pub fn note_total(&self, place: usize, bytes: u64) {
        self.change(place, |note| note.total_bytes = Some(bytes));
    }

    /// Returns the score of an image: the lowest of its repositories, because the highest score is removed first.
    pub fn score(&self, score: &Score, image: &Image, past: Option<&ImageMemory>) -> Option<f64> {
        let source = self.facts.as_ref()?;
        let scores = source.repositories(image).into_iter();
        let scores = scores.map(|repository| score.evaluate(&source.image(image, repository.as_deref(), past)));
        scores.reduce(|one, other| Some(one?.min(other?)))?
    }

    /// Returns the rule that decides a container, or why a rule keeps it.
    pub fn container(&self, container: &Container) -> Result<Option<&'a Rule>, KeepReason> {
        let object = Object { of: RuleSubject::Container, id: container.id.as_str(), bytes: container.log_bytes };
        self.decide(object, |facts| facts.container(container))
    }

    /// Returns the rule for containers that decides the log of an instance which the runtime no longer lists.
    pub fn leftover_log(&self, log: &LeftoverLog, path: &str) -> Result<Option<&'a Rule>, KeepReason> {
        let object = Object { of: RuleSubject::Container, id: path, bytes: Some(log.size_bytes) };
        self.decide(object, |facts| facts.leftover_log(log))
    }

    /// Returns the rule that decides a sandbox, or why a rule keeps it.
    pub fn sandbox(&self, sandbox: &Sandbox) -> Result<Option<&'a Rule>, KeepReason> {
        let object = Object { of: RuleSubject::Sandbox, id: sandbox.id.as_str(), bytes: None };
        self.decide(object, |facts| facts.sandbox(sandbox))
    }

    /// Returns the rule that decides a checkpoint, or why a rule keeps it.
    pub fn checkpoint(&self, checkpoint: &Leftover) -> Result<Option<&'a Rule>, KeepReason> {
        let object = Object { of: RuleSubject::Checkpoint, id: &checkpoint.at.path, bytes: checkpoint.size() };
        self.decide(object, |facts| facts.checkpoint(checkpoint))
    }

    /// Returns the rule that decides the log directory of a pod that is missing for so long, also that in the archive, or why a rule
    /// keeps it.
    pub fn log_dir(&self, dir: &LogDir, pod: &PodRef, missing_for: Duration) -> Result<Option<&'a Rule>, KeepReason> {
        let object = Object { of: RuleSubject::Log, id: &dir.name, bytes: dir.size_bytes };
        self.decide(object, |facts| facts.log_dir(dir, pod, missing_for))
    }

    /// Returns the same as [`Self::log_dir`], without a note: the plan decides the directory later.
    pub fn would_keep_log_dir(
        &self,
        dir: &LogDir,
        pod: &PodRef,
        missing_for: Duration,
    ) -> Result<Option<&'a Rule>, KeepReason> {
        let Some(source) = self.facts_for(RuleSubject::Log) else { return Ok(None) };
        let (mut errors, budget) = (Errors::new(), Budget::default());
        let found = self.first(&budget, RuleSubject::Log, &source.log_dir(dir, pod, missing_for), &mut errors);
        unless_kept(found, &errors)
    }

    /// Returns whether there is a rule for such objects.
    pub fn has_any_for(&self, of: RuleSubject) -> bool {
        self.rules.iter().any(|rule| self.applies(rule, of))
    }

    fn decide(
        &self,
        object: Object,
        facts: impl for<'f> FnOnce(&'f FactSource<'a>) -> Facts<'f>,
    ) -> Result<Option<&'a Rule>, KeepReason> {
        let Some(source) = self.facts_for(object.of) else { return Ok(None) };
        let mut errors = Errors::new();
        let found = self.first(&Budget::default(), object.of, &facts(source), &mut errors);
        self.note(object, &found.iter().map(|(place, _)| *place).collect(), &errors);
        unless_kept(found, &errors)
    }

    /// Returns the source of facts if there is a rule for such objects.
    fn facts_for(&self, of: RuleSubject) -> Option<&FactSource<'a>> {
        self.facts.as_ref().filter(|_| self.has_any_for(of))
    }

    fn applies(&self, rule: &Rule, of: RuleSubject) -> bool {
        rule.text().subject == of && rule.applies_on(self.day)
    }

    /// Returns the first rule whose condition holds, with its place. What cannot be evaluated is kept.
    fn first(&self, budget: &Budget, of: RuleSubject, facts: &Facts, errors: &mut Errors) -> Option<(usize, &'a Rule)> {
        let applicable = self.rules.iter().copied().enumerate().filter(|(_, rule)| self.applies(rule, of));
        budget.first(applicable, facts, |place, error| _ = errors.insert(place, error))
    }

    /// Notes which rules decide an object, and for which its evaluation failed.
    fn note(&self, object: Object, deciding: &BTreeSet<usize>, errors: &Errors) {
        for place in deciding {
            self.change(*place, |note| {
                note.objects += 1;
                note.bytes = note.bytes.saturating_add(object.bytes.unwrap_or_default());
            });
        }
        for (place, error) in errors {
            let error = format!("{}: {error}", object.id);
            self.change(*place, |note| {
                note.errors += 1;
                // The first by id, so that the order of a list does not matter.
                note.error = Some(note.error.take().map_or(error.clone(), |known| known.min(error)));
            });
        }
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut RuleNote)) {
        if let Some(note) = self.notes.borrow_mut().get_mut(place) {
            change(note);
        }
    }
}

/// Returns the rule that decides an object, or that it keeps it, with the error if it keeps what it could not evaluate.
fn unless_kept<'a>(found: Option<(usize, &'a Rule)>, errors: &Errors) -> Result<Option<&'a Rule>, KeepReason> {
    match found {
        Some((place, rule)) if rule.text().then == Then::Keep => Err(rule.keeps(errors.get(&place).cloned())),
        found => Ok(found.map(|(_, rule)| rule)),
    }
}

/// Formats a limit of a rule as the configuration has it.
pub(in crate::plan) fn time_limit(name: &str, limit: Duration) -> String {
    format!("{name} = {}", duration_text(limit))
}

// === impl Rule ===

impl Rule {
    /// Returns why the rule keeps an object: its condition holds, or could not be evaluated.
    fn keeps(&self, error: Option<String>) -> KeepReason {
        KeepReason::Rule(RuleReason { error, ..self.reason(None) })
    }

    /// Returns why an object is kept that is within a limit of the rule.
    pub(in crate::plan) fn keeps_within(&self, limit: impl Into<Option<String>>) -> KeepReason {
        KeepReason::Rule(self.reason(limit.into()))
    }

    /// Returns why an object is removed: it is over a limit of the rule; `None` = the rule removes it.
    pub(in crate::plan) fn removes(&self, limit: impl Into<Option<String>>) -> RemoveReason {
        RemoveReason::Rule(self.reason(limit.into()))
    }

    /// Returns its limit on the bytes of archived logs as the configuration has it; `None` = it has none.
    pub(in crate::plan) fn budget_text(&self) -> Option<String> {
        let budget = self.limits()?.budget?;
        Some(format!("budget = {}", exact_size_text(budget)))
    }

    /// Returns how many dead instances of a container the rule keeps; `None` = it does not say so.
    pub(in crate::plan) fn max_per_pod_container(&self) -> Option<u64> {
        if self.text().then == Then::Remove { Some(0) } else { self.limits()?.max_per_pod_container }
    }

    /// Returns the same limit as the configuration has it; `None` = the rule has none, as one that removes.
    pub(in crate::plan) fn max_per_pod_container_text(&self) -> Option<String> {
        let limit = self.limits()?.max_per_pod_container?;
        Some(format!("max_per_pod_container = {limit}"))
    }

    fn reason(&self, limit: Option<String>) -> RuleReason {
        RuleReason { rule: self.text().name.clone(), limit, note: self.text().note.clone(), error: None }
    }
}
