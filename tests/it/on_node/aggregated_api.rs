//! `controller run` and `controller collect` beside a real aggregated API, which shows core objects with their uids, as the
//! projects of `OpenShift` do (G1, G3).

mod mirror;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use self::mirror::{GROUP, MirrorApi};
use crate::rig::{NodeRig, becomes_true};

fn maps(node: &NodeRig) -> Api<ConfigMap> {
    Api::namespaced(node.kube(), "default")
}

fn to(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

async fn create(node: &NodeRig, name: &str, owners: &[Value]) -> String {
    let map = serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": owners}})).unwrap();
    maps(node).create(&PostParams::default(), &map).await.unwrap().metadata.uid.unwrap()
}

async fn exists(node: &NodeRig, name: &str) -> bool {
    maps(node).get_opt(name).await.unwrap().is_some()
}

/// Has the API server serve the mirror, and waits until it does.
async fn register(node: &NodeRig, mirror: &MirrorApi) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mirror", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    node.create_object(&service).await;
    let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true,
            "service": {"name": "mirror", "namespace": "default", "port": mirror.port()}}});
    node.create_object(&api).await;
    let served = async || {
        let request = http::Request::get(format!("/apis/{GROUP}/v1/mirrors")).body(Vec::new()).unwrap();
        node.kube().request_text(request).await.is_ok()
    };
    assert!(becomes_true(served).await, "the API server does not serve the mirror");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_deletes_nothing_that_has_an_owner() {
    let node = NodeRig::start_api_alone().await;
    let owner = create(&node, "owner", &[]).await;
    let child = create(&node, "child", &[to("owner", &owner)]).await;
    let absent = to("absent", "00000000-0000-4000-8000-000000000001");
    // The mirror shows the owner, and the child with another owner, which is absent.
    let mirror = MirrorApi::start(&[("owner", &owner, &[]), ("child", &child, std::slice::from_ref(&absent))]).await;
    register(&node, &mirror).await;

    let controller = node.controller("beside", &["--owners-only"]);
    assert!(becomes_true(async || mirror.watches() > 0).await, "{}", controller.log());
    mirror.deletes("owner");
    create(&node, "first", std::slice::from_ref(&absent)).await;
    assert!(becomes_true(async || !exists(&node, "first").await).await, "{}", controller.log());
    mirror.lists_nothing();
    assert!(becomes_true(async || mirror.lists_after_that() > 0).await, "{}", controller.log());
    create(&node, "second", std::slice::from_ref(&absent)).await;
    assert!(becomes_true(async || !exists(&node, "second").await).await, "{}", controller.log());
    assert!(exists(&node, "owner").await && exists(&node, "child").await, "{}", controller.log());
    assert_eq!(controller.terminate(), 0);

    mirror.lists_all();
    create(&node, "third", &[absent]).await;
    let admin = node.kubeconfig("admin").display().to_string();
    let collected = node.kubegc(&["controller", "collect", "--kubeconfig", &admin]);
    assert!(!exists(&node, "third").await, "{collected:#?}");
    assert!(exists(&node, "owner").await && exists(&node, "child").await, "{collected:#?}");
}
