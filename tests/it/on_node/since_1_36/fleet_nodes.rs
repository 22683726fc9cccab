//! NodeDisks and lists of images beside a kubelet: what the agent shows, what it answers, and whose object it may write.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kubegc::fleet::{NodeDisk, NodeDiskPolicy, NodeDiskSpec, NodeStatus, goes_ahead};
use serde_json::{Value, json};

use super::start;
use crate::on_node::service::Service;
use crate::rig::{Image, Layer, NodeRig, Options, Ran, eventually};

const COMPONENT: [&str; 3] = [
    include_str!("../../../../packaging/components/fleet/crds.yaml"),
    include_str!("../../../../packaging/components/fleet/rbac.yaml"),
    include_str!("../../../../packaging/components/fleet/admission.yaml"),
];

/// The namespace of the agents.
const NAMESPACE: &str = "kubegc-system";

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_shown_removes_a_list_and_writes_only_its_own_objects() {
    let node = start(Options::default()).await;
    install(&node).await;
    node.grant_permissions_for_fleet("kubegc").await;
    node.import(&[unused("old:1"), unused("old:2"), unused("other:1"), unused("kept:1")]).await;
    let settings = ["fleet=policies,disks", r#"images.keep="docker.io/fleet/kept:*""#];
    let service = Service::start(&node, "kubegc", &settings);
    a_node_shows_its_disks(&node, &service).await;
    an_image_is_found(&node, &service).await;
    a_list_is_answered(&node, &service).await;
    a_rollout_goes_in_steps(&node, &service).await;
    a_token_is_good_for_one_node(&node).await;
}

/// Installs the component as `kubectl apply -k` does, and a node without an agent.
async fn install(node: &NodeRig) {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    let meta = json!({ "name": "kubegc", "namespace": NAMESPACE });
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta });
    let other = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "other" } });
    let component = COMPONENT.iter().flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap());
    for object in [namespace, account, other].into_iter().chain(component) {
        node.create_object(&object).await;
    }
    let vague = json!({ "removeImages": { "names": ["app"] } });
    let meta = json!({ "name": "vague" });
    let vague =
        json!({ "apiVersion": "kubegc.dev/v1alpha1", "kind": "NodeDiskPolicy", "metadata": meta, "spec": vague });
    // The definition is served a moment after its creation.
    let policies: Api<NodeDiskPolicy> = Api::all(node.kube());
    let policy = serde_json::from_value(vague).unwrap();
    assert!(eventually(async || policies.create(&PostParams::default(), &policy).await.is_ok()).await);
}

async fn a_node_shows_its_disks(node: &NodeRig, service: &Service<'_>) {
    service.until("the NodeDisk", async || status(node).await.is_some()).await;
    let object = disks(node.kube()).get(node.name()).await.unwrap();
    let owner = &object.metadata.owner_references.unwrap()[0];
    let uid = Api::<Node>::all(node.kube()).get(node.name()).await.unwrap().metadata.uid.unwrap();
    assert_eq!((owner.kind.as_str(), &owner.uid), ("Node", &uid), "it disappears with the Node");
    let status = object.status.unwrap();
    assert!(status.disks[0].holds == "images" && status.disks[0].capacity_bytes > 0, "{status:#?}");
    assert_eq!(status.mode, "collect");
    assert!(status.policy_faults[0].starts_with("vague: spec.removeImages: \"app\" has no tag"), "{status:#?}");
    assert!(serde_json::to_vec(&status).unwrap().len() <= 2048);
    let list = fleet(node, &[]).stdout;
    let lines: Vec<_> = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines[0].starts_with("NODE STATUS USED"), "{list}");
    assert!(lines[1].starts_with("other no agent"), "the worst is first: {list}");
    assert!(lines[2].starts_with(&format!("{} collects", node.name())), "{list}");
    assert!(list.contains("2 nodes: 1 no agent, 1 collects."), "{list}");
    let page = fleet(node, &[node.name()]).stdout;
    let has_pass = page.lines().any(|line| line.starts_with("Last pass:") && line.contains(" images, "));
    assert!(page.contains("Image disk:") && has_pass, "{page}");
    let json = fleet(node, &["-o", "json", "-l", "!kubernetes.io/hostname"]).stdout;
    let row: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&row["kind"], &row["node"]), (&json!("FleetNode"), &json!("other")));
    assert_eq!(fleet_code(node, &["node-7"]).code, 2);
}

