//! kubegc as the pod of the shipped `DaemonSet` template, from the image that `scripts/image.sh` makes. First Helm installs
//! the chart with the commands of README, and the agent removes nothing. Then, after `kubectl apply -k`, it collects garbage
//! on its node through its host mounts.
//!
//! No controller runs on the node, so the test binds the pod to the node and sets the status of the quota. The test also
//! adds what the admission of service accounts adds: the token and the address of the API server. The pod uses the host
//! network, as all pods in these tests.

use std::path::PathBuf;
use std::process::Command;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Pod, ResourceQuota};
use kube::api::{Api, DeleteParams, LogParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::readme;
use crate::containerd_image as image;
use crate::manifests::{copy, helm_script, kubectl, packaging};
use crate::rig::{APP, Image, Layer, Manifest, NodeRig, Options, Program, eventually, run};

const NAMESPACE: &str = "kubegc-system";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
pub(super) const UNUSED: &str = "docker.io/library/unused:1";

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
    prepare(&node);
    a_quota_is_necessary(&node).await;

    let [namespace, install, upgrade] = commands_of_readme();
    let values = write_values(&node);
    sh(&node, &namespace);
    let notes = sh(&node, &format!("{install} -f {values}"));
    assert!(notes.contains("removes nothing (dryRun=true)") && notes.contains("--set dryRun=false"), "{notes}");
    let second = sh(&node, "! helm install second packaging/chart -n kubegc-system 2>&1");
    assert!(second.contains("exists and cannot be imported into the current release"), "{second}");
    do_what_controllers_do(&node).await;
    an_observing_agent_shows_what_it_would_remove(&node).await;
    sh(&node, &upgrade);
    the_upgrade_ends_the_dry_run_and_keeps_the_other_values(&node).await;
    another_version_of_the_chart_is_installed_and_rolled_back(&node).await;
    remove_agent(&node).await;
    sh(&node, "helm uninstall kubegc -n kubegc-system");
    assert!(daemonset(&node).await.is_none());

    run(kubectl_on(&node).args(["apply", "-k"]).arg(manifests(&node).join("overlays/collect")));
    do_what_controllers_do(&node).await;
    images_go_and_the_agents_own_stays(&node).await;
    volumes_of_others_are_not_kept_busy(&mut node).await;
    a_crash_loop_keeps_one_dead_container_and_its_log(&node).await;
    a_deleted_pod_goes_when_it_has_ended(&mut node).await;
    a_static_pod_goes_with_its_manifest(&mut node).await;

    let agent = agent(&node).await.unwrap();
    let restarts = agent.status.unwrap().container_statuses.unwrap()[0].restart_count;
    assert_eq!(restarts, 0, "{}", log(&node).await);
    assert_eq!(refused(&node), Vec::<String>::new());
}

/// The first installation, as the README describes it.
async fn an_observing_agent_shows_what_it_would_remove(node: &NodeRig) {
    node.import(&[Image::new(&[UNUSED], &[Layer::busybox()])]).await;
    let planned = async || exec_plan(node).contains(UNUSED);
    assert!(eventually(planned).await, "{}\n{}", exec_plan(node), log(node).await);
    let logged = async || log(node).await.contains(UNUSED);
    assert!(eventually(logged).await, "{}", log(node).await);
    assert!(tags(node).await.contains(&UNUSED.to_owned()), "{}", log(node).await);
}

/// Returns the commands for an installation by Helm: namespace, installation and end of the dry run.
fn commands_of_readme() -> [String; 3] {
    let commands = readme::commands("kubectl apply -f");
    let [namespace, install, _plan, upgrade] = commands.try_into().unwrap();
    [namespace, install, upgrade]
}

