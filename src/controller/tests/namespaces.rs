//! The deletion of namespaces: what is deleted, in which order, what holds a namespace, and what is never deleted.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::controller::{
    ClusterObserver, ClusterReport, CollectOptions, ControllerError, ControllerSettings, ObserverLimits, OwnersService,
    ResourceFilter, SaveOptions, collect,
};
use crate::kubernetes::ApiResource;
use crate::testing::fake_api::failure;

const CLOCK: crate::kubernetes::Clock = || "2026-01-02T03:04:05Z".parse().unwrap();
const HOLD: &str = "example.com/hold";

/// Resources of every kind: with and without `deletecollection`, one whose group is down in some tests.
fn served() -> Vec<ApiResource> {
    let can = |mut resource: ApiResource, verb: &str| {
        resource.verbs.push(verb.to_owned());
        resource
    };
    vec![
        can(resource_of("v1", "configmaps", "ConfigMap", true, true), "deletecollection"),
        can(resource_of("v1", "pods", "Pod", true, true), "deletecollection"),
        resource_of("v1", "secrets", "Secret", true, true),
        resource_of("v1", "namespaces", "Namespace", false, true),
        resource_of("v1", "nodes", "Node", false, true),
        resource_of("coordination.k8s.io/v1", "leases", "Lease", true, true),
        resource_of("example.com/v1", "widgets", "Widget", true, true),
    ]
}

