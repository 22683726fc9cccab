//! One object and its owners: the unit cases of kube-controller-manager, and those that our guards need.

use super::*;
use crate::controller::work::waiting::STUCK;
use crate::testing::fake_api::failure;

/// `TestAttemptToDeleteItem`: the references come from the live object.
#[tokio::test(start_paused = true)]
async fn the_live_object_says_who_the_owners_are() {
    let cluster = Cluster::new();
    let absent = object("v1", "Pod", "ns1", "absent", &[]);
    let (shown, live) = (pod("child", &[]), pod("child", &[to(&absent)]));
    cluster.shows(&shown);
    cluster.server.put(&live);
    cluster.engine.add(Key::Check(Uid::new("child-uid")));
    assert_eq!(cluster.works().await, ["GET pods/child", "GET pods/absent", "DELETE pods/child"]);
    assert_eq!(cluster.notices(), ["delete child: removed"]);
}

/// `TestAttemptToDeleteItemDeleteObjectNotFoundWaitingForDependents`.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_meanwhile_is_no_failure() {
    let cluster = Cluster::new();
    let owner = with(pod("owner", &[]), "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let owner = with(owner, "finalizers", json!(["foregroundDeletion"]));
    let child = pod("child", &[blocking(&owner)]);
    cluster.server.put(&owner);
    cluster.shows(&child);
    let gone = child.clone();
    cluster.server.before("DELETE", &child, move |server| server.remove(&gone));
    cluster.engine.add(Key::Check(Uid::new("child-uid")));
    let calls = cluster.works().await;
    assert!(
        calls.ends_with(&["GET pods/child", "GET pods/owner", "DELETE pods/child"].map(str::to_owned)),
        "{calls:?}"
    );
    assert_eq!(cluster.notices(), ["delete child: already_deleted"]);
    assert!(cluster.failures().is_empty());
}

/// `TestAbsentOwnerCache`: an owner that is proven absent is read once.
#[tokio::test(start_paused = true)]
async fn an_absent_owner_is_read_once() {
    let cluster = Cluster::new();
    let absent = object("v1", "Pod", "ns1", "absent", &[]);
    let mut managed = to(&absent);
    managed["controller"] = true.into();
    for (name, reference) in [("a", managed), ("b", to(&absent)), ("c", blocking(&absent))] {
        cluster.shows(&pod(name, &[reference]));
    }
    let calls = cluster.works().await;
    assert_eq!(calls.iter().filter(|call| **call == "GET pods/absent").count(), 1, "{calls:?}");
    assert!(cluster.server.names().is_empty());
}

/// `TestUnblockOwnerReference`: the references of a circle stop to block, and change in nothing else.
#[tokio::test(start_paused = true)]
async fn a_circular_foreground_deletion_unblocks_its_owners_first() {
    let cluster = Cluster::new();
    let waits = |object: Value| {
        let object = with(object, "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        with(object, "finalizers", json!(["foregroundDeletion"]))
    };
    let (a, b) = (pod("a", &[]), pod("b", &[]));
    let other = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a-uid", "controller": true,
        "blockOwnerDeletion": true});
    let waiting = waits(pod("a", &[blocking(&b)]));
    cluster.shows(&waiting);
    let child = pod("b", std::slice::from_ref(&other));
    let grandchild = waits(pod("c", &[blocking(&b)]));
    cluster.shows(&child);
    cluster.shows(&grandchild);
    cluster.engine.add(Key::Check(Uid::new("b-uid")));
    let calls = cluster.works().await;
    let at = |call: &str| calls.iter().position(|known| known == call).unwrap_or_else(|| panic!("{call}: {calls:?}"));
    assert!(at("PATCH pods/b") < at("DELETE pods/b"));
    let reference = &cluster.server.get(&b).unwrap()["metadata"]["ownerReferences"][0];
    let mut expected = other;
    expected["blockOwnerDeletion"] = false.into();
    assert_eq!(*reference, expected);
    assert!(cluster.server.get(&a).is_some());
}

/// They decide nothing about it.
#[tokio::test(start_paused = true)]
async fn the_owners_of_an_object_in_deletion_are_not_read() {
    let (cluster, owner) = (Cluster::new(), pod("owner", &[]));
    cluster.shows(&owner);
    cluster.shows(&deleted_with("foregroundDeletion", pod("child", &[to(&owner)])));
    assert_eq!(cluster.works().await, ["GET pods/child", "PATCH pods/child"]);
}

/// A proxy, or a server of another version, answers 404 too.
#[tokio::test(start_paused = true)]
async fn a_404_without_the_owner_name_proves_nothing() {
    for (strict, left) in [(true, 1), (false, 0)] {
        let cluster = Cluster::with(OwnerGuards { strict_not_found: strict, ..OwnerGuards::default() });
        let owner = pod("owner", &[]);
        cluster.server.answers(&owner, 404, failure(404, "NotFound", &json!({})));
        cluster.shows(&pod("child", &[to(&owner)]));
        cluster.engine.add(Key::Check(Uid::new("child-uid")));
        cluster.works().await;
        assert_eq!(cluster.server.names().len(), left, "strict: {strict}");
        assert_eq!(cluster.failures().is_empty(), !strict);
    }
}

