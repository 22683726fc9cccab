//! Objects and references without a uid, APIs that ignore preconditions (G3), and objects of a version that is dropped.

use super::*;

const OTHER: &str = "other.example.com/v1";

fn of_other(name: &str, owners: &[Value]) -> Value {
    object(OTHER, "Widget", "ns1", name, owners)
}

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.serve(&[&SERVED[..], &[(OTHER, "widgets", "Widget", true)]].concat());
    cluster
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_uid_is_never_changed() {
    let cluster = cluster();
    let owner = pod("owner", &[]);
    cluster.shows_version(&owner);
    cluster.shows_version(&with(of_other("a", &[to(&owner)]), "uid", json!("")));
    cluster.shows_version(&with(of_other("b", &[]), "uid", json!("")));
    cluster.loses(&owner);
    cluster.works().await;
    assert_eq!(cluster.server.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_reference_without_a_uid_keeps_its_object() {
    let cluster = cluster();
    let owner = with(pod("owner", &[]), "uid", json!(""));
    cluster.server.put(&pod("owner", &[]));
    cluster.shows_version(&of_other("a", &[to(&owner), to(&pod("absent", &[]))]));
    cluster.works().await;
    cluster.engine.add(Key::Check(Uid::new("a-uid")));
    cluster.works().await;
    assert_eq!(cluster.server.names(), ["owner", "a"]);
    assert_eq!(cluster.failures()[0].cause, "the reference has no uid");
}

/// The watch lags behind: the object has no owner any more.
#[tokio::test(start_paused = true)]
async fn objects_of_apis_without_preconditions_are_read_first() {
    let cluster = cluster();
    cluster.server.ignores_preconditions();
    let owner = pod("owner", &[]);
    cluster.shows_version(&owner);
    cluster.shows_version(&of_other("a", &[to(&owner)]));
    cluster.server.put(&of_other("a", &[]));
    cluster.loses(&owner);
    assert_eq!(cluster.works().await, ["GET other.example.com/v1/widgets/a"]);
    assert_eq!(cluster.server.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_deleted_as_it_was_shown() {
    let cluster = cluster();
    cluster.engine.state().resources.defines("widgets.other.example.com", true);
    let owner = pod("owner", &[]);
    cluster.shows_version(&owner);
    cluster.shows_version(&of_other("a", &[to(&owner)]));
    cluster.loses(&owner);
    assert_eq!(cluster.works().await, ["DELETE other.example.com/v1/widgets/a"]);
}

/// An upgrade of a custom resource that drops the version that was preferred.
#[tokio::test(start_paused = true)]
async fn objects_of_a_dropped_version_are_deleted_through_another() {
    let cluster = cluster();
    let owner = pod("owner", &[]);
    let new = "other.example.com/v2";
    let moved = |owners: &[Value]| object(new, "Widget", "ns1", "a", owners);
    cluster.shows_version(&owner);
    cluster.shows_version(&of_other("a", &[to(&owner)]));
    cluster.server.remove(&of_other("a", &[]));
    cluster.server.put(&moved(&[to(&owner)]));
    cluster.serve(&[&SERVED[..], &[(new, "widgets", "Widget", true)]].concat());
    cluster.loses(&owner);
    assert_eq!(cluster.works().await, [""; 0]);
    assert_eq!(cluster.failures()[0].cause, "the API server does not serve Widget.v1.other.example.com");
    cluster.relists(&moved(&[]), &[&moved(&[])]);
    cluster.has_listed(&moved(&[]));
    cluster.works().await;
    assert_eq!((cluster.server.names(), cluster.failures()), (vec![], vec![]));
}
