//! What is wrong with owner references, and which deletions hang. A finding changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_plan::in_order;
use super::cluster_snapshot::UnavailableGroup;
use super::cluster_state::{ClusterState, Object, foreign};
use super::{ObjectKeepReason, OwnerState, Verdict};
use crate::model::{Identity, OwnerReference};

/// Something that a person should look at.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Finding {
    pub kind: FindingKind,
    pub object: Identity,
    /// The owner that is meant, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerReference>,
    /// The object that has the uid of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Identity>,
    /// Since when the deletion is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The finalizers of others that hold the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The dependents that the deletion waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<Identity>,
    /// The resources without a list that the deletion waits for: they may have dependents, or be content of the namespace, in
    /// which they cannot be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for_lists: Vec<String>,
    /// Of a namespace: what is still in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<NamespaceContent>,
    /// Of a namespace: the group-versions whose resources are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableGroup>,
    /// Of a namespace: its conditions that are true, and its finalizers other than `kubernetes`, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
}

/// The objects of one kind in a namespace.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NamespaceContent {
    /// The kind, as `ConfigMap.v1`.
    pub kind: String,
    pub objects: usize,
    /// The finalizers of others that hold some of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// By these finalizers: how many objects each of them holds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, usize>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FindingKind {
    /// The API server does not serve the kind of an owner, so the object is never collected.
    KindNotServed,
    /// The owner is in another namespace. Kubernetes takes it for absent.
    WrongNamespace,
    /// The object with the uid of the owner has another kind, version or name. Kubernetes takes the owner for absent.
    WrongOwner,
    /// The object is cluster-scoped and its owner namespaced, so the object is never collected.
    NamespacedOwner,
    /// The state of an owner could not be read.
    OwnerUnverified,
    /// Another object has the same uid.
    SharedUid,
    /// The deletion of the object is in progress.
    BeingDeleted,
    /// The object is an owner of one of its own owners, or of itself, so that none of them is ever collected.
    OwnerCycle,
}

pub(super) fn findings(cluster: &ClusterState<'_>) -> Vec<Finding> {
    let objects = || cluster.objects.iter().filter(|object| !object.is_removed());
    let of_owners =
        objects().flat_map(|object| object.meta().owners.iter().filter_map(|owner| of_owner(cluster, object, owner)));
    let of_uids = objects().filter_map(|object| of_uid(cluster, object));
    let of_deletions = objects().filter_map(|object| of_deletion(cluster, object));
    let of_cycles = in_cycles(cluster).into_iter().map(|object| Finding::about(FindingKind::OwnerCycle, object));
    let mut findings: Vec<_> = of_owners.chain(of_uids).chain(of_deletions).chain(of_cycles).collect();
    findings.sort_by(|one, other| one.kind.cmp(&other.kind).then_with(|| in_order(&one.object, &other.object)));
    add_content(cluster, findings.iter_mut());
    findings
}

fn of_owner(cluster: &ClusterState<'_>, object: &Object<'_>, owner: &OwnerReference) -> Option<Finding> {
    let found = || cluster.of_uid(&owner.uid).next().map(|found| found.identity.clone());
    let kind = match cluster.state(object, owner) {
        OwnerState::KindNotServed => FindingKind::KindNotServed,
        OwnerState::Namespaced => FindingKind::NamespacedOwner,
        OwnerState::Unverified(_) => FindingKind::OwnerUnverified,
        OwnerState::Absent if cluster.is_elsewhere(object, owner) => FindingKind::WrongNamespace,
        OwnerState::Absent if found().is_some() => FindingKind::WrongOwner,
        _ => return None,
    };
    Some(Finding { owner: Some(owner.clone()), found: found(), ..Finding::about(kind, object) })
}

/// Returns the objects whose owners form a cycle, and those between two cycles.
fn in_cycles<'c>(cluster: &'c ClusterState<'_>) -> Vec<&'c Object<'c>> {
    let place = |owner: Identity| cluster.position(&cluster.find(&owner)?.identity);
    let owners_of = |(at, object): (usize, &Object<'_>)| {
        let owners = object.meta().owners.iter().filter_map(|owner| place(cluster.meant(owner, object)?));
        owners.map(|owner| (at, owner)).collect::<Vec<_>>()
    };
    let owners = cluster.objects.iter().enumerate().flat_map(owners_of).collect();
    // From an object outside of all cycles the way ends in one of the two directions.
    let dependents = without_ends(owners).into_iter().map(|(object, owner)| (owner, object)).collect();
    let left: BTreeSet<_> = without_ends(dependents).into_iter().map(|(at, _)| at).collect();
    left.into_iter().filter_map(|at| cluster.objects.get(at)).collect()
}

