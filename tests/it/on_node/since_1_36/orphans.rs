//! The kubelet's directories of pods that were deleted while the kubelet was killed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kubegc::cri::generated as pb;
use serde_json::{Value, json};

use crate::on_node::service::Service;
use crate::rig::{Manifest, NodeRig, Options, Program, becomes_true};

const SETTINGS: [&str; 1] = ["leftovers.remove=pod_directory"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_of_deleted_pods_go_unless_something_is_mounted_there() {
    let begun = Instant::now();
    let node = super::start(Options::default()).await;
    let (plain, mounted) =
        (start(&node, "plain", json!({})).await, start(&node, "mounted", json!({ "medium": "Memory" })).await);
    for directory in [&plain, &mounted] {
        assert!(becomes_true(async || has_data(&node, directory)).await, "{directory:?}");
    }
    node.kill(Program::Kubelet);
    let service = Service::start(&node, "kubegc", &SETTINGS);
    service.next_pass().await;
    for (pod, directory) in [("plain", &plain), ("mounted", &mounted)] {
        node.force_delete(pod).await;
        assert!(directory.exists(), "{pod}");
    }
    remove_sandboxes(&node, &[&plain, &mounted]).await;
    service.until("removal of the directory", async || !plain.exists()).await;
    let plan = || service.kubegc(&["plan", "-o", "wide", "--kind", "leftover"]).stdout;
    service.until("reason to keep the other one", async || plan().contains("something is mounted there")).await;
    assert!(outcome(&service, &mounted).is_none(), "what the plan keeps is not refused in each pass");
    assert!(has_data(&node, &mounted), "the mounted volume is as it was");
    node.begin(Program::Kubelet).await;
    service.until("removal by the kubelet", async || !mounted.exists()).await;
    assert_eq!(node.container_status("keeper", "app").await.restart_count, 0);
    super::report(&service);
    println!("{:?}", begun.elapsed());
}

/// Starts a pod that writes to an `emptyDir`, and returns its directory.
async fn start(node: &NodeRig, name: &str, volume: Value) -> PathBuf {
    let pod = Manifest::new(name).container("app", "echo data >/x/data; exec sleep 1000000").with(|pod| {
        pod["spec"]["volumes"] = json!([{ "name": "x", "emptyDir": volume }]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "x", "mountPath": "/x" }]);
    });
    let uid = node.create(&pod).await;
    node.await_running(name, "app").await;
    node.dir().join("kubelet/pods").join(uid)
}

/// Removes the sandboxes of pods with their containers, as `crictl rmp --force` does.
async fn remove_sandboxes(node: &NodeRig, directories: &[&PathBuf]) {
    let uids: Vec<_> = directories.iter().map(|directory| uid(directory)).collect();
    for sandbox in node.list_sandboxes().await {
        if uids.contains(&sandbox.metadata.unwrap().uid.as_str()) {
            let pod_sandbox_id = sandbox.id;
            let stop = pb::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() };
            node.runtime().stop_pod_sandbox(stop).await.unwrap();
            node.runtime().remove_pod_sandbox(pb::RemovePodSandboxRequest { pod_sandbox_id }).await.unwrap();
        }
    }
}

/// Returns the uid of the pod of a directory.
fn uid(directory: &Path) -> &str {
    directory.file_name().unwrap().to_str().unwrap()
}

/// Returns the last entry of the history about a directory.
fn outcome(service: &Service<'_>, directory: &Path) -> Option<Value> {
    service.history(uid(directory)).into_iter().find(|entry| entry["kind"] == "leftover")
}

/// Returns whether the volume of a pod has its data, as a process on the node sees it: the kubelet mounts below its own path.
fn has_data(node: &NodeRig, directory: &Path) -> bool {
    let pod = Path::new("/var/lib/kubelet/pods").join(uid(directory));
    let output = node.in_cell("cat").arg(pod.join("volumes/kubernetes.io~empty-dir/x/data")).output().unwrap();
    output.stdout == b"data\n"
}