/// A namespace whose deletion has begun.
fn namespace(name: &str, finalizers: &[&str]) -> Value {
    let mut namespace =
        with(object("v1", "Namespace", "", name, &[]), "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    namespace["spec"] = json!({"finalizers": finalizers});
    namespace
}

fn server(objects: impl IntoIterator<Item = Value>) -> FakeApi {
    let server = FakeApi::serving(served());
    objects.into_iter().for_each(|object| server.put(&object));
    server
}

/// One of each kind in the namespace, and what must stay: an object beside it, one without a namespace.
fn content() -> Vec<Value> {
    let widget = object("example.com/v1", "Widget", "ns1", "widget", &[]);
    let (secret, other) =
        (object("v1", "Secret", "ns1", "secret", &[]), object("v1", "ConfigMap", "ns2", "other", &[]));
    let mut all: Vec<_> = (0..3).map(|number| object("v1", "ConfigMap", "ns1", &format!("map{number}"), &[])).collect();
    all.extend([pod("pod", &[]), secret, widget, other, object("v1", "Node", "", "node", &[])]);
    all
}

fn options() -> CollectOptions {
    CollectOptions::default()
}

async fn collects(server: &FakeApi, options: &CollectOptions) -> Result<ClusterReport, ControllerError> {
    let settings = ControllerSettings { namespaces: true, ..ControllerSettings::default() };
    let connection = Arc::new(server.connection());
    collect(connection, settings, options, CLOCK, CancellationToken::new(), |_| {}).await
}

/// Returns the type and the message of each condition that is true.
fn conditions(server: &FakeApi) -> Vec<(String, String)> {
    let namespace = server.get(&namespace("ns1", &[])).unwrap();
    let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default().into_iter();
    let text = |it: &Value, field: &str| it[field].as_str().unwrap().to_owned();
    conditions.filter(|it| it["status"] == "True").map(|it| (text(&it, "type"), text(&it, "message"))).collect()
}

fn changes(server: &FakeApi) -> Vec<String> {
    server.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_its_content() {
    let server = server(content().into_iter().chain([namespace("ns1", &["kubernetes"])]));
    let report = collects(&server, &options()).await.unwrap();
    assert_eq!(server.names(), ["other", "node"]);
    let mut done: Vec<_> =
        report.outcomes.iter().map(|it| format!("{} {} {}", it.action, it.object.name, it.result)).collect();
    done[1..6].sort();
    assert_eq!(
        done,
        [
            "delete pod removed",
            "delete map0 removed",
            "delete map1 removed",
            "delete map2 removed",
            "delete secret removed",
            "delete widget removed",
            "end_namespace ns1 changed"
        ]
    );
    let collections = changes(&server).into_iter().filter(|it| it.ends_with("/configmaps?")).count();
    assert_eq!(collections, 1, "one request for all objects of a resource: {:?}", changes(&server));
    assert!(report.failures.is_empty() && report.errors.is_empty(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_nothing_is_done_in_namespaces() {
    let server = server(content().into_iter().chain([namespace("ns1", &["kubernetes"])]));
    let (settings, connection) = (ControllerSettings::default(), Arc::new(server.connection()));
    collect(connection, settings, &options(), CLOCK, CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(changes(&server), Vec::<String>::new());
}

/// Neither one that is not in deletion, nor one that another controller holds, nor what has no namespace.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_lives_or_is_of_another_controller_is_left() {
    let mut living = namespace("ns1", &["kubernetes"]);
    living["metadata"]["deletionTimestamp"] = Value::Null;
    for namespace in [living, namespace("ns1", &["other.example.com/x"])] {
        let server = server(content().into_iter().chain([namespace]));
        collects(&server, &options()).await.unwrap();
        assert_eq!(changes(&server), Vec::<String>::new());
    }
}

/// The namespace is created again with another uid, between its read and the deletion of its content.
#[tokio::test(start_paused = true)]
async fn a_later_namespace_of_the_name_keeps_its_content() {
    let old = namespace("ns1", &["kubernetes"]);
    let server = server(content().into_iter().chain([old.clone()]));
    let again = old.clone();
    server.before("GET", &old, move |server| {
        let new = with(again.clone(), "uid", json!("another-uid"));
        server.before("GET", &again, move |server| server.put(&new));
    });
    let settings = CollectOptions { timeout: Duration::from_secs(30), ..options() };
    collects(&server, &settings).await.unwrap();
    let pods = changes(&server).into_iter().filter(|it| it.contains("/pods")).count();
    assert_eq!(pods, 0, "{:?}", changes(&server));
}

/// A resource that can be deleted and not listed.
fn unlistable(server: &FakeApi) {
    let mut served = served();
    served.retain(|it| it.kind != "Pod" && it.kind != "Secret" && it.kind != "Widget");
    served.iter_mut().filter(|it| it.kind == "ConfigMap").for_each(|it| it.verbs.retain(|verb| verb != "list"));
    server.serves(served, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_later_namespace_keeps_what_cannot_be_listed() {
    for is_later in [false, true] {
        let old = namespace("ns1", &["kubernetes"]);
        let server = server([old.clone(), object("v1", "ConfigMap", "ns1", "map", &[])]);
        unlistable(&server);
        let again = old.clone();
        server.before("GET", &old, move |server| {
            let new = with(again.clone(), "uid", json!("another-uid"));
            server.before("GET", &again, move |server| {
                if is_later {
                    server.put(&new);
                }
            });
        });
        collects(&server, &CollectOptions { timeout: Duration::from_secs(30), ..options() }).await.unwrap();
        assert_eq!(server.names().contains(&"map".to_owned()), is_later, "{:?}", changes(&server));
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_listed_is_not_deleted_under_a_limit_or_if_objects_are_saved() {
    let save = SaveOptions { keep: Arc::new(|_| Ok(())), secrets: false };
    for options in
        [CollectOptions { max_objects: Some(100), ..options() }, CollectOptions { save: Some(save), ..options() }]
    {
        let server = server([namespace("ns1", &["kubernetes"]), object("v1", "ConfigMap", "ns1", "map", &[])]);
        unlistable(&server);
        let report = collects(&server, &options).await.unwrap();
        assert_eq!(server.names(), ["ns1", "map"], "{:?}", changes(&server));
        assert!(report.failures[0].cause.contains("neither counted for --max nor saved"), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_end_before_anything_else_is_deleted() {
    let held = with(pod("pod", &[]), "finalizers", json!([HOLD]));
    let server = server(content().into_iter().chain([held.clone(), namespace("ns1", &["kubernetes"])]));
    let report = collects(&server, &options()).await.unwrap();
    assert!(server.names().contains(&"map0".to_owned()), "{:?}", server.names());
    assert_eq!(
        conditions(&server),
        [
            (
                "NamespaceContentRemaining".to_owned(),
                "Some resources are remaining: pods. has 1 resource instances".to_owned()
            ),
            (
                "NamespaceFinalizersRemaining".to_owned(),
                format!("Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances")
            )
        ]
    );
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    server.remove(&held);
    collects(&server, &options()).await.unwrap();
    assert_eq!(server.names(), ["other", "node"]);
}

/// A list of all namespaces fails, as one does for an object of another namespace.
#[tokio::test(start_paused = true)]
async fn a_plan_shows_what_holds_a_namespace() {
    let held = with(object("example.com/v1", "Widget", "ns1", "held", &[]), "finalizers", json!([HOLD]));
    let server = server(content().into_iter().chain([held, namespace("ns1", &["kubernetes", "example.com/own"])]));
    collects(&server, &options()).await.unwrap();
    server.fails_lists(&resource_of("example.com/v1", "widgets", "Widget", true, true), &[]);
    server.fails_lists(&resource_of("coordination.k8s.io/v1", "leases", "Lease", true, true), &["ns1"]);
    let (connection, limits) = (Arc::new(server.connection()), ObserverLimits::default());
    let observer = ClusterObserver::new(connection, limits, CLOCK, &OwnerGuards::default());
    let plan = crate::owners::plan(&observer.snapshot(|_, _| {}).await.unwrap());
    let [finding] = &plan.findings[..] else { panic!("one namespace in deletion: {:?}", plan.findings) };
    assert_eq!(finding.waits_for_lists, ["leases.coordination.k8s.io"], "of widgets the namespace is listed");
    let [widgets] = &finding.content[..] else { panic!("only a widget: {:?}", finding.content) };
    assert_eq!((&*widgets.kind, &widgets.held), ("Widget.v1.example.com", &[(HOLD.to_owned(), 1)].into()));
    let kinds: Vec<_> = finding.conditions.iter().filter_map(|it| it.split_once(':')).map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["spec.finalizers", "NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
}

/// Otherwise an owner would wait for a dependent that finalizers hold, and its namespace for both.
#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_in_a_namespace_does_not_wait() {
    let owner = deleted_with("foregroundDeletion", object("v1", "Secret", "ns1", "owner", &[]));
    let held = with(object("v1", "ConfigMap", "ns1", "held", &[blocking(&owner)]), "finalizers", json!([HOLD]));
    let server = server([owner, held, namespace("ns1", &["kubernetes"])]);
    collects(&server, &options()).await.unwrap();
    assert_eq!(server.names(), ["ns1", "held"]);
}

/// What cannot be listed may be there, and so may what is not discovered.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_seen_holds_the_namespace() {
    for is_down in [false, true] {
        let server = server(content().into_iter().chain([namespace("ns1", &["kubernetes"])]));
        if is_down {
            server.serves(served(), &["example.com/v1"]);
        } else {
            server.answers_path("/api/v1/namespaces/ns1/secrets", 500, failure(500, "InternalError", &json!({})));
        }
        let report = collects(&server, &options()).await.unwrap();
        assert!(server.names().contains(&"ns1".to_owned()), "{:?}", server.names());
        assert!(report.failures.iter().any(|failure| &*failure.object.name == "ns1"), "{:?}", report.failures);
        let wanted = if is_down { "NamespaceDeletionDiscoveryFailure" } else { "NamespaceDeletionContentFailure" };
        assert!(conditions(&server).iter().any(|(kind, _)| kind == wanted), "{:?}", conditions(&server));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_the_deletion_of_content() {
    let server = server(content().into_iter().chain([namespace("ns1", &["kubernetes"])]));
    let report = collects(&server, &CollectOptions { max_objects: Some(2), ..options() }).await.unwrap();
    assert_eq!(report.outcomes.len(), 2, "{:?}", report.outcomes);
    assert_eq!(server.names().len(), 7, "{:?}", server.names());
    assert!(conditions(&server).is_empty() && report.failures.is_empty(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_shows_the_content_and_changes_nothing() {
    let server = server(content().into_iter().chain([namespace("ns1", &["kubernetes"])]));
    let report = collects(&server, &CollectOptions { dry_run: true, ..options() }).await.unwrap();
    let names: Vec<_> = report.outcomes.iter().map(|it| &*it.object.name).collect();
    assert_eq!(names, ["pod", "map0", "map1", "map2", "secret", "widget"]);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(changes(&server), Vec::<String>::new());
}

fn lease(renewed: &str) -> Value {
    let mut lease = object("coordination.k8s.io/v1", "Lease", "kube-system", "kube-controller-manager", &[]);
    lease["spec"] = json!({"holderIdentity": "master-1", "leaseDurationSeconds": 15, "renewTime": renewed});
    lease
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_beside_kube_controller_manager() {
    let objects = || content().into_iter().chain([namespace("ns1", &["kubernetes"])]);
    let beside = server(objects().chain([lease("2026-01-02T03:04:00.000000Z")]));
    let error = collects(&beside, &options()).await.unwrap_err();
    assert_eq!(error.to_string(), "kube-controller-manager master-1 has its Lease, and deletes namespaces itself");
    assert_eq!(changes(&beside), Vec::<String>::new());
    let unknown = server(objects());
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    unknown.answers_path(path, 403, failure(403, "Forbidden", &json!({})));
    assert!(matches!(collects(&unknown, &options()).await, Err(ControllerError::Upstream { .. })));
    assert_eq!(changes(&unknown), Vec::<String>::new());
    let expired = server(objects().chain([lease("2026-01-02T03:03:00.000000Z")]));
    collects(&expired, &options()).await.unwrap();
    assert!(!expired.names().contains(&"ns1".to_owned()));
}

/// `run` ends a namespace 5 s after it has seen its deletion, and waits while a kube-controller-manager has its Lease.
#[tokio::test(start_paused = true)]
async fn a_service_ends_namespaces_as_they_are_deleted() {
    let (first, second) = (namespace("ns1", &["kubernetes"]), namespace("ns2", &["kubernetes"]));
    let active = lease("2026-01-02T03:04:00.000000Z");
    let server = server(content().into_iter().chain([first, active.clone()]));
    let settings = ControllerSettings { namespaces: true, ..ControllerSettings::default() };
    let connection = Arc::new(server.connection());
    let service = OwnersService::new(&connection, settings, ResourceFilter::default(), false, CLOCK);
    let (health, stop) = (service.pages().health, CancellationToken::new());
    let test = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(changes(&server), Vec::<String>::new());
        assert!(health.missing().iter().any(|line| line.contains("master-1")), "{:?}", health.missing());
        server.remove(&active);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(server.names(), ["other", "node"]);
        assert!(health.missing().is_empty(), "{:?}", health.missing());
        server.put(&second);
        server.sends(&second, "MODIFIED", &server.get(&second).unwrap());
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(server.names(), ["ns2", "other", "node"], "other API servers may still admit objects");
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(server.names(), ["node"]);
        stop.cancel();
    };
    tokio::join!(service.run(stop.clone()), test);
}

/// Two requests and one look for each resource, however many objects there are.
#[tokio::test(start_paused = true)]
async fn many_objects_cost_no_more_calls_than_few() {
    let calls = async |count: usize| {
        let maps = (0..count).map(|number| object("v1", "ConfigMap", "ns1", &format!("map{number}"), &[]));
        let server = server(maps.chain([namespace("ns1", &["kubernetes"])]));
        let report = collects(&server, &options()).await.unwrap();
        assert_eq!(report.outcomes.len(), count + 1);
        let pages = |request: &&String| !request.contains("continue=");
        server.requests().iter().filter(pages).count()
    };
    assert_eq!(calls(10_000).await, calls(2).await);
}
