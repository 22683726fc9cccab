//! A saved plan compared with the node as it is now.
//!
//! A saved plan settles what limits, thresholds and minimum ages allow. Facts and the guards in force are evaluated again,
//! each on its own: the node is planned with every limit and threshold exceeded, and only the objects of the saved plan may
//! be removed. Whatever such a plan keeps, a fact or a guard keeps it, whichever reason an ordinary plan would show first.
//! `evict_terminated_pods` is no limit but a rule, and counts as in the policy in force.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::plan_builder::{Context, PlanBuilder};
use super::{Action, KeepReason, Kind, Plan, PlanError, Policy, RemoveReason, Scope, Target, key};
use crate::model::Snapshot;

/// A saved plan that may be carried out now.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmed {
    /// The saved plan without the actions that are denied.
    pub plan: Plan,
    /// The other actions, in the order of the plan.
    pub denied: Vec<(Action, Denial)>,
}

/// Why an action of a saved plan is not carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// A fact or a guard keeps the object.
    Kept(KeepReason),
    /// The saved plan removes it because its pod is deleted, and that is not proven (I11).
    PodNotProven,
    /// The list that shows the object is unavailable (I2).
    Unavailable {
        /// The list, as the snapshot names it.
        source: &'static str,
        /// Why.
        cause: String,
    },
    /// The node does not have the object.
    AlreadyGone,
}

/// The objects that may be removed, and why a saved plan removes them.
pub(super) struct Selection<'a> {
    wanted: HashMap<String, &'a RemoveReason>,
    /// Objects whose pod would have to be deleted and is not proven to be.
    unproven: HashSet<String>,
}

/// Compares a saved plan with the node.
pub fn confirm(mut saved: Plan, snapshot: &Snapshot, policy: &Policy) -> Confirmed {
    saved.images.reserve.retain(|action| action.target.kind() == Kind::Image);
    let policy = policy.without_limits();
    let context = Context::new(snapshot, &policy);
    let mut builder = PlanBuilder::only(Selection::of(saved.actions.iter().chain(&saved.images.reserve)));
    super::steps(&context, &mut builder, Scope::All);
    let unproven = builder.unproven();
    let fresh = builder.into_plan(snapshot, &policy);
    Comparison::new(&fresh, unproven, snapshot).apply(saved)
}

// === impl Selection ===

impl<'a> Selection<'a> {
    fn of(actions: impl Iterator<Item = &'a Action>) -> Self {
        Self { wanted: actions.map(|action| (action.key(), &action.reason)).collect(), unproven: HashSet::new() }
    }

    /// Says whether the saved plan removes this object, for a reason that still holds.
    pub fn allows(&mut self, target: &Target, reason: &RemoveReason) -> bool {
        let key = key(target.kind(), &target.id());
        match self.wanted.get(&key) {
            None => false,
            Some(RemoveReason::PodGone {}) if *reason != (RemoveReason::PodGone {}) => {
                self.unproven.insert(key);
                false
            }
            Some(_) => true,
        }
    }

    pub fn into_unproven(self) -> HashSet<String> {
        self.unproven
    }
}

/// What the node says of the objects of a saved plan, by their keys.
struct Comparison<'a> {
    allowed: BTreeMap<String, &'a Action>,
    kept: BTreeMap<String, &'a KeepReason>,
    unproven: HashSet<String>,
    fresh: &'a Plan,
    snapshot: &'a Snapshot,
}

// === impl Comparison ===

impl<'a> Comparison<'a> {
    fn new(fresh: &'a Plan, unproven: HashSet<String>, snapshot: &'a Snapshot) -> Self {
        let allowed = fresh.actions.iter().map(|action| (action.key(), action)).collect();
        let kept = fresh.kept.iter().map(|kept| (key(kept.kind, &kept.id), &kept.reason)).collect();
        Self { allowed, kept, unproven, fresh, snapshot }
    }

    fn apply(&self, mut saved: Plan) -> Confirmed {
        let mut denied = Vec::new();
        saved.actions = std::mem::take(&mut saved.actions)
            .into_iter()
            .filter_map(|action| match self.judge(&action) {
                Ok(allowed) => Some(allowed),
                Err(denial) => {
                    denied.push((action, denial));
                    None
                }
            })
            .collect();
        saved.images.reserve.retain(|action| self.judge(action).is_ok());
        saved.pods = self.fresh.pods.clone();
        self.add_errors(&mut saved, &denied);
        Confirmed { plan: saved, denied }
    }

    /// The action as it may be carried out. The pod is the node's and not the file's, and what is removed now because its
    /// pod is deleted is removed for that: then the deletion is confirmed first (I11).
    fn judge(&self, action: &Action) -> Result<Action, Denial> {
        let key = action.key();
        if let Some(fresh) = self.allowed.get(&key) {
            let of_pod = matches!(fresh.reason, RemoveReason::PodGone {} | RemoveReason::PodTerminal {});
            let reason = if of_pod { &fresh.reason } else { &action.reason };
            return Ok(Action { pod: fresh.pod.clone(), reason: reason.clone(), ..action.clone() });
        }
        if let Some(reason) = self.kept.get(&key) {
            return Err(Denial::Kept((*reason).clone()));
        }
        if self.unproven.contains(&key) {
            return Err(Denial::PodNotProven);
        }
        Err(self.unavailable(action.target.kind()).unwrap_or(Denial::AlreadyGone))
    }

    fn unavailable(&self, kind: Kind) -> Option<Denial> {
        let (source, cause) = match kind {
            Kind::Container => ("containers", self.snapshot.containers.cause()),
            Kind::Sandbox => ("sandboxes", self.snapshot.sandboxes.cause()),
            Kind::LogDir => ("log_dirs", self.snapshot.log_dirs.cause()),
            Kind::LogLink => ("log_links", self.snapshot.log_links.cause()),
            Kind::Image => ("images", self.snapshot.images.cause()),
        };
        Some(Denial::Unavailable { source, cause: cause?.to_owned() })
    }

    /// Adds why lists are unavailable, where that denied an action.
    fn add_errors(&self, saved: &mut Plan, denied: &[(Action, Denial)]) {
        let is_blind =
            |denial: &Denial| matches!(denial, Denial::Unavailable { .. } | Denial::Kept(KeepReason::StepFailed {}));
        if denied.iter().any(|(_, denial)| is_blind(denial)) {
            let is_new = |error: &&PlanError| !saved.errors.contains(error);
            let new: Vec<_> = self.fresh.errors.iter().filter(is_new).cloned().collect();
            saved.errors.extend(new);
        }
    }
}

// === impl Policy ===

impl Policy {
    /// The same guards with every limit and threshold exceeded.
    fn without_limits(&self) -> Self {
        let mut policy = self.clone();
        policy.containers.min_age = Duration::ZERO;
        policy.containers.max_per_pod_container = 0;
        policy.containers.max_containers = 0;
        policy.images.min_age = Duration::ZERO;
        policy.images.all_unused = true;
        policy
    }
}

#[cfg(test)]
mod tests;