/// kube-controller-manager compares the owner references alone, and loses the finalizer.
#[tokio::test(start_paused = true)]
async fn an_orphan_finalizer_set_after_the_read_is_respected() {
    for (compares, deletions) in [(true, 1), (false, 2)] {
        let cluster = Cluster::with(OwnerGuards { compare_after_conflict: compares, ..OwnerGuards::default() });
        let child = pod("child", &[to(&pod("absent", &[]))]);
        cluster.shows(&child);
        let changed = with(child.clone(), "finalizers", json!(["orphan"]));
        cluster.server.before("DELETE", &child, move |server| server.put(&changed));
        let calls = cluster.works().await;
        let deleted = calls.iter().filter(|call| **call == "DELETE pods/child").count();
        assert_eq!(deleted, deletions, "compares: {compares}, {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_unrelated_changes_allows_the_deletion() {
    let cluster = Cluster::new();
    let child = pod("child", &[to(&pod("absent", &[]))]);
    cluster.shows(&child);
    let again = child.clone();
    cluster.server.before("DELETE", &child, move |server| server.put(&again));
    let calls = cluster.works().await;
    let end = ["DELETE pods/child", "GET pods/child", "DELETE pods/child"];
    assert!(calls.ends_with(&end.map(str::to_owned)), "{calls:?}");
    assert!(cluster.server.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_created_again_is_not_deleted() {
    let cluster = Cluster::new();
    let child = pod("child", &[to(&pod("absent", &[]))]);
    cluster.shows(&child);
    let new = with(pod("child", &[]), "uid", json!("another"));
    cluster.server.before("DELETE", &child, move |server| server.put(&new));
    cluster.works().await;
    assert_eq!(cluster.server.get(&child).unwrap()["metadata"]["uid"], "another");
}

/// It was deleted again with another policy.
#[tokio::test(start_paused = true)]
async fn an_owner_that_no_longer_orphans_changes_no_dependent() {
    let cluster = Cluster::new();
    let owner = with(pod("owner", &[]), "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let orphans = with(owner.clone(), "finalizers", json!(["orphan", "example.com/hold"]));
    cluster.shows(&orphans);
    cluster.shows(&pod("child", &[to(&owner)]));
    cluster.server.put(&with(owner, "finalizers", json!(["example.com/hold"])));
    assert_eq!(cluster.works().await, ["GET pods/owner"]);
}

#[tokio::test(start_paused = true)]
async fn orphaning_waits_for_unlisted_resources_and_reports_once() {
    let cluster = Cluster::new();
    let owner = with(pod("owner", &[]), "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let owner = with(owner, "finalizers", json!(["orphan"]));
    let secrets = cluster.engine.number("", "secrets");
    cluster.engine.state().resources.awaits_list(secrets, true);
    cluster.shows(&owner);
    cluster.shows(&pod("child", &[to(&owner)]));
    assert_eq!(cluster.works().await, [""; 0], "no call for each check");
    let cause = "its dependents are not all known: secrets not listed yet";
    assert_eq!(cluster.notices(), [format!("failed owner: {cause}")]);
    assert_eq!(cluster.works_again().await, [""; 0]);
    assert_eq!(cluster.notices(), [""; 0], "the same cause is news once");
    assert_eq!(cluster.failures()[0].cause, cause);
    let longest = cluster.engine.figures().longest_failure;
    assert!((Duration::from_secs(1)..Duration::from_mins(1)).contains(&longest), "since the first time: {longest:?}");
    cluster.engine.has_list(secrets);
    assert_eq!(
        cluster.works_again().await,
        ["GET pods/owner", "GET pods/child", "PATCH pods/child", "PATCH pods/owner"]
    );
    assert_eq!((cluster.server.names(), cluster.failures()), (vec!["child".to_owned()], vec![]));

    // Its dependent in a resource that was not listed loses the reference and lives.
    cluster.loses(&owner);
    let late = object("v1", "Secret", "ns1", "late", &[to(&owner)]);
    cluster.shows(&late);
    cluster.engine.add(Key::Check(Uid::new("late-uid")));
    cluster.works().await;
    assert_eq!(cluster.server.get(&late).unwrap()["metadata"]["ownerReferences"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn waiting_deletions_do_not_use_the_change_limit() {
    let cluster = Cluster::new();
    cluster.engine.limit_objects(Some(1));
    let owner = with(pod("owner", &[]), "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let owner = with(owner, "finalizers", json!(["foregroundDeletion"]));
    cluster.shows(&owner);
    let child = pod("child", &[to(&owner)]);
    cluster.shows(&child);
    // The owner is processed while its dependent is still to be checked.
    cluster.engine.process(&Key::Check(Uid::new("owner-uid"))).await;
    assert!(!cluster.engine.is_exhausted_after(0));
}

#[tokio::test(start_paused = true)]
async fn a_long_foreground_deletion_is_reported_and_measured() {
    let cluster = Cluster::new();
    let deleted = |object: Value, finalizer: &str| {
        with(with(object, "deletionTimestamp", json!("2026-01-01T00:00:00Z")), "finalizers", json!([finalizer]))
    };
    let owner = deleted(pod("owner", &[]), "foregroundDeletion");
    let child = deleted(pod("child", &[blocking(&owner)]), "example.org/hold");
    cluster.shows(&owner);
    cluster.shows(&child);
    cluster.works().await;
    // It waits since its deletion, whatever process has seen it.
    let waited = Duration::from_secs(27 * 3600 + 4 * 60 + 5);
    assert_eq!((cluster.notices(), cluster.engine.figures().longest_wait), (Vec::new(), waited));

    tokio::time::advance(STUCK).await;
    cluster.works_again().await;
    assert_eq!(cluster.notices(), ["stuck owner: child"]);
    cluster.engine.add(Key::Check(Uid::new("owner-uid")));
    cluster.works().await;
    assert_eq!(cluster.notices(), [""; 0], "it was reported just now");
    assert!(cluster.engine.figures().longest_wait >= waited + STUCK);

    cluster.loses(&child);
    cluster.works().await;
    assert_eq!(cluster.notices(), ["end_foreground owner: changed"]);
    assert_eq!(cluster.engine.figures().longest_wait, Duration::ZERO);
}

/// kubernetes#139104: Velero restores objects with the uids of another cluster.
#[tokio::test(start_paused = true)]
async fn the_brake_pauses_resources_with_owners_never_seen() {
    let cluster = Cluster::with(OwnerGuards { brake_count: 3, ..OwnerGuards::default() });
    for name in ["a", "b", "c", "d", "e"] {
        cluster.shows(&pod(name, &[to(&pod("absent", &[]))]));
    }
    for name in ["x", "y"] {
        cluster.shows(&object("v1", "Secret", "ns1", name, &[to(&pod("absent", &[]))]));
    }
    cluster.works().await;
    assert_eq!(cluster.server.names().len(), 2, "{:?}", cluster.server.names());
    assert_eq!(cluster.notices().iter().filter(|notice| notice.starts_with("paused")).count(), 1);
    // An owner that was seen alive needs no brake.
    let owner = pod("owner", &[]);
    cluster.shows(&owner);
    cluster.shows(&pod("child", &[to(&owner)]));
    cluster.loses(&owner);
    cluster.works().await;
    assert!(!cluster.server.names().contains(&"child".to_owned()));
}

/// A webhook that is down for a while.
#[tokio::test(start_paused = true)]
async fn the_brake_counts_objects_that_were_deleted() {
    let cluster = Cluster::with(OwnerGuards { brake_count: 3, ..OwnerGuards::default() });
    let dependents = ["a", "b", "c"].map(|name| pod(name, &[to(&pod("absent", &[]))]));
    for dependent in &dependents {
        cluster.server.refuses("DELETE", dependent, true);
        cluster.shows_version(dependent);
    }
    for _ in 0..3 {
        cluster.works_again().await;
    }
    assert_eq!(cluster.server.names().len(), 3);
    // Each object has changed meanwhile, so its deletion as shown is a conflict.
    for dependent in &dependents {
        cluster.server.refuses("DELETE", dependent, false);
        cluster.server.put(dependent);
        cluster.engine.add(Key::Check(Uid::new(dependent["metadata"]["uid"].as_str().unwrap())));
    }
    cluster.works().await;
    assert_eq!(cluster.server.names(), [""; 0]);
    assert!(!cluster.notices().iter().any(|notice| notice.starts_with("paused")));
}

/// The dependent is checked for long, by another worker.
#[tokio::test(start_paused = true)]
async fn an_owner_is_not_read_during_a_dependent_check() {
    let cluster = Cluster::new();
    let owner = deleted_with("foregroundDeletion", pod("owner", &[]));
    let child = pod("child", &[to(&owner)]);
    cluster.shows_version(&pod("owner", &[]));
    cluster.shows_version(&child);
    cluster.shows_version(&owner);
    let checked = cluster.engine.queue.next().await.unwrap();
    assert_eq!(checked, Key::Check(Uid::new("child-uid")));
    for _ in 0..5 {
        assert_eq!(cluster.works_again().await, [""; 0]);
    }
    cluster.engine.process(&checked).await;
    let calls = cluster.works_again().await;
    assert_eq!(calls, ["GET pods/owner", "PATCH pods/owner"], "{calls:?}");
}
