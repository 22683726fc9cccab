//! kubegc as the pod of the shipped `DaemonSet` template, from the image that `scripts/image.sh` makes. It collects
//! garbage on its node through its host mounts.
//!
//! No controller runs on the node, so the test binds the pod to the node. The test also adds what the admission of
//! service accounts adds: the token and the address of the API server. The pod uses the host network, as all pods in
//! these tests.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use serde_json::{Value, json};

use crate::containerd_image as image;
use crate::manifests::objects;
use crate::rig::{APP, Image, Layer, Manifest, NodeRig, Options, Program, becomes_true};

const NAMESPACE: &str = "kubegc-system";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Added to the shipped settings, so that the test need not wait.
const HASTE: &str = r#"
[containers]
interval = "1s"
[images]
interval = "1s"
min_age = "0s"
all_unused = true
keep = ["docker.io/library/app:1"]
[guards]
gone_after = "3s"
settle = "0s"
fall_hold = "0s"
sandbox_grace = "1s"
"#;

#[tokio::test]
async fn the_daemonsets_pod_collects_its_own_node() {
    let mut node = NodeRig::start(Options::default()).await;
    deploy(&node).await;

    images_go_and_the_agents_own_stays(&node).await;
    a_crash_loop_keeps_one_dead_container_and_its_log(&node).await;
    a_deleted_pod_goes_when_it_has_ended(&mut node).await;
    a_static_pod_goes_with_its_manifest(&mut node).await;

    let agent = agent(&node).await.unwrap();
    let restarts = agent.status.unwrap().container_statuses.unwrap()[0].restart_count;
    assert_eq!(restarts, 0, "{}", log(&node).await);
    assert_eq!(refused(&node), Vec::<String>::new());
}

async fn images_go_and_the_agents_own_stays(node: &NodeRig) {
    let unused = "docker.io/library/unused:1";
    node.import(&[Image::new(&[unused], &[Layer::busybox()])]).await;
    let gone = async || !tags(node).await.contains(&unused.to_owned());
    assert!(becomes_true(gone).await, "{}", log(node).await);
    let left = tags(node).await;
    assert!(left.contains(&APP.to_owned()) && left.iter().any(|tag| tag.contains("kubegc/kubegc")), "{left:#?}");
}

async fn a_crash_loop_keeps_one_dead_container_and_its_log(node: &NodeRig) {
    let uid = node.create(&Manifest::new("crash").container("app", "echo it crashed; exit 1")).await;
    node.await_backoff("crash", "app", 1).await;
    let one = async || node.containers_of(&uid, "app").await.len() == 1;
    assert!(becomes_true(one).await, "{}", log(node).await);
    assert_eq!(node.previous_log("crash", "app").await.unwrap(), "it crashed\n");
}

