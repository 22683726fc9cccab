//! The plan of a cluster: what is done now, what follows from it, what is kept and why, and what is wrong.
//!
//! A prediction carries out the plan on the snapshot, wave by wave, with the rules of the API server for finalizers.
//! The 149 forests that kube-controller-manager 1.36.2 collected end in the recorded states (`plan/tests`).

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_snapshot::{ClusterSnapshot, OwnerAnswer, OwnerRead};
use super::findings::{Finding, findings};
use super::world::{Object, World};
use super::{DeleteReason, OwnerGuards, OwnerState, Propagation, Verdict};
use crate::model::{Identity, OwnerReference};

/// What `kubegc controller plan` shows.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterPlan {
    /// The type of the document.
    pub kind: ClusterPlanKind,
    /// The version of the document, 1.
    pub version: u32,
    /// When the snapshot was taken.
    pub taken_at: Timestamp,
    /// The address of the API server.
    pub server: String,
    /// What is done now, sorted by object.
    pub actions: Vec<ClusterAction>,
    /// What follows from these actions, in order. It is a prediction: objects may change until then.
    pub predicted: Vec<ClusterAction>,
    /// The objects with owner references and those in deletion that are kept.
    pub kept: Vec<ClusterKept>,
    /// What is wrong, or never collected.
    pub findings: Vec<Finding>,
    /// What could not be read, so that the plan may lack something.
    pub errors: Vec<String>,
}

/// The type of the document.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ClusterPlanKind {
    /// A plan of a cluster.
    #[default]
    #[serde(rename = "kubegc.controller.plan")]
    ClusterPlan,
}

/// One action on an object.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterAction {
    /// What is done.
    pub action: ActionWord,
    /// The object.
    pub object: Identity,
    /// Of a deletion: what happens to the dependents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
    /// Why: the word of a [`DeleteReason`], or what the object waits for.
    pub reason: String,
    /// Its owner references, and the state of each owner.
    pub owners: Vec<OwnerFinding>,
}

/// What is done to an object.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, strum::Display, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActionWord {
    /// The object is deleted.
    Delete,
    /// References to absent or waiting owners are removed.
    DropReferences,
    /// The finalizer `foregroundDeletion` is removed.
    EndForeground,
    /// The references of its dependents are removed, then the finalizer `orphan`.
    Orphan,
}

/// The state of one owner.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OwnerFinding {
    /// The reference.
    #[serde(flatten)]
    pub reference: OwnerReference,
    /// The word of an [`OwnerState`].
    pub state: String,
    /// What proves it.
    pub evidence: String,
}

/// An object that is kept.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterKept {
    /// The object.
    pub object: Identity,
    /// The word of a [`super::ObjectKeepReason`], or `waits_for_dependents`.
    pub reason: String,
    /// Its owner references, and the state of each owner.
    pub owners: Vec<OwnerFinding>,
}

/// Lists the owners that the lists of a snapshot leave doubtful: a live read must find each, or prove it absent.
pub fn doubtful_owners(snapshot: &ClusterSnapshot) -> Vec<Identity> {
    World::new(snapshot).doubtful()
}

/// Plans the cluster under the guards of the profile `safe`. The order of the lists in the snapshot does not change the plan.
pub fn plan(snapshot: &ClusterSnapshot) -> ClusterPlan {
    plan_under(snapshot, &OwnerGuards::default())
}

/// Plans the cluster. Of the guards only the wait for lists is applied: the others need a live read or a running service.
pub fn plan_under(snapshot: &ClusterSnapshot, guards: &OwnerGuards) -> ClusterPlan {
    let world = World::new(snapshot);
    let mut world = if guards.orphan_wait.is_zero() { world.without_wait() } else { world };
    let (mut kept, findings) = (kept(&world), findings(&world));
    kept.sort_by_cached_key(|kept| order(&kept.object));
    let actions = wave(&mut world);
    let predicted = if actions.is_empty() { Vec::new() } else { predict(&mut world) };
    ClusterPlan {
        kind: ClusterPlanKind::ClusterPlan,
        version: 1,
        taken_at: snapshot.taken_at,
        server: snapshot.server.clone(),
        actions,
        predicted,
        kept,
        findings,
        errors: snapshot.missing(),
    }
}

/// Returns what would follow from a deletion of this object with this policy. It is a prediction. `None` if no list
/// has the object.
pub fn predict_deletion(
    snapshot: &ClusterSnapshot,
    object: &Identity,
    propagation: Propagation,
) -> Option<Vec<ClusterAction>> {
    let mut world = World::new(snapshot);
    // What happens without the deletion is not a consequence of it.
    predict(&mut world);
    let at = world.position(object)?;
    world.delete(at, propagation);
    Some(predict(&mut world))
}

/// Carries out waves until nothing changes. This ends: each action removes an object, a reference or a finalizer, or
/// begins the one deletion of an object.
fn predict(world: &mut World<'_>) -> Vec<ClusterAction> {
    let waves = std::iter::from_fn(|| Some(wave(world)).filter(|actions| !actions.is_empty()));
    waves.flatten().collect()
}

