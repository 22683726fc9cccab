//! A step of a pass: the facts that it reads, and the decisions so far.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;

use super::document::action::{Action, Kind, Object, key};
use super::document::disk_state::DiskState;
use super::document::plan_error::PlanError;
use super::document::reason::{KeepReason, RemoveReason};
use super::document::selection::Selection;
use super::document::{ImageSummary, Kept, ListNote, Plan, PodKnowledge, WorkloadNote};
use super::pods::Pods;
use super::pods::gaps::Gaps;
use super::policy::Policy;
use super::rules::book::{RuleBook, time_limit};
use crate::model::{Container, Image, ImageId, ImageMemory, PodUid, SandboxId, Seen, Snapshot};
use crate::rules::Rule;
use crate::store::SnapshotIndex;

/// The facts that every step uses.
pub(super) struct Context<'a> {
    pub snapshot: &'a Snapshot,
    pub policy: &'a Policy,
    pub pods: Pods<'a>,
    pub gaps: Gaps<'a>,
    pub rules: RuleBook<'a>,
    pub index: Rc<SnapshotIndex<'a>>,
    images: HashMap<&'a ImageId, &'a ImageMemory>,
    pub now: Timestamp,
}

/// A step: what it reads, and what the steps have decided so far.
pub(super) struct Step<'c, 'a> {
    pub context: &'c Context<'a>,
    /// The plan so far. The steps add to it by `remove`, `keep` and `fail`.
    pub plan: Plan,
    /// The objects that may be removed; `None` = any.
    selection: Option<Selection<'a>>,
    /// The containers that this pass removes, by their position in the snapshot. On a node with many containers a lookup
    /// by position is much faster than by ID.
    removed_containers: HashSet<usize>,
    /// The pods whose logs a rule keeps once they are deleted.
    pub kept_logs: HashSet<PodUid>,
    /// The sandboxes that this pass removes.
    pub removed_sandboxes: HashSet<&'a SandboxId>,
}

// === impl Context ===

impl<'a> Context<'a> {
    pub fn new(snapshot: &'a Snapshot, policy: &'a Policy) -> Self {
        let (pods, gaps) = (Pods::new(snapshot, policy), Gaps::new(snapshot));
        let images = snapshot.memory.images.iter().map(|memory| (&memory.id, memory)).collect();
        let index = Rc::new(SnapshotIndex::new(snapshot));
        let rules = RuleBook::new(snapshot, policy, &index);
        Self { snapshot, policy, pods, gaps, rules, index, images, now: snapshot.taken_at }
    }

    /// Returns the memory of an image, if there is one.
    pub fn memory_of(&self, image: &Image) -> Option<&'a ImageMemory> {
        self.images.get(&image.id).copied()
    }

    /// Returns why an object is not retried yet after a failed removal, if so.
    pub fn backing_off(&self, kind: Kind, id: &str) -> Option<KeepReason> {
        if self.policy.guards.retry_after.is_zero() || self.snapshot.memory.failures.is_empty() {
            return None;
        }
        let failure = self.snapshot.memory.failures.get(&key(kind, id))?;
        (self.now < failure.retry_at).then(|| KeepReason::BackingOff {
            retry_at: failure.retry_at,
            failures: failure.count,
            error: failure.error.clone(),
        })
    }

    /// Returns why an object is younger than the minimum age of its rule, or of the settings if that has none, if it is.
    pub fn why_too_young(&self, rule: Option<&Rule>, is_old_enough: impl Fn(Duration) -> bool) -> Option<KeepReason> {
        if let Some((rule, min_age)) = rule.and_then(|rule| Some((rule, rule.limits()?.min_age?))) {
            return (!is_old_enough(min_age)).then(|| rule.keeps_within(time_limit("min_age", min_age)));
        }
        let min_age = self.policy.containers.min_age;
        let min_age_seconds = super::times::seconds(min_age);
        (!is_old_enough(min_age)).then_some(KeepReason::YoungerThanMinAge { min_age_seconds })
    }

    /// Returns the whole seconds since a time.
    pub fn age_seconds(&self, since: Timestamp) -> i64 {
        self.now.duration_since(since).as_secs()
    }
}

// === impl Step ===

impl<'c, 'a> Step<'c, 'a> {
    /// Creates the first step of a pass, before any decision.
    pub fn first(context: &'c Context<'a>) -> Self {
        Self {
            context,
            plan: undecided(context.snapshot, context.policy),
            selection: None,
            removed_containers: HashSet::new(),
            kept_logs: HashSet::new(),
            removed_sandboxes: HashSet::new(),
        }
    }

    /// As [`Self::first`], for a pass that removes selected objects only. An object that is not selected and that nothing keeps is
    /// not part of the plan.
    pub fn only(context: &'c Context<'a>, selection: Selection<'a>) -> Self {
        Self { selection: Some(selection), ..Self::first(context) }
    }

