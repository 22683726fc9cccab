//! Pods that live on: what finished in them is never run again because of us, and what crashed can be read.
//!
//! A kubelet learns from a dead container that its work is done. Without the container it does the work again. That is
//! shown here too, by hand: a test that could not see it would prove nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::on_node::agent::Agent;
use crate::rig::{Collection, Manifest, NodeRig, Options, Program};

/// Passes over pods that live on.
const PASSES: u32 = 10;

/// The limits at their hardest: what stays then stays because it is the newest of its name.
const HARD: [&str; 2] = ["--maximum-dead-containers-per-container=0", "--maximum-dead-containers=0"];

/// What ran once, and must not run again.
const ONCE: [&str; 7] =
    ["on-failure.job", "never.job", "never.failed", "waiting.first", "waiting.second", "working.first", "working.app"];

#[tokio::test]
async fn living_pods_lose_nothing_that_they_need() {
    living_pods_lose_nothing(Collection::Off).await;
}

#[tokio::test]
async fn living_pods_lose_nothing_that_they_need_beside_a_kubelet_that_collects() {
    living_pods_lose_nothing(Collection::On).await;
}

async fn living_pods_lose_nothing(kubelet: Collection) {
    let node = NodeRig::start(Options { kubelet, ..Options::default() }).await;
    let agent = Agent::on(&node).await;
    let crash = create(&node).await;
    a_crash_loop_keeps_one_dead_container_and_its_log(&node, &agent, &crash).await;
    what_finished_is_never_run_again(&node, &agent).await;
    assert_eq!(node.containers_of(&crash, "app").await.len(), 1, "the hardest limit leaves one too");
    what_is_removed_by_hand_is_run_again(&node, "on-failure", "job").await;
    what_is_removed_by_hand_is_run_again(&node, "waiting", "second").await;
}

/// Pods in every state that lives on. Returns the uid of the one that crashes.
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
    agent.collect();
    assert_eq!(node.containers_of(crash, "app").await.len(), 1);
    assert_eq!(node.previous_log("crash", "app").await.unwrap(), "it crashed\n");
}

async fn what_finished_is_never_run_again(node: &NodeRig, agent: &Agent<'_>) {
    for pass in 0..PASSES {
        agent.collect_with(&HARD);
        // Half-way the kubelet forgets everything but what it reads from the runtime.
        if pass == PASSES / 2 {
            node.end(Program::Kubelet);
            node.begin(Program::Kubelet).await;
        }
        // The kubelet looks at the runtime every second, and acts on what it sees.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let once: BTreeMap<_, _> = ONCE.iter().map(|&name| (name.to_owned(), 1)).collect();
    let mut runs = runs(node);
    assert!(runs.remove("waiting.app").is_some_and(|runs| runs > 1), "the app of the waiting pod crashes");
    runs.retain(|name, _| !name.ends_with(".keeper"));
    assert_eq!(runs, once, "after {PASSES} passes");
}

/// Seen with the kubelet 1.20.2: after 3 to 13 s.
async fn what_is_removed_by_hand_is_run_again(node: &NodeRig, pod: &str, container: &str) {
    let name = format!("{pod}.{container}");
    let uid = node.pod_named(pod).await.unwrap().metadata.uid.unwrap();
    for id in node.containers_of(&uid, container).await {
        node.remove_container(&id).await;
    }
    let since = Instant::now();
    while runs(node)[&name] == 1 {
        assert!(since.elapsed() < Duration::from_secs(90), "{name} is not run again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{name} ran again {:?} after its container was removed", since.elapsed());
}

/// The pod with containers that tell when they run.
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

/// How often each container ran, as it said itself.
fn runs(node: &NodeRig) -> BTreeMap<String, usize> {
    let files = std::fs::read_dir(node.dir().join("runs")).unwrap().map(|entry| entry.unwrap());
    let count = |path| std::fs::read_to_string(path).unwrap().lines().count();
    files.map(|file| (file.file_name().into_string().unwrap(), count(file.path()))).collect()
}