async fn a_deleted_pod_goes_when_it_has_ended(node: &mut NodeRig) {
    let web = Manifest::new("web").container("app", "exec sleep 1000000").pre_stop("sleep 8", 30);
    let uid = node.create(&web).await;
    node.await_running("web", "app").await;
    let before = node.objects_of("web", &uid).await;
    node.delete("web").await;
    while node.pod_named("web").await.is_some() {
        let left = node.objects_of("web", &uid).await;
        let running: Vec<_> = before.iter().filter(|name| name.contains(" running") && !left.contains(*name)).collect();
        if !running.is_empty() {
            break; // it has terminated
        }
        assert!(left.contains(&format!("link to default_web_{uid}/app/0.log")), "{left:#?}\n{}", log(node).await);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    node.await_gone("web").await;
    nothing_is_left_by_us_alone(node, "web", &uid).await;
}

async fn a_static_pod_goes_with_its_manifest(node: &mut NodeRig) {
    let fixed = Manifest::new("fixed").container("app", "exec sleep 1000000");
    let mirror = node.write_manifest(&fixed);
    node.await_running(&mirror, "app").await;
    let uid = uid_of(node, &mirror).await;
    let before = node.objects_of(&mirror, &uid).await;
    assert!(!before.is_empty());
    node.force_delete(&mirror).await;
    for _ in 0..4 {
        // Longer than gone_after. There is no event to wait for, because nothing must happen.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(node.objects_of(&mirror, &uid).await, before, "{}", log(node).await);
    }
    node.remove_manifest(&fixed);
    nothing_is_left_by_us_alone(node, &mirror, &uid).await;
}

/// Waits until kubegc has removed all objects of a terminated pod. The kubelet is paused, because it would remove them
/// too.
async fn nothing_is_left_by_us_alone(node: &mut NodeRig, pod: &str, uid: &str) {
    let dir = node.dir().join("kubelet/pods").join(uid);
    assert!(becomes_true(async || !dir.exists()).await, "the kubelet keeps {}", dir.display());
    node.pause(Program::Kubelet);
    let gone = becomes_true(async || node.objects_of(pod, uid).await.is_empty()).await;
    node.resume(Program::Kubelet);
    assert!(gone, "{:#?}\n{}", node.objects_of(pod, uid).await, log(node).await);
}

/// Returns the uid of a static pod in the runtime.
async fn uid_of(node: &NodeRig, mirror: &str) -> String {
    let pod = node.pod_named(mirror).await.unwrap();
    pod.metadata.annotations.unwrap().remove("kubernetes.io/config.hash").unwrap()
}

/// Does what `kubectl apply -k packaging/daemonset` and a controller do, and waits until the agent runs.
async fn deploy(node: &NodeRig) {
    let image = image::file();
    node.ctr(&["images", "import", "--snapshotter", "overlayfs", image.to_str().unwrap()]);
    for mut object in objects("daemonset") {
        if object["kind"] == "ConfigMap" {
            let toml = object["data"]["kubegc.toml"].as_str().unwrap().to_owned() + HASTE;
            object["data"]["kubegc.toml"] = json!(toml);
        }
        node.create_object(&object).await;
        if object["kind"] == "DaemonSet" {
            node.create_object(&pod(node, &object["spec"]["template"])).await;
        }
    }
    let runs = async || {
        let statuses = agent(node).await.and_then(|pod| pod.status).and_then(|status| status.container_statuses);
        statuses.is_some_and(|all| all.iter().all(|it| it.ready))
    };
    assert!(becomes_true(runs).await, "{:#?}\n{}", agent(node).await, log(node).await);
}

/// Returns the pod that a controller creates from the template, after admission.
fn pod(node: &NodeRig, template: &Value) -> Value {
    let account = node.dir().join("account");
    std::fs::create_dir(&account).unwrap();
    std::fs::write(account.join("token"), "account-token").unwrap();
    std::fs::write(account.join("namespace"), NAMESPACE).unwrap();
    std::fs::copy(node.dir().join("pki/ca.crt"), account.join("ca.crt")).unwrap();

    let mut pod = template.clone();
    (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
    (pod["metadata"]["name"], pod["metadata"]["namespace"]) = (json!("kubegc"), json!(NAMESPACE));
    let spec = &mut pod["spec"];
    (spec["nodeName"], spec["hostNetwork"]) = (json!(node.name()), json!(true));
    let volume = json!({ "name": "account", "hostPath": { "path": account, "type": "Directory" } });
    push(&mut spec["volumes"], volume);
    let container = &mut spec["containers"][0];
    container["image"] = json!(image::name());
    push(&mut container["volumeMounts"], json!({ "name": "account", "mountPath": ACCOUNT, "readOnly": true }));
    push(&mut container["env"], json!({ "name": "KUBERNETES_SERVICE_HOST", "value": node.name() }));
    push(&mut container["env"], json!({ "name": "KUBERNETES_SERVICE_PORT", "value": "6443" }));
    pod
}

fn push(list: &mut Value, value: Value) {
    list.as_array_mut().unwrap().push(value);
}

async fn agent(node: &NodeRig) -> Option<Pod> {
    Api::<Pod>::namespaced(node.kube(), NAMESPACE).get_opt("kubegc").await.unwrap()
}

/// Returns the log of the agent, or why the kubelet does not return it.
async fn log(node: &NodeRig) -> String {
    let pods = Api::<Pod>::namespaced(node.kube(), NAMESPACE);
    pods.logs("kubegc", &LogParams::default()).await.unwrap_or_else(|error| error.to_string())
}

async fn tags(node: &NodeRig) -> Vec<String> {
    node.list_images().await.into_iter().flat_map(|image| image.repo_tags).collect()
}

/// Returns the agent's requests that the API server refused.
fn refused(node: &NodeRig) -> Vec<String> {
    let audit = node.audit().into_iter();
    let refused = audit.filter(|entry| entry["annotations"]["authorization.k8s.io/decision"] != "allow");
    refused.map(|entry| entry["requestURI"].to_string()).collect()
}