    /// Returns the keys of selected objects whose pod is not proven deleted, although the selection removes them for
    /// that reason.
    pub fn unproven(&mut self) -> HashSet<String> {
        self.selection.take().map(Selection::into_unproven).unwrap_or_default()
    }

    /// Records that this pass removes the container at a position of the snapshot's list.
    pub fn note_removed(&mut self, position: usize) {
        self.removed_containers.insert(position);
    }

    /// Returns the containers of the snapshot's list that this pass keeps.
    pub fn remaining<'l>(&self, containers: &'l [Container]) -> impl Iterator<Item = &'l Container> {
        let is_kept = |(position, _): &(usize, _)| !self.removed_containers.contains(position);
        containers.iter().enumerate().filter(is_kept).map(|(_, container)| container)
    }

    /// Records a removal. Returns whether it is part of the plan: the removal of an object that is not selected is not.
    pub fn remove(&mut self, action: Action) -> bool {
        let is_allowed =
            self.selection.as_mut().is_none_or(|selection| selection.allows(&action.target, &action.reason));
        if is_allowed {
            debug_assert!(action.reason.word().kinds().contains(&action.target.kind()), "{action:?}");
            self.plan.actions.push(action);
        }
        is_allowed
    }

    /// Removes or keeps an object. One whose removal failed a moment ago is kept. Returns whether it is removed.
    pub fn decide(&mut self, object: Object, verdict: Result<RemoveReason, KeepReason>) -> bool {
        let backing_off = || self.context.backing_off(object.target.kind(), &object.target.id());
        match verdict.and_then(|reason| backing_off().map_or(Ok(reason), Err)) {
            Ok(reason) => self.remove(object.remove(reason)),
            Err(reason) => {
                self.keep(object.keep(reason));
                false
            }
        }
    }

    /// Returns whether the plan is limited to the objects of a saved plan.
    pub fn is_of_saved_plan(&self) -> bool {
        self.selection.is_some()
    }

    /// Returns the estimated bytes of the images that rules remove.
    pub fn images_by_rule(&self) -> u64 {
        let by_rule = self.plan.actions.iter().filter(|action| matches!(action.reason, RemoveReason::Rule(_)));
        by_rule.filter_map(Action::bytes).fold(0, u64::saturating_add)
    }

    pub fn keep(&mut self, kept: Kept) {
        self.plan.kept.push(kept);
    }

    pub fn fail(&mut self, error: PlanError) {
        self.plan.errors.push(error);
    }

    /// Returns a value that a step cannot do without. If it is unavailable, the plan has an error; it does not count as
    /// an empty list (I2).
    pub fn need<'s, T>(&mut self, source: &str, seen: &'s Seen<T>) -> Option<&'s T> {
        if let Some(cause) = seen.cause() {
            let error = PlanError::NotSeen { source: source.to_owned(), cause: cause.to_owned() };
            if !self.plan.errors.contains(&error) {
                self.fail(error);
            }
        }
        seen.as_ref()
    }

    /// Returns what only some passes read. A pass that did not read it has nothing to decide here.
    pub fn need_if_read<'s, T>(&mut self, source: &str, seen: &'s Seen<T>) -> Option<&'s T> {
        if seen.is_not_read() { None } else { self.need(source, seen) }
    }

    /// Returns a list, of which some parts may be missing. If the list is not complete, the plan has an error all the
    /// same.
    pub fn need_listed<'s, T>(
        &mut self,
        source: &str,
        seen: &'s Seen<Vec<T>>,
        partial: Option<&'s Vec<T>>,
    ) -> Option<&'s [T]> {
        self.need(source, seen).or(partial).map(Vec::as_slice)
    }

    /// Returns the finished plan. The kept objects are sorted, so that the same facts in another order give the same
    /// document.
    pub fn into_plan(mut self) -> Plan {
        self.plan.kept.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        self.plan
    }
}

/// Returns the plan before any decision.
fn undecided(snapshot: &Snapshot, policy: &Policy) -> Plan {
    Plan {
        taken_at: snapshot.taken_at,
        node: snapshot.node.clone(),
        profile: policy.profile,
        pressure: None,
        endpoint: snapshot.runtime.as_ref().map(|runtime| runtime.endpoint.clone()).unwrap_or_default(),
        pods: knowledge(snapshot),
        disks: DiskState::all(snapshot, policy),
        lists: ListNote::all(&snapshot.list_bytes),
        workloads: WorkloadNote::all(snapshot),
        actions: Vec::new(),
        kept: Vec::new(),
        images: ImageSummary::default(),
        rules: Vec::new(),
        log_limits: Vec::new(),
        errors: Vec::new(),
    }
}

fn knowledge(snapshot: &Snapshot) -> Seen<PodKnowledge> {
    let dirs_unavailable = snapshot.pod_dirs.cause().map(str::to_owned);
    snapshot.pods.result().map(|list| PodKnowledge { dirs_unavailable, ..list.into() }).into()
}
