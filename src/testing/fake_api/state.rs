//! The state of the fake API server: objects by path, with versions, preconditions and finalizers, and what it serves.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Made;
use super::answer::{failure, not_found};
use crate::kubernetes::ApiResource;
use crate::model::{FOREGROUND, ORPHAN};

#[derive(Default)]
pub(super) struct State {
    pub(super) objects: Objects,
    pub(super) version: u64,
    pub(super) served: Vec<ApiResource>,
    /// The group-versions that discovery calls stale, and whose lists fail.
    pub(super) down: Vec<String>,
    /// The most objects of a page.
    pub(super) page: usize,
    /// What lists show besides the objects, by the path of the list, and how many lists do not show it yet.
    pub(super) more: BTreeMap<String, (Value, usize)>,
    /// The answers to changes of an object, which are made all the same.
    pub(super) written: BTreeMap<String, Value>,
    /// What watches show, in order.
    pub(super) events: Vec<Event>,
    /// How long watches of a list take to show an event, by the path of the list.
    pub(super) lags: BTreeMap<String, Duration>,
    /// How often the watches of a list were cut.
    pub(super) cuts: BTreeMap<String, usize>,
    pub(super) ignores_preconditions: bool,
    /// No namespace ends.
    pub(super) keeps_namespaces: bool,
}

/// The objects, by path.
pub type Objects = BTreeMap<String, Value>;

/// An event of the watches of one list.
#[derive(Clone)]
pub(super) struct Event {
    /// The path of the list.
    pub(super) of: String,
    pub(super) line: Value,
    /// The version of the server at this event. A watch from this version on does not show it.
    version: u64,
    pub(super) at: Instant,
}

// === impl State ===

impl State {
    pub(super) fn serving(served: Vec<ApiResource>) -> Self {
        Self { served, page: usize::MAX, ..Self::default() }
    }

