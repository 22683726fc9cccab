//! What is left of objects that do not exist any more: nothing.

use super::*;

/// A pod whose owner is of a kind that is not served.
fn of_unknown(name: &str) -> Value {
    let owner =
        json!({"apiVersion": "example.com/v1", "kind": "Unknown", "name": name, "uid": format!("{name}-owner")});
    pod(name, &[owner])
}

#[tokio::test(start_paused = true)]
async fn no_key_of_a_deleted_object_waits() {
    let cluster = Cluster::new();
    let pods: Vec<_> = (0..5).map(|number| of_unknown(&format!("p{number}"))).collect();
    for pod in &pods {
        cluster.shows(pod);
    }
    cluster.works().await;
    let waiting = cluster.waiting();
    assert!(waiting >= 5, "{waiting} keys wait for another discovery");
    cluster.loses(&pods[0]);
    assert!(cluster.waiting() < waiting);
    for pod in &pods[1..] {
        cluster.loses(pod);
    }
    cluster.works().await;
    assert_eq!((cluster.waiting(), cluster.engine.state().parked()), (0, 0));
    assert!(cluster.failures().is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_failure_of_a_deleted_object_is_left() {
    let cluster = Cluster::new();
    let child = pod("child", &[to(&pod("absent", &[]))]);
    cluster.server.refuses("DELETE", &child, true);
    cluster.shows(&child);
    cluster.works().await;
    assert_eq!((cluster.failures().len(), cluster.waiting()), (1, 1));
    cluster.loses(&child);
    assert_eq!((cluster.failures().len(), cluster.waiting()), (0, 0));
}
