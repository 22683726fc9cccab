//! Running pods: kubegc never causes a restart of what exited in them, and the logs of crashed containers remain
//! readable.
//!
//! A dead container shows the kubelet that its work is done. Without the container the kubelet runs the work again. A
//! test shows this too, with a removal by hand: otherwise the other tests would prove nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::on_node::agent::Agent;
use crate::rig::{Collection, Manifest, NodeRig, Options, Program, becomes_true};

/// The number of passes over running pods.
const PASSES: u32 = 10;

/// The lowest limits: what is kept is the newest instance of its container.
const HARD: [&str; 2] = ["--maximum-dead-containers-per-container=0", "--maximum-dead-containers=0"];

/// The containers that exited and must not run again.
const ONCE: [&str; 7] =
    ["on-failure.job", "never.job", "never.failed", "waiting.first", "waiting.second", "working.first", "working.app"];

#[tokio::test]
async fn running_pods_lose_nothing_that_they_need() {
    running_pods_lose_nothing(Collection::Off).await;
}

#[tokio::test]
#[ignore = "make test-churn: without it and with pods that come and go, `make test` has both"]
async fn running_pods_lose_nothing_beside_a_collecting_kubelet() {
    running_pods_lose_nothing(Collection::On).await;
}

async fn running_pods_lose_nothing(kubelet: Collection) {
    let node = NodeRig::start(Options { kubelet, ..Options::default() }).await;
    let agent = Agent::on(&node).await;
    let crash = create(&node).await;
    a_crash_loop_keeps_one_dead_container_and_its_log(&node, &agent, &crash).await;
    what_finished_is_never_run_again(&node, &agent).await;
    one_is_left(&node, &crash, || agent.collect_with(&HARD)).await;
    what_is_removed_by_hand_is_run_again(&node, "on-failure", "job").await;
    what_is_removed_by_hand_is_run_again(&node, "waiting", "second").await;
}

/// Creates a pod in every state that is not terminated. Returns the uid of the pod that crashes.
async fn create(node: &NodeRig) -> String {
    std::fs::create_dir(node.dir().join("runs")).unwrap();
    let pod = |name: &str| Manifest::new(name);
    let pods = [
        pod("on-failure").restart("OnFailure").container("job", "exit 0").running("keeper"),
        pod("never").restart("Never").container("job", "exit 0").container("failed", "exit 1").running("keeper"),
        pod("waiting").init("first", "exit 0").init("second", "exit 0").container("app", "exit 1"),
        pod("working").init("first", "exit 0").running("app"),
    ];
    for pod in pods {
        node.create(&counting(node, pod)).await;
    }
    let crash = node.create(&pod("crash").container("app", "echo it crashed; exit 1")).await;
    node.await_ended("on-failure", "job").await;
    node.await_ended("never", "job").await;
    node.await_ended("never", "failed").await;
    node.await_running("working", "app").await;
    node.await_backoff("waiting", "app", 1).await;
    node.await_backoff("crash", "app", 2).await;
    crash
}

async fn a_crash_loop_keeps_one_dead_container_and_its_log(node: &NodeRig, agent: &Agent<'_>, crash: &str) {
    one_is_left(node, crash, || agent.collect()).await;
    assert_eq!(node.previous_log("crash", "app").await.unwrap(), "it crashed\n");
}

/// Collects until one container is left, which must never be none. Between a pass and the look the kubelet may have
/// started the crashing container once more.
async fn one_is_left<T>(node: &NodeRig, crash: &str, collect: impl Fn() -> T) {
    let one = async || {
        collect();
        let left = node.containers_of(crash, "app").await.len();
        assert!(left > 0, "the hardest limit leaves one too");
        left == 1
    };
    assert!(becomes_true(one).await);
}

async fn what_finished_is_never_run_again(node: &NodeRig, agent: &Agent<'_>) {
    for pass in 0..PASSES {
        agent.collect_with(&HARD);
        // In the middle the kubelet is restarted, so that it has only the state that it reads from the runtime.
        if pass == PASSES / 2 {
            node.end(Program::Kubelet);
            node.begin(Program::Kubelet).await;
        }
        // The kubelet lists the runtime every second and acts on changes.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let once: BTreeMap<_, _> = ONCE.iter().map(|&name| (name.to_owned(), 1)).collect();
    let mut runs = runs(node);
    assert!(runs.remove("waiting.app").is_some_and(|runs| runs > 1), "the app of the waiting pod crashes");
    runs.retain(|name, _| !name.ends_with(".keeper"));
    assert_eq!(runs, once, "after {PASSES} passes");
}

/// Observed with the kubelet 1.20.2: after 3 to 13 s.
async fn what_is_removed_by_hand_is_run_again(node: &NodeRig, pod: &str, container: &str) {
    let name = format!("{pod}.{container}");
    let uid = node.pod_named(pod).await.unwrap().metadata.uid.unwrap();
    for id in node.containers_of(&uid, container).await {
        node.remove_container(&id).await;
    }
    let since = Instant::now();
    while runs(node)[&name] == 1 {
        assert!(since.elapsed() < Duration::from_mins(4), "{name} is not run again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{name} ran again {:?} after its container was removed", since.elapsed());
}

/// Changes the pod so that its containers record when they run.
fn counting(node: &NodeRig, pod: Manifest) -> Manifest {
    let (name, path) = (pod.name().to_owned(), node.dir().join("runs"));
    pod.with(|pod| {
        pod["spec"]["volumes"] = json!([{ "name": "runs", "hostPath": { "path": path } }]);
        for list in ["initContainers", "containers"] {
            for container in pod["spec"][list].as_array_mut().unwrap() {
                container["volumeMounts"] = json!([{ "name": "runs", "mountPath": "/tmp" }]);
                let counted = format!("echo ran >>/tmp/{name}.{}; ", container["name"].as_str().unwrap());
                let script = container["command"][2].as_str().unwrap();
                container["command"][2] = json!(counted + script);
            }
        }
    })
}

/// Returns how often each container ran, from its own record.
fn runs(node: &NodeRig) -> BTreeMap<String, usize> {
    let files = std::fs::read_dir(node.dir().join("runs")).unwrap().map(|entry| entry.unwrap());
    let count = |path| std::fs::read_to_string(path).unwrap().lines().count();
    files.map(|file| (file.file_name().into_string().unwrap(), count(file.path()))).collect()
}
