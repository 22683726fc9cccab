//! The chart keeps what users wrote: with the definition of the NodeDiskPolicies Kubernetes would delete them, pauses in force included.

use std::process::Command;

use serde_json::json;

use crate::manifests::kubectl;
use crate::on_node::daemonset::sh;
use crate::rig::{NodeRig, run};

#[tokio::test]
async fn policies_outlive_every_change_of_the_release() {
    let node = NodeRig::start_api_alone().await;
    kubectl_on(&node, &["create", "namespace", "kubegc-system"]);
    let helm = |rest: &str| sh(&node, &format!("helm {rest}"));
    helm("install kubegc packaging/chart -n kubegc-system");
    helm("upgrade kubegc packaging/chart -n kubegc-system --reuse-values --set fleet=true");
    kubectl_on(&node, &["wait", "--for=condition=Established", "crd/nodediskpolicies.kubegc.dev"]);
    let policy = json!({ "apiVersion": "kubegc.dev/v1alpha1", "kind": "NodeDiskPolicy", "metadata": { "name": "stop" },
        "spec": { "paused": { "reason": "incident 7" } } });
    node.create_object(&policy).await;
    let uid = || kubectl_on(&node, &["get", "nodediskpolicy/stop", "-o", "jsonpath={.metadata.uid}"]);
    let before = uid();
    for change in [
        "upgrade kubegc packaging/chart -n kubegc-system --reuse-values --set fleet=false",
        "upgrade kubegc packaging/chart -n kubegc-system --reuse-values --set fleet=true",
        "rollback kubegc 1 -n kubegc-system",
        "uninstall kubegc -n kubegc-system",
        "install kubegc packaging/chart -n kubegc-system --set fleet=true",
    ] {
        helm(change);
        let deleted = "jsonpath={.items[?(@.spec.group==\"kubegc.dev\")].metadata.deletionTimestamp}";
        assert_eq!(kubectl_on(&node, &["get", "crd", "-o", deleted]), "", "{change}");
        assert_eq!(uid(), before, "{change}");
    }
}

fn kubectl_on(node: &NodeRig, args: &[&str]) -> String {
    let mut command = Command::new(kubectl());
    run(command.env_clear().env("HOME", node.dir()).arg("--kubeconfig").arg(node.kubeconfig("admin")).args(args))
}
