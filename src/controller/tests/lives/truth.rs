//! What is true of a cluster, stated as the documentation does (`docs/cluster-gc.md`), and naively: by a look at all objects. It
//! shares nothing with what it judges.

use serde_json::Value;

use super::script::KINDS;
use crate::testing::fake_api::Objects;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// What becomes of an owner reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Owner {
    Exists,
    /// Its foreground deletion waits for its dependents.
    Waits,
    Absent,
    /// Kubernetes does not allow such a reference, so nothing follows from it.
    Invalid,
}

pub(super) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object["metadata"][field].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn has(object: &Value, finalizer: &str) -> bool {
    list(object, "finalizers").iter().any(|it| it == finalizer)
}

pub(super) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the state of the owner that a reference means.
pub(super) fn owner(objects: &Objects, object: &Value, reference: &Value) -> Owner {
    let is_namespaced = |kind: &Value| KINDS.iter().any(|known| *kind == known.2 && known.3);
    if is_namespaced(&reference["kind"]) && !is_namespaced(&object["kind"]) {
        return Owner::Invalid;
    }
    let is_it = |it: &&Value| {
        let names = ["kind", "apiVersion"].iter().all(|field| it[field] == reference[field]);
        let is_near = !is_namespaced(&it["kind"]) || it["metadata"]["namespace"] == object["metadata"]["namespace"];
        names && is_near && ["name", "uid"].iter().all(|field| it["metadata"][field] == reference[field])
    };
    match objects.values().find(is_it) {
        None => Owner::Absent,
        Some(owner) if is_deleting(owner) && has(owner, FOREGROUND) => Owner::Waits,
        Some(_) => Owner::Exists,
    }
}

/// Returns whether an object may be deleted: it has owners, and none that exists.
pub(super) fn is_garbage(objects: &Objects, object: &Value) -> bool {
    let owners = list(object, "ownerReferences");
    let is_away = |it: &Value| matches!(owner(objects, object, it), Owner::Absent | Owner::Waits);
    !owners.is_empty() && owners.iter().all(is_away)
}

/// Returns the dependents of an owner, and whether each blocks its foreground deletion.
pub(super) fn dependents<'a>(objects: &'a Objects, owner: &Value) -> Vec<(&'a Value, bool)> {
    let uid = &owner["metadata"]["uid"];
    let reference = |it: &'a Value| list(it, "ownerReferences").iter().find(|it| it["uid"] == *uid);
    let found = objects.values().filter_map(|it| Some((it, reference(it)?)));
    found.map(|(it, reference)| (it, reference["blockOwnerDeletion"] == true)).collect()
}

/// Returns whether a pod is of a node that does not exist.
pub(super) fn lacks_node(objects: &Objects, pod: &Value) -> bool {
    let node = pod["spec"]["nodeName"].as_str();
    node.is_some_and(|node| !objects.contains_key(&format!("/api/v1/nodes/{node}")))
}

/// Returns whether a foreground deletion has no end: what blocks it is kept, because a reference of it is invalid, or waits for
/// it. `above` are the objects that wait for this one.
fn is_stuck(objects: &Objects, object: &Value, above: &[&Value]) -> bool {
    let is_kept = |it: &Value| list(it, "ownerReferences").iter().any(|of| owner(objects, it, of) == Owner::Invalid);
    let above = [above, &[object]].concat();
    let mut blocking = dependents(objects, object).into_iter().filter(|(_, blocks)| *blocks);
    let blocks = |it| above.contains(&it) || is_kept(it) || is_stuck(objects, it, &above);
    has(object, FOREGROUND) && blocking.any(|(it, _)| blocks(it))
}

/// Returns what is left that should not be, long after the last change.
pub(super) fn leftovers(objects: &Objects) -> Vec<String> {
    let why = |object: &Value| match object {
        it if is_deleting(it) && is_stuck(objects, it, &[]) => None,
        it if is_deleting(it) => Some("its deletion has not ended"),
        it if is_garbage(objects, it) => Some("it has no owner"),
        it if lacks_node(objects, it) => Some("its node does not exist"),
        _ => None,
    };
    let left = objects.iter().filter_map(|(path, object)| Some(format!("{path} is left: {}", why(object)?)));
    left.collect()
}
