//! A plan in the making: what the steps have put down so far.

use std::collections::HashSet;

use jiff::Timestamp;

use super::action::key;
use super::confirm::Selection;
use super::gaps::Gaps;
use super::pods::Pods;
use super::{
    Action, ImageSummary, KeepReason, Kept, Kind, ListNote, Plan, PlanError, PlanKind, PodKnowledge, Policy,
    RemoveReason, Target,
};
use crate::model::{Container, PodRef, SandboxId, Seen, Snapshot};

/// The facts that every step looks at.
pub(super) struct Context<'a> {
    pub snapshot: &'a Snapshot,
    pub policy: &'a Policy,
    pub pods: Pods<'a>,
    pub gaps: Gaps<'a>,
    pub now: Timestamp,
}

/// What the steps have decided so far.
#[derive(Default)]
pub(super) struct PlanBuilder<'a> {
    actions: Vec<Action>,
    kept: Vec<Kept>,
    errors: Vec<PlanError>,
    /// The objects that may be removed; `None` = any.
    selection: Option<Selection<'a>>,
    pub images: ImageSummary,
    /// Containers that go in this pass, by where they lie in the snapshot: on a big node that is much quicker to look up
    /// than an id.
    gone_containers: HashSet<*const Container>,
    /// Sandboxes that go in this pass.
    pub gone_sandboxes: HashSet<&'a SandboxId>,
}

// === impl Context ===

impl<'a> Context<'a> {
    pub fn new(snapshot: &'a Snapshot, policy: &'a Policy) -> Self {
        let (pods, gaps) = (Pods::new(snapshot, policy), Gaps::new(snapshot));
        Self { snapshot, policy, pods, gaps, now: snapshot.taken_at }
    }

    /// Why an object waits after a failed removal, if it does.
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

    /// Whole seconds since a moment.
    pub fn age_seconds(&self, since: Timestamp) -> i64 {
        self.now.duration_since(since).as_secs()
    }
}

// === impl PlanBuilder ===

impl<'a> PlanBuilder<'a> {
    /// A builder that removes nothing else. Objects that are not selected and that nothing keeps are left out of it.
    pub fn only(selection: Selection<'a>) -> Self {
        Self { selection: Some(selection), ..Self::default() }
    }

    /// The keys of selected objects whose pod is not proven deleted, though the selection wants that.
    pub fn unproven(&mut self) -> HashSet<String> {
        self.selection.take().map(Selection::into_unproven).unwrap_or_default()
    }

    /// Notes that a container of the snapshot goes in this pass.
    pub fn container_goes(&mut self, container: &Container) {
        self.gone_containers.insert(std::ptr::from_ref(container));
    }

    /// Says whether a container of the snapshot is left by this pass.
    pub fn leaves(&self, container: &Container) -> bool {
        !self.gone_containers.contains(&std::ptr::from_ref(container))
    }

    /// Puts down a removal. Says whether it is part of the plan: of an object that is not selected it is not.
    pub fn remove(
        &mut self,
        target: Target,
        pod: Option<&PodRef>,
        age_seconds: Option<i64>,
        reason: RemoveReason,
    ) -> bool {
        let is_allowed = self.selection.as_mut().is_none_or(|selection| selection.allows(&target, &reason));
        if is_allowed {
            self.actions.push(Action { target, pod: pod.cloned(), age_seconds, reason });
        }
        is_allowed
    }

    pub fn keep(&mut self, kind: Kind, id: &str, name: Option<&str>, pod: Option<&PodRef>, reason: KeepReason) {
        let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
        self.kept.push(Kept { kind, id: id.to_owned(), name, pod: pod.cloned(), reason });
    }

    pub fn fail(&mut self, error: PlanError) {
        self.errors.push(error);
    }

    /// A list that a step cannot do without; its absence is an error of the plan, not an empty list (I2).
    pub fn need<'s, T>(&mut self, source: &str, seen: &'s Seen<T>) -> Option<&'s T> {
        match seen {
            Seen::Seen(value) => Some(value),
            Seen::NotSeen(cause) => {
                let error = PlanError::NotSeen { source: source.to_owned(), cause: cause.clone() };
                if !self.errors.contains(&error) {
                    self.fail(error);
                }
                None
            }
        }
    }

    /// A list that a step can do without some parts of; their absence is an error of the plan all the same.
    pub fn need_listed<'s, T>(
        &mut self,
        source: &str,
        seen: &'s Seen<Vec<T>>,
        partial: Option<&'s Vec<T>>,
    ) -> Option<&'s [T]> {
        self.need(source, seen).or(partial).map(Vec::as_slice)
    }

    /// The finished plan. What stays is sorted, so that the same facts in another order give the same document.
    pub fn into_plan(mut self, snapshot: &Snapshot, policy: &Policy) -> Plan {
        self.kept.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        Plan {
            kind: PlanKind::Plan,
            version: 1,
            taken_at: snapshot.taken_at,
            node: snapshot.node.clone(),
            profile: policy.profile,
            pressure: None,
            pods: knowledge(snapshot),
            lists: ListNote::all(&snapshot.list_bytes),
            actions: self.actions,
            kept: self.kept,
            images: self.images,
            errors: self.errors,
        }
    }
}

fn knowledge(snapshot: &Snapshot) -> Seen<PodKnowledge> {
    let dirs_unavailable = snapshot.pod_dirs.cause().map(str::to_owned);
    match &snapshot.pods {
        Seen::Seen(list) => Seen::Seen(PodKnowledge { dirs_unavailable, ..list.into() }),
        Seen::NotSeen(cause) => Seen::NotSeen(cause.clone()),
    }
}
