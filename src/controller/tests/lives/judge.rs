//! Judges each change that the server accepts, at its moment, by what is true then (G1 to G4).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::script::{KINDS, Served, Serving, Sort};
use super::truth::{FOREGROUND, ORPHAN, Owner, dependents, has, is_deleting, is_garbage, lacks_node, list, owner};
use crate::testing::fake_api::{Made, Objects};

/// How long a process that begins waits for the lists of all resources (`orphan_wait`).
const WAIT: Duration = Duration::from_secs(30);

/// What a process was shown, as uids, and by lists and watches as pairs of a dependent and an owner.
pub(super) struct Shown {
    seen: BTreeSet<String>,
    /// The pairs that there were when it began, with the kind of the dependent, in what discovery has always had since.
    pairs: BTreeMap<String, Value>,
    begun: Instant,
    pub(super) served: Served,
}

type Judged = Result<(), String>;

// === impl Shown ===

impl Shown {
    /// Creates what a process knows that begins now: nothing, but it waits for the lists.
    pub(super) fn new(objects: &Objects, served: Served) -> Self {
        let of = |it: &Value| pairs(it).map(|pair| (pair, it["kind"].clone())).collect::<Vec<_>>();
        let pairs = objects.values().flat_map(of).collect();
        let mut all = Self { seen: BTreeSet::new(), pairs, begun: Instant::now(), served };
        all.discovers(served);
        all
    }

    /// It awaits no list of what discovery lacks.
    pub(super) fn discovers(&mut self, served: Served) {
        let is_missing = |kind: &Value| is_missing(served, kind);
        self.pairs.retain(|_, kind| !is_missing(kind));
    }

    /// Returns whether discovery lacks the kind of an object.
    fn is_missing(&self, object: &Value) -> bool {
        is_missing(self.served, &object["kind"])
    }

    pub(super) fn add(&mut self, object: &Value, is_read: bool) {
        self.seen.extend(object["metadata"]["uid"].as_str().map(str::to_owned));
        self.seen.extend(pairs(object).filter(|_| !is_read));
    }

    fn awaits(&self, pair: &str) -> bool {
        self.begun.elapsed() < WAIT && self.pairs.contains_key(pair)
    }

    fn has(&self, object: &Value) -> bool {
        object["metadata"]["uid"].as_str().is_some_and(|uid| self.seen.contains(uid))
    }

    /// Nothing cluster-scoped may depend on what has a namespace, so no list of it is awaited.
    fn has_reference(&self, dependent: &Value, owner: &Value) -> bool {
        let pair = pair(dependent, &owner["metadata"]["uid"]);
        let may_depend = dependent["metadata"]["namespace"] != "" || owner["metadata"]["namespace"] == "";
        self.seen.contains(&pair) || may_depend && self.awaits(&pair) && !self.is_missing(dependent)
    }
}

fn is_missing(served: Served, kind: &Value) -> bool {
    KINDS.iter().zip(served).any(|(known, it)| *kind == known.2 && it == Serving::Missing)
}

fn pairs(object: &Value) -> impl Iterator<Item = String> {
    list(object, "ownerReferences").iter().map(|reference| pair(object, &reference["uid"]))
}

fn pair(dependent: &Value, owner: &Value) -> String {
    format!("{} {owner}", dependent["metadata"]["uid"])
}

/// Returns the sort of a request. `None` = it is about a lease or an event.
pub(super) fn sort_of(made: &Made) -> Option<Sort> {
    let path = made.path();
    let is_list = path.rsplit('/').next().is_some_and(|last| KINDS.iter().any(|kind| kind.1 == last));
    match made.method {
        _ if path.contains("/leases") || path.contains("/events") => None,
        Method::DELETE => Some(Sort::Deletions),
        Method::PATCH => Some(Sort::Patches),
        _ if matches!(path, "/api" | "/apis" | "/readyz") => Some(Sort::Discoveries),
        _ if made.uri.contains("watch=true") => Some(Sort::Watches),
        _ if is_list => Some(Sort::Lists),
        _ => Some(Sort::Reads),
    }
}

