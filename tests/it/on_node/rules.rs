//! Rules on a real node, beside a kubelet: what they name stays or goes, and what a guard keeps stays whatever they say.

use serde_json::json;

use crate::on_node::agent::Agent;
use crate::rig::{Image, Layer, Manifest, NodeRig, Options, Program, kubernetes_minor};

const RULES: &str = r#"
[[rule]]
name = "base images stay"
for = "image"
when = "image.repository.startsWith('registry.example.com/base/') || image.labels['made-as'].endsWith('/marked:1')"
then = "keep"
until = 2099-06-30
note = "warm start of build jobs; ask platform@"

[[rule]]
name = "old build images"
for = "image"
when = "image.unused >= duration('0s') && image.tag_rank > 2"
then = "remove"

[[rule]]
name = "ci keeps nothing"
for = "container"
when = "pod.namespace == 'ci' || 'ephemeral' in pod.labels"
then = { max_per_pod_container = 0, min_age = "0s" }

[[rule]]
name = "crashes with status 3 stay"
for = "container"
when = "container.exit_code == 3"
then = "keep"
"#;

/// The repository and tag of each image, in the order of their builds, and whether it stays.
const IMAGES: [(&str, bool); 10] = [
    ("base/os:1", true),
    ("base/os:2", true),
    ("base/os:3", true),
    ("app:1", false),
    ("app:2", false),
    ("app:3", true),
    ("app:4", true),
    ("tool:1", false),
    ("tool:2", true),
    ("tool:3", true),
];

#[tokio::test]
async fn rules_decide_beside_a_kubelet() {
    let node = NodeRig::start(Options::default()).await;
    let agent = Agent::on(&node).await;
    import(&node).await;
    let pods = [crashing("build", 1, true), crashing("status3", 3, false), crashing("plain", 1, false)];
    let mut uids = Vec::new();
    for pod in pods {
        uids.push(node.create(&pod).await);
    }
    for name in ["build", "status3", "plain"] {
        node.await_backoff(name, "app", 2).await;
    }
    node.pause(Program::Kubelet);
    forge_mirror(&node, &uids[2]).await;
    let before = dead(&node, &uids).await;
    assert!(before.iter().all(|dead| dead.len() >= 3), "{before:?}");
    let rules = format!("rule={}", RULES.parse::<toml::Table>().unwrap()["rule"]);
    let with_rules = ["--set", &rules, "--maximum-dead-containers-per-container=2", "--set=leftovers.remove="];
    let report = agent.collect_with(&with_rules);
    let last = |dead: &[String], count: usize| dead[dead.len() - count..].to_vec();
    let expected = [last(&before[0], 1), before[1].clone(), last(&before[2], 2)];
    assert_eq!(dead(&node, &uids).await, expected, "one that the guard keeps, all, and two: {report:?}");
    let names = node.names().await.words();
    for (name, stays) in IMAGES {
        assert_eq!(names.contains(&format!("image registry.example.com/{name}")), stays, "{name}: {report:?}");
    }
    assert!(names.contains("image registry.example.com/marked:1"), "by its label: {report:?}");
    let again = agent.collect_with(&with_rules);
    assert!(again.stdout.contains("Nothing removed"), "{again:?}");
    node.resume(Program::Kubelet);
    images_of_workloads_without_a_pod_stay(&node, &agent).await;
}

/// A CronJob and two revisions of a Deployment name images, and no pod does. Without the permission nothing is unused.
async fn images_of_workloads_without_a_pod_stay(node: &NodeRig, agent: &Agent<'_>) {
    let template = |image: &str| {
        json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "app", "image": format!("registry.example.com/{image}") }] },
        })
    };
    let batch = if kubernetes_minor() < 21 { "batch/v1beta1" } else { "batch/v1" };
    node.create_object(&json!({
        "apiVersion": batch, "kind": "CronJob", "metadata": { "name": "report", "namespace": "default" },
        "spec": { "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template("tool:2") } } },
    }))
    .await;
    for (revision, image) in [("1", "base/os:1"), ("2", "app:3"), ("3", "app:4")] {
        let mut template = template(image);
        template["spec"]["restartPolicy"] = "Always".into();
        node.create_object(&json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{revision}"), "namespace": "default",
                "annotations": { "deployment.kubernetes.io/revision": revision },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d-1", "controller": true }],
            },
            "spec": { "replicas": 0, "selector": { "matchLabels": { "app": "web" } }, "template": template },
        }))
        .await;
    }
    let flags = ["--set", "images.all_unused=true", "--set", "guards.keep_workload_images=true"];
    let left = async || {
        let names = node.names().await.words();
        let left = |(name, _): &(&str, bool)| {
            names.contains(&format!("image registry.example.com/{name}")).then(|| (*name).to_owned())
        };
        IMAGES.iter().filter_map(left).collect::<Vec<_>>()
    };
    let before = left().await;
    let refused = agent.try_collect_with(&flags);
    assert!(refused.code == 1 && refused.stdout.contains("may not list cronjobs"), "{refused:?}");
    assert_eq!(left().await, before);
    node.grant_permissions_for_workloads("kubegc").await;
    let report = agent.collect_with(&flags);
    assert_eq!(left().await, ["app:3", "app:4", "tool:2"], "{report:?}");
}

/// Creates a pod in another namespace that names the uid of `plain`, with the label of a rule that keeps nothing.
async fn forge_mirror(node: &NodeRig, uid: &str) {
    node.create_object(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "aaa" } })).await;
    let mut pod = crashing("forged", 1, true).bound_to(node.name());
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    pod["metadata"]["namespace"] = "aaa".into();
    let written = json!({ "kubernetes.io/config.mirror": uid, "kubernetes.io/config.hash": uid });
    pod["metadata"]["annotations"] = written;
    node.create_object(&pod).await;
}

async fn import(node: &NodeRig) {
    let busybox = Layer::busybox();
    let mut images = vec![Image::new(&["registry.example.com/marked:1"], std::slice::from_ref(&busybox))];
    for ((name, _), day) in IMAGES.iter().zip(10..) {
        let name = format!("registry.example.com/{name}");
        images.push(Image::built(&format!("2026-01-{day}"), &[&name], std::slice::from_ref(&busybox)));
    }
    node.import(&images).await;
}

fn crashing(name: &str, status: u8, is_ephemeral: bool) -> Manifest {
    let labels = if is_ephemeral { json!({ "ephemeral": "" }) } else { json!({}) };
    Manifest::new(name).container("app", &format!("exit {status}")).with(|pod| pod["metadata"]["labels"] = labels)
}

/// Returns the dead containers of each pod, oldest first.
async fn dead(node: &NodeRig, uids: &[String]) -> Vec<Vec<String>> {
    let mut dead = Vec::new();
    for uid in uids {
        dead.push(node.containers_of(uid, "app").await);
    }
    dead
}
