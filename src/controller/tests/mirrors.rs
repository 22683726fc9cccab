//! Several objects with one uid, as an aggregated API shows them that mirrors core objects: nothing that the mirror shows or
//! lacks is a proof about the object of another resource (G1), and it decides about no other object (G3).

use super::*;

const MIRROR: (&str, &str) = ("mirror.example.com/v1", "Mirror");

/// The object of the mirror with the name and the uid of a pod.
fn mirror(pod: &Value, owners: &[Value]) -> Value {
    let name = pod["metadata"]["name"].as_str().unwrap();
    object(MIRROR.0, MIRROR.1, "ns1", name, owners)
}

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.serve(&[&SERVED[..], &[(MIRROR.0, "mirrors", MIRROR.1, true)]].concat());
    cluster
}

/// Shows an object and its mirror, in both orders.
fn both(cluster: &Cluster, mirror_first: bool, object: &Value, mirror: &Value) {
    let (first, second) = if mirror_first { (mirror, object) } else { (object, mirror) };
    cluster.shows_version(first);
    cluster.shows_version(second);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_mirror_deletes_no_dependents_of_the_owner() {
    for mirror_first in [true, false] {
        let cluster = cluster();
        let owner = pod("owner", &[]);
        both(&cluster, mirror_first, &owner, &mirror(&owner, &[]));
        cluster.shows_version(&pod("child", &[to(&owner)]));
        cluster.works().await;
        cluster.loses(&mirror(&owner, &[]));
        cluster.works().await;
        assert_eq!(cluster.server.names(), ["child", "owner"], "mirror first: {mirror_first}");
        // The owner itself is still followed.
        cluster.loses(&owner);
        cluster.works().await;
        assert_eq!(cluster.server.names(), [""; 0], "mirror first: {mirror_first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_lacks_the_mirror_deletes_no_dependents() {
    for mirror_first in [true, false] {
        let cluster = cluster();
        let owner = pod("owner", &[]);
        let shown = mirror(&owner, &[]);
        both(&cluster, mirror_first, &owner, &shown);
        cluster.shows_version(&pod("child", &[to(&owner)]));
        cluster.works().await;
        cluster.server.remove(&shown);
        cluster.relists(&shown, &[]);
        cluster.works().await;
        assert_eq!(cluster.server.names(), ["child", "owner"], "mirror first: {mirror_first}");
        assert_eq!(cluster.graph(&["owner-uid"]), ["real Pod.v1/owner in namespace ns1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn owners_that_only_the_mirror_shows_delete_nothing() {
    for mirror_first in [true, false] {
        let cluster = cluster();
        let (owner, other) = (pod("owner", &[]), pod("other", &[]));
        cluster.shows_version(&owner);
        cluster.shows_version(&other);
        let child = pod("child", &[to(&owner)]);
        both(&cluster, mirror_first, &child, &mirror(&child, &[to(&other)]));
        cluster.loses(&other);
        cluster.works().await;
        assert_eq!(cluster.server.names(), ["child", "owner", "child"], "mirror first: {mirror_first}");
    }
}

/// As `ingresses` of two groups in Kubernetes 1.20.
#[tokio::test(start_paused = true)]
async fn garbage_in_two_resources_is_deleted_after_a_read() {
    for mirror_first in [true, false] {
        let cluster = cluster();
        let owner = pod("owner", &[]);
        cluster.shows_version(&owner);
        let child = pod("child", &[to(&owner)]);
        both(&cluster, mirror_first, &child, &mirror(&child, &[to(&owner)]));
        cluster.loses(&owner);
        let calls = cluster.works().await;
        let deleted = calls.iter().position(|call| call.starts_with("DELETE")).expect("it is deleted");
        assert!(calls[..deleted].contains(&"GET pods/child".to_owned()), "{calls:?}");
        assert!(calls[..deleted].contains(&"GET mirror.example.com/v1/mirrors/child".to_owned()), "{calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn orphaning_releases_a_dependent_in_each_resource() {
    for mirror_first in [true, false] {
        let cluster = cluster();
        let owner = with(pod("owner", &[]), "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        let owner = with(owner, "finalizers", json!(["orphan"]));
        let child = pod("child", &[to(&owner)]);
        both(&cluster, mirror_first, &child, &mirror(&child, &[]));
        cluster.shows_version(&owner);
        cluster.works().await;
        assert_eq!(cluster.server.get(&child).unwrap()["metadata"]["ownerReferences"], json!([]));
    }
}