/// Runs a command of README, with the programs that the rig downloaded.
pub(in crate::on_node) fn sh(node: &NodeRig, command: &str) -> String {
    let programs = [("helm", helm_script()), ("kubectl", kubectl())];
    let functions = programs.map(|(name, program)| format!("{name}() {{ {} \"$@\"; }}\n", program.display()));
    let mut shell = Command::new("sh");
    shell.args(["-euc", &(functions.concat() + command)]).current_dir(env!("CARGO_MANIFEST_DIR"));
    // Otherwise a later node with the same address would find the cached API of this one.
    shell.env("KUBECONFIG", node.kubeconfig("admin")).env("KUBECACHEDIR", node.dir().join("kubecache"));
    run(&mut shell)
}

/// Writes the values of the chart that are not in README, and returns their file.
fn write_values(node: &NodeRig) -> String {
    let file = node.dir().join("values.yaml");
    std::fs::write(&file, json!({ "config": HASTE }).to_string()).unwrap();
    file.display().to_string()
}

async fn the_upgrade_ends_the_dry_run_and_keeps_the_other_values(node: &NodeRig) {
    let pod = daemonset(node).await.unwrap().spec.unwrap().template.spec.unwrap();
    let args = pod.containers[0].args.clone().unwrap();
    assert_eq!(args, ["run", "--set", "metrics.address=0.0.0.0:10273", "--mode=collect"]);
    let maps = Api::<ConfigMap>::namespaced(node.kube(), NAMESPACE);
    let data = maps.get("kubegc").await.unwrap().data.unwrap();
    assert_eq!(data["values.toml"].trim(), HASTE.trim());
}

/// Returns the plan, or why there is none yet.
fn exec_plan(node: &NodeRig) -> String {
    let mut plan = kubectl_on(node);
    let output = plan.args(["-n", NAMESPACE, "exec", "ds/kubegc", "--", "kubegc", "plan"]).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// A volume that is mounted while the agent runs is visible below its mounts, and the kubelet can unmount it.
async fn volumes_of_others_are_not_kept_busy(node: &mut NodeRig) {
    let volume = json!([{ "name": "cache", "emptyDir": { "medium": "Memory" } }]);
    let mounted = Manifest::new("mounted").running("app").with(|pod| {
        pod["spec"]["volumes"] = volume;
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "cache", "mountPath": "/tmp" }]);
    });
    let uid = node.create(&mounted).await;
    node.await_running("mounted", "app").await;
    let beneath = format!("/host/var/lib/kubelet/pods/{uid}/volumes/");
    assert!(agents_mounts(node).iter().any(|at| at.starts_with(&beneath)), "{:#?}", agents_mounts(node));
    let kubelet =
        |at: &String| at.starts_with("/host/var/lib/kubelet/") && !at.starts_with("/host/var/lib/kubelet/pods");
    let others: Vec<_> = agents_mounts(node).into_iter().filter(kubelet).collect();
    assert_eq!(others, ["/host/var/lib/kubelet/image_manager"], "and no key or socket of the kubelet");
    node.delete("mounted").await;
    node.await_removal("mounted").await;
    nothing_is_left_by_us_alone(node, "mounted", &uid).await;
    assert!(!agents_mounts(node).iter().any(|at| at.starts_with(&beneath)), "{:#?}", agents_mounts(node));
}

/// Returns the mount points that the agent sees.
fn agents_mounts(node: &NodeRig) -> Vec<String> {
    let tasks = node.ctr(&["tasks", "ls"]);
    let id = agents_container(node);
    let task = tasks.lines().find(|line| line.starts_with(&id)).unwrap_or_else(|| panic!("no {id} in {tasks}"));
    let pid = task.split_whitespace().nth(1).unwrap();
    let table = run(node.in_cell("cat").arg(format!("/proc/{pid}/mountinfo")));
    table.lines().map(|line| line.split(' ').nth(4).unwrap().to_owned()).collect()
}

fn agents_container(node: &NodeRig) -> String {
    let path = "{.items[0].status.containerStatuses[0].containerID}";
    let id = run(kubectl_on(node).args(["-n", NAMESPACE, "get", "pods", "-o", &format!("jsonpath={path}")]));
    id.trim_start_matches("containerd://").to_owned()
}

