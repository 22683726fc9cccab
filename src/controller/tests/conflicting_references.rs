//! The scenarios of `TestConflictingData`: dependents that disagree about their owner. The calls are those of upstream; a
//! guess that no monitor has shown waits with a back-off instead of at the end of the queue.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_namespaced_dependent_may_have_a_cluster_scoped_owner() {
    let cluster = Cluster::new();
    let node = object("v1", "Node", "", "node1", &[]);
    cluster.server.put(&node);
    cluster.shows(&pod("good", &[to(&node)]));
    assert_eq!(cluster.graph(&["node1-uid"]), ["guess Node.v1/node1 in namespace ns1"], "its scope is not known yet");
    assert_eq!(cluster.works().await, ["GET nodes/node1"]);
    assert_eq!(cluster.waiting(), 1, "until a monitor shows the owner");
    cluster.shows(&node);
    assert_eq!(cluster.graph(&["node1-uid", "good-uid"]), ["real Node.v1/node1", "real Pod.v1/good in namespace ns1"]);
    assert!(cluster.works_again().await.is_empty(), "a monitor shows the owner, so it needs no check");
    assert_eq!((cluster.waiting(), cluster.server.names().len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_dependent_outside_its_owners_namespace_is_deleted() {
    let cluster = Cluster::new();
    let owner = object("v1", "Pod", "ns2", "owner", &[]);
    cluster.server.put(&owner);
    cluster.shows(&pod("bad", &[to(&owner)]));
    cluster.shows(&owner);
    assert_eq!(cluster.notices(), ["wrong namespace bad"]);
    let calls = cluster.works().await;
    assert!(calls.ends_with(&["GET pods/bad", "GET pods/owner", "DELETE pods/bad"].map(str::to_owned)), "{calls:?}");
    cluster.loses(&pod("bad", &[]));
    assert_eq!(cluster.graph(&["owner-uid", "bad-uid"]), ["real Pod.v1/owner in namespace ns2"]);
    assert_eq!(cluster.absent(), ["Pod.v1/owner in namespace ns1"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_dependent_with_namespaced_owner_is_kept() {
    let cluster = Cluster::new();
    let (owner, node) = (pod("owner", &[]), |owner: &Value| object("v1", "Node", "", "bad", &[to(owner)]));
    cluster.shows(&owner);
    cluster.shows(&node(&owner));
    assert_eq!(cluster.notices(), ["wrong namespace bad"]);
    assert_eq!(cluster.works().await, ["GET nodes/bad"], "no proof of absence can follow");
    assert_eq!((cluster.waiting(), cluster.server.names().len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn owners_in_another_served_version_are_the_same() {
    let cluster = Cluster::new();
    let (version, beta) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1beta1");
    let (role, old) = (object(version, "Role", "ns1", "role1", &[]), object(beta, "Role", "ns1", "role1", &[]));
    let good = pod("good", &[to(&old)]);
    cluster.server.put(&role);
    cluster.server.put(&old);
    cluster.shows(&good);
    let read = "GET rbac.authorization.k8s.io/v1beta1/roles/role1";
    assert_eq!(cluster.works().await, [read]);
    cluster.shows(&role);
    let calls = cluster.works().await;
    assert!(calls.ends_with(&["GET pods/good", read].map(str::to_owned)), "{calls:?}");
    assert_eq!(cluster.server.names().len(), 3, "it is kept");

    cluster.server.remove(&old);
    cluster.loses(&role);
    assert_eq!(cluster.works().await, ["GET pods/good", read, "DELETE pods/good"]);
    cluster.loses(&good);
    assert!(cluster.graph(&["role1-uid", "good-uid"]).is_empty() && cluster.server.names().is_empty());
    assert_eq!(cluster.absent().len(), 2, "in both versions: {:?}", cluster.absent());
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_unserved_version_is_kept() {
    let cluster = Cluster::new();
    let old = object("extensions/v1beta1", "Deployment", "ns1", "deployment1", &[]);
    let owner = object("apps/v1", "Deployment", "ns1", "deployment1", &[]);
    cluster.shows(&pod("child", &[to(&old)]));
    assert!(cluster.works().await.is_empty(), "no path is known for the guess");
    cluster.shows(&owner);
    assert_eq!(cluster.works().await.last().unwrap(), "GET pods/child", "and no owner is read");
    assert!(cluster.notices().contains(&"not served child: Deployment.v1beta1.extensions".to_owned()));
    cluster.loses(&owner);
    assert_eq!(cluster.works().await, ["GET pods/child"]);
    assert_eq!(cluster.server.names(), ["child"], "its owner is not proven absent");

    // Once the version is served, its answer is a proof.
    let served = [&SERVED[..], &[("extensions/v1beta1", "deployments", "Deployment", true)]].concat();
    cluster.serve(&served);
    let calls = cluster.works().await;
    assert_eq!(calls, ["GET pods/child", "GET extensions/v1beta1/deployments/deployment1", "DELETE pods/child"]);
}

#[tokio::test(start_paused = true)]
async fn each_dependent_is_decided_by_its_own_owner_version() {
    let cluster = Cluster::new();
    let old = object("extensions/v1beta1", "Deployment", "ns1", "deployment1", &[]);
    let owner = object("apps/v1", "Deployment", "ns1", "deployment1", &[]);
    cluster.shows(&pod("kept", &[to(&old)]));
    cluster.shows(&pod("deleted", &[to(&owner)]));
    let calls = cluster.works().await;
    assert_eq!(calls, ["GET pods/deleted", "GET apps/v1/deployments/deployment1", "DELETE pods/deleted"]);
    assert_eq!(cluster.server.names(), ["kept"]);
    assert_eq!(
        cluster.graph(&["deployment1-uid"]),
        ["guess Deployment.v1beta1.extensions/deployment1 in namespace ns1"]
    );
    assert_eq!(cluster.waiting(), 1, "it waits for discovery");
}

/// Both orders: the dependent with the wrong kind comes first, or the one with the right kind.
#[tokio::test(start_paused = true)]
async fn a_dependent_naming_the_wrong_owner_kind_is_deleted() {
    for bad_first in [true, false] {
        let cluster = Cluster::new();
        let owner = object("apps/v1", "Deployment", "ns1", "owner", &[]);
        let secret = object("v1", "Secret", "ns1", "owner", &[]);
        let (bad, good) = (pod("bad", &[to(&secret)]), pod("good", &[to(&owner)]));
        cluster.server.put(&owner);
        let (first, second) = if bad_first { (&bad, &good) } else { (&good, &bad) };
        cluster.shows(first);
        cluster.shows(second);
        let calls = cluster.works().await;
        assert_eq!(calls.iter().filter(|call| call.starts_with("DELETE")).collect::<Vec<_>>(), ["DELETE pods/bad"]);
        cluster.loses(&bad);
        cluster.shows(&owner);
        let expected = ["real Deployment.v1.apps/owner in namespace ns1", "real Pod.v1/good in namespace ns1"];
        assert_eq!(cluster.graph(&["owner-uid", "bad-uid", "good-uid"]), expected);
        assert_eq!(cluster.absent(), ["Secret.v1/owner in namespace ns1"], "bad first: {bad_first}");
        assert_eq!(cluster.server.names(), ["good", "owner"], "bad first: {bad_first}");
    }
}

/// kubernetes#98040, in both orders.
#[tokio::test(start_paused = true)]
async fn cluster_scoped_dependents_hide_no_missing_namespaced_owners() {
    for cluster_scoped_first in [true, false] {
        let cluster = Cluster::new();
        let owner = pod("owner", &[]);
        let (bad, good) = (object("v1", "Node", "", "bad", &[to(&owner)]), pod("good", &[to(&owner)]));
        let (first, second) = if cluster_scoped_first { (&bad, &good) } else { (&good, &bad) };
        cluster.shows(first);
        cluster.shows(second);
        let calls = cluster.works().await;
        let expected = ["GET pods/good", "GET pods/owner", "DELETE pods/good"];
        assert!(expected.iter().all(|call| calls.contains(&(*call).to_owned())), "{cluster_scoped_first}: {calls:?}");
        assert_eq!(cluster.server.names(), ["bad"], "{cluster_scoped_first}");
        cluster.loses(&good);
        // The next guess has no namespace, so there is nothing to read.
        let again = if cluster.waiting() == 0 { cluster.works().await } else { cluster.works_again().await };
        assert_eq!((again, cluster.waiting()), (vec![], 0), "{cluster_scoped_first}");
    }
}
