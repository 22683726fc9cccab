//! `controller collect` as a whole: which calls it makes and in which order, and how it ends.

mod properties;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::controller::{
    ClusterObserver, ClusterOutcome, ClusterReport, CollectOptions, ControllerSettings, ObjectFilter, ObserverLimits,
    OwnersService, ResourceFilter, collect,
};
use crate::model::Identity;
use crate::owners::{ActionWord, Propagation, plan};
use crate::testing::fake_api::failure;

const CLOCK: crate::kubernetes::Clock = || "2026-01-02T03:04:05Z".parse().unwrap();

fn config_map(name: &str, owners: &[Value]) -> Value {
    object("v1", "ConfigMap", "ns1", name, owners)
}

fn absent(name: &str) -> Value {
    to(&config_map(name, &[]))
}

fn server(objects: impl IntoIterator<Item = Value>) -> FakeApi {
    let served = [("v1", "configmaps", "ConfigMap", true), ("v1", "secrets", "Secret", true)];
    let served = served.map(|(version, resource, kind, scope)| resource_of(version, resource, kind, scope, true));
    let server = FakeApi::serving(served.to_vec());
    objects.into_iter().for_each(|object| server.put(&object));
    server
}

/// Dependents of one absent owner each.
fn dangling(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|number| config_map(&format!("c{number}"), &[absent(&format!("owner{number}"))]))
}

fn options() -> CollectOptions {
    CollectOptions::default()
}

async fn collects(server: &FakeApi, options: &CollectOptions, per_second: u64) -> ClusterReport {
    let calls = CallLimits { per_second, ..CallLimits::default() };
    let settings = ControllerSettings { calls, ..ControllerSettings::default() };
    let connection = Arc::new(server.connection());
    collect(connection, settings, options, CLOCK, CancellationToken::new(), |_| {}).await.unwrap()
}

/// Plans, and lists what is to be done, sorted.
async fn planned(server: &FakeApi) -> Vec<String> {
    planned_with_namespaces(server).await.0
}

/// As [`planned`], and the namespaces that are deleted: what is in them goes with them, by a plan, and not from this server.
async fn planned_with_namespaces(server: &FakeApi) -> (Vec<String>, Vec<Identity>) {
    let (connection, guards) = (Arc::new(server.connection()), OwnerGuards::default());
    let observer = ClusterObserver::new(connection, ObserverLimits::default(), CLOCK, &guards);
    let plan = plan(&observer.snapshot(|_, _| {}).await.unwrap());
    let actions = plan.actions.iter().chain(&plan.predicted);
    let mut planned: Vec<_> = actions.map(|it| text(it.action, &it.object, it.propagation, &it.reason)).collect();
    planned.sort();
    let actions = plan.actions.iter().chain(&plan.predicted).filter(|it| it.content.is_some());
    (planned, actions.map(|it| it.object.clone()).collect())
}

/// Lists what a collection did, sorted. A plan has the releases of dependents in one action.
fn done(report: &ClusterReport) -> Vec<String> {
    let is_release = |it: &&ClusterOutcome| it.action == ActionWord::DropReferences && it.reason == "orphan_requested";
    let outcomes = report.outcomes.iter().filter(|it| !is_release(it));
    let mut done: Vec<_> = outcomes.map(|it| text(it.action, &it.object, it.propagation, &it.reason)).collect();
    done.sort();
    done
}

fn text(action: ActionWord, object: &Identity, propagation: Option<Propagation>, reason: &str) -> String {
    format!("{action} {object} {propagation:?} {reason}")
}

/// Returns the requests for single objects: method and name.
fn calls(server: &FakeApi) -> Vec<String> {
    let of_objects = |request: String| {
        let (method, path) = request.split_once(' ')?;
        let name = path.split('?').next()?.split_once("/configmaps/")?.1;
        Some(format!("{method} {name}"))
    };
    server.requests().into_iter().filter_map(of_objects).collect()
}

