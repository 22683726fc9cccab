//! Text of a tenant is never a part of a path, and no answer says where a change goes (G2).

use super::*;
use crate::testing::fake_api::failure;

/// Names that are no single segment of a path. A server that follows them reads something else.
const NAMES: [&str; 8] =
    ["evil:8080/proxy/x", "x/configmaps?watch=true", "..", ".", "", "a%2fb", "../secrets/victim", "a\u{0}/b"];

/// The tenant answers in place of the API server: no such object.
fn proven_by_the_tenant(cluster: &Cluster, owner: &Value) {
    let details = json!({"name": owner["metadata"]["name"], "kind": "pods"});
    cluster.server.answers(owner, 404, failure(404, "NotFound", &details));
}

#[tokio::test(start_paused = true)]
async fn an_owner_named_by_path_is_never_requested() {
    for name in NAMES {
        let (cluster, owner) = (Cluster::new(), pod(name, &[]));
        proven_by_the_tenant(&cluster, &owner);
        cluster.shows_version(&pod("child", &[to(&owner)]));
        let calls = cluster.works().await;
        assert!(calls.iter().all(|call| call == "GET pods/child"), "{name:?}: {calls:?}");
        assert_eq!(cluster.server.names(), ["child"], "{name:?}");
        assert!(cluster.failures().iter().any(|failure| &*failure.object.name == "child"), "{name:?}: reported");
    }
}

/// It is not remembered as absent either, and not as one whose dependents were released.
#[tokio::test(start_paused = true)]
async fn a_deleted_owner_proves_nothing_for_another_path() {
    let (cluster, owner) = (Cluster::new(), pod("owner", &[]));
    let mut path = to(&owner);
    path["name"] = "owner/status".into();
    cluster.shows_version(&owner);
    cluster.shows_version(&pod("child", &[path]));
    cluster.works().await;
    cluster.loses(&owner);
    let calls = cluster.works().await;
    assert!(calls.iter().all(|call| call == "GET pods/child"), "{calls:?}");
    assert_eq!(cluster.server.names(), ["child"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_something_else_changes_nothing() {
    for (field, value) in [
        ("namespace", "kube-system/secrets/victim?x="),
        ("namespace", "kube-system"),
        ("name", "victim"),
        ("kind", "Secret"),
        ("apiVersion", "evil.example.com/v1"),
    ] {
        let (cluster, child) = (Cluster::new(), pod("child", &[to(&pod("absent", &[]))]));
        cluster.shows(&child);
        let mut other = cluster.server.get(&child).unwrap();
        let at = if other.get(field).is_some() { &mut other } else { &mut other["metadata"] };
        at[field] = value.into();
        cluster.server.answers(&child, 200, other);
        let calls = cluster.works().await;
        assert!(calls.iter().all(|call| call.starts_with("GET pods/")), "{field} {value}: {calls:?}");
        assert_eq!(cluster.failures().len(), 1, "{field} {value}");
    }
}

/// The role `system:node` and names with other characters exist.
#[tokio::test(start_paused = true)]
async fn a_name_with_unusual_characters_is_escaped() {
    let cluster = Cluster::new();
    let role = object("rbac.authorization.k8s.io/v1", "Role", "ns1", "system:a b?#\n", &[to(&pod("absent", &[]))]);
    cluster.shows(&role);
    let calls = cluster.works().await;
    let read = "GET rbac.authorization.k8s.io/v1/roles/system:a%20b%3F%23%0A".to_owned();
    assert!(calls.contains(&read), "{calls:?}");
}
