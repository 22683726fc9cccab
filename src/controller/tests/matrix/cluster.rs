//! A cluster with things to keep, garbage to remove and deletions to hold, and what must be true of it in the end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{blocking, deleted_with, object, resource_of, to, with};
use super::values::of_tenant;
use super::{Fault, Way};
use crate::controller::{
    ClusterObserver, CollectOptions, ControllerSettings, ObserverLimits, OwnersService, ResourceFilter, collect,
};
use crate::kubernetes::ApiResource;
use crate::model::{Identity, Uid};
use crate::owners::{ActionWord, ClusterSnapshot, OwnerGuards, explain, plan};
use crate::testing::fake_api::{FakeApi, failure};

/// A command of `kubegc controller`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Command {
    Run,
    Collect,
    Plan,
    Why,
}

/// Something that happens to the server.
type Act = Box<dyn FnOnce(&FakeApi) + Send>;

pub(super) struct MatrixCluster {
    cell: String,
    server: FakeApi,
    /// What happens after the first lists.
    later: std::sync::Mutex<Vec<Act>>,
}

/// The resources: version, resource, kind, namespaced.
const CORE: [(&str, &str, &str, bool); 3] = [
    ("v1", "configmaps", "ConfigMap", true),
    ("v1", "secrets", "Secret", true),
    ("v1", "namespaces", "Namespace", false),
];
const WIDGETS: (&str, &str, &str, bool) = ("tenant.example.com/v1", "widgets", "Widget", true);
/// Shows objects of other resources with their uids.
const MIRROR: (&str, &str, &str, bool) = ("mirror.example.com/v1", "mirrors", "Mirror", true);
/// The names of what must stay, whatever happens.
const KEPT: [&str; 8] = ["keeper", "kept", "kept-widget", "kept-secret", "orphan-child", "victim", "fg", "fg-child"];
/// The only things that may be changed, with what the tenant names.
const CHANGED: [&str; 5] = ["garbage", "orphaned", "orphan-child", "fg-child", "tenant"];
/// Two minutes: discovery, a wait for the API server, and the back-off of a failure.
const BOUND: Duration = Duration::from_mins(2);

fn config_map(name: &str, owners: &[Value]) -> Value {
    object("v1", "ConfigMap", "ns1", name, owners)
}

fn garbage() -> Value {
    object("v1", "ConfigMap", "ns2", "garbage", &[to(&object("v1", "ConfigMap", "ns2", "gone", &[]))])
}

fn objects() -> Vec<Value> {
    let keeper = config_map("keeper", &[]);
    let (orphaned, fg) = (
        deleted_with("orphan", config_map("orphaned", &[])),
        deleted_with("foregroundDeletion", config_map("fg", &[])),
    );
    vec![
        config_map("kept", &[to(&keeper)]),
        object(WIDGETS.0, WIDGETS.2, "ns1", "kept-widget", &[to(&keeper)]),
        object("v1", "Secret", "ns1", "kept-secret", &[to(&keeper)]),
        keeper,
        config_map("orphan-child", &[to(&orphaned)]),
        orphaned,
        with(config_map("fg-child", &[blocking(&fg)]), "finalizers", json!(["example.com/hold"])),
        fg,
        object("v1", "Secret", "kube-system", "victim", &[]),
        garbage(),
    ]
}

fn served(more: &[(&str, &str, &str, bool)]) -> Vec<ApiResource> {
    let of = |&(version, resource, kind, namespaced): &(&str, &str, &str, bool)| {
        resource_of(version, resource, kind, namespaced, true)
    };
    CORE.iter().chain(more).map(of).collect()
}

// === impl MatrixCluster ===

impl MatrixCluster {
    pub(super) fn new(cell: &str) -> Self {
        let server = FakeApi::serving(served(&[WIDGETS]));
        for object in objects() {
            server.put(&object);
        }
        Self { cell: cell.to_owned(), server, later: std::sync::Mutex::default() }
    }

    /// Shows an object in this way.
    pub(super) fn shows(&self, way: Way, shown: &Value) {
        let (server, benign, shown) = (&self.server, of_tenant(), shown.clone());
        match way {
            Way::List => server.lists_too(&benign, &shown, 0),
            Way::Relist => {
                server.lists_too(&benign, &shown, 1);
                self.later(FakeApi::expires);
            }
            Way::WatchEvent => self.later(move |server| {
                for word in ["ADDED", "MODIFIED", "DELETED"] {
                    server.sends(&of_tenant(), word, &shown);
                }
            }),
            Way::Read => {
                server.put(&benign);
                for of in [benign, object(WIDGETS.0, WIDGETS.2, "ns1", "tenant-owner", &[])] {
                    server.answers(&of, 200, shown.clone());
                }
            }
            Way::AnswerToChange => {
                server.put(&benign);
                server.answers_changes(&benign, &shown);
            }
        }
    }