/// By what a Node lists, the pods of the API server, and the answer of the agent to a list that removes nothing.
async fn an_image_is_found(node: &NodeRig, service: &Service<'_>) {
    let used = node.pod_named("keeper").await.unwrap().spec.unwrap().containers[0].image.clone().unwrap();
    let lines = |args: &[&str]| {
        let text = fleet(node, &[&["images"], args].concat()).stdout;
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let found = lines(&[&used]);
    assert_eq!(found[1], format!("{} used default/keeper", node.name()), "{found:#?}");
    assert_eq!(found[2..], ["other unknown", "", "2 nodes: 1 used, 0 present, 1 unknown, 0 absent."]);
    let own = format!("kubernetes.io/hostname={}", node.name());
    // The sum, and the line of the node before it.
    let answer = |image: &str| lines(&[image, "-l", &own, "--wait"]).into_iter().rev().take(2).collect::<Vec<_>>();
    let name = node.name();
    let sum = |absent, kept| format!("1 node answered: 0 removed, {absent} absent, {kept} kept.");
    let in_use = format!("{name}: kept 1 ({used}: in use by default/keeper/app)");
    assert_eq!(answer(&used), [sum(0, 1), in_use]);
    assert!(answer("fleet/old")[1].starts_with(&format!("{name}: kept 2 (docker.io/fleet/old:1: ")));
    assert_eq!(answer("fleet/never:1"), [sum(1, 0), format!("{name}: absent 1")]);
    assert!(service.history("docker.io/fleet/").is_empty(), "nothing is removed");
    let status = json!({ "status": { "images": [{ "names": ["docker.io/fleet/old:1"] }] } });
    let nodes: Api<Node> = Api::all(node.kube());
    nodes.patch_status("other", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert!(fleet(node, &["images", "fleet/old:1", "-o", "name"]).stdout.ends_with("node/other\n"));
    let wrong = fleet_code(node, &["images", "sha256:01"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("has a digest without 64"), "{wrong:?}");
}

/// One image and a repository are removed, one is used, one is kept by the node, one is absent.
async fn a_list_is_answered(node: &NodeRig, service: &Service<'_>) {
    let used = node.pod_named("keeper").await.unwrap().spec.unwrap().containers[0].image.clone().unwrap();
    let list = format!("# from a scanner\nfleet/old\nfleet/other:1\nfleet/absent:1\nfleet/kept:1\n{used}\n");
    let file = node.dir().join("images.txt");
    std::fs::write(&file, list).unwrap();
    let own = format!("kubernetes.io/hostname={}", node.name());
    let answered = fleet(node, &["remove", "--list", &file.display().to_string(), "-l", &own, "--wait"]).stdout;
    assert!(answered.ends_with("1 node answered: 3 removed, 1 absent, 2 kept.\n"), "{answered}");
    assert!(answered.contains("docker.io/fleet/kept:1: matches images.keep"), "{answered}");
    assert!(answered.contains(&format!("{used}: in use by default/keeper/app")), "{answered}");
    let reasons = service.history("docker.io/fleet/");
    assert!(reasons.len() == 3 && reasons.iter().all(|one| one.to_string().contains("policy remove")), "{reasons:#?}");
    let all = fleet_code(node, &["remove", "fleet/never:1", "--name", "all", "--wait", "1s"]);
    assert!(all.code == 1 && all.stderr.contains("did not answer, not heard: other"), "{all:?}");
    let other = fleet_code(node, &["remove", "fleet/never:1", "--name", "vague"]);
    assert!(other.code == 2 && other.stderr.contains("kubegc did not write it"), "{other:?}");
    let pause = fleet_code(node, &["pause", "--reason", "x", "--name", "all"]);
    assert!(pause.code == 2 && pause.stderr.contains("it has another purpose"), "{pause:?}");
    let wrong = fleet_code(node, &["remove", "fleet/*"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("names no repository"), "{wrong:?}");
}

/// Nodes observe, and collect again in steps, unless one of a step reports a failure.
async fn a_rollout_goes_in_steps(node: &NodeRig, service: &Service<'_>) {
    let plan = fleet(node, &["mode", "collect", "--canary", "5%", "--then", "25%", "--plan"]).stdout;
    assert!(plan.contains("canary: 5") && plan.contains("canary: 25") && plan.contains("# After 1h: 25%"), "{plan}");
    assert!(fleet(node, &["mode", "observe"]).stdout.contains("applied: all nodes observe\n"));
    let observes = async || fleet(node, &[]).stdout.contains("mode \"observe\" by policy mode");
    service.until("the mode", observes).await;
    let steps = ["mode", "collect", "--every", "1s", "--canary", "1%", "--then", "99%"];
    assert!(goes_ahead("other", 99) && !goes_ahead("other", 1));
    let stopped = fleet_code(node, &steps);
    assert!(stopped.code == 1 && stopped.stderr.contains("other: no agent shows it"), "{stopped:?}");
    let done = fleet(node, &steps[..6]).stdout;
    assert!(done.contains("deleted: all nodes collect\n"), "{done}");
    let failing = json!({ "conditions": [{ "type": "Healthy", "status": "False", "message": "no runtime" }] });
    write_status(&node.kube(), "other", &failing).await.unwrap();
    let stopped = fleet_code(node, &steps);
    assert!(stopped.code == 1, "{stopped:?}");
    assert!(stopped.stderr.contains("the rollout stopped at 99% of the nodes: other: no runtime"), "{stopped:?}");
}

/// A token of a pod on this node writes the NodeDisk of this node, and no other object.
async fn a_token_is_good_for_one_node(node: &NodeRig) {
    let [own, other] = [node.name(), "other"];
    let with_token = async |of: &str| {
        let pod = json!({ "metadata": { "name": format!("agent-{of}") }, "spec": {
            "nodeName": of, "serviceAccountName": "kubegc", "automountServiceAccountToken": false,
            "containers": [{ "name": "kubegc", "image": "docker.io/fleet/none:1", "imagePullPolicy": "Never" }],
        } });
        let pods: Api<Pod> = Api::namespaced(node.kube(), NAMESPACE);
        let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid });
        let request = json!({ "metadata": {}, "spec": { "audiences": [], "boundObjectRef": bound } });
        let request: TokenRequest = serde_json::from_value(request).unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(node.kube(), NAMESPACE);
        let token = accounts.create_token_request("kubegc", &PostParams::default(), &request).await.unwrap();
        node.kube_with_token(&token.status.unwrap().token).await
    };
    let (of_own, of_other) = (with_token(own).await, with_token(other).await);
    let is_refused = async || is_forbidden(&write(&of_other, own).await);
    assert!(eventually(is_refused).await, "{:?}", write(&of_other, own).await);
    write(&of_own, own).await.unwrap();
    write(&of_other, other).await.unwrap();
    assert!(is_forbidden(&write(&of_own, other).await), "{:?}", write(&of_own, other).await);
    let unbound = create(&of_own, "made-up").await;
    assert!(is_forbidden(&unbound), "{unbound:?}");
    let policies: Api<NodeDiskPolicy> = Api::all(of_own.clone());
    let spec = serde_json::from_value(json!({ "mode": "observe" })).unwrap();
    let refused = policies.create(&PostParams::default(), &NodeDiskPolicy::new("p", spec)).await;
    assert!(is_forbidden(&refused), "{refused:?}");
    let nodes: Api<Node> = Api::all(of_own);
    assert!(is_forbidden(&nodes.patch(own, &PatchParams::default(), &Patch::Merge(json!({}))).await));
}

/// Writes the NodeDisk of a node, as its agent does.
async fn write(client: &Client, node: &str) -> Result<NodeDisk, kube::Error> {
    write_status(client, node, &json!({})).await
}

async fn write_status(client: &Client, node: &str, status: &Value) -> Result<NodeDisk, kube::Error> {
    let params = PatchParams::apply("kubegc-agent").force();
    let object = |field: &str, value: &Value| json!({ "apiVersion": "kubegc.dev/v1alpha1", "kind": "NodeDisk", "metadata": { "name": node }, field: value });
    let mut status = status.clone();
    status["at"] = json!(jiff::Timestamp::now());
    disks(client.clone()).patch(node, &params, &Patch::Apply(object("spec", &json!({})))).await?;
    disks(client.clone()).patch_status(node, &params, &Patch::Apply(object("status", &status))).await
}

async fn create(client: &Client, name: &str) -> Result<NodeDisk, kube::Error> {
    disks(client.clone()).create(&PostParams::default(), &NodeDisk::new(name, NodeDiskSpec {})).await
}

fn is_forbidden<T>(answer: &Result<T, kube::Error>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

fn disks(client: Client) -> Api<NodeDisk> {
    Api::all(client)
}

async fn status(node: &NodeRig) -> Option<NodeStatus> {
    disks(node.kube()).get_opt(node.name()).await.unwrap()?.status
}

fn unused(name: &str) -> Image {
    let name = format!("docker.io/fleet/{name}");
    Image::new(&[&name], &[Layer::small_files(&name, 1, 4096)])
}

/// Runs `kubegc fleet` as the administrator; it must succeed.
fn fleet(node: &NodeRig, args: &[&str]) -> Ran {
    fleet_code(node, args).ok()
}

fn fleet_code(node: &NodeRig, args: &[&str]) -> Ran {
    let kubeconfig = node.kubeconfig("admin").display().to_string();
    node.kubegc(&[&["fleet"], args, &["--kubeconfig", &kubeconfig]].concat())
}
