//! What the objects of one tenant cost the others (G5).

use std::sync::Arc;

use super::*;
use crate::model::MOST_OWNERS;

/// A pod whose owners never existed.
fn with_owners(namespace: &str, name: &str, count: usize) -> Value {
    let owners: Vec<_> = (0..count).map(|number| to(&pod(&format!("{name}-owner-{number}"), &[]))).collect();
    object("v1", "Pod", namespace, name, &owners)
}

#[tokio::test(start_paused = true)]
async fn an_object_with_too_many_owners_is_kept() {
    // The guesses that the references name are verified too, and 500 of these proofs are remembered.
    for (count, is_kept) in [(MOST_OWNERS, false), (3 * MOST_OWNERS, true)] {
        let cluster = Cluster::new();
        let child = with_owners("ns1", "child", count);
        cluster.server.put(&child);
        cluster.monitor_shows(&child);
        cluster.engine.add(Key::Check(Uid::new("child-uid")));
        while let Some(key) = tokio::time::timeout(Duration::ZERO, cluster.engine.queue.next()).await.ok().flatten() {
            cluster.engine.process(&key).await;
        }
        assert_eq!(cluster.server.get(&child).is_some(), is_kept, "{count}");
        let reads_child = cluster.server.calls().contains(&"GET pods/child".to_owned());
        assert!(!is_kept || !reads_child, "its size is no reason to read it again and again");
        let causes: Vec<_> = cluster.failures().into_iter().map(|failure| failure.cause).collect();
        let expected = "400 owner references more than are read: at most 200 of an object, and none that is invalid or \
                        longer than names are";
        let expected = is_kept.then_some(expected);
        assert_eq!(causes.iter().map(String::as_str).collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
    }
}

/// Twenty workers, a hundred calls a second, and 12,000 owners to read before the turn of the last object.
#[tokio::test(start_paused = true)]
async fn slow_objects_of_one_namespace_delay_another_by_seconds() {
    let cluster = Cluster::new();
    let slow: Vec<_> = (0..60).map(|number| with_owners("ns1", &format!("slow-{number}"), MOST_OWNERS)).collect();
    let ordinary = with_owners("ns2", "ordinary", 1);
    for object in slow.iter().chain([&ordinary]) {
        cluster.server.put(object);
        cluster.monitor_shows(&cluster.server.get(object).unwrap());
        cluster.engine.add(Key::Check(Uid::new(object["metadata"]["uid"].as_str().unwrap())));
    }
    let cluster = Arc::new(cluster);
    cluster.engine.queue.share_out(20);
    let begun = tokio::time::Instant::now();
    for _ in 0..20 {
        let cluster = Arc::clone(&cluster);
        tokio::spawn(async move { cluster.engine.work().await });
    }
    let mut waited = 0;
    while cluster.server.get(&ordinary).is_some() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        waited += 1;
        assert!(waited < 100, "the ordinary object waits for the slow ones");
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(slow.iter().any(|object| cluster.server.get(object).is_some()), "some are still being checked");
}

#[tokio::test(start_paused = true)]
async fn what_is_parked_is_forgotten_with_its_object() {
    let cluster = Cluster::new();
    let unserved = object("gone.example.com/v1", "Gone", "ns1", "owner", &[]);
    let child = pod("child", &[to(&unserved)]);
    cluster.shows(&child);
    cluster.engine.add(Key::Check(Uid::new("child-uid")));
    cluster.works().await;
    assert!(cluster.engine.figures().parked > 0);
    cluster.loses(&child);
    tokio::time::advance(Duration::from_mins(6)).await;
    while let Ok(Some(key)) = tokio::time::timeout(Duration::ZERO, cluster.engine.queue.next()).await {
        cluster.engine.process(&key).await;
    }
    assert_eq!(cluster.engine.figures().parked, 0);
}