/// Returns all actions that are possible now, and carries them out.
fn wave(world: &mut World<'_>) -> Vec<ClusterAction> {
    let verdicts: Vec<_> = candidates(world).map(|(at, object)| (at, object, world.verdict(object))).collect();
    let mut actions: Vec<_> =
        verdicts.iter().filter_map(|(_, object, verdict)| action(world, object, verdict)).collect();
    actions.sort_by_cached_key(|action| order(&action.object));
    let verdicts: Vec<_> = verdicts.into_iter().map(|(at, _, verdict)| (at, verdict)).collect();
    for (at, verdict) in &verdicts {
        world.carry_out(*at, verdict);
    }
    actions
}

/// Only an object with owners, or one in deletion, can be concerned. Each comes with its position.
fn candidates<'w>(world: &'w World<'_>) -> impl Iterator<Item = (usize, &'w Object)> {
    let names_owners = |object: &Object| !object.meta.owners.is_empty() || object.meta.left_out_owners > 0;
    let is_concerned = move |object: &Object| names_owners(object) || object.meta.is_deleting();
    world.objects.iter().enumerate().filter(move |(_, object)| !object.is_removed() && is_concerned(object))
}

pub(super) fn action(world: &World<'_>, object: &Object, verdict: &Verdict) -> Option<ClusterAction> {
    let (action, propagation, reason) = match verdict {
        Verdict::Keep(_) | Verdict::WaitForDependents(_) => return None,
        Verdict::DropReferences(_) => (ActionWord::DropReferences, None, "another_owner_exists"),
        Verdict::Delete { propagation, reason, .. } => (ActionWord::Delete, Some(*propagation), word(*reason)),
        Verdict::EndForeground => (ActionWord::EndForeground, None, "no_blocking_dependents"),
        Verdict::Orphan(_) => (ActionWord::Orphan, None, "orphan_requested"),
    };
    let (object, owners) = (object.identity.clone(), owners(world, object));
    Some(ClusterAction { action, object, propagation, reason: reason.to_owned(), owners })
}

fn word(reason: DeleteReason) -> &'static str {
    reason.into()
}

fn kept(world: &World<'_>) -> Vec<ClusterKept> {
    let reason = |object: &Object| match world.verdict(object) {
        Verdict::Keep(reason) => Some(<&str>::from(&reason)),
        Verdict::WaitForDependents(_) => Some("waits_for_dependents"),
        _ => None,
    };
    let kept = candidates(world).filter_map(|(_, object)| Some((object, reason(object)?)));
    kept.map(|(object, reason)| ClusterKept {
        object: object.identity.clone(),
        reason: reason.to_owned(),
        owners: owners(world, object),
    })
    .collect()
}

pub(super) fn owners(world: &World<'_>, object: &Object) -> Vec<OwnerFinding> {
    let finding = |reference: &OwnerReference| {
        let state = world.state(object, reference);
        OwnerFinding {
            reference: reference.clone(),
            state: <&str>::from(&state).to_owned(),
            evidence: evidence(world, object, reference, &state),
        }
    };
    object.meta.owners.iter().map(finding).collect()
}

/// Says what proves the state of an owner.
fn evidence(world: &World<'_>, object: &Object, reference: &OwnerReference, state: &OwnerState) -> String {
    let kind = &reference.kind;
    match state {
        OwnerState::KindNotServed => match world.served.other_versions(kind).as_slice() {
            [] => format!("the API server does not serve {kind}"),
            others => {
                let others: Vec<_> = others.iter().map(|kind| kind.api_version.to_string()).collect();
                format!("the API server does not serve {kind}; it serves {}", others.join(", "))
            }
        },
        OwnerState::Namespaced => format!("{kind} is namespaced, and a cluster-scoped object has no namespace"),
        OwnerState::Unverified(cause) => cause.clone(),
        OwnerState::Orphaned => "it was deleted with the policy orphan".to_owned(),
        OwnerState::Exists | OwnerState::WaitsForDependents | OwnerState::Absent => {
            let owner = world.meant(reference, object);
            owner.and_then(|owner| world.read(&owner)).map_or_else(|| listed(state), answered)
        }
    }
}

fn listed(state: &OwnerState) -> String {
    let text =
        if *state == OwnerState::Absent { "deleted by an earlier action" } else { "in the list of its resource" };
    text.to_owned()
}

fn answered(read: &OwnerRead) -> String {
    let answer = match &read.answer {
        OwnerAnswer::Exists { .. } => "that it exists".to_owned(),
        OwnerAnswer::NotFound => format!("NotFound for {}", read.owner),
        OwnerAnswer::OtherUid(uid) => format!("that {} has the uid {uid}", read.owner),
        OwnerAnswer::Unavailable(cause) | OwnerAnswer::NotRequested(cause) => return cause.clone(),
    };
    format!("the API server answered {answer} at {}", read.read_at)
}

pub(super) fn order(object: &Identity) -> impl Ord + use<> {
    let Identity { kind, namespace, name, uid } = object.clone();
    (Arc::clone(&kind.kind), kind.api_version, namespace, name, uid)
}

#[cfg(test)]
pub(super) mod tests;