async fn images_go_and_the_agents_own_stays(node: &NodeRig) {
    let gone = async || !tags(node).await.contains(&UNUSED.to_owned());
    assert!(eventually(gone).await, "{}", log(node).await);
    let left = tags(node).await;
    assert!(left.contains(&APP.to_owned()) && left.iter().any(|tag| tag.contains("kubegc/kubegc")), "{left:#?}");
}

async fn a_crash_loop_keeps_one_dead_container_and_its_log(node: &NodeRig) {
    let uid = node.create(&Manifest::new("crash").container("app", "echo it crashed; exit 1")).await;
    node.await_backoff("crash", "app", 1).await;
    let one = async || node.containers_of(&uid, "app").await.len() == 1;
    assert!(eventually(one).await, "{}", log(node).await);
    // The status names the container before the last one until the kubelet has seen the last one end.
    let logged = async || node.previous_log("crash", "app").await.is_ok_and(|text| text == "it crashed\n");
    assert!(eventually(logged).await, "{:?}\n{}", node.previous_log("crash", "app").await, log(node).await);
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
    node.await_removal("web").await;
    nothing_is_left_by_us_alone(node, "web", &uid).await;
}

/// The chart of another version keeps the values, and the one of before gives the same objects again.
async fn another_version_of_the_chart_is_installed_and_rolled_back(node: &NodeRig) {
    let before = daemonset(node).await.unwrap().spec.unwrap().template.spec;
    let charts = node.dir().join("charts");
    std::fs::create_dir(&charts).unwrap();
    run(Command::new(packaging("../scripts/chart.sh")).args(["--version", "9.9.9"]).arg(&charts));
    sh(node, &format!("helm upgrade kubegc {}/kubegc-9.9.9.tgz -n kubegc-system --reuse-values", charts.display()));
    let pod = daemonset(node).await.unwrap().spec.unwrap().template.spec.unwrap();
    let container = &pod.containers[0];
    assert_eq!(container.image.as_deref(), Some("ghcr.io/kubegc/kubegc:9.9.9"));
    assert!(container.args.as_ref().unwrap().contains(&"--mode=collect".to_owned()), "{:?}", container.args);
    sh(node, "helm rollback kubegc -n kubegc-system");
    assert_eq!(daemonset(node).await.unwrap().spec.unwrap().template.spec, before);
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
    assert!(eventually(async || !dir.exists()).await, "the kubelet keeps {}", dir.display());
    node.pause(Program::Kubelet);
    let gone = eventually(async || node.objects_of(pod, uid).await.is_empty()).await;
    node.resume(Program::Kubelet);
    assert!(gone, "{:#?}\n{}", node.objects_of(pod, uid).await, log(node).await);
}

/// Returns the uid of a static pod in the runtime.
async fn uid_of(node: &NodeRig, mirror: &str) -> String {
    let pod = node.pod_named(mirror).await.unwrap();
    pod.metadata.annotations.unwrap().remove("kubernetes.io/config.hash").unwrap()
}

/// Imports the agent's image, and writes the manifests.
fn prepare(node: &NodeRig) {
    node.ctr(&["images", "import", "--snapshotter", "overlayfs", image::file().to_str().unwrap()]);
    write_manifests(node);
}

/// Copies the manifests, adds settings to their configuration, and writes the files of the service account.
pub(super) fn write_manifests(node: &NodeRig) {
    copy(node.dir());
    let file = manifests(node).join("daemonset/kubegc.toml");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + HASTE).unwrap();
    let account = node.dir().join("account");
    std::fs::create_dir(&account).unwrap();
    std::fs::write(account.join("token"), "account-token").unwrap();
    std::fs::write(account.join("namespace"), NAMESPACE).unwrap();
    std::fs::copy(node.dir().join("pki/ca.crt"), account.join("ca.crt")).unwrap();
}

fn manifests(node: &NodeRig) -> PathBuf {
    node.dir().join("packaging")
}

