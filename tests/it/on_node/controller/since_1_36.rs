//! `kubegc controller` beside what an API server 1.20 does not have: aggregated discovery, policies that deny a deletion,
//! and limits on the requests of one client.

mod discovery;
mod policy;
mod throttling;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::rig::{NodeRig, Program, Ran, kubernetes_minor, kubernetes_version};

/// The user whose requests the audit log has.
const USER: &str = "system:serviceaccount:kubegc-system:kubegc-controller";

/// Starts an API server on which [`USER`] has all permissions of the collector by owner references.
async fn start() -> NodeRig {
    let is_new = kubernetes_minor() >= 36;
    assert!(is_new, "this test needs Kubernetes 1.36, and this is {}; set KUBEGC_KUBERNETES", kubernetes_version());
    let node = NodeRig::start_api_alone().await;
    let rule = |resources: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec!["*".to_owned()]),
        resources: Some(vec![resources.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let rules = vec![rule("*", &["get", "list", "watch", "patch", "delete"]), rule("events", &["create"])];
    node.grant(USER, rules).await;
    node
}

/// Runs `kubegc controller` as [`USER`].
fn kubegc(node: &NodeRig, args: &[&str]) -> Ran {
    let kubeconfig = node.kubeconfig("controller").display().to_string();
    node.kubegc(&[&["controller"], args, &["--kubeconfig", &kubeconfig]].concat())
}

/// Starts `kubegc controller run` as [`USER`].
fn run(node: &NodeRig) {
    let kubeconfig = node.kubeconfig("controller").display().to_string();
    let args = ["controller", "run", "--owners-only", "--set=controller.address=", "--kubeconfig", &kubeconfig];
    node.prepare_command(&args);
    node.launch(Program::Kubegc);
}

/// Creates a ConfigMap whose owner never existed.
async fn leave(node: &NodeRig, name: &str) {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent",
        "uid": "00000000-0000-4000-8000-000000000001"});
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": [owner]});
    node.create_object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
}

fn maps(node: &NodeRig) -> Api<ConfigMap> {
    Api::namespaced(node.kube(), "default")
}

/// Returns the names of the ConfigMaps that are left.
async fn left(node: &NodeRig) -> Vec<String> {
    let list = maps(node).list_metadata(&ListParams::default()).await.unwrap();
    list.items.into_iter().map(|object| object.metadata.name.unwrap()).collect()
}
