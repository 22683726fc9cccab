//! The workers against an API server in memory, one key at a time: which calls they make, and what is left.

mod absence;
mod as_shown;
mod cases;
mod collect;
mod conflicting_references;
mod discovery;
mod ended;
mod holds;
mod identity;
mod lives;
mod matrix;
mod mirrors;
mod namespaces;
mod object_rules;
mod paths;
mod relink;
mod shares;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::calls::Calls;
use super::watch::served::Served;
use super::work::engine::{Engine, Key, Notice, observed};
use super::work::outcome::ClusterFailure;
use super::{CallLimits, ResourceFilter};
use crate::kubernetes::Discovered;
use crate::model::{ApiKind, ObjectMeta, Uid};
use crate::owners::{Event, OwnerGuards};
use crate::testing::fake_api::{FakeApi, resource as resource_of};

/// The resources that the server of a test serves: version, resource, kind, namespaced.
const SERVED: [(&str, &str, &str, bool); 6] = [
    ("v1", "pods", "Pod", true),
    ("v1", "secrets", "Secret", true),
    ("v1", "nodes", "Node", false),
    ("apps/v1", "deployments", "Deployment", true),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", true),
    ("rbac.authorization.k8s.io/v1beta1", "roles", "Role", true),
];

/// A cluster: the server, and the engine that sees what the test shows it.
struct Cluster {
    server: FakeApi,
    engine: Engine,
    notices: Arc<Mutex<Vec<String>>>,
}

// === impl Cluster ===

impl Cluster {
    fn new() -> Self {
        Self::with(OwnerGuards::default())
    }

    fn with(guards: OwnerGuards) -> Self {
        Self::with_calls(guards, &CallLimits::default())
    }

    fn with_calls(guards: OwnerGuards, limits: &CallLimits) -> Self {
        let (server, notices) = (FakeApi::serving(Vec::new()), Arc::<Mutex<Vec<_>>>::default());
        let sent = Arc::clone(&notices);
        let report = move |notice: Notice| sent.lock().unwrap().push(text(&notice));
        let calls = Calls::new(Arc::new(server.connection()), limits, !guards.strict_not_found, false);
        let clock = || "2026-01-02T03:04:05Z".parse().unwrap();
        let engine = Engine::new(calls, guards, clock, report);
        let cluster = Self { server, engine, notices };
        cluster.serve(&SERVED);
        cluster
    }

    /// The API server serves these resources from now on.
    fn serve(&self, served: &[(&str, &str, &str, bool)]) {
        let mut known = Vec::new();
        let resources = served.iter().map(|&(api_version, resource, kind, namespaced)| {
            let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let is_preferred = !known.contains(&(group, resource));
            known.push((group, resource));
            resource_of(api_version, resource, kind, namespaced, is_preferred)
        });
        self.discovers(&Discovered { resources: resources.collect(), unavailable: Vec::new() });
    }

    fn discovers(&self, found: &Discovered) {
        self.engine.set_served(Served::from(found));
    }

    /// The complete list of the resource of an object has ended.
    fn has_listed(&self, of: &Value) {
        self.engine.has_list(self.resource(of));
    }

    /// The object exists, and its monitor shows it.
    fn shows(&self, object: &Value) {
        self.server.put(object);
        self.monitor_shows(object);
    }

    /// The object exists, and its monitor shows it with its version.
    fn shows_version(&self, object: &Value) {
        self.server.put(object);
        self.monitor_shows(&self.server.get(object).unwrap());
    }

    fn monitor_shows(&self, object: &Value) {
        self.engine.apply(Event::Seen(observed(&kind(object), self.resource(object), metadata(object))));
    }

    /// The object is deleted, and its monitor shows that.
    fn loses(&self, object: &Value) {
        self.server.remove(object);
        let identity = metadata(object).identity(&kind(object));
        self.engine.apply(Event::Deleted(self.resource(object), identity));
    }

    /// The resource of an object is listed again, and the list shows these objects.
    fn relists(&self, of: &Value, shown: &[&Value]) {
        let resource = self.resource(of);
        self.engine.apply(Event::ListBegins(resource));
        for object in shown {
            self.monitor_shows(&self.server.get(object).unwrap());
        }
        self.engine.apply(Event::ListEnds(resource));
    }

