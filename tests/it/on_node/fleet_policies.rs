//! NodeDiskPolicies beside a kubelet: an agent follows them within a pass, and keeps them while the API server cannot be reached.

use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, PostParams};
use kubegc::fleet::{NodeDiskPolicy, NodeDiskPolicySpec};
use serde_json::{Value, json};

use crate::on_node::service::Service;
use crate::rig::{Image, Layer, NodeRig, Options, Program, Ran, eventually};

/// The unused images, each of which a pass removes.
const IMAGES: usize = 30;
/// With it a pass takes 30 s, so that it can be paused in the middle.
const PACE: &str = "images.pace=pause 1s";
const DEFINITIONS: &str = include_str!("../../../packaging/components/fleet/crds.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_pauses_a_node_and_outlives_the_api_server() {
    let node = NodeRig::start(Options::default()).await;
    node.grant_permissions_for_fleet("kubegc").await;
    let service = Service::start(&node, "kubegc", &["images.all_unused=true", PACE, "fleet=policies"]);
    service.until("word of no definition", async || says(&service, "cannot follow the NodeDiskPolicies")).await;
    for definition in serde_saphyr::from_multiple::<Value>(DEFINITIONS).unwrap() {
        node.create_object(&definition).await;
    }
    let paused = async || fleet(&node, &["pause", "--reason", "incident 7"]).code == 0;
    assert!(eventually(paused).await, "{:?}", fleet(&node, &["pause", "--reason", "incident 7"]));
    service.until("the pause", async || says(&service, "removals are suspended")).await;
    import(&node).await;
    service.passes(2).await;
    assert_eq!(left(&node).await, IMAGES);

    a_pause_in_the_middle_of_a_pass(&node, &service).await;
    the_api_server_is_away(&node, &service).await;
    assert_eq!(fleet(&node, &["resume"]).stdout, "nodediskpolicy.kubegc.dev/pause deleted\n");
    service.until("the end of the images", async || left(&node).await == 0).await;
    only_selected_nodes_are_paused(&node, &service).await;
    mistakes_are_refused_or_without_effect(&node, &service).await;
    only_administrators_write_policies(&node).await;
}

