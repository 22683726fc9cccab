//! Deletions without a live read: how many calls they make, and what they never delete.

use super::*;

/// A pod, and the pod that owns it.
fn owned(name: &str, owner: &Value) -> Value {
    pod(name, &[to(owner)])
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_a_deleted_owner_costs_one_call() {
    let cluster = Cluster::new();
    let owner = pod("owner", &[]);
    cluster.shows_version(&owner);
    let dependents = ["a", "b"].map(|name| owned(name, &owner));
    for dependent in &dependents {
        cluster.shows_version(dependent);
    }
    cluster.loses(&owner);
    let mut calls = cluster.works().await;
    calls.sort();
    assert_eq!(calls, ["DELETE pods/a", "DELETE pods/b"]);
    assert!(cluster.server.names().is_empty());
}

/// The monitor lags behind: the object has a living owner by now.
#[tokio::test(start_paused = true)]
async fn an_object_changed_since_its_event_is_kept() {
    let cluster = Cluster::new();
    let (owner, adopter) = (pod("owner", &[]), pod("adopter", &[]));
    cluster.shows_version(&owner);
    cluster.shows_version(&adopter);
    let dependent = owned("a", &owner);
    cluster.shows_version(&dependent);
    cluster.server.put(&owned("a", &adopter));
    cluster.loses(&owner);
    assert_eq!(cluster.works().await, ["DELETE pods/a", "GET pods/a", "GET pods/adopter"]);
    assert_eq!(cluster.server.names(), ["a", "adopter"]);
}

/// Another object of the same name is not the one that was shown.
#[tokio::test(start_paused = true)]
async fn an_object_of_the_same_name_is_not_deleted() {
    let cluster = Cluster::new();
    let owner = pod("owner", &[]);
    cluster.shows_version(&owner);
    cluster.shows_version(&owned("a", &owner));
    cluster.server.put(&with(owned("a", &owner), "uid", json!("another-uid")));
    cluster.loses(&owner);
    assert_eq!(cluster.works().await, ["DELETE pods/a", "GET pods/a"]);
    assert_eq!(cluster.server.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_not_proven_absent_is_read_first() {
    let cluster = Cluster::new();
    let (owner, other) = (pod("owner", &[]), pod("other", &[]));
    cluster.shows_version(&owner);
    cluster.server.put(&other);
    cluster.shows_version(&pod("a", &[to(&owner), to(&other)]));
    cluster.loses(&owner);
    let calls = cluster.works().await;
    assert!(!calls.contains(&"DELETE pods/a".to_owned()), "{calls:?}");
    assert_eq!(cluster.server.names(), ["a", "other"]);
}

/// The finalizer of a client decides what becomes of the dependents.
#[tokio::test(start_paused = true)]
async fn an_object_with_a_gc_finalizer_is_read_first() {
    for finalizer in ["orphan", "foregroundDeletion"] {
        let cluster = Cluster::new();
        let owner = pod("owner", &[]);
        cluster.shows_version(&owner);
        cluster.shows_version(&with(owned("a", &owner), "finalizers", json!([finalizer])));
        cluster.loses(&owner);
        assert_eq!(cluster.works().await[..2], ["GET pods/a", "DELETE pods/a"], "{finalizer}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_brake_counts_deletions_without_a_read() {
    let guards = OwnerGuards { brake_count: 1, ..OwnerGuards::default() };
    let cluster = Cluster::with(guards);
    let never_seen = pod("never-seen", &[]);
    for name in ["a", "b", "c"] {
        cluster.shows_version(&owned(name, &never_seen));
    }
    cluster.works().await;
    assert!(cluster.notices().contains(&"paused pods".to_owned()));
    assert!(!cluster.server.names().is_empty());
}

/// An aggregated API or a proxy accepts the deletion by a status, and does nothing.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_accepted_and_ignored_is_repeated() {
    let cluster = Cluster::new();
    let owner = pod("owner", &[]);
    cluster.shows_version(&owner);
    let dependent = owned("a", &owner);
    cluster.shows_version(&dependent);
    cluster.server.answers(&dependent, 200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}));
    cluster.loses(&owner);
    assert_eq!(cluster.works().await, ["DELETE pods/a"]);
    for (seconds, calls) in [(29, vec![]), (1, vec!["DELETE pods/a"])] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        cluster.engine.check_unproven();
        assert_eq!(cluster.works().await, calls, "{seconds}");
    }
    cluster.loses(&dependent);
    tokio::time::advance(Duration::from_secs(30)).await;
    cluster.engine.check_unproven();
    assert_eq!(cluster.works().await, [""; 0], "its monitor has shown its end");
}
