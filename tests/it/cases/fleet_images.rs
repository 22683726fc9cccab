//! `kubegc fleet images` in a cluster with an agent that answers and one that is not heard.

use serde_json::{Value, json};

use super::fake_api::Fake;

fn scenario() -> Value {
    let answer = json!({ "policy": "images", "uid": "applied", "generation": 1, "kept": 1, "notes": ["docker.io/library/app:1: unused"] });
    let object = |kind: &str, name: &str, field: &str, value: Value| {
        let version = if kind == "NodeDisk" { "kubegc.dev/v1alpha1" } else { "v1" };
        json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name, "uid": name }, field: value })
    };
    let listed = json!({ "images": [{ "names": ["docker.io/library/other:1"] }] });
    let mut pod = object("Pod", "web", "spec", json!({ "nodeName": "b", "containers": [{ "image": "app:1" }] }));
    pod["metadata"]["namespace"] = json!("default");
    let resource = |version: &str, kind: &str, resource: &str| json!({ "apiVersion": version, "kind": kind, "resource": resource, "namespaced": kind == "Pod" });
    json!({
        "serve": [
            resource("v1", "Node", "nodes"),
            resource("v1", "Pod", "pods"),
            resource("kubegc.dev/v1alpha1", "NodeDisk", "nodedisks"),
            resource("kubegc.dev/v1alpha1", "NodeDiskPolicy", "nodediskpolicies"),
        ],
        "objects": [
            object("Node", "a", "status", json!({})),
            object("Node", "b", "status", json!({})),
            object("Node", "c", "status", listed),
            object("NodeDisk", "a", "status", json!({ "at": jiff::Timestamp::now(), "removals": [answer] })),
            pod,
        ],
    })
}

#[test]
fn nodes_and_pods_answer_at_once_and_agents_if_the_command_waits() {
    let fake = Fake::play(&scenario());
    let at_once = "NODE  IMAGE    USED BY\nb     used     default/web\na     unknown\n\n3 nodes: 1 used, 0 present, 1 unknown, 1 absent.\n";
    assert_eq!(fake.run_verb("fleet", &["images", "app:1"]), at_once);
    let answered = "a: kept 1 (docker.io/library/app:1: unused)\n1 node answered: 0 removed, 0 absent, 1 kept.\n";
    let waited = fake.run_verb("fleet", &["images", "app:1", "--wait"]);
    assert!(waited.contains(&format!("{at_once}{answered}")), "{waited}");
    assert!(waited.contains("2 nodes did not answer, not heard: b and c"), "{waited}");
    let refused = fake.run_verb("fleet", &["images", "app:1", "--wait", "-o", "json"]);
    assert!(refused.contains("`kubegc fleet images --wait` has no output format"), "{refused}");
    let seen = fake.end();
    assert!(seen.contains(r#""dryRun": true"#) && seen.contains("DELETE NodeDiskPolicy/images-"), "{seen}");
}