    /// Creates or replaces an object.
    pub(super) fn put(&mut self, object: &Value) {
        self.version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path(&object), object);
    }

    pub(super) fn show(&mut self, list: String, word: &str, object: &Value) {
        let line = json!({"type": word, "object": object});
        self.events.push(Event { of: list, line, version: self.version, at: Instant::now() });
    }

    /// Returns the position of the first event after a version. Without a version, of the next event.
    pub(super) fn events_after(&self, version: Option<u64>) -> usize {
        version.map_or(self.events.len(), |version| self.events.partition_point(|event| event.version <= version))
    }

    /// Returns the next event of a list from a position on, to which `at` then points, and when watches show it.
    pub(super) fn next_event(&self, list: &str, at: &mut usize) -> Option<(Instant, Value)> {
        let rest = self.events.get(*at..).unwrap_or_default();
        *at += rest.iter().position(|event| event.of == list).unwrap_or(rest.len());
        let event = self.events.get(*at)?;
        let lag = self.lags.get(list).copied().unwrap_or_default();
        Some((event.at + lag, event.line.clone()))
    }

    pub(super) fn is_list(&self, path: &str) -> bool {
        self.listed(path).is_some()
    }

    pub(super) fn answer(&mut self, made: &Made) -> (u16, Value) {
        match (made.path(), &made.method) {
            ("/readyz", _) => (200, json!("ok")),
            ("/api", _) => (200, self.discovery(str::is_empty)),
            ("/apis", _) => (200, self.discovery(|group| !group.is_empty())),
            (path, &Method::POST) => self.create(path, &made.body),
            (path, &Method::GET) => match (self.listed(path), self.objects.get(path)) {
                (Some(kind), _) => (200, self.list(path, made.query(), &kind)),
                (None, Some(object)) if self.serves(path) => (200, object.clone()),
                (None, None) if self.serves(path) => (404, missing(path)),
                _ => (404, failure(404, "NotFound", &json!({}))),
            },
            (path, &Method::DELETE) if self.is_list(path) => (200, self.delete_collection(path, &made.body)),
            (path, &Method::PUT) => match path.strip_suffix("/finalize") {
                Some(path) => self.finalize(path, &made.body),
                None => self.replace(path, &made.body),
            },
            (path, &Method::PATCH) if path.ends_with("/status") => self.patch_status(path, &made.body),
            (path, method) => self.change(path, method, &made.body),
        }
    }

    fn delete_collection(&mut self, list: &str, options: &Value) -> Value {
        let objects = self.objects.iter().filter(|(path, _)| path.rsplit_once('/').is_some_and(|(of, _)| of == list));
        let objects: Vec<_> = objects.map(|(path, object)| (path.clone(), object.clone())).collect();
        for (path, object) in objects {
            self.delete(&path, object, options);
        }
        json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
    }

    /// Creates an object. One of a resource that is not served, as an event, is only answered.
    fn create(&mut self, list: &str, object: &Value) -> (u16, Value) {
        if !self.is_list(list) {
            return (201, object.clone());
        }
        let path = format!("{list}/{}", object["metadata"]["name"].as_str().unwrap());
        if self.objects.contains_key(&path) {
            return (409, failure(409, "AlreadyExists", &json!({})));
        }
        let mut object = object.clone();
        object["metadata"]["uid"] = format!("uid-{}", self.version + 1).into();
        (201, self.write(&path, object))
    }

    fn replace(&mut self, path: &str, body: &Value) -> (u16, Value) {
        match self.objects.get(path) {
            None => (404, missing(path)),
            Some(object) if !meets(object, body) => (409, failure(409, "Conflict", &json!({}))),
            Some(_) => (200, self.write(path, body.clone())),
        }
    }

    fn finalize(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let Some(mut object) = self.objects.get(path).cloned() else { return (404, missing(path)) };
        if !meets(&object, body) {
            return (409, failure(409, "Conflict", &json!({})));
        }
        object["spec"]["finalizers"] = body["spec"]["finalizers"].clone();
        let now = self.write(path, object);
        (200, now)
    }

    fn patch_status(&mut self, path: &str, patch: &Value) -> (u16, Value) {
        let path = path.strip_suffix("/status").unwrap();
        let Some(mut object) = self.objects.get(path).cloned() else { return (404, missing(path)) };
        if is_of_another(patch, &object) {
            return (422, another_uid(&object));
        }
        for (field, value) in patch["status"].as_object().unwrap() {
            object["status"][field] = value.clone();
        }
        let now = self.write(path, object);
        (200, now)
    }

    /// Returns the kind of the resource whose objects are at this path.
    fn listed(&self, path: &str) -> Option<String> {
        let list = of_all_namespaces(path);
        let served = self.served.iter().find(|it| it.path("").unwrap() == list)?;
        (!self.down.contains(&served.api_version)).then(|| served.kind.clone())
    }

    /// Returns whether an object at this path is one of a resource that is served. Without any, all are.
    fn serves(&self, path: &str) -> bool {
        self.served.is_empty() || path.rsplit_once('/').is_some_and(|(list, _)| self.is_list(list))
    }

    fn list(&mut self, path: &str, query: &str, kind: &str) -> Value {
        let is_in = |of: &str| of == path || of_all_namespaces(of) == path;
        let objects = self.objects.iter().filter(|(at, _)| at.rsplit_once('/').is_some_and(|(list, _)| is_in(list)));
        let mut all: Vec<_> = objects.map(|(_, object)| object.clone()).collect();
        all.extend(self.more(path));
        all.retain(|object| is_selected(object, query));
        let number = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse().ok());
        let (from, most) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(usize::MAX));
        let items: Vec<_> = all.iter().skip(from).take(most.min(self.page)).collect();
        let left = all.len() - from - items.len();
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if left > 0 {
            metadata["continue"] = (from + items.len()).to_string().into();
            metadata["remainingItemCount"] = left.into();
        }
        json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": metadata, "items": items})
    }

    fn more(&mut self, path: &str) -> Option<Value> {
        let (object, after) = self.more.get_mut(path)?;
        let is_shown = *after == 0;
        *after = after.saturating_sub(1);
        is_shown.then(|| object.clone())
    }

    fn discovery(&self, is_of: impl Fn(&str) -> bool) -> Value {
        let mut groups = BTreeMap::<String, Vec<Value>>::new();
        for it in self.served.iter().filter(|it| is_of(&it.group())) {
            let scope = if it.namespaced { "Namespaced" } else { "Cluster" };
            let resource =
                json!({"resource": it.resource, "responseKind": {"kind": it.kind}, "scope": scope, "verbs": it.verbs});
            let is_down = self.down.contains(&it.api_version);
            let freshness = if is_down { "Stale" } else { "Current" };
            let resources = if is_down { json!([]) } else { json!([resource]) };
            let version = it.api_version.rsplit('/').next().unwrap();
            let version = json!({"version": version, "freshness": freshness, "resources": resources});
            groups.entry(it.group()).or_default().push(version);
        }
        let groups =
            groups.into_iter().map(|(name, versions)| json!({"metadata": {"name": name}, "versions": versions}));
        json!({"kind": "APIGroupDiscoveryList", "items": groups.collect::<Vec<_>>()})
    }

    fn change(&mut self, path: &str, method: &Method, body: &Value) -> (u16, Value) {
        let Some(object) = self.objects.get(path).cloned() else { return (404, missing(path)) };
        if !self.ignores_preconditions {
            if !meets(&object, body) {
                return (409, failure(409, "Conflict", &json!({})));
            }
            if is_of_another(body, &object) {
                return (422, another_uid(&object));
            }
        }
        let answer = match *method {
            Method::DELETE => self.delete(path, object, body),
            _ => self.patch(path, object, body),
        };
        (200, self.written.get(path).cloned().unwrap_or(answer))
    }

    fn patch(&mut self, path: &str, mut object: Value, patch: &Value) -> Value {
        for (field, value) in patch["metadata"].as_object().unwrap() {
            object["metadata"][field] = value.clone();
        }
        self.write(path, object)
    }

    fn delete(&mut self, path: &str, mut object: Value, options: &Value) -> Value {
        let policy = options["propagationPolicy"].as_str();
        let finalizer = match policy {
            Some("Foreground") => Some(FOREGROUND),
            Some("Orphan") => Some(ORPHAN),
            _ => None,
        };
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        // Without a policy, the finalizer that is there decides.
        finalizers.retain(|it| policy.is_none() || is_foreign(it));
        finalizers.extend(finalizer.map(Value::from));
        object["metadata"]["finalizers"] = finalizers.into();
        object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        if object["kind"] != "Namespace" {
            // As of a pod that no kubelet has: nothing but finalizers holds it.
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        let now = self.write(path, object);
        let is_shown = self.objects.contains_key(path) || now["kind"] == "Pod";
        if is_shown { now } else { json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}) }
    }

    /// Returns whether an object is a namespace with objects that finalizers of others hold, or none ends. One that a controller ends has
    /// a list of finalizers for it, which alone says when.
    fn holds_content(&self, namespace: &Value) -> bool {
        let is_held = |it: &Value| it["finalizers"].as_array().is_some_and(|all| all.iter().any(is_foreign));
        let is_in = |it: &Value| it["namespace"] == namespace["metadata"]["name"];
        let mut all = self.objects.values().map(|object| &object["metadata"]);
        let has_content = self.keeps_namespaces || all.any(|it| is_in(it) && is_held(it));
        namespace["kind"] == "Namespace" && namespace["spec"]["finalizers"].is_null() && has_content
    }

    /// Writes an object, which watches show. One in deletion without finalizers does not exist any more.
    fn write(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        for list in ["finalizers", "ownerReferences"] {
            if metadata[list].is_null() {
                metadata[list] = json!([]);
            }
        }
        let ends = !metadata["deletionTimestamp"].is_null() && metadata["finalizers"] == json!([]);
        let ends = ends && object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        let is_removed = ends && !self.holds_content(&object);
        let before =
            if is_removed { self.objects.remove(path) } else { self.objects.insert(path.to_owned(), object.clone()) };
        match before {
            None => self.show(list_path(&object), "ADDED", &object),
            Some(_) if !is_removed => self.show(list_path(&object), "MODIFIED", &object),
            Some(mut last) => {
                last["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
                self.show(list_path(&last), "DELETED", &last);
            }
        }
        object
    }
}

