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
    let kubectl = || kubectl_on(node);
    for agent in AGENTS {
        let applied = run(kubectl().args(["apply", "--dry-run=server", "-k"]).arg(packaging(agent.within)));
        assert!(applied.contains("daemonset.apps/kubegc created (server dry run)"), "{}: {applied}", agent.within);
        assert!(applied.contains("configmap/kubegc-"), "{}: {applied}", agent.within);
    }
}

/// Both pod sources, because a value of one of them replaces objects of the other.
async fn the_api_server_accepts_every_object_of_the_chart(node: &NodeRig) {
    let kinds =
        [("PodMonitor", "podmonitors"), ("ServiceMonitor", "servicemonitors"), ("PrometheusRule", "prometheusrules")];
    for (kind, plural) in kinds {
        // That of Prometheus Operator.
        define(node, "monitoring.coreos.com", "Namespaced", kind, plural).await;
    }
    // CronJob is a part of batch/v1 since Kubernetes 1.21, and this server is older.
    for values in ["podSource=kube-api,audit.enabled=false", "podSource=kubelet,audit.enabled=false"] {
        let file = node.dir().join("chart.yaml");
        let text = chart_text(&packaging("chart"), &format!("{ALL},{values}"));
        std::fs::write(&file, &text).unwrap();
        let applied = run(kubectl_on(node).args(["apply", "--dry-run=server", "-f"]).arg(&file));
        assert_eq!(
            applied.lines().count(),
            text.lines().filter(|line| line.starts_with("kind: ")).count(),
            "{applied}"
        );
        assert!(applied.lines().all(|line| line.ends_with(" created (server dry run)")), "{applied}");
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

fn kubectl_on(node: &NodeRig) -> Command {
    let mut command = Command::new(kubectl());
    command.env_clear().env("HOME", node.dir()).arg("--kubeconfig").arg(node.kubeconfig("admin"));
    command
}