/// Returns the edges between the nodes that are left when those without an edge to another one are removed, again and again. It takes time by
/// their number: a tenant can make a chain of any length.
fn without_ends(mut edges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    let (mut out, mut into) = (HashMap::<_, usize>::new(), HashMap::<_, Vec<_>>::new());
    for (from, to) in &edges {
        *out.entry(*from).or_default() += 1;
        into.entry(*to).or_default().push(*from);
    }
    let mut ends: Vec<_> = into.keys().copied().filter(|node| !out.contains_key(node)).collect();
    while let Some(end) = ends.pop() {
        for from in into.remove(&end).unwrap_or_default() {
            let Some(left) = out.get_mut(&from) else { continue };
            *left -= 1;
            if *left == 0 {
                out.remove(&from);
                ends.push(from);
            }
        }
    }
    edges.retain(|(from, to)| out.contains_key(from) && out.contains_key(to));
    edges
}

/// Each object that shares its uid is a finding, except the first.
fn of_uid(cluster: &ClusterState<'_>, object: &Object<'_>) -> Option<Finding> {
    let first = cluster.of_uid(&object.identity.uid).next().filter(|first| first.identity != object.identity)?;
    Some(Finding { found: Some(first.identity.clone()), ..Finding::about(FindingKind::SharedUid, object) })
}

/// Returns what the deletion of an object waits for; `None` = it is not being deleted, or kubegc acts on it now.
fn of_deletion(cluster: &ClusterState<'_>, object: &Object<'_>) -> Option<Finding> {
    if !object.meta().is_deleting() {
        return None;
    }
    let mut waits_for_lists = Vec::new();
    let waits_for = match cluster.verdict(object) {
        Verdict::Keep(ObjectKeepReason::BeingDeleted) => Vec::new(),
        Verdict::Keep(ObjectKeepReason::DependentsNotListed(names)) => {
            waits_for_lists = names;
            Vec::new()
        }
        Verdict::WaitForDependents(_) => {
            let dependents = cluster.dependents(&object.identity.uid);
            let blocking = dependents.into_iter().filter(|dependent| dependent.reference.blocks());
            let mut blocking: Vec<_> = blocking.map(|dependent| dependent.item.identity).collect();
            blocking.sort_by(in_order);
            blocking
        }
        _ => return None,
    };
    let finalizers = object.foreign_finalizers().map(str::to_owned).collect();
    let since = object.meta().deletion_timestamp;
    let about = Finding::about(FindingKind::BeingDeleted, object);
    let mut finding = Finding { since, finalizers, waits_for, waits_for_lists, ..about };
    if object.is_namespace() {
        finding.waits_for_lists.extend(cluster.unlisted_in(&object.identity.name));
        finding.unavailable.clone_from(&cluster.snapshot.unavailable);
        finding.conditions = cluster.snapshot.conditions.get(&object.identity.uid).cloned().unwrap_or_default();
    }
    Some(finding)
}

/// Adds what is in them to the findings of namespaces, in one look at all objects.
fn add_content<'f>(cluster: &ClusterState<'_>, findings: impl Iterator<Item = &'f mut Finding>) {
    let is_namespace =
        |finding: &&mut Finding| finding.kind == FindingKind::BeingDeleted && finding.object.kind.is_namespace();
    let mut findings: HashMap<_, _> =
        findings.filter(is_namespace).map(|finding| (Arc::clone(&finding.object.name), finding)).collect();
    let mut kinds = BTreeMap::<_, (usize, BTreeMap<String, usize>)>::new();
    for (kind, meta) in cluster.all_content().filter(|(_, meta)| findings.contains_key(&meta.namespace)) {
        let (objects, held) = kinds.entry((Arc::clone(&meta.namespace), kind.to_string())).or_default();
        *objects += 1;
        foreign(meta).for_each(|finalizer| *held.entry(finalizer.to_owned()).or_default() += 1);
    }
    for ((namespace, kind), (objects, held)) in kinds {
        if let Some(finding) = findings.get_mut(&namespace) {
            let finalizers = held.keys().cloned().collect();
            finding.content.push(NamespaceContent { kind, objects, finalizers, held });
        }
    }
}

// === impl Finding ===

impl Finding {
    fn about(kind: FindingKind, object: &Object<'_>) -> Self {
        Self {
            kind,
            object: object.identity.clone(),
            owner: None,
            found: None,
            since: None,
            finalizers: Vec::new(),
            waits_for: Vec::new(),
            waits_for_lists: Vec::new(),
            content: Vec::new(),
            unavailable: Vec::new(),
            conditions: Vec::new(),
        }
    }
}