/// Returns whether a finalizer is none of garbage collection.
fn is_foreign(finalizer: &Value) -> bool {
    finalizer != ORPHAN && finalizer != FOREGROUND
}

/// Returns whether a change is for an object of another uid.
fn is_of_another(change: &Value, object: &Value) -> bool {
    let uid = &change["metadata"]["uid"];
    !uid.is_null() && *uid != object["metadata"]["uid"]
}

/// The answer of an API server to a change of the uid of an object.
fn another_uid(object: &Value) -> Value {
    let cause = json!({"field": "metadata.uid", "reason": "FieldValueInvalid"});
    let details = json!({"name": object["metadata"]["name"], "kind": object["kind"], "causes": [cause.clone(), cause]});
    failure(422, "Invalid", &details)
}

/// Returns whether the preconditions of a deletion and the version of a patch hold. A real server compares them first.
fn meets(object: &Value, body: &Value) -> bool {
    let metadata = &object["metadata"];
    let wanted = [
        (&body["preconditions"]["uid"], &metadata["uid"]),
        (&body["preconditions"]["resourceVersion"], &metadata["resourceVersion"]),
        (&body["metadata"]["resourceVersion"], &metadata["resourceVersion"]),
    ];
    wanted.into_iter().all(|(wanted, is)| wanted.is_null() || wanted == is)
}