    pub(super) fn has(&self, fault: Fault) {
        let server = &self.server;
        match fault {
            Fault::DiscoveryFlaps => {
                server.serves(served(&[]), &[]);
                self.later(|server| server.serves(served(&[WIDGETS]), &[]));
            }
            Fault::VersionDropped => self.later(|server| {
                server.serves(served(&[("tenant.example.com/v2", "widgets", "Widget", true)]), &[]);
            }),
            Fault::GroupDown => server.serves(served(&[WIDGETS]), &[WIDGETS.0]),
            Fault::Mirror(name) => self.mirrors(name, |_, _| {}),
            Fault::MirrorLoses(name) => self.mirrors(name, |server, mirror| server.sends(mirror, "DELETED", mirror)),
            Fault::Restore => self.later(|server| {
                let old = with(object("v1", "ConfigMap", "ns1", "older", &[]), "resourceVersion", json!("1"));
                server.sends(&old, "ADDED", &old);
            }),
            Fault::ListsExpire => self.later(|server| (0..5).for_each(|_| server.expires())),
            Fault::ReadsFail => {
                server.answers(&config_map("keeper", &[]), 503, failure(503, "Down", &json!({})));
            }
            Fault::ReadsOfOthers => server.answers(&config_map("keeper", &[]), 200, garbage()),
        }
    }

    /// Another resource shows the object of this name with its uid, and owners that are absent.
    fn mirrors(&self, name: &str, then: impl FnOnce(&FakeApi, &Value) + Send + 'static) {
        self.server.serves(served(&[WIDGETS, MIRROR]), &[]);
        let gone = to(&config_map("gone", &[]));
        let mirror = with(object(MIRROR.0, MIRROR.2, "ns1", name, &[gone]), "resourceVersion", json!("7"));
        self.server.lists_too(&mirror, &mirror, 0);
        self.later(move |server| then(server, &mirror));
    }

    fn later(&self, act: impl FnOnce(&FakeApi) + Send + 'static) {
        self.later.lock().unwrap().push(Box::new(act));
    }

    fn happens_later(&self) {
        self.later.lock().unwrap().drain(..).for_each(|act| act(&self.server));
    }

    pub(super) async fn check(&self, command: Command) {
        match command {
            Command::Run => self.run().await,
            Command::Collect => self.collect().await,
            Command::Plan | Command::Why => self.plan(command).await,
        }
        self.keeps_what_is_needed();
        self.requests_only_objects();
    }

