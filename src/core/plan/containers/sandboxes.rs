//! Decides dead sandboxes: removes all of deleted pods, and of other pods all but the newest, whatever its state.
//!
//! A sandbox is active while it is READY or has a container in any state that this pass keeps. There is no policy for
//! sandboxes: the kubelet has no limit and no minimum age for them. The kubelet's aggressive mode is the containers'
//! `evict_terminated_pods`.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::instances::{self, Order};
use crate::model::{PodUid, Sandbox, SandboxId, SandboxState};
use crate::plan::document::action::{Object, Target};
use crate::plan::document::reason::{KeepReason, RemoveReason};
use crate::plan::pods::{Completeness, PodStatus};
use crate::plan::policy::guards::Guards;
use crate::plan::step::{Context, Step};

/// The number of containers that this pass keeps, by sandbox.
pub(super) type ContainersBySandbox<'a> = HashMap<&'a SandboxId, usize>;

pub(in crate::plan) fn decide(step: &mut Step) {
    let context = step.context;
    let partial = context.snapshot.partial.sandboxes.as_ref();
    let Some(sandboxes) = step.need_listed("sandboxes", &context.snapshot.sandboxes, partial) else { return };
    let Some(containers_by_sandbox) = containers_by_sandbox(step) else {
        return sandboxes
            .iter()
            .for_each(|sandbox| step.keep(object(step.context, sandbox).keep(KeepReason::StepFailed {})));
    };
    for mut pod in by_pod(sandboxes).into_values() {
        pod.sort_by_key(|sandbox| Reverse(order(&context.policy.guards, sandbox)));
        decide_pod(step, &containers_by_sandbox, &pod);
    }
}

/// Counts the containers that this pass keeps; `None` = the containers are unavailable.
fn containers_by_sandbox<'a>(step: &mut Step<'_, 'a>) -> Option<ContainersBySandbox<'a>> {
    let context = step.context;
    let partial = context.snapshot.partial.containers.as_ref();
    let containers = step.need_listed("containers", &context.snapshot.containers, partial)?;
    let mut containers_by_sandbox = HashMap::new();
    for container in step.remaining(containers) {
        *containers_by_sandbox.entry(&container.sandbox_id).or_default() += 1;
    }
    Some(containers_by_sandbox)
}

/// Groups sandboxes by pod, in the order of uids.
fn by_pod(sandboxes: &[Sandbox]) -> std::collections::BTreeMap<Option<&PodUid>, Vec<&Sandbox>> {
    let mut pods = std::collections::BTreeMap::new();
    for sandbox in sandboxes {
        pods.entry(sandbox.pod_uid()).or_insert_with(Vec::new).push(sandbox);
    }
    pods
}

/// Decides the sandboxes of one pod. They are given newest first, and removed oldest first.
fn decide_pod<'a>(step: &mut Step<'_, 'a>, containers_by_sandbox: &ContainersBySandbox, sandboxes: &[&'a Sandbox]) {
    let context = step.context;
    let pod = sandboxes.iter().find_map(|sandbox| sandbox.pod.as_ref());
    if context.gaps.may_miss_sandboxes(sandboxes.iter().find_map(|sandbox| sandbox.pod_uid())) {
        let reason = KeepReason::ListIncomplete { list: "sandboxes".to_owned() };
        return sandboxes.iter().for_each(|sandbox| step.keep(object(context, sandbox).keep(reason.clone())));
    }
    let status = context.pods.status(pod, Completeness::NotRequired);
    let whole_pod = status.removes_dead(context.policy);
    let why_newest_kept = match status {
        PodStatus::Unknown(reason) | PodStatus::Guarded(reason)
            if !matches!(reason, KeepReason::PodsNotSeen { .. }) =>
        {
            reason
        }
        _ => KeepReason::NewestSandbox {},
    };
    let newest = instances::newest(sandboxes.iter().map(|sandbox| order(&context.policy.guards, sandbox)));
    for (rank, sandbox) in sandboxes.iter().enumerate().rev() {
        let kept = (newest.contains(&Some(rank)) && whole_pod.is_none()).then(|| why_newest_kept.clone());
        let kept = active(containers_by_sandbox, sandbox).or(kept).or_else(|| guarded(context, sandbox));
        let why_removed = || whole_pod.clone().unwrap_or(RemoveReason::Superseded {});
        if step.decide(object(context, sandbox), kept.map_or_else(|| Ok(why_removed()), Err)) {
            step.removed_sandboxes.insert(&sandbox.id);
        }
    }
}

fn order<'a>(guards: &Guards, sandbox: &'a Sandbox) -> Order<'a> {
    instances::order(guards, sandbox.attempt, sandbox.created_at, sandbox.id.as_str())
}

/// Returns why a sandbox is not dead, if so (I1).
fn active(containers_by_sandbox: &ContainersBySandbox, sandbox: &Sandbox) -> Option<KeepReason> {
    if sandbox.state == SandboxState::Ready {
        return Some(KeepReason::Ready {});
    }
    containers_by_sandbox.get(&sandbox.id).map(|&containers| KeepReason::HasContainers { containers })
}

/// Returns why a dead sandbox is kept, if so (I4, I5).
fn guarded(context: &Context, sandbox: &Sandbox) -> Option<KeepReason> {
    let guards = &context.policy.guards;
    if guards.keep_foreign && sandbox.pod_uid().is_none() {
        return Some(KeepReason::Unmanaged {});
    }
    // A list of containers that is not trusted does not show which sandboxes are empty.
    if let Some(reason) = context.pods.why_untrusted() {
        return Some(reason.clone());
    }
    if crate::plan::times::age(context.now, sandbox.created_at) < guards.sandbox_grace {
        return Some(KeepReason::YoungSandbox {
            sandbox_grace_seconds: crate::plan::times::seconds(guards.sandbox_grace),
        });
    }
    context.rules.sandbox(sandbox).err()
}

fn object(context: &Context, sandbox: &Sandbox) -> Object {
    Target::RemoveSandbox { id: sandbox.id.clone() }.with(sandbox.pod.clone(), age(context, sandbox), None)
}

/// Returns the seconds since the sandbox was created, if the runtime knows it.
fn age(context: &Context, sandbox: &Sandbox) -> Option<i64> {
    crate::plan::times::known(sandbox.created_at).map(|created_at| context.age_seconds(created_at))
}

#[cfg(test)]
mod tests;