/// Returns a resource that can be collected.
pub fn resource(api_version: &str, resource: &str, kind: &str, namespaced: bool, is_preferred: bool) -> ApiResource {
    let [api_version, resource, kind] = [api_version, resource, kind].map(str::to_owned);
    let verbs = ["delete", "list", "watch"].map(str::to_owned).to_vec();
    ApiResource { api_version, resource, kind, namespaced, verbs, is_preferred }
}

fn resource_of(object: &Value) -> ApiResource {
    let kind = object["kind"].as_str().unwrap();
    resource(object["apiVersion"].as_str().unwrap(), &format!("{}s", kind.to_lowercase()), kind, true, true)
}

pub(super) fn path(object: &Value) -> String {
    let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
    let list = resource_of(object).path(namespace.as_str().unwrap_or_default()).unwrap();
    format!("{list}/{}", name.as_str().unwrap())
}

/// Returns whether an object has the name and the label that a query selects, as `metadata.name=a` and `app=web`.
fn is_selected(object: &Value, query: &str) -> bool {
    let selector =
        |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)).map(|it| it.replace("%3D", "="));
    let is = |value: &Value, wanted: Option<&str>| wanted.is_none_or(|wanted| *value == *wanted);
    let metadata = &object["metadata"];
    let (field, label) = (selector("fieldSelector="), selector("labelSelector="));
    let has_label = label
        .as_deref()
        .and_then(|label| label.split_once('='))
        .is_none_or(|(key, value)| metadata["labels"][key] == *value);
    has_label && is(&metadata["name"], field.as_deref().and_then(|field| field.strip_prefix("metadata.name=")))
}

pub(super) fn list_path(object: &Value) -> String {
    resource_of(object).path("").unwrap()
}

/// Returns the path of a list of all namespaces, for that of one namespace.
fn of_all_namespaces(path: &str) -> String {
    match path.split_once("/namespaces/").and_then(|(version, rest)| Some((version, rest.split_once('/')?.1))) {
        Some((version, resource)) => format!("{version}/{resource}"),
        None => path.to_owned(),
    }
}

fn missing(path: &str) -> Value {
    let mut parts = path.rsplit('/');
    let (name, resource) = (parts.next().unwrap(), parts.next().unwrap());
    not_found(resource, name)
}
