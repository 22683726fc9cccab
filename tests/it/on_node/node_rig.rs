//! Tests the node itself. If these tests fail, check the machine first.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::rig::{Image, Layer, Manifest, NodeRig, Options, Program, Version, eventually};

#[tokio::test]
async fn a_node_runs_pods_of_every_kind() {
    let node = NodeRig::start(Options::default()).await;
    let fixed = Manifest::new("fixed").running("app");
    let mirror = node.write_manifest(&fixed);
    node.create(&Manifest::new("crash").container("app", "echo once more; exit 1")).await;
    let uid = node.create(&Manifest::new("web").init("prepare", "echo ready").running("app")).await;
    node.await_running("web", "app").await;
    let left = node.objects_of("web", &uid).await;
    let link = format!("link to default_web_{uid}/app/0.log");
    for part in
        ["container web/prepare#0 exited", "container web/app#0 running", "sandbox web#0 ready", "kubelet dir", &link]
    {
        assert!(left.contains(part), "{left:#?}");
    }

    node.await_backoff("crash", "app", 1).await;
    assert_eq!(node.previous_log("crash", "app").await.unwrap(), "once more\n");
    assert_eq!(node.uids().await.len(), 3);
    kubegc_runs_where_the_node_is(&node, &uid);

    node.delete("web").await;
    node.await_running(&mirror, "app").await;
    node.remove_manifest(&fixed);
    node.await_removal("web").await;
    node.await_removal(&mirror).await;
}

/// kubegc finds the socket, the log roots and the kubelet's directory by itself.
fn kubegc_runs_where_the_node_is(node: &NodeRig, uid: &str) {
    let kubelet = node.kubelet_config().display().to_string();
    let snapshot = node.kubegc(&["snapshot", "--kubelet-config", &kubelet]).ok().stdout;
    assert!(snapshot.contains(&format!(r#"{{"name":"default_web_{uid}","entry":"directory"#)), "{snapshot}");
    assert!(snapshot.contains("/var/lib/containerd"), "{snapshot}");
}

#[tokio::test]
async fn a_node_is_started_step_by_step() {
    let options = Options { version: Version::V1_6, disk_mib: Some(256), ..Options::default() };
    let node = NodeRig::start_runtime_alone(options).await;
    node.import(&[Image::new(&["docker.io/library/app:2"], &[Layer::busybox()])]).await;
    node.prepare_service(&["--set=images.high_threshold_percent=100"]);
    for program in [Program::Kubegc, Program::Etcd, Program::ApiServer, Program::Kubelet] {
        node.begin(program).await;
    }
    let passes = || node.log_of(Program::Kubegc).contains("pass");
    assert!(eventually(async || passes()).await, "the agent says\n{}", node.log_of(Program::Kubegc));
    node.end(Program::Kubegc);

    node.patch_node(&json!({ "spec": { "taints": [{ "key": "rig", "effect": "NoSchedule" }] } })).await;
    node.create(&Manifest::new("web").running("app").image("docker.io/library/app:2")).await;
    node.await_running("web", "app").await;
    programs_come_and_go(&node).await;
    users_may_what_was_granted(&node).await;
}

async fn programs_come_and_go(node: &NodeRig) {
    node.end(Program::Kubelet);
    node.kill(Program::ApiServer);
    node.end(Program::Etcd);
    for program in [Program::Etcd, Program::ApiServer, Program::Kubelet] {
        node.begin(program).await;
    }
    assert!(node.pod_named("web").await.is_some(), "the store is the same");
}

async fn users_may_what_was_granted(node: &NodeRig) {
    let pods: Api<Pod> = Api::all(node.kube_as("restricted").await);
    let may_list = async || pods.list(&ListParams::default()).await.is_ok();
    assert!(!may_list().await, "nothing was granted");
    node.grant_shipped_permissions("restricted").await;
    assert!(eventually(may_list).await);
    node.revoke("restricted").await;
    assert!(eventually(async || !may_list().await).await);
}
