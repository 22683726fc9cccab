//! `controller relink` as a whole: which references change, and what is changed at all.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::controller::{
    ClusterObserver, ClusterOutcome, CollectOptions, ControllerSettings, ObjectFilter, ObserverLimits, RelinkReport,
    RelinkResult, relink,
};
use crate::owners::{ClusterPlan, plan};

const CLOCK: crate::kubernetes::Clock = || "2026-01-02T03:04:05Z".parse().unwrap();

fn server(objects: &[Value]) -> FakeApi {
    let served = SERVED.map(|(version, resource, kind, scope)| resource_of(version, resource, kind, scope, true));
    let server = FakeApi::serving(served.to_vec());
    for object in objects {
        server.put(object);
    }
    server
}

/// A reference with the uid that the owner had before the restore.
fn before(owner: &Value) -> Value {
    let mut reference = to(owner);
    reference["uid"] = "before".into();
    reference
}

fn secret(name: &str) -> Value {
    object("v1", "Secret", "ns1", name, &[])
}

async fn planned(server: &FakeApi) -> ClusterPlan {
    let connection = Arc::new(server.connection());
    let observer = ClusterObserver::new(connection, ObserverLimits::default(), CLOCK, &OwnerGuards::default());
    plan(&observer.snapshot(|_, _| {}).await.unwrap())
}

async fn relinks(server: &FakeApi, plan: &ClusterPlan, options: &CollectOptions) -> RelinkReport {
    let (connection, settings) = (Arc::new(server.connection()), ControllerSettings::default());
    relink(connection, plan, &settings, options, CancellationToken::new(), |_| {}).await.unwrap()
}

/// Plans, relinks, and lists the results as `OBJECT: RESULT`.
async fn results(server: &FakeApi, options: &CollectOptions) -> Vec<String> {
    let report = relinks(server, &planned(server).await, options).await;
    assert!(report.failures.is_empty() && report.errors.is_empty() && !report.interrupted, "{report:#?}");
    report.references.iter().map(|it| format!("{}: {}", it.object.name, it.result)).collect()
}

fn patches(server: &FakeApi) -> Vec<Value> {
    server.made().into_iter().filter(|made| made.method == http::Method::PATCH).map(|made| made.body).collect()
}

#[tokio::test(start_paused = true)]
async fn a_relinked_reference_differs_only_in_its_uid() {
    let (owner, other) = (secret("owner"), secret("other"));
    let mut stale = before(&owner);
    (stale["controller"], stale["blockOwnerDeletion"]) = (true.into(), false.into());
    let absent = before(&secret("absent"));
    let child = pod("child", &[blocking(&other), stale.clone(), absent.clone()]);
    let server = server(&[owner, other.clone(), child.clone()]);
    let version = server.get(&child).unwrap()["metadata"]["resourceVersion"].clone();
    let report = relinks(&server, &planned(&server).await, &CollectOptions::default()).await;
    let [relinked] = &report.references[..] else { panic!("{report:#?}") };
    assert_eq!(relinked.result, RelinkResult::Relinked);
    assert_eq!((&relinked.old_uid, &relinked.owner.uid), (&Uid::new("before"), &Uid::new("owner-uid")));
    stale["uid"] = "owner-uid".into();
    let metadata =
        json!({"uid": "child-uid", "resourceVersion": version, "ownerReferences": [blocking(&other), stale, absent]});
    assert_eq!(patches(&server), [json!({"metadata": metadata})]);
    assert_eq!(results(&server, &CollectOptions::default()).await, [""; 0], "a second time there is nothing to do");
}

#[tokio::test(start_paused = true)]
async fn a_history_gets_each_change() {
    let (owner, ends) = (secret("owner"), deleted_with("example.com/hold", secret("ends")));
    let server =
        server(&[owner.clone(), ends.clone(), pod("child", &[before(&owner)]), pod("of-ends", &[before(&ends)])]);
    let (plan, kept) = (planned(&server).await, Mutex::new(Vec::new()));
    let keep = |outcome: &ClusterOutcome| kept.lock().unwrap().push(outcome.clone());
    for dry_run in [true, false] {
        let options = CollectOptions { dry_run, ..CollectOptions::default() };
        let (connection, settings) = (Arc::new(server.connection()), ControllerSettings::default());
        relink(connection, &plan, &settings, &options, CancellationToken::new(), keep).await.unwrap();
    }
    let kept = kept.into_inner().unwrap();
    let kept: Vec<_> = kept.iter().map(|it| (it.action.to_string(), &*it.object.name, it.owners.concat())).collect();
    let change = "Secret/owner (uid owner-uid instead of before)".to_owned();
    assert_eq!(kept, [("relink".to_owned(), "child", change)]);
}