fn count(calls: &[String], is_it: impl Fn(&str) -> bool) -> usize {
    calls.iter().filter(|call| is_it(call)).count()
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_absent_owner_costs_its_deletion() {
    let server = server((0..300).map(|number| config_map(&format!("c{number}"), &[absent("gone")])));
    let report = collects(&server, &options(), 0).await;
    let calls = calls(&server);
    assert_eq!(count(&calls, |call| call.starts_with("DELETE")), 300);
    assert_eq!(count(&calls, |call| call == "GET gone"), 1, "the owner is read once");
    assert_eq!(calls.len(), 301);
    assert_eq!((report.outcomes.len(), report.rounds), (300, 2));
    assert!(report.failures.is_empty() && !report.interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_living_owner_is_read_once() {
    let keeper = config_map("keeper", &[]);
    let of_two = (0..50).map(|number| config_map(&format!("c{number}"), &[to(&keeper), absent("gone")]));
    let server = server(of_two.chain([keeper.clone()]));
    let report = collects(&server, &options(), 0).await;
    let calls = calls(&server);
    assert_eq!(count(&calls, |call| call == "GET keeper"), 1, "{calls:?}");
    assert_eq!(count(&calls, |call| call.starts_with("PATCH")), 50);
    assert!(report.outcomes.iter().all(|outcome| outcome.action == ActionWord::DropReferences));
}

/// As with a broken conversion webhook: neither lists nor reads of the kind succeed, and the collection waits for neither.
#[tokio::test(start_paused = true)]
async fn a_broken_resource_delays_nothing() {
    let owner = object("v1", "Secret", "ns1", "owner", &[]);
    let of_broken = (0..5).map(|number| config_map(&format!("kept{number}"), &[to(&owner), absent("gone")]));
    let server = server(dangling(3).chain(of_broken).chain([owner.clone()]));
    let failure = failure(500, "InternalError", &json!({}));
    server.answers_path("/api/v1/secrets", 500, failure.clone());
    server.answers(&owner, 500, failure);
    let begun = Instant::now();
    let report = collects(&server, &CollectOptions { max_objects: Some(10), ..options() }, 0).await;
    assert_eq!((report.outcomes.len(), report.failures.len(), report.errors.len()), (3, 6, 1), "{report:#?}");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// From some 6,000 objects on, all reads before the first deletion took longer than the command may.
#[tokio::test(start_paused = true)]
async fn garbage_goes_before_all_is_decided() {
    let server = server(dangling(1000));
    let report = collects(&server, &options(), 0).await;
    let calls = calls(&server);
    let first = calls.iter().position(|call| call.starts_with("DELETE")).unwrap();
    assert!(first < 50, "{first} reads before the first deletion");
    assert_eq!((report.outcomes.len(), calls.len()), (1000, 2000), "each owner is read, and each object deleted");
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_the_decisions() {
    for dry_run in [false, true] {
        let server = server(dangling(1000));
        let options = CollectOptions { max_objects: Some(5), dry_run, ..options() };
        let report = collects(&server, &options, 0).await;
        let calls = calls(&server);
        assert_eq!(report.outcomes.len(), 5, "dry run: {dry_run}");
        assert!(count(&calls, |call| call.starts_with("GET")) < 50, "{}", calls.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_collection_with_what_was_done() {
    // At few calls a second, those that wait for their turn do not wait for it beyond the end.
    for (per_second, least) in [(100, 500), (5, 10)] {
        let (server, begun) = (server(dangling(2000)), Instant::now());
        let options = CollectOptions { timeout: Duration::from_secs(10), ..options() };
        let report = collects(&server, &options, per_second).await;
        assert!(report.interrupted && report.failures.is_empty(), "{:?}", report.failures);
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        let deleted = count(&calls(&server), |call| call.starts_with("DELETE"));
        assert_eq!(report.outcomes.len(), deleted, "what was done is reported");
        assert!(deleted >= least, "{deleted}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_many_absent_owners_is_reported_once() {
    let owners: Vec<_> = (0..6).map(|number| absent(&format!("owner{number}"))).collect();
    for dry_run in [true, false] {
        let server = server((0..20).map(|number| config_map(&format!("c{number}"), &owners)));
        let report = collects(&server, &CollectOptions { dry_run, ..options() }, 0).await;
        assert_eq!(report.outcomes.len(), 20, "dry run: {dry_run}");
        assert_eq!(server.names().len(), if dry_run { 20 } else { 0 });
    }
}

/// The owner `a` is garbage, and `b` names it and an absent owner: as long as `a` exists, only the reference to the other
/// one goes. An early deletion of `a` would change the decision.
#[tokio::test(start_paused = true)]
async fn an_early_change_is_not_seen_by_a_later_decision() {
    for padding in 0..30 {
        let a = config_map("a", &[absent("gone")]);
        let b = config_map("b", &[to(&a), absent("other")]);
        let server = server(dangling(padding).chain([a, b]));
        let planned = planned(&server).await;
        assert_eq!(done(&collects(&server, &options(), 0).await), planned);
    }
}

/// The deletion of an owner is no proof that it is absent: its dependents wait for a read.
#[tokio::test(start_paused = true)]
async fn dependents_of_a_deleted_object_are_deleted_after_a_read() {
    let a = config_map("a", &[absent("gone")]);
    let server = server([config_map("b", &[to(&a)]), a]);
    collects(&server, &options(), 0).await;
    assert_eq!(calls(&server), ["GET gone", "DELETE a", "GET a", "DELETE b"]);
}

/// A server that accepts a deletion and ignores it: the next list shows the object still.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_next_list_disproves_is_a_failure() {
    let child = config_map("child", &[absent("gone")]);
    let server = server([child.clone()]);
    server.answers(&child, 200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}));
    let report = collects(&server, &options(), 0).await;
    let calls = calls(&server);
    assert_eq!(calls[..4], ["GET gone", "DELETE child", "GET gone", "GET child"], "it is read after that");
    assert_eq!((report.outcomes.len(), report.failures.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_tried_again_and_reported() {
    let (child, other) = (config_map("child", &[absent("gone")]), config_map("other", &[absent("gone")]));
    let server = server([child.clone(), other]);
    server.refuses("DELETE", &child, true);
    let report = collects(&server, &options(), 0).await;
    assert!(count(&calls(&server), |call| call == "DELETE child") > 1);
    assert_eq!((report.failures.len(), report.outcomes.len()), (1, 1));
    assert!(!report.interrupted);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changed_since_its_list_is_read() {
    let (keeper, child) = (config_map("keeper", &[]), config_map("child", &[absent("gone")]));
    let server = server([keeper.clone(), child.clone()]);
    let adopted = config_map("child", &[to(&keeper)]);
    server.before("DELETE", &child, move |server| server.put(&adopted));
    let report = collects(&server, &options(), 0).await;
    assert_eq!(server.names(), ["child", "keeper"]);
    let calls = calls(&server);
    assert!(
        calls.starts_with(&["GET gone", "DELETE child", "GET child", "GET keeper"].map(str::to_owned)),
        "{calls:?}"
    );
    assert!(report.outcomes.is_empty() && report.failures.is_empty());
}

/// The reference to an unknown kind is worth an event, and the garbage a deletion.
#[tokio::test(start_paused = true)]
async fn a_service_that_observes_only_reads() {
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "x"});
    for dry_run in [true, false] {
        let server = server([config_map("a", std::slice::from_ref(&unknown)), config_map("b", &[absent("gone")])]);
        let connection = Arc::new(server.connection());
        let settings = ControllerSettings::default();
        let service = OwnersService::new(&connection, settings, ResourceFilter::default(), dry_run, CLOCK);
        let stop = CancellationToken::new();
        let end = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            stop.cancel();
        };
        tokio::join!(service.run(stop.clone()), end);
        let requests = server.requests();
        let events = requests.iter().filter(|request| request.starts_with("POST ")).count();
        let only_reads = requests.iter().all(|request| request.starts_with("GET "));
        assert_eq!((events, only_reads), if dry_run { (0, true) } else { (1, false) }, "{requests:#?}");
    }
}

/// The permissions in a namespace are enough: nothing else is read, but the owners without a namespace.
#[tokio::test(start_paused = true)]
async fn a_service_of_a_namespace_reads_only_what_is_in_it() {
    let node = object("v1", "Node", "", "gone", &[]);
    let elsewhere = with(config_map("elsewhere", &[absent("gone")]), "namespace", json!("ns2"));
    let served = [("v1", "configmaps", "ConfigMap", true), ("v1", "nodes", "Node", false)];
    let served = served.map(|(version, resource, kind, scope)| resource_of(version, resource, kind, scope, true));
    let server = FakeApi::serving(served.to_vec());
    let objects = [config_map("a", &[absent("gone")]), config_map("b", &[to(&node)]), elsewhere];
    for object in &objects {
        server.put(object);
    }
    let (connection, stop) = (Arc::new(server.connection()), CancellationToken::new());
    let only = ObjectFilter { namespace: "ns1".to_owned(), ..ObjectFilter::default() };
    let service = OwnersService::new(&connection, ControllerSettings::default(), only, false, CLOCK);
    let end = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        stop.cancel();
    };
    tokio::join!(service.run(stop.clone()), end);
    assert_eq!(server.names(), ["elsewhere"]);
    let is_within = |request: &String| {
        let path = request.split(['?', ' ']).nth(1).unwrap_or_default();
        path.contains("/namespaces/ns1/") || path.ends_with("/nodes/gone") || path.matches('/').count() < 4
    };
    let beyond: Vec<_> = server.requests().into_iter().filter(|request| !is_within(request)).collect();
    assert_eq!(beyond, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_report_has_only_what_is_selected() {
    let hold = |name: &str, namespace: &str| {
        deleted_with("example.com/hold", with(config_map(name, &[]), "namespace", json!(namespace)))
    };
    let many: Vec<_> = (0..=crate::model::MOST_OWNERS).map(|number| absent(&format!("owner{number}"))).collect();
    let unread = with(config_map("unread", &many), "namespace", json!("ns2"));
    let server = server([hold("held", "ns1"), hold("elsewhere", "ns2"), unread]);
    let only = ObjectFilter { namespace: "ns1".to_owned(), ..ObjectFilter::default() };
    let uids = Some([Uid::new("held-uid")].into());
    for only in [only, ObjectFilter { uids, ..ObjectFilter::default() }] {
        let report = collects(&server, &CollectOptions { only, ..options() }, 0).await;
        let waiting: Vec<_> = report.waiting.iter().map(|waiting| &*waiting.object.name).collect();
        assert_eq!((waiting, report.failures), (vec!["held"], vec![]));
    }
}