    fn resource(&self, object: &Value) -> crate::owners::ResourceId {
        self.engine.number(kind(object).group(), &resource_name(object))
    }

    /// Processes the keys that are ready, one by one, and returns the calls. A key that is ready again because of a
    /// failure is not processed again.
    async fn works(&self) -> Vec<String> {
        self.server.calls();
        for _ in 0..20 {
            if self.engine.queue.len().ready == 0 {
                return self.server.calls();
            }
            let key = self.engine.queue.next().await.unwrap();
            self.engine.process(&key).await;
        }
        panic!("the keys never end: {:?}", self.server.calls());
    }

    /// Waits until the keys that failed are ready again, and processes them.
    async fn works_again(&self) -> Vec<String> {
        tokio::time::advance(Duration::from_secs(1)).await;
        let key = self.engine.queue.next().await.unwrap();
        self.server.calls();
        self.engine.process(&key).await;
        let calls = self.server.calls();
        calls.into_iter().chain(self.works().await).collect()
    }

    /// Lists what the graph has: `real` or `guess`, with the identity.
    fn graph(&self, uids: &[&str]) -> Vec<String> {
        let items = uids.iter().filter_map(|uid| self.engine.state().graph.item(&Uid::new(uid)));
        items.map(|item| format!("{} {}", if item.is_virtual { "guess" } else { "real" }, item.identity)).collect()
    }

    /// Lists the identities that are proven absent, the latest last.
    fn absent(&self) -> Vec<String> {
        self.engine.state().graph.absent.iter().map(ToString::to_string).collect()
    }

    /// Returns how many keys wait: after a failure, or for discovery.
    fn waiting(&self) -> usize {
        self.engine.queue.len().delayed
    }

    fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap())
    }

    fn failures(&self) -> Vec<ClusterFailure> {
        self.engine.failures()
    }
}

fn text(notice: &Notice) -> String {
    match notice {
        Notice::Done(done) => format!("{} {}: {}", done.action, done.object.name, done.result),
        Notice::Failed(failure) => format!("failed {}: {}", failure.object.name, failure.cause),
        Notice::WrongNamespace(object, _) => format!("wrong namespace {}", object.name),
        Notice::NotServed(object, owner) => format!("not served {}: {}", object.name, owner.kind),
        Notice::Paused(resource, _) => format!("paused {resource}"),
        Notice::Stuck(owner, dependent) => format!("stuck {}: {}", owner.name, dependent.name),
    }
}

fn resource_name(object: &Value) -> String {
    format!("{}s", object["kind"].as_str().unwrap().to_lowercase())
}

fn kind(object: &Value) -> ApiKind {
    ApiKind::new(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap())
}

fn metadata(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap()
}

/// An object whose uid is `NAME-uid`; the namespace is empty for cluster-scoped objects.
fn object(api_version: &str, kind: &str, namespace: &str, name: &str, owners: &[Value]) -> Value {
    let uid = format!("{name}-uid");
    let metadata = json!({"namespace": namespace, "name": name, "uid": uid, "ownerReferences": owners});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

/// An object whose deletion waits for a finalizer.
fn deleted_with(finalizer: &str, object: Value) -> Value {
    with(with(object, "deletionTimestamp", json!("2026-01-01T00:00:00Z")), "finalizers", json!([finalizer]))
}

fn pod(name: &str, owners: &[Value]) -> Value {
    object("v1", "Pod", "ns1", name, owners)
}

/// Sets a field of the metadata.
fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["metadata"][field] = value;
    object
}

/// A reference to an object.
fn to(owner: &Value) -> Value {
    let (api_version, kind) = (&owner["apiVersion"], &owner["kind"]);
    json!({"apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
}

/// A reference that blocks the foreground deletion of its owner.
fn blocking(owner: &Value) -> Value {
    let mut reference = to(owner);
    reference["blockOwnerDeletion"] = true.into();
    reference
}
