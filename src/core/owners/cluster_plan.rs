//! The plan of a cluster: what is done now, what follows from it, what is kept and why, and what is wrong.
//!
//! A prediction carries out the plan on the snapshot, wave by wave, with the rules of the API server for finalizers.
//! The 149 forests that kube-controller-manager 1.36.2 collected end in the recorded states (`plan/tests`).

mod evidence;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use self::evidence::owners;
use super::cluster_snapshot::ClusterSnapshot;
use super::cluster_state::{ClusterState, Object};
use super::findings::{Finding, findings};
use super::{DeleteReason, OwnerGuards, Propagation, Verdict};
use crate::model::{Identity, ObjectDetails, OwnerReference, Uid};

/// What `kubegc controller plan` shows.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterPlan {
    pub taken_at: Timestamp,
    /// The address of the API server, and the credentials.
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
    /// By uid: details of the objects above, if they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<Uid, ObjectDetails>,
}

// === impl ClusterPlan ===

impl ClusterPlan {
    /// Lists the objects of actions and findings.
    pub fn shown(&self) -> impl Iterator<Item = &Identity> {
        let actions = self.actions.iter().chain(&self.predicted).map(|action| &action.object);
        actions.chain(self.findings.iter().map(|finding| &finding.object))
    }

    /// Lists the objects with references whose owner has another uid, each with the states of these owners.
    pub fn stale_references(&self) -> impl Iterator<Item = (&Identity, Vec<&OwnerFinding>)> {
        let actions = self.actions.iter().map(|action| (&action.object, &action.owners));
        let all = actions.chain(self.kept.iter().map(|kept| (&kept.object, &kept.owners)));
        let stale =
            all.map(|(object, owners)| (object, owners.iter().filter(|owner| owner.is_stale()).collect::<Vec<_>>()));
        stale.filter(|(_, stale)| !stale.is_empty())
    }
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterAction {
    pub action: ActionWord,
    pub object: Identity,
    /// Of a deletion: what happens to the dependents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
    /// Why: the word of a [`DeleteReason`], what the object waits for, or the rule that selects it.
    pub reason: String,
    /// The finalizers of others, which hold the object after its deletion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// Of the deletion of a namespace or of a `CustomResourceDefinition`: how many objects the API server deletes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<usize>,
    /// Its owner references, and the state of each owner.
    pub owners: Vec<OwnerFinding>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[derive(Deserialize, JsonSchema, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActionWord {
    Delete,
    /// References to absent or waiting owners are removed.
    DropReferences,
    /// The finalizer `foregroundDeletion` is removed.
    EndForeground,
    /// The references of its dependents are removed, then the finalizer `orphan`.
    Orphan,
    /// The finalizer `kubernetes` of an empty namespace in deletion is removed.
    EndNamespace,
    /// The uid of an owner is replaced, after a restore. Only histories have it.
    Relink,
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OwnerFinding {
    #[serde(flatten)]
    pub reference: OwnerReference,
    /// The word of an [`super::OwnerState`].
    pub state: Cow<'static, str>,
    pub evidence: Cow<'static, str>,
    /// Of an absent owner: the object that the reference may mean. It has the uid and is in another namespace, or of another kind or
    /// name; or it has the name and another uid. `null` = there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Box<Identity>>,
}

// === impl ClusterAction ===

impl ClusterAction {
    /// Returns whether it is a deletion that its owners cause, and not a rule.
    pub fn is_by_owners(&self) -> bool {
        let reasons = [DeleteReason::OwnersAbsent, DeleteReason::OwnerWaits].map(word);
        self.action == ActionWord::Delete && reasons.contains(&&*self.reason)
    }
}

// === impl OwnerFinding ===

impl OwnerFinding {
    /// Returns whether an object of the owner's name exists with another uid, as after a restore from a backup.
    pub fn is_stale(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.uid != self.reference.uid)
    }
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ClusterKept {
    pub object: Identity,
    /// The word of a [`super::ObjectKeepReason`], or `waits_for_dependents`.
    pub reason: Cow<'static, str>,
    /// Its owner references, and the state of each owner.
    pub owners: Vec<OwnerFinding>,
}

/// Lists the owners that the lists of a snapshot leave doubtful: a live read must find each, or prove it absent.
pub fn doubtful_owners(snapshot: &ClusterSnapshot) -> Vec<Identity> {
    ClusterState::new(snapshot).doubtful()
}

/// Plans the cluster under the guards of the profile `safe`. The order of the lists in the snapshot does not change the plan.
pub fn plan(snapshot: &ClusterSnapshot) -> ClusterPlan {
    plan_under(snapshot, &OwnerGuards::default())
}

/// Plans the cluster. Of the guards only the wait for lists is applied: the others need a live read or a running service.
pub fn plan_under(snapshot: &ClusterSnapshot, guards: &OwnerGuards) -> ClusterPlan {
    let cluster = ClusterState::new(snapshot);
    let mut cluster = if guards.orphan_wait.is_zero() { cluster.without_wait() } else { cluster };
    let (mut kept, findings) = (kept(&cluster), findings(&cluster));
    kept.sort_unstable_by(|one, other| in_order(&one.object, &other.object));
    let mut actions = wave(&mut cluster);
    actions.extend(by_rules(&mut cluster, &snapshot.selected));
    actions.sort_by(|one, other| in_order(&one.object, &other.object));
    kept.retain(|kept| !snapshot.selected.contains_key(&kept.object.uid));
    let predicted = if actions.is_empty() { Vec::new() } else { predict(&mut cluster) };
    ClusterPlan {
        taken_at: snapshot.taken_at,
        server: snapshot.server.clone(),
        actions,
        predicted,
        kept,
        findings,
        errors: snapshot.missing(),
        details: BTreeMap::new(),
    }
}

/// Returns what would follow from a deletion of this object with this policy. It is a prediction. `None` if no list
/// has the object.
pub fn predict_deletion(
    snapshot: &ClusterSnapshot,
    object: &Identity,
    propagation: Propagation,
) -> Option<Vec<ClusterAction>> {
    let mut cluster = ClusterState::new(snapshot);
    // What happens without the deletion is not a consequence of it.
    predict(&mut cluster);
    let at = cluster.position(object)?;
    cluster.delete_all(at, propagation);
    Some(predict(&mut cluster))
}

/// Returns how many objects the API server deletes with those that a plan of this snapshot deletes: each once, and without these.
pub fn count_content(plan: &ClusterPlan, snapshot: &ClusterSnapshot) -> usize {
    let all = || plan.actions.iter().chain(&plan.predicted).filter(|action| action.action == ActionWord::Delete);
    if all().all(|action| action.content.is_none_or(|content| content == 0)) {
        return 0;
    }
    let cluster = ClusterState::new(snapshot);
    let content: HashSet<_> = all().filter_map(|action| cluster.content(&action.object)).flatten().collect();
    let own: HashSet<_> = all().filter_map(|action| cluster.position(&action.object)).collect();
    content.difference(&own).count()
}

/// Carries out waves until nothing changes. This ends: each action removes an object, a reference or a finalizer, or
/// begins the one deletion of an object.
fn predict(cluster: &mut ClusterState<'_>) -> Vec<ClusterAction> {
    let waves = std::iter::from_fn(|| Some(wave(cluster)).filter(|actions| !actions.is_empty()));
    waves.flatten().collect()
}

/// Returns all actions that are possible now, and carries them out.
fn wave(cluster: &mut ClusterState<'_>) -> Vec<ClusterAction> {
    let is_kept = |verdict: &Verdict| matches!(verdict, Verdict::Keep(_) | Verdict::WaitForDependents(_));
    let verdicts = candidates(cluster).map(|(at, object)| (at, object, cluster.verdict(object)));
    let verdicts: Vec<_> = verdicts.filter(|(_, _, verdict)| !is_kept(verdict)).collect();
    let mut actions: Vec<_> =
        verdicts.iter().filter_map(|(_, object, verdict)| action(cluster, object, verdict)).collect();
    actions.sort_by(|one, other| in_order(&one.object, &other.object));
    let verdicts: Vec<_> = verdicts.into_iter().map(|(at, _, verdict)| (at, verdict)).collect();
    for (at, verdict) in &verdicts {
        cluster.carry_out(*at, verdict);
    }
    actions
}

/// Deletes the objects that rules select and that are not in deletion, and returns these actions.
fn by_rules(cluster: &mut ClusterState<'_>, selected: &BTreeMap<Uid, String>) -> Vec<ClusterAction> {
    let mut actions = Vec::new();
    for (uid, reason) in selected {
        let object = cluster.of_uid(uid).next().filter(|object| !object.meta().is_deleting());
        let Some(at) = object.and_then(|object| cluster.position(&object.identity)) else { continue };
        let propagation = Propagation::Background;
        let verdict = Verdict::Delete { propagation, unblock: false, reason: DeleteReason::OwnersAbsent };
        let action = object.and_then(|object| action(cluster, object, &verdict));
        actions.extend(action.map(|action| ClusterAction { reason: reason.clone(), ..action }));
        cluster.delete_all(at, propagation);
    }
    actions
}

/// Only an object with owners, or one in deletion, can be concerned. Each comes with its position.
fn candidates<'w>(cluster: &'w ClusterState<'_>) -> impl Iterator<Item = (usize, &'w Object<'w>)> {
    let names_owners = |object: &Object<'_>| !object.meta().owners.is_empty() || object.meta().left_out_owners > 0;
    let is_concerned = move |object: &Object<'_>| names_owners(object) || object.meta().is_deleting();
    cluster.objects.iter().enumerate().filter(move |(_, object)| !object.is_removed() && is_concerned(object))
}

pub(super) fn action(cluster: &ClusterState<'_>, object: &Object<'_>, verdict: &Verdict) -> Option<ClusterAction> {
    let (action, propagation, reason) = match verdict {
        Verdict::Keep(_) | Verdict::WaitForDependents(_) => return None,
        Verdict::DropReferences(_) => (ActionWord::DropReferences, None, "another_owner_exists"),
        Verdict::Delete { propagation, reason, .. } => (ActionWord::Delete, Some(*propagation), word(*reason)),
        Verdict::EndForeground => (ActionWord::EndForeground, None, "no_blocking_dependents"),
        Verdict::Orphan(_) => (ActionWord::Orphan, None, "orphan_requested"),
    };
    let is_deletion = action == ActionWord::Delete;
    let held_by = object.foreign_finalizers().filter(|_| is_deletion).map(str::to_owned).collect();
    let content = cluster.content(&object.identity).filter(|_| is_deletion).map(|content| content.len());
    let (object, owners) = (object.identity.clone(), owners(cluster, object));
    Some(ClusterAction { action, object, propagation, reason: reason.to_owned(), held_by, content, owners })
}

fn word(reason: DeleteReason) -> &'static str {
    reason.into()
}

fn kept(cluster: &ClusterState<'_>) -> Vec<ClusterKept> {
    let reason = |object: &Object<'_>| match cluster.verdict(object) {
        Verdict::Keep(reason) => Some(<&str>::from(&reason)),
        Verdict::WaitForDependents(_) => Some("waits_for_dependents"),
        _ => None,
    };
    let kept = candidates(cluster).filter_map(|(_, object)| Some((object, reason(object)?)));
    let mut all = Vec::with_capacity(candidates(cluster).count());
    all.extend(kept.map(|(object, reason)| ClusterKept {
        object: object.identity.clone(),
        reason: reason.into(),
        owners: owners(cluster, object),
    }));
    all
}

pub(super) fn in_order(one: &Identity, other: &Identity) -> Ordering {
    fn key(object: &Identity) -> impl Ord {
        let Identity { kind, namespace, name, uid } = object;
        (&kind.kind, &kind.api_version, namespace, name, uid)
    }
    key(one).cmp(&key(other))
}

#[cfg(test)]
pub(super) mod tests;
