//! The kustomizations of the agent, one per distribution, and the chart: the API server accepts what kubectl sends.

use std::process::Command;

use serde_json::{Value, json};

use crate::manifests::{AGENTS, ALL, chart_text, kubectl, packaging};
use crate::rig::{NodeRig, run, scenarios};

#[tokio::test]
async fn the_api_server_accepts_every_manifest() {
    let node = NodeRig::start_api_alone().await;
    // In a dry run the namespace would not exist for the other objects.
    run(kubectl_on(&node).args(["create", "namespace", "kubegc-system"]));
    node.play(&scenarios![
        the_api_server_accepts_every_overlay_of_the_agent,
        the_api_server_accepts_every_object_of_the_chart
    ])
    .await;
}

async fn the_api_server_accepts_every_overlay_of_the_agent(node: &NodeRig) {
    define(node, "security.openshift.io", "Cluster", "SecurityContextConstraints", "securitycontextconstraints").await;
    // The resources of a fleet need a later API server: `since_1_30`.
    for agent in AGENTS.iter().filter(|agent| agent.within != "overlays/fleet") {
        apply_overlay(node, agent.within);
    }
}

/// Both pod sources, because a value of one of them replaces objects of the other.
async fn the_api_server_accepts_every_object_of_the_chart(node: &NodeRig) {
    define_monitors(node).await;
    // CronJob is a part of batch/v1 since Kubernetes 1.21, and this server may be older.
    for source in ["kube-api", "kubelet"] {
        apply_chart(node, &format!("podSource={source},audit.enabled=false,fleet=false"));
    }
}

/// Checks that the API server would accept an overlay of the agent.
pub fn apply_overlay(node: &NodeRig, within: &str) {
    let applied = run(kubectl_on(node).args(["apply", "--dry-run=server", "-k"]).arg(packaging(within)));
    assert!(applied.contains("daemonset.apps/kubegc created (server dry run)"), "{within}: {applied}");
    assert!(applied.contains("configmap/kubegc-"), "{within}: {applied}");
}

/// Checks that the API server would accept all objects of the chart with everything on, and these values.
pub fn apply_chart(node: &NodeRig, values: &str) {
    let file = node.dir().join("chart.yaml");
    let text = chart_text(&packaging("chart"), &format!("{ALL},{values}"));
    std::fs::write(&file, &text).unwrap();
    let applied = run(kubectl_on(node).args(["apply", "--dry-run=server", "-f"]).arg(&file));
    let objects = text.lines().filter(|line| line.starts_with("kind: ")).count();
    assert_eq!(applied.lines().count(), objects, "{applied}");
    assert!(applied.lines().all(|line| line.ends_with(" created (server dry run)")), "{applied}");
}

/// Defines the resources of Prometheus Operator that the chart can have.
pub async fn define_monitors(node: &NodeRig) {
    let kinds =
        [("PodMonitor", "podmonitors"), ("ServiceMonitor", "servicemonitors"), ("PrometheusRule", "prometheusrules")];
    for (kind, plural) in kinds {
        define(node, "monitoring.coreos.com", "Namespaced", kind, plural).await;
    }
}

async fn define(node: &NodeRig, group: &str, scope: &str, kind: &str, plural: &str) {
    node.create_object(&definition(group, scope, kind, plural)).await;
    run(kubectl_on(node).args(["wait", "--for=condition=Established", "crd"]).arg(format!("{plural}.{group}")));
}

/// Returns a definition that permits all fields.
fn definition(group: &str, scope: &str, kind: &str, plural: &str) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": { "group": group, "scope": scope, "names": { "kind": kind, "plural": plural }, "versions": [version] },
    })
}

/// Returns kubectl as administrator.
pub fn kubectl_on(node: &NodeRig) -> Command {
    let mut command = Command::new(kubectl());
    command.env_clear().env("HOME", node.dir()).arg("--kubeconfig").arg(node.kubeconfig("admin"));
    command
}
