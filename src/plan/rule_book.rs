//! The rules of the operator in a plan: the facts of each object, the verdicts, and what the plan says of each rule.

use std::cell::RefCell;
use std::collections::HashMap;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::disk;
use super::{KeepReason, Policy, RemoveReason};
use crate::model::{Container, FileSystem, Image, ImageMemory, Pod, Snapshot, full_image_name};
use crate::rules::{Facts, Rule, RuleFor, Then, Value, Values, Verdict, World, number, seconds, texts, time};

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
    world: Option<World>,
    pods: HashMap<&'a str, &'a Pod>,
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
        let world = (!rules.is_empty()).then(|| world(snapshot));
        let pods = snapshot.pods.as_ref().filter(|_| !rules.is_empty()).into_iter().flat_map(|list| &list.pods);
        let pods = pods.map(|pod| (pod.uid.as_str(), pod)).collect();
        Self { rules, world, pods, notes, day }
    }

    /// Returns what the plan says of the rules.
    pub fn notes(&self) -> Vec<RuleNote> {
        self.notes.borrow().clone()
    }

    /// Returns the rule that decides an image.
    pub fn image(&self, snapshot: &Snapshot, image: &Image, past: Option<&ImageMemory>) -> Option<Effect> {
        let facts = |world: &World| world.with([("image", image_facts(snapshot, image, past))]);
        self.first(RuleFor::Image, image.id.as_str(), facts)
    }

    /// Returns the rule that decides a container.
    pub fn container(&self, snapshot: &Snapshot, container: &Container) -> Option<Effect> {
        let facts = |world: &World| {
            let pod = container.pod_uid().and_then(|uid| self.pods.get(uid.as_str()).copied());
            world.with([("container", container_facts(snapshot, container)), ("pod", pod_facts(container, pod))])
        };
        self.first(RuleFor::Container, container.id.as_str(), facts)
    }

    /// Returns the first rule whose condition holds.
    fn first(&self, of: RuleFor, id: &str, facts: impl FnOnce(&World) -> Facts<'static>) -> Option<Effect> {
        let is_for = |rule: &Rule| rule.text().of == of && rule.applies_on(self.day);
        if !self.rules.iter().any(|rule| is_for(rule)) {
            return None;
        }
        let facts = facts(self.world.as_ref()?);
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

// === facts ===

fn world(snapshot: &Snapshot) -> World {
    let node = values([("name", Some(snapshot.node.as_str()).filter(|name| !name.is_empty()).map(Into::into))]);
    let disk = snapshot.image_filesystem.as_ref();
    World::new(snapshot.taken_at, node, disk.map(disk_facts).unwrap_or_default())
}

fn disk_facts(disk: &FileSystem) -> Values {
    values([
        ("used_percent", disk::usage(disk).ok().map(|usage| number(usage.used_percent()))),
        ("free_bytes", Some(number(disk.available_bytes))),
        ("free_inodes", disk.inodes_free.map(number)),
    ])
}

fn image_facts(snapshot: &Snapshot, image: &Image, past: Option<&ImageMemory>) -> Values {
    let name = image.tags.iter().chain(&image.digests).find(|name| !name.is_empty());
    let repository = name.map(|name| repository(name));
    let registry = repository.as_deref().and_then(|name| name.split_once('/')).map(|(registry, _)| registry.into());
    let first_seen = past.map_or(Some(snapshot.taken_at), |past| past.first_seen);
    let last_used = past.and_then(|past| past.last_used);
    let unused = last_used.max(first_seen);
    values([
        ("id", Some(image.id.as_str().into())),
        ("tags", texts(&image.tags)),
        ("digests", texts(&image.digests)),
        ("repository", repository.map(Into::into)),
        ("registry", registry),
        ("size_bytes", Some(number(image.size_bytes))),
        ("pinned", Some(image.pinned.into())),
        ("imported", Some(image.digests.is_empty().into())),
        ("first_seen", first_seen.map(time)),
        ("last_used", last_used.map(time)),
        ("unused", unused.map(|since| seconds(snapshot.taken_at.duration_since(since).as_secs().max(0)))),
        ("last_used_by", past.and_then(|past| past.last_used_by.as_deref()).map(Into::into)),
    ])
}

/// Returns the full name without its tag or digest.
fn repository(name: &str) -> String {
    let full = full_image_name(name);
    let name = full.split_once('@').map_or(&*full, |(name, _)| name);
    let last = name.rfind('/').map_or(0, |at| at + 1);
    let tag = name.get(last..).and_then(|rest| rest.find(':')).map_or(name.len(), |at| last + at);
    name.get(..tag).unwrap_or(name).to_owned()
}

fn container_facts(snapshot: &Snapshot, container: &Container) -> Values {
    let created = super::known_time(container.created_at);
    let state: &str = container.state.into();
    values([
        ("id", Some(container.id.as_str().into())),
        ("name", Some(container.name.as_str().into())),
        ("image", container.image.as_deref().map(Into::into)),
        ("attempt", Some(number(container.attempt.into()))),
        ("state", Some(state.into())),
        ("created", created.map(time)),
        ("age", created.map(|at| seconds(snapshot.taken_at.duration_since(at).as_secs()))),
    ])
}

fn pod_facts(container: &Container, pod: Option<&Pod>) -> Values {
    let known = container.pod.as_ref().filter(|_| container.pod_uid().is_some());
    let phase = pod.map(|pod| pod.phase).filter(|phase| *phase != crate::model::Phase::Unknown);
    values([
        ("uid", known.map(|pod| pod.uid.as_str().into())),
        ("namespace", known.map(|pod| pod.namespace.as_str().into())),
        ("name", known.map(|pod| pod.name.as_str().into())),
        ("phase", phase.map(|phase| <&str>::from(phase).into())),
    ])
}

/// Leaves out the facts that are not available.
fn values<const N: usize>(facts: [(&str, Option<Value>); N]) -> Values {
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests;
