//! `controller run` beside an etcd that is restored from a backup: what it knew before says nothing about what exists now (G1).

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use crate::rig::{NodeRig, Program, becomes_true, run};

async fn create(node: &NodeRig, name: &str, owner: Option<&str>) -> String {
    let owner = owner.map(|uid| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}));
    let owners: Vec<Value> = owner.into_iter().collect();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}});
    node.create_object(&object).await;
    maps(node).get(name).await.unwrap().metadata.uid.unwrap()
}

fn maps(node: &NodeRig) -> Api<ConfigMap> {
    Api::namespaced(node.kube(), "default")
}

async fn exists(node: &NodeRig, name: &str) -> bool {
    // The API server may be starting.
    maps(node).get_opt(name).await.is_ok_and(|found| found.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_owner_keeps_its_dependents() {
    let node = NodeRig::start_api_alone().await;
    let owner = create(&node, "owner", None).await;
    create(&node, "child", Some(&owner)).await;
    node.end(Program::ApiServer);
    node.end(Program::Etcd);
    run(node.enter("cp").args(["-a", "/var/lib/etcd", "/var/lib/backup"]));
    node.launch(Program::Etcd);
    node.begin(Program::ApiServer).await;

    let controller = node.controller("beside", &["--owners-only"]);
    assert!(becomes_true(async || controller.log().contains("collecting")).await, "{}", controller.log());
    maps(&node).delete("owner", &DeleteParams::background()).await.unwrap();
    assert!(becomes_true(async || !exists(&node, "child").await).await, "{}", controller.log());

    node.kill(Program::ApiServer);
    node.kill(Program::Etcd);
    run(node.enter("rm").args(["-r", "/var/lib/etcd"]));
    run(node.enter("mv").args(["/var/lib/backup", "/var/lib/etcd"]));
    node.launch(Program::Etcd);
    node.begin(Program::ApiServer).await;
    assert!(becomes_true(async || exists(&node, "owner").await).await, "the store is restored");

    create(&node, "late", Some(&owner)).await;
    create(&node, "dangling", Some("00000000-0000-4000-8000-000000000001")).await;
    assert!(becomes_true(async || !exists(&node, "dangling").await).await, "{}", controller.log());
    for name in ["owner", "child", "late"] {
        assert!(exists(&node, name).await, "{name} is lost\n{}", controller.log());
    }
    assert_eq!(controller.terminate(), 0);
}
