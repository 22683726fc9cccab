//! How soon the controller works: `collect` on an empty API server, and the first decision of `run` with 100 resources.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::figures::median;
use crate::rig::{NodeRig, becomes_true_within};

const RUNS: usize = 5;
/// The resources that are added to the some 50 of a bare API server.
const ADDED: usize = 60;

pub async fn measure() {
    let node = NodeRig::start_api_alone().await;
    let kubeconfig = node.kubeconfig("admin").display().to_string();
    let collect = || {
        let begun = Instant::now();
        node.kubegc(&["controller", "collect", "--kubeconfig", &kubeconfig]).ok();
        begun.elapsed().as_secs_f64()
    };
    let collect = (0..RUNS).map(|_| collect());
    println!("collect on an empty API server: median {:.3} s of {RUNS} (aim: less than 1)", median(collect));
    for number in 0..ADDED {
        node.create_object(&definition(number)).await;
    }
    let mut first = Vec::new();
    for _ in 0..RUNS {
        first.push(first_decision(&node).await);
    }
    println!(
        "start to first decision of run: median {:.3} s of {RUNS} (aim: less than 2), at least 100 resources",
        median(first)
    );
}

/// Starts `run` beside an object without its owner, and waits until it deletes it; seconds.
async fn first_decision(node: &NodeRig) -> f64 {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "00000000-0000-4000-8000-000000000001"});
    let metadata = json!({"name": "dangling", "namespace": "default", "ownerReferences": [owner]});
    node.create_object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
    let begun = Instant::now();
    let run = node.controller("first", &["--owners-only"]);
    let decided = async || run.log().contains("action=\"delete\"") || run.log().contains("action=delete");
    assert!(becomes_true_within(Duration::from_mins(1), decided).await, "{}", run.log());
    begun.elapsed().as_secs_f64()
}

fn definition(number: usize) -> serde_json::Value {
    let plural = format!("things{number}");
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": { "kind": format!("Thing{number}"), "plural": plural, "singular": format!("thing{number}") },
        },
    })
}