/// Returns the fault of a change.
pub(super) fn judge(made: &Made, before: &Objects, shown: &Shown) -> Judged {
    let path = made.path().trim_end_matches("/status").trim_end_matches("/finalize");
    let Some(object) = before.get(path) else { return Ok(()) };
    let is_status = made.path().ends_with("/status");
    match made.method {
        Method::DELETE => judge_deletion(&made.body, object, before, shown),
        Method::PATCH if is_status && object["kind"] == "Pod" => judge_pod(&made.body["metadata"], object, before),
        Method::PATCH if is_status => names(&made.body["metadata"], object, &["uid"]),
        Method::PATCH => judge_patch(&made.body["metadata"], object, before, shown),
        Method::PUT if made.path().ends_with("/finalize") => judge_end(object, before, shown),
        _ => Ok(()),
    }
}

/// Each change names the object that it is for.
fn names(condition: &Value, object: &Value, fields: &[&str]) -> Judged {
    let is_named = |field: &&&str| condition[**field] == object["metadata"][**field];
    match fields.iter().find(|field| !is_named(field)) {
        Some(field) => Err(format!("it does not name the {field}")),
        None => Ok(()),
    }
}

fn judge_deletion(options: &Value, object: &Value, before: &Objects, shown: &Shown) -> Judged {
    let condition = &options["preconditions"];
    check(shown.has(object), "the process was never shown this object")?;
    if options["gracePeriodSeconds"] == json!(0) {
        return judge_pod(condition, object, before);
    }
    names(condition, object, &["uid", "resourceVersion"])?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let is_wiped = before.get(&format!("/api/v1/namespaces/{namespace}")).is_some_and(is_deleting);
    check(is_wiped || is_garbage(before, object), "an owner exists, or it never had one")
}

/// A pod fails while it has no node, and goes then.
fn judge_pod(condition: &Value, pod: &Value, before: &Objects) -> Judged {
    names(condition, pod, &["uid"])?;
    let is_over = pod["spec"]["nodeName"].is_null() && is_deleting(pod) || pod["status"]["phase"] == "Failed";
    check(is_over || lacks_node(before, pod), "the node of the pod exists")
}

fn judge_end(namespace: &Value, before: &Objects, shown: &Shown) -> Judged {
    // As in kube-controller-manager, what discovery lacks does not exist.
    let before = before.values().filter(|it| !shown.is_missing(it));
    let mut content = before.filter(|it| it["metadata"]["namespace"] == namespace["metadata"]["name"]);
    check(is_deleting(namespace) && content.next().is_none(), "the namespace is not deleted, or has content")
}

fn judge_patch(patch: &Value, object: &Value, before: &Objects, shown: &Shown) -> Judged {
    names(patch, object, &["uid", "resourceVersion"])?;
    if let Some(finalizers) = patch.get("finalizers") {
        judge_finalizers(finalizers, object, before, shown)?;
    }
    match patch.get("ownerReferences") {
        Some(references) => judge_references(references, object, before),
        None => Ok(()),
    }
}

fn judge_finalizers(after: &Value, object: &Value, before: &Objects, shown: &Shown) -> Judged {
    let is_left = |it: &Value| after.as_array().is_some_and(|after| after.contains(it));
    let removed: Vec<_> = list(object, "finalizers").iter().filter(|it| !is_left(it)).collect();
    let all = dependents(before, object).into_iter().filter(|(it, _)| shown.has_reference(it, object));
    let holds = |(_, blocks): &(&Value, bool)| {
        removed.iter().any(|removed| *removed == ORPHAN || *removed == FOREGROUND && *blocks)
    };
    let held = all.into_iter().find(holds).map(|(it, _)| it["metadata"]["name"].to_string());
    check(held.is_none(), &format!("{removed:?} is removed, and {} depends on it", held.unwrap_or_default()))?;
    check(removed.iter().all(|it| **it == ORPHAN || **it == FOREGROUND), "a finalizer of others is removed")
}

fn judge_references(after: &Value, object: &Value, before: &Objects) -> Judged {
    let is_left = |it: &Value| after.as_array().is_some_and(|after| after.iter().any(|left| left["uid"] == it["uid"]));
    let orphans =
        |it: &Value| before.values().any(|of| of["metadata"]["uid"] == it["uid"] && is_deleting(of) && has(of, ORPHAN));
    let mut removed = list(object, "ownerReferences").iter().filter(|it| !is_left(it));
    let kept = removed.find(|it| owner(before, object, it) == Owner::Exists && !orphans(it));
    check(kept.is_none(), "a reference to an owner that exists is removed")
}

fn check(holds: bool, fault: &str) -> Judged {
    if holds { Ok(()) } else { Err(fault.to_owned()) }
}
