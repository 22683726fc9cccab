//! Containers that restart alone or together, those that run beside them, and a volume that is an image.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::api::{LogParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::follower::{Follower, Readable};
use super::{DEFAULT_LIMITS, LOWEST_LIMITS, words};
use crate::cli_on_sim::restarted_together::{CONTAINERS, RESTARTS as ROUNDS, has_each_log, recorded};
use crate::on_node::service::Service;
use crate::rig::{APP, Image, Layer, Manifest, NodeRig, Options, becomes_true};

/// The image of the volume, and one without use.
const DATA: &str = "docker.io/library/data:1";
const UNUSED: &str = "docker.io/library/unused:1";

/// How often containers restart alone: the kubelet waits none, 10 and 20 s.
const RESTARTS: i32 = 3;

/// The containers that run once.
const ONCE: [(&str, &str); 9] = [
    ("keeper", "app"),
    ("rules", "app"),
    ("rules", "last"),
    ("sidecar", "first"),
    ("sidecar", "beside"),
    ("sidecar", "app"),
    ("ephemeral", "app"),
    ("ephemeral", "debug"),
    ("ephemeral", "shell"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarting_pods_lose_nothing_that_they_need_at_the_lowest_limits() {
    restarting_pods_lose_nothing(&LOWEST_LIMITS, Readable::WhileWaiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarting_pods_keep_the_logs_of_previous_instances_with_the_default_limits() {
    restarting_pods_lose_nothing(&DEFAULT_LIMITS, Readable::WhileRunning).await;
}

async fn restarting_pods_lose_nothing(limits: &[&str], readable: Readable) {
    let begun = Instant::now();
    let node = super::start(Options::default()).await;
    node.import(&[image(DATA), image(UNUSED)]).await;
    for pod in pods() {
        // The client's own type of a pod lacks the rules.
        node.create_object(&pod.bound_to(node.name())).await;
    }
    debug(&node).await;
    let service = Service::start(&node, "kubegc", limits);
    let follower = Follower::follow(&node, readable);
    let once = once(&node).await;
    all_containers_restart_together(&node, &service).await;
    an_image_volume_is_mounted_again(&node, &service).await;
    await_restarts(&node, "rules", "again", RESTARTS).await;
    await_restarts(&node, "sidecar", "side", RESTARTS).await;
    service.passes(3).await;
    old_termination_logs_are_gone(&node, &service).await;
    assert_eq!(self::once(&node).await, once, "they run once, in the same containers");
    assert_eq!(node.present(&words(&[APP, DATA, UNUSED])).await, words(&[APP, DATA]));
    follower.end(10).await;
    super::nothing_is_left_of_deleted_pods(&node, &service).await;
    super::report(&service);
    println!("{:?}", begun.elapsed());
}

/// The containers wait until `/x/go` exists.
fn pods() -> [Manifest; 4] {
    let wait = "while ! [ -e /x/go ]; do sleep 0.2; done";
    let pod = |name: &str| Manifest::new(name);
    let all = pod("all").init("first", "echo first; exec busybox rm -f /x/go").running("app");
    let again = "echo again; echo ended >/dev/termination-log; exit 42";
    let rules = pod("rules").restart("Never").running("app").container("again", again);
    let sidecar = pod("sidecar").init("side", "echo side; exit 1").init("beside", "exec sleep 1000000");
    let mount = json!({ "name": "data", "mountPath": "/data" });
    let volume = json!({ "name": "data", "image": { "reference": DATA, "pullPolicy": "Never" } });
    [
        shared(all.container("trigger", &format!("echo trigger; {wait}; exit 88")))
            .with(|pod| on_exit(&mut pod["spec"]["containers"][1], 88, "RestartAllContainers")),
        rules.container("last", "exit 1").with(|pod| {
            on_exit(&mut pod["spec"]["containers"][1], 42, "Restart");
            on_exit(&mut pod["spec"]["containers"][2], 42, "Restart");
        }),
        sidecar.init("first", "exit 0").running("app").with(|pod| {
            for container in 0..2 {
                pod["spec"]["initContainers"][container]["restartPolicy"] = json!("Always");
            }
        }),
        shared(
            pod("volume")
                .container("app", &format!("echo app; busybox wc -c </data/data; {wait}; exec busybox rm /x/go")),
        )
        .with(|pod| {
            pod["spec"]["volumes"].as_array_mut().unwrap().push(volume);
            pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
        }),
    ]
}

/// Changes the pod so that its containers share a directory.
fn shared(pod: Manifest) -> Manifest {
    pod.with(|pod| {
        pod["spec"]["volumes"] = json!([{ "name": "x", "emptyDir": {} }]);
        for list in ["initContainers", "containers"] {
            for container in pod["spec"][list].as_array_mut().unwrap() {
                container["volumeMounts"] = json!([{ "name": "x", "mountPath": "/x" }]);
            }
        }
    })
}

/// Gives a container a rule for an exit code. Otherwise it does not restart.
fn on_exit(container: &mut Value, code: i32, action: &str) {
    let codes = json!({ "operator": "In", "values": [code] });
    container["restartPolicy"] = json!("Never");
    container["restartPolicyRules"] = json!([{ "action": action, "exitCodes": codes }]);
}

/// The kubelet shows the message of the instance before, and the files of lost instances do not pile up.
async fn old_termination_logs_are_gone(node: &NodeRig, service: &Service<'_>) {
    let pod = node.pods().get("rules").await.unwrap();
    let uid = pod.metadata.uid.unwrap();
    let logs = node.dir().join("kubelet/pods").join(&uid).join("containers/again");
    let status = node.container_status("rules", "again").await;
    let message = |state: Option<&ContainerState>| state?.terminated.as_ref()?.message.clone();
    let shown = message(status.state.as_ref()).or(message(status.last_state.as_ref()));
    assert_eq!(shown.as_deref(), Some("ended\n"));
    let restarts = usize::try_from(status.restart_count).unwrap();
    let names = || -> BTreeSet<_> { std::fs::read_dir(&logs).unwrap().map(|log| log.unwrap().file_name()).collect() };
    for log in std::fs::read_dir(&logs).unwrap() {
        // They stay while they may be in the making.
        let log = std::fs::File::open(log.unwrap().path()).unwrap();
        log.set_modified(log.metadata().unwrap().modified().unwrap() - Duration::from_hours(1)).unwrap();
    }
    service.until("fewer files than instances", async || names().len() <= restarts.min(3)).await;
    let removed = service.history(&uid);
    let is_log = |entry: &&Value| entry["kind"] == "leftover" && entry["reason"] == "instance_gone";
    let removed: Vec<_> = removed.iter().filter(is_log).map(|entry| entry["outcome"].as_str().unwrap()).collect();
    assert!(!removed.is_empty() && removed.iter().all(|outcome| *outcome == "removed"), "{removed:?}");
}

/// Creates a pod with two ephemeral containers: one exits, the other one runs.
async fn debug(node: &NodeRig) {
    node.create(&Manifest::new("ephemeral").running("app")).await;
    let container = |name: &str, script: &str| json!({ "name": name, "image": APP, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script] });
    let debuggers = [container("debug", "echo debugging; exit 3"), container("shell", "exec sleep 1000000")];
    let patch = Patch::Strategic(json!({ "spec": { "ephemeralContainers": debuggers } }));
    node.pods().patch_ephemeral_containers("ephemeral", &PatchParams::default(), &patch).await.unwrap();
    node.await_running("ephemeral", "shell").await;
}

/// Returns the IDs of the containers that run once, when each of them has run or runs.
async fn once(node: &NodeRig) -> BTreeMap<String, String> {
    let mut ids = BTreeMap::new();
    for (pod, container) in ONCE {
        let status = node.await_container(pod, container, "begun", has_begun).await;
        assert_eq!(status.restart_count, 0, "{pod}/{container}");
        ids.insert(format!("{pod}/{container}"), status.container_id.unwrap());
    }
    let which = LogParams { container: Some("debug".to_owned()), ..LogParams::default() };
    assert_eq!(node.pods().logs("ephemeral", &which).await.unwrap(), "debugging\n");
    ids
}

async fn all_containers_restart_together(node: &NodeRig, service: &Service<'_>) {
    for round in 0..=ROUNDS {
        let restarts = i32::try_from(round).unwrap();
        for container in ["app", "trigger"] {
            await_restarts(node, "all", container, restarts).await;
        }
        node.await_pod("all", "ready", is_ready).await;
        service.passes(1).await;
        for name in CONTAINERS {
            let count = node.container_status("all", name).await.restart_count;
            assert_eq!(count, restarts, "all/{name}");
        }
        has_each_log(&names_of_all(node).await, round);
        if round < ROUNDS {
            go(node, "all").await;
        }
    }
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/restarted_together.json");
    let names = names_of_all(node).await;
    std::fs::write(file, format!("{:#}\n", json!(names))).unwrap();
    assert_eq!(names, recorded(), "all names are in {file}");
}

/// The volume can be mounted again only if its image exists: it is never pulled.
async fn an_image_volume_is_mounted_again(node: &NodeRig, service: &Service<'_>) {
    await_restarts(node, "volume", "app", 0).await;
    service.passes(1).await;
    go(node, "volume").await;
    await_restarts(node, "volume", "app", 1).await;
    let reads = async || node.pods().logs("volume", &LogParams::default()).await.unwrap() == "app\n1048576\n";
    assert!(becomes_true(reads).await, "the second instance reads the image");
}

/// Lets the waiting container of a pod exit.
async fn go(node: &NodeRig, pod: &str) {
    let uid = node.pod_named(pod).await.unwrap().metadata.uid.unwrap();
    let volume = node.dir().join("kubelet/pods").join(uid).join("volumes/kubernetes.io~empty-dir/x");
    std::fs::write(volume.join("go"), "").unwrap();
}

/// Waits until a container has restarted so often or more, and has begun.
async fn await_restarts(node: &NodeRig, pod: &str, container: &str, restarts: i32) {
    let what = format!("restarted {restarts} times");
    node.await_container(pod, container, &what, |it| it.restart_count >= restarts && has_begun(it)).await;
}

fn has_begun(status: &ContainerStatus) -> bool {
    let state = status.state.as_ref();
    state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions).flatten();
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Returns the containers and the log files of the pod `all`, as they are recorded.
async fn names_of_all(node: &NodeRig) -> BTreeSet<String> {
    let uid = node.pod_named("all").await.unwrap().metadata.uid.unwrap();
    let names = node.names().await.words().into_iter();
    let ours = names.filter(|name| name.starts_with("container all/") || name.starts_with("file default_all_"));
    ours.map(|name| name.replace(&uid, "UID")).collect()
}

fn image(tag: &str) -> Image {
    Image::new(&[tag], &[Layer::filled("data", 1)])
}
