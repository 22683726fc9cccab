//! What a kubelet leaves of a pod whose containers were restarted together (`RestartAllContainers`, KEP-5532): it removes the
//! containers and keeps their logs, from whose names it counts the restarts.
//!
//! `tests/data/restarted_together.json` has the names of what a kubelet 1.36 left. `on_node::since_1_36::restarts` compares it
//! with the one under test.

use std::collections::BTreeSet;

use kubegc::sim::Node;

use super::{Host, node};
use crate::on_node::since_1_36::LOWEST_LIMITS;

/// The containers of the pod `all`. The first one is an init container.
pub const CONTAINERS: [&str; 3] = ["first", "app", "trigger"];
/// How often they were restarted.
pub const RESTARTS: u32 = 3;

/// Returns what a kubelet left, as [`crate::rig::Names`] names it, with `UID` for that of the pod.
pub fn recorded() -> BTreeSet<String> {
    serde_json::from_str(include_str!("../../data/restarted_together.json")).unwrap()
}

/// Each container has the log of each instance.
pub fn has_each_log(names: &BTreeSet<String>, restarts: u32) {
    for container in CONTAINERS {
        let logs = (0..=restarts).map(|attempt| format!("file default_all_UID/{container}/{attempt}.log"));
        let missing: Vec<_> = logs.filter(|log| !names.contains(log)).collect();
        assert_eq!(missing, [""; 0], "{names:#?}");
    }
}

/// The recorded pod. The runtime lists only the last instances.
fn host() -> Host {
    let pod = node().id("s-all").pod("default", "all", "UID");
    let with = |node: Node, name: &&str| {
        let node = (0..RESTARTS).fold(node, |node, _| node.lost(name, 100));
        let is_running = recorded().contains(&format!("container all/{name}#{RESTARTS} running"));
        if is_running { node.running(name, "r.example/web:2") } else { node.exited(name, "r.example/web:2") }
    };
    Host::with(CONTAINERS.iter().fold(pod, with))
}

/// Returns the containers and the log files of the pod.
fn names(host: &Host) -> BTreeSet<String> {
    let [containers, ..] = host.rest();
    let containers = containers.iter().filter(|name| name.starts_with("all/")).map(|name| format!("container {name}"));
    let root = host.sim.log_roots().pods;
    let entries = walkdir::WalkDir::new(root.join("default_all_UID")).into_iter().map(Result::unwrap);
    let logs = entries.filter(|log| log.file_type().is_file());
    containers.chain(logs.map(|log| format!("file {}", log.path().strip_prefix(&root).unwrap().display()))).collect()
}

#[test]
fn the_logs_of_instances_before_a_restart_of_all_containers_are_kept() {
    let host = host();
    assert_eq!(names(&host), recorded());
    let limits = LOWEST_LIMITS.map(|limit| format!("--set={limit}"));
    for _ in 0..2 {
        host.run(&[&["collect"], &limits.each_ref().map(String::as_str)[..]].concat());
        has_each_log(&names(&host), RESTARTS);
    }
    assert_eq!(names(&host), recorded());
}