    async fn run(&self) {
        let settings = ControllerSettings { first_lists: Duration::from_secs(5), ..ControllerSettings::default() };
        let connection = Arc::new(self.server.connection());
        let clock = || "2026-01-02T03:04:05Z".parse().unwrap();
        let service = OwnersService::new(&connection, settings, ResourceFilter::default(), false, clock);
        let (attention, stop) = (service.attention(), CancellationToken::new());
        let happens = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.happens_later();
            tokio::time::sleep(BOUND).await;
            self.has_no_garbage();
            let attention = attention().join("\n");
            assert!(attention.contains("foreground deletion"), "{}: what waits is reported: {attention}", self.cell);
            stop.cancel();
        };
        tokio::join!(service.run(stop.clone()), happens);
    }

    async fn collect(&self) {
        let connection = Arc::new(self.server.connection());
        let clock = || "2026-01-02T03:04:05Z".parse().unwrap();
        let options = CollectOptions { timeout: BOUND, ..CollectOptions::default() };
        let settings = ControllerSettings::default();
        self.happens_later();
        let report = collect(connection, settings, &options, clock, CancellationToken::new(), |_| {}).await.unwrap();
        self.has_no_garbage();
        let waiting = report.waiting.iter().any(|waiting| &*waiting.object.name == "fg");
        assert!(waiting, "{}: what waits is reported: {:?}", self.cell, report.waiting);
    }

    async fn plan(&self, command: Command) {
        let clock = || "2026-01-02T03:04:05Z".parse().unwrap();
        let (connection, guards) = (Arc::new(self.server.connection()), OwnerGuards::default());
        let observer = ClusterObserver::new(connection, ObserverLimits::default(), clock, &guards);
        self.happens_later();
        let snapshot = observer.snapshot(|_, _| {}).await.unwrap();
        if command == Command::Plan {
            self.plans(&snapshot);
        } else {
            self.explains(&snapshot);
        }
        assert!(self.server.requests().iter().all(|request| request.starts_with("GET ")), "{}", self.cell);
    }

    fn plans(&self, snapshot: &ClusterSnapshot) {
        let plan = plan(snapshot);
        let of_tenant =
            |object: &Identity| object.kind.group() == "tenant.example.com" && *object.name != *"kept-widget";
        // A reference that a mirror shows is no harm: the object itself is read before it is dropped.
        let is_drop = |action: ActionWord| action == ActionWord::DropReferences;
        let others = plan.actions.iter().filter(|it| !of_tenant(&it.object) && !is_drop(it.action));
        let acts: Vec<_> = others.map(|it| format!("{} {}", it.action, it.object.name)).collect();
        let expected = ["delete fg-child", "delete garbage", "orphan orphaned"];
        assert!(acts.iter().all(|act| expected.contains(&&**act)), "{}: {acts:?}", self.cell);
        assert!(acts.contains(&"delete garbage".to_owned()), "{}: {acts:?}", self.cell);
    }

    fn explains(&self, snapshot: &ClusterSnapshot) {
        let objects = snapshot.resources.iter().flat_map(|listed| {
            let objects = listed.objects.as_ref().into_iter().flatten();
            objects.map(|meta| meta.identity(&listed.served.kind))
        });
        let objects: Vec<_> = objects.collect();
        let of = |uid: &str| {
            let object = objects.iter().find(|object| object.uid == Uid::new(uid))?;
            explain(snapshot, object).map(|it| it.decision)
        };
        for name in KEPT {
            let decision = of(&format!("{name}-uid"));
            assert!(decision.as_deref() != Some("delete") || name == "fg-child", "{}: {name}: {decision:?}", self.cell);
        }
        assert_eq!(of("garbage-uid").as_deref(), Some("delete"), "{}", self.cell);
    }

    fn has_no_garbage(&self) {
        let requests = self.server.requests();
        let is_removed = !self.server.names().contains(&"garbage".to_owned());
        assert!(is_removed, "{}: the garbage of others stays after {requests:#?}", self.cell);
    }

    fn keeps_what_is_needed(&self) {
        let names = self.server.names();
        for name in KEPT {
            assert!(names.contains(&name.to_owned()), "{}: {name} is lost", self.cell);
        }
        // An owner goes only after its dependents are released.
        let child = self.server.get(&config_map("orphan-child", &[])).unwrap();
        let is_released = child["metadata"]["ownerReferences"] == json!([]);
        assert!(is_released || names.contains(&"orphaned".to_owned()), "{}: a finalizer went early", self.cell);
        assert!(child["metadata"]["deletionTimestamp"].is_null(), "{}: an orphan is deleted", self.cell);
    }

    /// Each request is for discovery, for a whole resource or for one object, and only what was decided is changed.
    fn requests_only_objects(&self) {
        for request in self.server.requests() {
            let (method, uri) = request.split_once(' ').unwrap();
            let path = uri.split('?').next().unwrap();
            let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
            let rest = match parts[..] {
                ["readyz" | "api" | "apis"] => continue,
                ["api", "v1", ref rest @ ..] | ["apis", _, "v1" | "v2", ref rest @ ..] => rest,
                _ => panic!("{}: {request}", self.cell),
            };
            let (namespace, resource, name) = match *rest {
                [resource] => ("", resource, ""),
                [resource, name] => ("", resource, name),
                ["namespaces", namespace, resource] => (namespace, resource, ""),
                ["namespaces", namespace, resource, name] => (namespace, resource, name),
                _ => panic!("{}: {request}", self.cell),
            };
            let is_event = method == "POST" && resource == "events";
            let is_object = ["configmaps", "secrets", "namespaces", "widgets", "mirrors"].contains(&resource);
            assert!(is_event || is_object, "{}: {request}", self.cell);
            assert!(namespace != "kube-system" && name != "victim", "{}: {request}", self.cell);
            let is_change = ["PATCH", "DELETE"].contains(&method);
            assert!(!is_change || CHANGED.contains(&name), "{}: {request}", self.cell);
            assert!(!uri.contains('?') || name.is_empty() || is_change || is_event, "{}: {request}", self.cell);
        }
    }
}
