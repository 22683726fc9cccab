//! What proves that an owner is absent, and for how long (G1).

use super::*;

/// A cluster with an owner and its dependent, as monitors show them.
fn family() -> (Cluster, Value, Value) {
    let cluster = Cluster::new();
    let owner = pod("owner", &[]);
    let child = pod("child", &[to(&owner)]);
    cluster.shows_version(&owner);
    cluster.shows_version(&child);
    (cluster, owner, child)
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_a_relist_lacks_is_read() {
    for lives in [true, false] {
        let (cluster, owner, child) = family();
        if !lives {
            cluster.server.remove(&owner);
        }
        cluster.relists(&owner, &[&child]);
        let calls = cluster.works().await;
        assert!(calls.contains(&"GET pods/owner".to_owned()), "{calls:?}");
        assert_eq!(cluster.server.names().contains(&"child".to_owned()), lives, "{calls:?}");
    }
}

/// The owner is deleted, then an older state of the whole cluster is restored.
#[tokio::test(start_paused = true)]
async fn a_restored_owner_keeps_its_dependents() {
    let steps: [fn(&Cluster, &Value, &Value); 3] = [
        |cluster, _, _| cluster.engine.apply(Event::Interrupted),
        |cluster, _, _| cluster.relists(&object("v1", "Secret", "ns1", "any", &[]), &[]),
        |cluster, _, child| cluster.monitor_shows(&with(child.clone(), "resourceVersion", json!("1"))),
    ];
    for (at, step) in steps.into_iter().enumerate() {
        let (cluster, owner, child) = family();
        cluster.loses(&owner);
        cluster.server.put(&owner);
        step(&cluster, &owner, &child);
        let calls = cluster.works().await;
        assert_eq!(cluster.server.names(), ["child", "owner"], "step {at}: {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_absence_counts_for_half_a_minute() {
    for (seconds, is_read) in [(29, false), (31, true)] {
        let (cluster, owner, _) = family();
        cluster.loses(&owner);
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let calls = cluster.works().await;
        assert_eq!(calls.contains(&"GET pods/owner".to_owned()), is_read, "{seconds}: {calls:?}");
        assert_eq!(cluster.server.names(), [""; 0]);
    }
}

/// The memory of an orphaned owner outlives a restore.
#[tokio::test(start_paused = true)]
async fn a_restored_owner_that_was_orphaned_keeps_its_dependents() {
    let cluster = Cluster::new();
    let owner = pod("owner", &[]);
    cluster.shows(&deleted_with("orphan", owner.clone()));
    cluster.works().await;
    cluster.server.put(&owner);
    let child = pod("child", &[to(&owner)]);
    cluster.shows(&child);
    cluster.engine.add(Key::Check(Uid::new("child-uid")));
    cluster.works().await;
    assert_eq!(cluster.server.get(&child).unwrap()["metadata"]["ownerReferences"], json!([to(&owner)]));
}
