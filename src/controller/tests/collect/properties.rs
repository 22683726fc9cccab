//! A plan predicts what a collection does.

use proptest::prelude::*;

use super::*;
use crate::model::{Identity, OwnerReference};
use crate::testing::any_forest::{KINDS, any_forest};

/// A server with these objects. The lists of the resources `unlisted` fail.
fn server_of(objects: &[(Identity, ObjectMeta)], unlisted: &[bool]) -> FakeApi {
    let resource = |&(version, kind, namespaced): &(&str, &str, bool)| {
        resource_of(version, &format!("{}s", kind.to_lowercase()), kind, namespaced, true)
    };
    let served: Vec<_> = KINDS[..4].iter().map(resource).collect();
    let server = FakeApi::serving(served.clone());
    for (resource, _) in served.iter().zip(unlisted).filter(|(_, is_unlisted)| **is_unlisted) {
        server.fails_lists(resource, &["ns0", "ns1"]);
    }
    for (identity, meta) in objects {
        server.put(&sent(identity, meta));
    }
    server
}

/// Returns an object as the API server sends it.
fn sent(identity: &Identity, meta: &ObjectMeta) -> Value {
    let owner = |OwnerReference { kind, name, uid, blocking, .. }: &OwnerReference| json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid, "blockOwnerDeletion": blocking});
    let ObjectMeta { namespace, name, uid, finalizers, deletion_timestamp, .. } = meta;
    let owners: Vec<_> = meta.owners.iter().map(owner).collect();
    let metadata = json!({"namespace": namespace, "name": name, "uid": uid, "finalizers": finalizers,
        "deletionTimestamp": deletion_timestamp, "ownerReferences": owners});
    json!({"apiVersion": identity.kind.api_version, "kind": identity.kind.kind, "metadata": metadata})
}

proptest! {
    #[test]
    fn a_collection_does_what_its_plan_predicts(
        objects in any_forest(),
        unlisted in prop::collection::vec(prop::bool::weighted(0.1), 4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let server = server_of(&objects, &unlisted);
        let (plan, report) =
            runtime.block_on(async { (planned_with_namespaces(&server).await, collects(&server, &options(), 0).await) });
        prop_assert!(!report.interrupted);
        let (planned, namespaces) = plan;
        let is_content = |done: &String| namespaces.iter().any(|it| done.contains(&format!(" in namespace {} ", it.name)));
        let done: Vec<_> = done(&report).into_iter().filter(|done| planned.contains(done) || !is_content(done)).collect();
        prop_assert_eq!(done, planned, "{:#?}", report);
    }
}
