//! Dead sandboxes: all of pods that are gone; of other pods all but the newest, whatever its state.
//!
//! A sandbox is active while it is READY or has a container in any state that this pass leaves. Has no policy of its
//! own: the kubelet has no limit and no minimum age here, and aggressive mode is the containers' `evict_terminated_pods`.
//!
//! Removes for `pod_gone`, `pod_terminal`, `superseded`. Keeps for `ready`, `has_containers`, `newest_sandbox`, `list_incomplete`, and by the
//! guards `foreign` (I5), `young_sandbox`, `backing_off`, and those of `pods`.

use std::collections::HashMap;

use super::plan_builder::{Draft, World};
use super::pods::{Asks, Standing};
use super::{KeepReason, Kind, RemoveReason, Target};
use crate::model::{PodUid, Sandbox, SandboxId, SandboxState};

/// The containers that this pass leaves, counted by sandbox.
pub(super) type Inhabitants<'a> = HashMap<&'a SandboxId, usize>;

/// Decides all sandboxes.
pub(super) fn decide<'a>(world: &World<'a>, draft: &mut Draft<'a>) {
    let partial = world.snapshot.partial.sandboxes.as_ref();
    let Some(sandboxes) = draft.need_listed("sandboxes", &world.snapshot.sandboxes, partial) else { return };
    let Some(inhabitants) = inhabitants(world, draft) else {
        return sandboxes.iter().for_each(|sandbox| keep(draft, sandbox, KeepReason::StepFailed {}));
    };
    for mut pod in by_pod(sandboxes).into_values() {
        pod.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        decide_pod(world, draft, &inhabitants, &pod);
    }
}

/// Counts the containers that this pass leaves; `None` = they could not be listed.
fn inhabitants<'a>(world: &World<'a>, draft: &mut Draft<'a>) -> Option<Inhabitants<'a>> {
    let partial = world.snapshot.partial.containers.as_ref();
    let containers = draft.need_listed("containers", &world.snapshot.containers, partial)?;
    let mut inhabitants = HashMap::new();
    for container in containers.iter().filter(|container| draft.leaves(container)) {
        *inhabitants.entry(&container.sandbox_id).or_default() += 1;
    }
    Some(inhabitants)
}

/// Groups sandboxes by pod, in the order of uids.
fn by_pod(sandboxes: &[Sandbox]) -> std::collections::BTreeMap<Option<&PodUid>, Vec<&Sandbox>> {
    let mut pods = std::collections::BTreeMap::new();
    for sandbox in sandboxes {
        pods.entry(sandbox.pod_uid()).or_insert_with(Vec::new).push(sandbox);
    }
    pods
}

/// Decides the sandboxes of one pod, given newest first; what goes, goes oldest first.
fn decide_pod<'a>(world: &World<'a>, draft: &mut Draft<'a>, inhabitants: &Inhabitants, sandboxes: &[&'a Sandbox]) {
    let pod = sandboxes.iter().find_map(|sandbox| sandbox.pod.as_ref());
    if world.gaps.may_lack_sandboxes(sandboxes.iter().find_map(|sandbox| sandbox.pod_uid())) {
        let reason = KeepReason::ListIncomplete { list: "sandboxes".to_owned() };
        return sandboxes.iter().for_each(|sandbox| keep(draft, sandbox, reason.clone()));
    }
    let standing = world.pods.standing(pod, Asks::Any);
    let whole_pod = match standing {
        Standing::Gone => Some(RemoveReason::PodGone {}),
        Standing::Present { terminal: true } if world.policy.containers.evict_terminated_pods => {
            Some(RemoveReason::PodTerminal {})
        }
        _ => None,
    };
    let newest_stays = match standing {
        Standing::Unproven(reason) if !matches!(reason, KeepReason::PodsNotSeen { .. }) => reason,
        _ => KeepReason::NewestSandbox {},
    };
    for (rank, sandbox) in sandboxes.iter().enumerate().rev() {
        let spared = (rank == 0 && whole_pod.is_none()).then(|| newest_stays.clone());
        match active(inhabitants, sandbox).or(spared).or_else(|| guarded(world, sandbox)) {
            Some(reason) => keep(draft, sandbox, reason),
            None => remove(world, draft, sandbox, whole_pod.clone().unwrap_or(RemoveReason::Superseded {})),
        }
    }
}

/// Why a sandbox is not dead (I1).
fn active(inhabitants: &Inhabitants, sandbox: &Sandbox) -> Option<KeepReason> {
    if sandbox.state == SandboxState::Ready {
        return Some(KeepReason::Ready {});
    }
    inhabitants.get(&sandbox.id).map(|&containers| KeepReason::HasContainers { containers })
}

/// Why a dead sandbox stays all the same.
fn guarded(world: &World, sandbox: &Sandbox) -> Option<KeepReason> {
    let guards = &world.policy.guards;
    if guards.keep_foreign && sandbox.pod_uid().is_none() {
        return Some(KeepReason::Foreign {});
    }
    // A list of containers that is not trusted does not show which sandboxes are empty.
    if let Some(doubt) = world.pods.doubt() {
        return Some(doubt.clone());
    }
    if super::age(world.now, sandbox.created_at) < guards.sandbox_grace {
        return Some(KeepReason::YoungSandbox { sandbox_grace_seconds: super::seconds(guards.sandbox_grace) });
    }
    world.backing_off(Kind::Sandbox, sandbox.id.as_str())
}

fn remove<'a>(world: &World<'a>, draft: &mut Draft<'a>, sandbox: &'a Sandbox, reason: RemoveReason) {
    let target = Target::RemoveSandbox { id: sandbox.id.clone() };
    if draft.remove(target, sandbox.pod.as_ref(), Some(world.age_seconds(sandbox.created_at)), reason) {
        draft.gone_sandboxes.insert(&sandbox.id);
    }
}

fn keep(draft: &mut Draft, sandbox: &Sandbox, reason: KeepReason) {
    draft.keep(Kind::Sandbox, sandbox.id.as_str(), None, sandbox.pod.as_ref(), reason);
}
