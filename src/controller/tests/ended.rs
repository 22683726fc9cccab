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
    let attention = cluster.engine.attention().join("\n");
    assert!(
        attention.contains("Unknown.v1.example.com/p0 in namespace ns1, Unknown.v1.example.com/p1 "),
        "{attention}"
    );
    assert!(attention.ends_with(&format!("and {} more", waiting - 3)), "{attention}");
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
    let attention = cluster.engine.attention().join("\n");
    assert!(attention.contains("objects that fail: 1, the longest for 0s: Pod.v1/child in namespace ns1 (cannot "));
    cluster.loses(&child);
    assert_eq!((cluster.failures().len(), cluster.waiting()), (0, 0));
}

/// Two kinds name one uid, and one of them is not served: only its reference cannot be resolved.
#[tokio::test(start_paused = true)]
async fn only_a_reference_of_an_unknown_kind_is_unresolvable() {
    for unknown_first in [true, false] {
        let cluster = Cluster::new();
        let of_unknown = of_unknown("unknown");
        let served = json!({"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": "unknown-owner"});
        let of_pod = pod("served", &[served]);
        let mut shown = [&of_unknown, &of_pod];
        if !unknown_first {
            shown.reverse();
        }
        for object in shown {
            cluster.shows(object);
        }
        cluster.works().await;
        let notices = cluster.notices();
        assert!(notices.contains(&"not served unknown: Unknown.v1.example.com".to_owned()), "{notices:?}");
        assert!(!notices.iter().any(|notice| notice.starts_with("not served served")), "{notices:?}");
    }
}
