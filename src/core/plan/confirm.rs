//! Compares a saved plan with the node as it is now.
//!
//! The limits, thresholds and minimum ages were applied when the plan was saved, and are not applied again. The facts
//! and the guards in force are evaluated again. To do so, `confirm` plans the node with every limit and threshold
//! exceeded, and permits the removal of objects in the saved plan only. If this plan keeps an object, then a fact or a
//! guard keeps it, even if an ordinary plan would show another reason first. `evict_terminated_pods` is a rule and not
//! a limit, so the policy in force applies.
//!
//! The pod in a saved plan is not trusted. Each action gets the pod of the fresh plan, so the live lookup concerns
//! the pod to which the object belongs now.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::document::Plan;
use super::document::action::{Action, Kind};
use super::document::decision::Decision;
use super::document::plan_error::PlanError;
use super::document::reason::{KeepReason, RemoveReason};
use super::document::report::{Measure, Outcome, Refusal, Report};
use super::document::selection::Selection;
use super::policy::log_limit::{ArchiveLimit, LogLimit};
use super::policy::{Policy, Scope};
use super::step::{Context, Step};
use crate::model::Snapshot;

/// A saved plan that may be carried out now.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmed {
    /// The saved plan without the denied actions.
    pub plan: Plan,
    /// The denied actions, in the order of the plan.
    pub denied: Vec<(Action, Denial)>,
}

/// Why an action of a saved plan is not carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// A fact or a guard keeps the object.
    Kept(KeepReason),
    /// The saved plan removes the object because its pod is deleted, and the deletion is not proven (I11).
    PodNotProven,
    /// The list that contains the object is unavailable (I2).
    Unavailable {
        /// The name of the list in the snapshot.
        source: &'static str,
        /// Why the list is unavailable.
        cause: String,
    },
    /// The object does not exist on the node.
    AlreadyRemoved,
}

// === impl Denial ===

impl Denial {
    /// Returns the report of the action. An object that the node no longer has counts as already removed.
    pub fn report(self, action: Action) -> Report {
        let refused = |refusal| Outcome::Refused { refusal };
        let (outcome, note) = match self {
            Self::Kept(reason) => {
                (refused(Refusal::StateChanged), Some(format!("kept now: {}", reason.explain().rule)))
            }
            Self::PodNotProven => (refused(Refusal::PodNotProven), None),
            Self::Unavailable { source, cause } => {
                (refused(Refusal::StateChanged), Some(format!("{source} unavailable: {cause}")))
            }
            Self::AlreadyRemoved => (Outcome::AlreadyRemoved {}, None),
        };
        Report {
            action,
            outcome,
            freed_bytes: None,
            measure: Measure::Unknown,
            proven_by: None,
            note,
            kept_until: None,
        }
    }
}

/// Compares a saved plan with the node.
pub fn confirm(mut saved: Plan, snapshot: &Snapshot, policy: &Policy) -> Confirmed {
    saved.images.reserve.retain(|action| action.target.kind() == Kind::Image);
    let policy = policy.without_limits();
    let context = Context::new(snapshot, &policy);
    let mut step = Step::only(&context, Selection::of(saved.removals()));
    super::decide::steps(&mut step, Scope::All);
    let unproven = step.unproven();
    let fresh = step.into_plan();
    Comparison::new(&fresh, unproven, snapshot).apply(saved)
}

/// The result of planning the objects of a saved plan again, by their keys.
struct Comparison<'a> {
    decided: HashMap<String, Decision<'a>>,
    unproven: HashSet<String>,
    fresh: &'a Plan,
    snapshot: &'a Snapshot,
}

// === impl Comparison ===

impl<'a> Comparison<'a> {
    fn new(fresh: &'a Plan, unproven: HashSet<String>, snapshot: &'a Snapshot) -> Self {
        Self { decided: fresh.by_key(), unproven, fresh, snapshot }
    }

    fn apply(&self, mut saved: Plan) -> Confirmed {
        let mut denied = Vec::new();
        for action in std::mem::take(&mut saved.actions) {
            match self.judge(&action) {
                Ok(allowed) => saved.actions.push(allowed),
                Err(denial) => denied.push((action, denial)),
            }
        }
        saved.images.reserve.retain(|action| self.judge(action).is_ok());
        saved.pods = self.fresh.pods.clone();
        self.add_errors(&mut saved, &denied);
        Confirmed { plan: saved, denied }
    }

    /// Returns the action as it may be carried out. The pod is that of the node, not that of the file. If the object is
    /// removed now because its pod is deleted, the action gets that reason. Then the deletion is confirmed before the
    /// removal (I11).
    fn judge(&self, action: &Action) -> Result<Action, Denial> {
        let key = action.key();
        match self.decided.get(&key) {
            Some(Decision::Remove(fresh) | Decision::IfNeeded(fresh)) => {
                let of_pod = matches!(fresh.reason, RemoveReason::PodDeleted {} | RemoveReason::PodTerminal { .. });
                let reason = if of_pod { &fresh.reason } else { &action.reason };
                Ok(Action { pod: fresh.pod.clone(), reason: reason.clone(), ..action.clone() })
            }
            Some(Decision::Keep(kept)) => Err(Denial::Kept(kept.reason.clone())),
            None if self.unproven.contains(&key) => Err(Denial::PodNotProven),
            None => Err(self.unavailable(action.target.kind()).unwrap_or(Denial::AlreadyRemoved)),
        }
    }

    fn unavailable(&self, kind: Kind) -> Option<Denial> {
        let (source, cause) = match kind {
            Kind::Container => ("containers", self.snapshot.containers.cause()),
            Kind::Sandbox => ("sandboxes", self.snapshot.sandboxes.cause()),
            Kind::LogDir => ("log_dirs", self.snapshot.log_dirs.cause()),
            Kind::LogFile if self.snapshot.leftover_logs.failure().is_none() => {
                ("container_logs", self.snapshot.container_logs.failure())
            }
            Kind::LogFile => ("leftover_logs", self.snapshot.leftover_logs.failure()),
            Kind::LogLink => ("log_links", self.snapshot.log_links.cause()),
            Kind::Leftover => ("leftovers", self.snapshot.leftovers.failure()),
            Kind::Image => ("images", self.snapshot.images.cause()),
        };
        Some(Denial::Unavailable { source, cause: cause?.to_owned() })
    }

    /// Adds why lists are unavailable, if that denied an action.
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
    /// Returns a policy with the same guards, and with every limit and threshold exceeded.
    fn without_limits(&self) -> Self {
        let mut policy = self.clone();
        policy.containers.min_age = Duration::ZERO;
        policy.containers.max_per_pod_container = Some(0);
        policy.containers.max_containers = Some(0);
        policy.logs.limits = vec![LogLimit::exceeded()];
        policy.logs.archive = vec![ArchiveLimit::Bytes(LogLimit::exceeded())];
        policy.images.min_age = Duration::ZERO;
        policy.images.all_unused = true;
        policy.rules = self.rules.without_limits();
        policy
    }
}

#[cfg(test)]
mod tests;
