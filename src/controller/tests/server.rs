//! An API server in memory: objects by path, with versions, preconditions and finalizers as the real one has them.

mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::{Body, Client};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::{kind, resource_name};
use crate::kubernetes::Connection;

pub(super) use self::whole::WholeServer;

/// What runs right before a request is answered.
type Before = Box<dyn FnOnce(&Server) + Send>;

/// All clones share one server.
#[derive(Clone, Default)]
pub(super) struct Server {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Value>,
    calls: Vec<String>,
    version: u64,
    /// Answers that do not depend on the objects.
    fixed: BTreeMap<String, (u16, Value)>,
    before: BTreeMap<String, Before>,
    /// Requests that are refused, as a webhook does that is down.
    refused: BTreeSet<String>,
    ignores_preconditions: bool,
}

// === impl Server ===

impl Server {
    pub(super) fn connection(&self) -> Connection {
        let server = self.clone();
        let serve = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = server.answer(&head.method, head.uri.path(), &body);
                Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?)
            }
        });
        Connection::through(Client::new(serve, "default"), "a test")
    }

    /// Creates or replaces an object.
    pub(super) fn put(&self, object: &Value) {
        let mut inner = self.lock();
        inner.version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.objects.insert(path(&object), object);
    }

    pub(super) fn remove(&self, object: &Value) {
        self.lock().objects.remove(&path(object));
    }

    /// Returns the object as it is now.
    pub(super) fn get(&self, object: &Value) -> Option<Value> {
        self.lock().objects.get(&path(object)).cloned()
    }

    /// Answers each request to the path of an object with this.
    pub(super) fn answers(&self, object: &Value, code: u16, answer: Value) {
        self.answers_path(&path(object), code, answer);
    }

    /// Answers each request to a path with this.
    pub(super) fn answers_path(&self, path: &str, code: u16, answer: Value) {
        self.lock().fixed.insert(path.to_owned(), (code, answer));
    }

    /// Does something right before the next request with this method to an object is answered.
    pub(super) fn before(&self, method: &str, object: &Value, act: impl FnOnce(&Self) + Send + 'static) {
        self.lock().before.insert(format!("{method} {}", path(object)), Box::new(act));
    }

    /// Refuses requests with this method to an object, or not any more.
    pub(super) fn refuses(&self, method: &str, object: &Value, is_refused: bool) {
        let (request, mut inner) = (format!("{method} {}", path(object)), self.lock());
        if is_refused {
            inner.refused.insert(request)
        } else {
            inner.refused.remove(&request)
        };
    }

    /// Makes the changes of each request, whatever its preconditions are.
    pub(super) fn ignores_preconditions(&self) {
        self.lock().ignores_preconditions = true;
    }

    /// Lists the names of the objects.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().objects.values().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the requests since the last call, as `GET pods/a` or `GET ns2/pods/a` outside of ns1.
    pub(super) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().calls)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn answer(&self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let before = self.lock().before.remove(&format!("{method} {path}"));
        if let Some(act) = before {
            act(self);
        }
        let mut inner = self.lock();
        inner.calls.push(format!("{method} {}", short(path)));
        if *method != Method::GET {
            identifies(method, body);
        }
        if inner.refused.contains(&format!("{method} {path}")) {
            return (500, status(500, "InternalError", &json!({})));
        }
        if let Some(answer) = inner.fixed.get(path) {
            return answer.clone();
        }
        let Some(object) = inner.objects.get(path).cloned() else { return (404, not_found(path)) };
        if !inner.ignores_preconditions {
            if !meets(&object, body) {
                return (409, status(409, "Conflict", &json!({})));
            }
            if !body["metadata"]["uid"].is_null() && body["metadata"]["uid"] != object["metadata"]["uid"] {
                return (422, another_uid(&object));
            }
        }
        match *method {
            Method::GET => (200, object),
            Method::PATCH => (200, inner.patch(path, object, body)),
            Method::DELETE => (200, inner.delete(path, object, body)),
            _ => (405, status(405, "MethodNotAllowed", &json!({}))),
        }
    }
}

// === impl Inner ===

impl Inner {
    fn patch(&mut self, path: &str, mut object: Value, patch: &Value) -> Value {
        for (field, value) in patch["metadata"].as_object().unwrap() {
            object["metadata"][field] = value.clone();
        }
        self.write(path, object)
    }

    fn delete(&mut self, path: &str, mut object: Value, options: &Value) -> Value {
        let finalizer = match options["propagationPolicy"].as_str() {
            Some("Foreground") => Some("foregroundDeletion"),
            Some("Orphan") => Some("orphan"),
            _ => None,
        };
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.extend(finalizer.map(Value::from));
        object["metadata"]["finalizers"] = finalizers.into();
        object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        // As of a pod that no kubelet has: nothing but finalizers holds it.
        object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        let now = self.write(path, object);
        let is_shown = self.objects.contains_key(path) || now["kind"] == "Pod";
        if is_shown { now } else { json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}) }
    }

    /// An object in deletion without finalizers does not exist any more.
    fn write(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        for list in ["finalizers", "ownerReferences"] {
            if metadata[list].is_null() {
                metadata[list] = json!([]);
            }
        }
        let is_removed = !metadata["deletionTimestamp"].is_null() && metadata["finalizers"] == json!([]);
        if is_removed {
            self.objects.remove(path);
        } else {
            self.objects.insert(path.to_owned(), object.clone());
        }
        object
    }
}

/// The answer of an API server to a change of the uid of an object.
fn another_uid(object: &Value) -> Value {
    let cause = json!({"field": "metadata.uid", "reason": "FieldValueInvalid"});
    let details = json!({"name": object["metadata"]["name"], "kind": object["kind"], "causes": [cause.clone(), cause]});
    status(422, "Invalid", &details)
}

/// Each change names the uid and the version.
fn identifies(method: &Method, body: &Value) {
    let condition = if *method == Method::DELETE { &body["preconditions"] } else { &body["metadata"] };
    for field in ["uid", "resourceVersion"] {
        assert!(condition[field].as_str().is_some_and(|value| !value.is_empty()), "{method} without {field}: {body}");
    }
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

fn path(object: &Value) -> String {
    let resource = super::resource_of(&kind(object).api_version, &resource_name(object), "", true, true);
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    format!("{}/{}", resource.path(namespace).unwrap(), object["metadata"]["name"].as_str().unwrap())
}

/// Returns the resource and the name, and the namespace if it is not ns1.
fn short(path: &str) -> String {
    let path = path.replace("/namespaces/ns1/", "/").replace("/namespaces/", "/");
    let rest = path.trim_start_matches("/apis/").trim_start_matches("/api/");
    rest.trim_start_matches("v1/").to_owned()
}

/// The answer of an API server about an object that does not exist.
fn not_found(path: &str) -> Value {
    let mut parts = path.rsplit('/');
    let (name, resource) = (parts.next().unwrap(), parts.next().unwrap());
    status(404, "NotFound", &json!({"name": name, "kind": resource}))
}

pub(super) fn status(code: u16, reason: &str, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason,
        "details": details, "code": code})
}
