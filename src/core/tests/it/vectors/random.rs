//! Vectors of random nodes and image stores, with what the kubelet's own code removed from them.

use std::time::Duration;

use kubegc_core::model::{Container, FileSystem, Image, ImageMemory, Memory, PodRef, Sandbox, SandboxState, Snapshot};
use kubegc_core::plan::{Policy, Scope, decide};
use serde_json::Value;

use super::containers::{is_named, state};
use super::{at, blank, cases, images, kubelet, long_absent, pod_list, removed, safe_keeps_more, seen, text, texts};

#[test]
fn random_nodes_have_the_kubelets_removals() {
    for case in cases("kubelet_random_containers.jsonl") {
        let plan = decide(&node(&case), &node_policy(&case), Scope::Containers);
        assert_eq!(removed(&plan), texts(&case["ExpectRemoved"]), "{}", text(&case, "Name"));
        assert_eq!(!plan.errors.is_empty(), case["ExpectError"] == true, "{}", text(&case, "Name"));
    }
}

#[test]
fn safe_names_the_guard_on_random_nodes() {
    for case in cases("kubelet_random_containers.jsonl") {
        let mut node = node(&case);
        safe_keeps_more(text(&case, "Name"), &node, &node_policy(&case), |plan, id, reason| {
            is_named(&node, plan, id, reason)
        });
        let pods = case["Pods"].as_array().into_iter().flatten().map(|pod| text(pod, "UID").to_owned());
        node.memory = long_absent(&node, pods);
        safe_keeps_more(text(&case, "Name"), &node, &node_policy(&case), |plan, id, reason| {
            is_named(&node, plan, id, reason)
        });
    }
}

#[test]
fn random_image_stores_have_the_kubelets_removals() {
    for file in ["kubelet_random_images.jsonl", "kubelet_random_images_136.jsonl"] {
        for case in cases(file) {
            let plan = decide(&store(&case), &store_policy(&case), Scope::Images);
            assert_eq!(removed(&plan), texts(&case["ExpectRemoved"]), "{file} {}", text(&case, "Name"));
            assert_eq!(!plan.errors.is_empty(), case["ExpectError"] == true, "{file} {}", text(&case, "Name"));
        }
    }
}

#[test]
fn safe_names_the_guard_on_random_image_stores() {
    for file in ["kubelet_random_images.jsonl", "kubelet_random_images_136.jsonl"] {
        for case in cases(file) {
            images::safe_differs_by_guard(
                &format!("{file} {}", text(&case, "Name")),
                &store(&case),
                &store_policy(&case),
            );
        }
    }
}

fn list<'a>(case: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    case[key].as_array().into_iter().flatten()
}

fn age(from: &Value) -> jiff::Timestamp {
    at(-(from["AgeMs"].as_f64().unwrap() / 1000.0))
}

fn node_policy(case: &Value) -> Policy {
    let mut policy = kubelet();
    policy.containers.min_age = Duration::from_secs(case["MinAgeS"].as_u64().unwrap());
    policy.containers.max_per_pod_container = case["MaxPerPodContainer"].as_i64().unwrap().try_into().ok();
    policy.containers.max_containers = case["MaxContainers"].as_i64().unwrap().try_into().ok();
    policy.containers.evict_terminated_pods = case["EvictTerminated"] == true;
    policy
}

fn node(case: &Value) -> Snapshot {
    let pods = list(case, "Pods").map(|pod| (text(pod, "UID"), text(pod, "State")));
    Snapshot {
        containers: seen(list(case, "Containers").map(container).collect()),
        sandboxes: seen(list(case, "Sandboxes").map(sandbox).collect()),
        log_dirs: seen(Vec::new()),
        log_links: seen(Vec::new()),
        images: seen(Vec::new()),
        pods: seen(pod_list(case["SourcesReady"] == true, pods)),
        ..blank()
    }
}

fn container(from: &Value) -> Container {
    serde_json::from_value(serde_json::json!({
        "id": from["ID"], "sandbox_id": from["SandboxID"], "name": from["Name"], "attempt": from["Attempt"],
        "pod": { "uid": from["PodUID"] }, "state": state(text(from, "State")), "created_at": age(from),
    }))
    .unwrap()
}

fn sandbox(from: &Value) -> Sandbox {
    Sandbox {
        id: text(from, "ID").into(),
        pod: Some(PodRef { uid: text(from, "PodUID").into(), ..PodRef::default() }),
        attempt: 0,
        state: if text(from, "State") == "ready" { SandboxState::Ready } else { SandboxState::NotReady },
        created_at: age(from),
        is_static: false,
    }
}

fn store_policy(case: &Value) -> Policy {
    let mut policy = kubelet();
    policy.images.high_threshold_percent = case["High"].as_u64().unwrap();
    policy.images.low_threshold_percent = case["Low"].as_u64().unwrap();
    policy.images.min_age = Duration::from_secs_f64(case["MinAgeS"].as_f64().unwrap());
    policy.images.max_age = Duration::from_secs_f64(case["MaxAgeS"].as_f64().unwrap_or_default());
    policy
}

fn store(case: &Value) -> Snapshot {
    let image = |from: &Value| Image {
        id: text(from, "ID").into(),
        size_bytes: from["Size"].as_u64().unwrap(),
        pinned: from["Pinned"] == true,
        ..Image::default()
    };
    let past = |from: &Value| ImageMemory {
        id: text(from, "ID").into(),
        first_seen: from["FirstSeenAgeS"].as_f64().map(|age| at(-age)),
        last_used: from["LastUsedAgeS"].as_f64().filter(|age| *age >= 0.0).map(|age| at(-age)),
        last_used_by: None,
    };
    let used =
        list(case, "Images").filter(|image| image["InUse"] == true).map(|image| images::user_of(text(image, "ID")));
    let file_system = FileSystem {
        capacity_bytes: case["Capacity"].as_u64().unwrap(),
        available_bytes: case["Available"].as_u64().unwrap(),
        ..FileSystem::default()
    };
    let memory = Memory {
        agent_started_at: case["UptimeS"].as_f64().map(|uptime| at(-uptime)),
        images: list(case, "Images").map(past).collect(),
        ..Memory::default()
    };
    Snapshot {
        images: seen(list(case, "Images").map(image).collect()),
        containers: seen(used.collect()),
        image_filesystem: seen(file_system),
        memory,
        ..blank()
    }
}
