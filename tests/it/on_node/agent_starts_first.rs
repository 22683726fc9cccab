//! The agent starts first: before the API server, before it has permissions, before the node is registered.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::on_node::pod_source_outages::LEAVES_CONTAINERS;
use crate::on_node::service::{Service, leave_litter, needs_none, needs_pods};
use crate::rig::{Manifest, NodeRig, Options, Program};

/// The number of passes in each state of the cluster.
const PASSES: usize = 3;

/// Shorter than the other durations, so that they have all elapsed when a pod may count as deleted.
const GONE_AFTER: &str = "guards.gone_after=3s";

#[tokio::test]
async fn an_early_agent_waits_for_its_nodes_pod_list() {
    let options = Options { kubelet_flags: vec![LEAVES_CONTAINERS.into()], ..Options::default() };
    let node = NodeRig::start_runtime_alone(options).await;
    leave_litter(&node, "default", "litter").await;
    let service = Service::start(&node, "kubegc", &["images.all_unused=true", GONE_AFTER]);

    no_pod_is_deleted(&node, &service, "refused").await;
    assert_eq!(node.present(&needs_none("default", "litter")).await, BTreeSet::new(), "the rest goes on");

    node.launch(Program::Etcd);
    node.begin(Program::ApiServer).await;
    no_pod_is_deleted(&node, &service, "grant `get` on nodes").await;

    node.grant_shipped_permissions("kubegc").await;
    no_pod_is_deleted(&node, &service, &format!("no Node named \"{}\"", node.name())).await;

    let web = node.create(&Manifest::new("web").container("app", "exec sleep 1000000")).await;
    service.passes(PASSES).await;
    assert_eq!(node.present(&needs_pods("litter")).await, needs_pods("litter"), "there still is no Node");

    register(&node).await;
    service.until("end of all leftovers", async || node.without_pod().await.is_empty()).await;
    let history = service.history("litter");
    let ours = |it: &serde_json::Value| {
        it["kind"] == "container" && it["reason"] == "pod_deleted" && it["outcome"] == "removed"
    };
    assert!(history.iter().any(ours), "{history:#?}");

    node.begin(Program::Kubelet).await;
    node.await_running("web", "app").await;
    let here = node.objects_of("web", &web).await;
    assert!(here.contains("container web/app#0 running"), "{here:#?}");
    assert_eq!(node.uids().await, BTreeSet::from([web]));
    assert_eq!(service.starts(), 1);
}

/// Registers the node as a kubelet does that stops after it. One that runs takes each exited container for one that has
/// just died, and could remove the last one before the agent does.
async fn register(node: &NodeRig) {
    std::fs::create_dir(node.dir().join("kubelet/pods")).unwrap();
    node.create_object(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name()}})).await;
    // Without a capacity, a kubelet that starts later rejects the pod for good if it sees the pod before it has reported one.
    let capacity = json!({"pods": "110", "cpu": "2", "memory": "8Gi", "ephemeral-storage": "100Gi"});
    let status = json!({"status": {"capacity": capacity, "allocatable": capacity}});
    let nodes: Api<Node> = Api::all(node.kube());
    nodes.patch_status(node.name(), &PatchParams::default(), &Patch::Strategic(&status)).await.unwrap();
}

/// Makes passes until the service reports why the pods are unavailable, and then some more.
async fn no_pod_is_deleted(node: &NodeRig, service: &Service<'_>, cause: &str) {
    let shown = async || service.causes().iter().any(|shown| shown.contains(cause));
    service.until(&format!("word of {cause:?}"), shown).await;
    service.passes(PASSES).await;
    assert_eq!(node.present(&needs_pods("litter")).await, needs_pods("litter"));
    service.mark();
}