/// It is resumed, and paused again as soon as it has removed an image.
async fn a_pause_in_the_middle_of_a_pass(node: &NodeRig, service: &Service<'_>) {
    fleet(node, &["resume"]).ok();
    service.until("a removal", async || left(node).await < IMAGES).await;
    service.mark();
    fleet(node, &["pause", "--reason", "incident 7"]).ok();
    let paused_at = jiff::Timestamp::now();
    service.until("the pause", async || says(service, "paused by policy pause: incident 7")).await;
    let rest = left(node).await;
    assert!(rest > 0, "the pass would have removed all");
    service.passes(2).await;
    assert_eq!(left(node).await, rest, "nothing began after the pause");
    let ends = service.history("docker.io/unused/").into_iter().filter(|deed| deed["outcome"] == "removed");
    let last = ends.map(|deed| deed["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()).max().unwrap();
    println!("{} of {IMAGES} images were removed, the last {:#} after the command", IMAGES - rest, last - paused_at);
}

/// The agent is restarted meanwhile. `make test-fleet` ends the API server for ten minutes.
async fn the_api_server_is_away(node: &NodeRig, service: &Service<'_>) {
    let rest = left(node).await;
    node.end(Program::ApiServer);
    node.end(Program::Kubegc);
    node.launch(Program::Kubegc);
    service.mark();
    let seconds = std::env::var("KUBEGC_AWAY_SECONDS").map_or(0, |text| text.parse().unwrap());
    let begun = Instant::now();
    service.passes(2).await;
    while begun.elapsed() < Duration::from_secs(seconds) {
        service.passes(2).await;
    }
    let passes: Vec<_> = service.messages();
    let done = passes.iter().filter(|line| line["fields"]["message"] == "pass done").collect::<Vec<_>>();
    assert!(done.iter().all(|line| line["fields"]["suspended"] == "paused by policy pause: incident 7"), "{done:#?}");
    let status = service.kubegc(&["status"]);
    assert!(status.stdout.contains("paused by policy pause: incident 7"), "{status:?}");
    assert_eq!(left(node).await, rest);
    node.begin(Program::ApiServer).await;
}

async fn only_selected_nodes_are_paused(node: &NodeRig, service: &Service<'_>) {
    service.mark();
    fleet(node, &["pause", "--reason", "others", "-l", "pool=none", "--name", "others"]).ok();
    let own = format!("kubernetes.io/hostname={}", node.name());
    fleet(node, &["pause", "--reason", "own", "-l", &own, "--name", "own", "--until", "1h"]).ok();
    // A pass can end before the check of the disks says that they are suspended.
    let is_own = |line: &Value| {
        let fields = &line["fields"];
        fields["message"] == "removals are suspended"
            && fields["cause"].to_string().contains("paused by policy own until ")
    };
    service.until("the pause", async || service.messages().iter().any(is_own)).await;
    assert!(!says(service, "policy others"), "{:#?}", service.messages());
    service.mark();
    fleet(node, &["resume", "--name", "own"]).ok();
    service.until("the end of the pause", async || says(service, "removals are resumed")).await;
    fleet(node, &["resume", "--name", "others"]).ok();
}

async fn mistakes_are_refused_or_without_effect(node: &NodeRig, service: &Service<'_>) {
    let long = fleet(node, &["pause", "--reason", &"x".repeat(201)]);
    assert!(long.code == 3 && long.stderr.contains("spec.paused.reason"), "{long:?}");
    service.mark();
    let odd = json!({ "paused": {}, "nodeSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } });
    policies(node.kube()).create(&PostParams::default(), &policy("odd", &odd)).await.unwrap();
    service.until("word of the mistake", async || says(service, "invalid NodeDiskPolicy")).await;
    assert!(!service.kubegc(&["status"]).stdout.contains("Suspended:"));
    let foreign = fleet(node, &["resume", "--name", "odd"]);
    assert!(foreign.code == 2 && foreign.stderr.contains("kubegc did not write it"), "{foreign:?}");
    policies(node.kube()).delete("odd", &DeleteParams::default()).await.unwrap();
}

/// Neither an agent nor a person with all permissions in a namespace may write a policy.
async fn only_administrators_write_policies(node: &NodeRig) {
    let all = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    node.grant_in("default", "restricted", serde_json::from_value(all).unwrap()).await;
    for user in ["kubegc", "restricted"] {
        let policies = policies(node.kube_as(user).await);
        let refused = policies.create(&PostParams::default(), &policy(user, &json!({ "paused": {} }))).await;
        assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{user}: {refused:?}");
    }
}

fn policies(client: kube::Client) -> Api<NodeDiskPolicy> {
    Api::all(client)
}

fn policy(name: &str, spec: &Value) -> NodeDiskPolicy {
    NodeDiskPolicy::new(name, serde_json::from_value::<NodeDiskPolicySpec>(spec.clone()).unwrap())
}

/// Runs `kubegc fleet` as the administrator.
fn fleet(node: &NodeRig, args: &[&str]) -> Ran {
    let kubeconfig = node.kubeconfig("admin").display().to_string();
    node.kubegc(&[&["fleet"], args, &["--kubeconfig", &kubeconfig]].concat())
}

fn says(service: &Service<'_>, text: &str) -> bool {
    service.messages().iter().any(|line| line.to_string().contains(text))
}

async fn import(node: &NodeRig) {
    let image = |number: usize| {
        let name = format!("docker.io/unused/image-{number}:1");
        Image::new(&[&name], &[Layer::small_files(&name, 1, 4096)])
    };
    node.import(&(0..IMAGES).map(image).collect::<Vec<_>>()).await;
    assert!(eventually(async || left(node).await == IMAGES).await, "{}", left(node).await);
}

/// Counts the unused images.
async fn left(node: &NodeRig) -> usize {
    let images = node.list_images().await;
    images.iter().filter(|image| image.repo_tags.iter().any(|tag| tag.starts_with("docker.io/unused/"))).count()
}