/// An owner is that of the same apiVersion, kind and name, in the namespace of the object or in none.
#[tokio::test(start_paused = true)]
async fn only_an_owner_of_the_same_name_is_relinked_to() {
    let node = object("v1", "Node", "", "node", &[]);
    let elsewhere = with(secret("elsewhere"), "namespace", json!("ns2"));
    let moved = with(secret("moved"), "uid", json!("known"));
    let server = server(&[
        node.clone(),
        elsewhere.clone(),
        moved.clone(),
        object("v1", "Secret", "ns1", "renamed", &[]),
        pod("of-node", &[before(&node)]),
        object("v1", "Node", "", "cluster-scoped", &[before(&secret("renamed"))]),
        pod("of-elsewhere", &[before(&elsewhere)]),
        pod("of-another-kind", &[before(&object("v1", "Pod", "ns1", "renamed", &[]))]),
        pod("of-its-uid", &[with_uid(before(&secret("renamed")), "known")]),
    ]);
    assert_eq!(results(&server, &CollectOptions::default()).await, ["of-node: relinked"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_and_a_second_reference_are_left_as_they_are() {
    let (owner, ends) = (secret("owner"), deleted_with("example.com/hold", secret("ends")));
    let again = before(&owner);
    let server = server(&[
        owner.clone(),
        ends.clone(),
        pod("of-ending", &[before(&ends)]),
        deleted_with("example.com/hold", pod("in-deletion", &[before(&owner)])),
        pod("of-both", &[to(&owner), before(&owner)]),
        pod("of-two-restores", &[before(&owner), with_uid(again, "earlier")]),
    ]);
    let mut results = results(&server, &CollectOptions::default()).await;
    results.sort();
    let expected = [
        "in-deletion: in_deletion",
        "of-both: already_referenced",
        "of-ending: owner_in_deletion",
        "of-two-restores: already_referenced",
        "of-two-restores: relinked",
    ];
    assert_eq!(results, expected);
    assert_eq!(patches(&server).len(), 1);
}

fn with_uid(mut reference: Value, uid: &str) -> Value {
    reference["uid"] = uid.into();
    reference
}

/// What a plan shows may be old when a person has read it.
#[tokio::test(start_paused = true)]
async fn object_and_owner_are_read_right_before() {
    let (owner, gone) = (secret("owner"), secret("gone"));
    let (child, other, of_gone) =
        (pod("a", &[before(&owner)]), pod("b", &[before(&owner)]), pod("c", &[before(&gone)]));
    let server = server(&[owner.clone(), gone.clone(), child.clone(), other.clone(), of_gone]);
    let plan = planned(&server).await;
    server.put(&with(child, "uid", json!("created-again")));
    server.put(&with(other, "ownerReferences", json!([])));
    server.remove(&gone);
    let report = relinks(&server, &plan, &CollectOptions::default()).await;
    let results: Vec<_> = report.references.iter().map(|it| it.result).collect();
    assert_eq!(results, [RelinkResult::ReferenceChanged, RelinkResult::ReferenceChanged, RelinkResult::OwnerChanged]);
    let plan = {
        server.put(&pod("d", &[before(&owner)]));
        planned(&server).await
    };
    server.put(&with(owner, "uid", json!("restored-again")));
    let report = relinks(&server, &plan, &CollectOptions::default()).await;
    assert!(report.references.iter().all(|it| it.result != RelinkResult::Relinked), "{report:#?}");
    assert_eq!(patches(&server), [json!(null); 0]);
}

/// A kubelet writes the status of a pod at any time.
#[tokio::test(start_paused = true)]
async fn a_change_in_between_is_kept() {
    let (owner, keeper) = (secret("owner"), secret("keeper"));
    let child = pod("child", &[before(&owner)]);
    let server = server(&[owner.clone(), keeper.clone(), child.clone()]);
    let changed = with(child.clone(), "ownerReferences", json!([to(&keeper), before(&owner)]));
    server.before("PATCH", &child, move |server| server.put(&changed));
    // Its change begins twice, and counts once.
    let options = CollectOptions { max_objects: Some(1), ..CollectOptions::default() };
    assert_eq!(results(&server, &options).await, ["child: relinked"]);
    let now = server.get(&child).unwrap();
    assert_eq!(now["metadata"]["ownerReferences"], json!([to(&keeper), to(&owner)]));
    assert_eq!(patches(&server).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_limit_a_filter_and_a_dry_run_leave_the_rest() {
    let owner = secret("owner");
    let pods = ["a", "b", "c"].map(|name| pod(name, &[before(&owner)]));
    let server =
        server(&[&[owner.clone(), object("apps/v1", "Deployment", "ns1", "d", &[before(&owner)])], &pods[..]].concat());
    let dry_run = CollectOptions { dry_run: true, ..CollectOptions::default() };
    assert_eq!(results(&server, &dry_run).await.len(), 4);
    assert_eq!(patches(&server), [json!(null); 0]);
    let resources = ResourceFilter { only: vec!["apps/deployments".parse().unwrap()], ignore: Vec::new() };
    let deployments = CollectOptions { only: ObjectFilter::from(resources), ..CollectOptions::default() };
    assert_eq!(results(&server, &deployments).await, ["d: relinked"]);
    let two = CollectOptions { max_objects: Some(2), ..CollectOptions::default() };
    assert_eq!(results(&server, &two).await.len(), 2);
    assert_eq!(patches(&server).len(), 3);
    server.refuses("PATCH", &pods[2], true);
    let report = relinks(&server, &planned(&server).await, &two).await;
    assert_eq!((report.references.len(), report.failures.len()), (0, 1), "{report:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_reported() {
    let owner = secret("owner");
    let server = server(&[owner.clone(), pod("a", &[before(&owner)])]);
    let (plan, stop) = (planned(&server).await, CancellationToken::new());
    stop.cancel();
    let (connection, settings) = (Arc::new(server.connection()), ControllerSettings::default());
    let report = relink(connection, &plan, &settings, &CollectOptions::default(), stop, |_| {}).await.unwrap();
    assert!(report.interrupted && report.references.is_empty(), "{report:#?}");
}