fn kubectl_on(node: &NodeRig) -> Command {
    let mut command = Command::new(kubectl());
    command.env_clear().env("HOME", node.dir()).arg("--kubeconfig").arg(node.kubeconfig("admin"));
    command
}

/// In a namespace without the quota this API server refuses pods with a critical priority class.
async fn a_quota_is_necessary(node: &NodeRig) {
    let critical = Manifest::new("critical").running("app");
    let critical = critical.with(|pod| pod["spec"]["priorityClassName"] = json!("system-node-critical"));
    let pod = serde_json::from_value(critical.bound_to(node.name())).unwrap();
    let error = node.pods().create(&PostParams::default(), &pod).await.unwrap_err().to_string();
    assert!(error.contains("insufficient quota"), "{error}");
}

/// Sets the status of the quota, creates the pod of the `DaemonSet`, and waits until it is ready.
pub(super) async fn do_what_controllers_do(node: &NodeRig) {
    let quotas = Api::<ResourceQuota>::namespaced(node.kube(), NAMESPACE);
    let hard = quotas.get("kubegc").await.unwrap().spec.unwrap().hard;
    let status = json!({ "status": { "hard": hard, "used": { "pods": "0" } } });
    quotas.patch_status("kubegc", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let template = daemonset(node).await.unwrap().spec.unwrap().template;
    node.create_object(&pod(node, serde_json::to_value(template).unwrap())).await;
    let runs = async || {
        let statuses = agent(node).await.and_then(|pod| pod.status).and_then(|status| status.container_statuses);
        statuses.is_some_and(|all| all.iter().all(|it| it.ready))
    };
    assert!(eventually(runs).await, "{:#?}\n{}", container_status(node).await, log(node).await);
}

async fn daemonset(node: &NodeRig) -> Option<DaemonSet> {
    Api::<DaemonSet>::namespaced(node.kube(), NAMESPACE).get_opt("kubegc").await.unwrap()
}

pub(super) async fn remove_agent(node: &NodeRig) {
    Api::<Pod>::namespaced(node.kube(), NAMESPACE).delete("kubegc", &DeleteParams::default()).await.unwrap();
    let gone = async || agent(node).await.is_none();
    assert!(eventually(gone).await, "{:#?}", container_status(node).await);
}

/// Returns the pod that a controller creates from the template, after admission.
fn pod(node: &NodeRig, mut pod: Value) -> Value {
    (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
    (pod["metadata"]["name"], pod["metadata"]["namespace"]) = (json!("kubegc"), json!(NAMESPACE));
    let spec = &mut pod["spec"];
    (spec["nodeName"], spec["hostNetwork"]) = (json!(node.name()), json!(true));
    let volume = json!({ "name": "account", "hostPath": { "path": node.dir().join("account"), "type": "Directory" } });
    push(&mut spec["volumes"], volume);
    let container = &mut spec["containers"][0];
    container["image"] = json!(image::name());
    // The agent is not ready before its first pass. With the shipped period the second probe would be up to a minute late.
    container["readinessProbe"]["periodSeconds"] = json!(1);
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

/// Returns the status of the agent's container.
async fn container_status(node: &NodeRig) -> Option<ContainerStatus> {
    agent(node).await?.status?.container_statuses?.pop()
}

/// Returns the log of the agent, or why the kubelet does not return it.
pub(super) async fn log(node: &NodeRig) -> String {
    let pods = Api::<Pod>::namespaced(node.kube(), NAMESPACE);
    pods.logs("kubegc", &LogParams::default()).await.unwrap_or_else(|error| error.to_string())
}

pub(super) async fn tags(node: &NodeRig) -> Vec<String> {
    node.list_images().await.into_iter().flat_map(|image| image.repo_tags).collect()
}

/// Returns the agent's requests that the API server refused.
fn refused(node: &NodeRig) -> Vec<String> {
    let audit = node.audit().into_iter();
    let refused = audit.filter(|entry| entry["annotations"]["authorization.k8s.io/decision"] != "allow");
    refused.map(|entry| entry["requestURI"].to_string()).collect()
}
