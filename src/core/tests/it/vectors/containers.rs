//! Vectors of containers and sandboxes: `containers.json`, `derived_containers.json`, `sandboxes.json`,
//! `derived_sandboxes.json`.

use std::collections::BTreeSet;
use std::time::Duration;

use kubegc_core::model::{Container, ContainerState, PodRef, Sandbox, SandboxState, Snapshot};
use kubegc_core::plan::{KeepReason, Plan, Policy, Scope, decide};
use serde_json::Value;

use super::{at, blank, cases, kubelet, long_absent, pod_list, removed, safe_keeps_more, seen, text, texts};

#[test]
fn containers_and_sandboxes_are_removed_as_by_the_kubelet() {
    for file in ["containers.json", "derived_containers.json", "sandboxes.json", "derived_sandboxes.json"] {
        for case in cases(file) {
            let (snapshot, policy) = (snapshot(&case), policy(&case));
            let plan = decide(&snapshot, &policy, Scope::Containers);
            assert_eq!(remaining(&case, &plan), texts(&case["expect_remaining"]), "{file}: {}", text(&case, "name"));
        }
    }
}

#[test]
fn removals_are_in_the_order_of_the_kubelets_calls() {
    for file in ["containers.json", "derived_containers.json", "derived_sandboxes.json"] {
        for case in cases(file).iter().filter(|case| case["expect_calls_in_order"].is_array()) {
            let plan = decide(&snapshot(case), &policy(case), Scope::Containers);
            let planned: Vec<_> = plan.actions.iter().map(|action| action.target.id()).collect();
            let mut called: Vec<_> = case["expect_calls_in_order"]
                .as_array()
                .unwrap()
                .iter()
                .map(|call| call[1].as_str().unwrap())
                .collect();
            called.dedup();
            assert_eq!(planned, called, "{file}: {}", text(case, "name"));
        }
    }
}

#[test]
fn safe_names_the_guard_that_keeps_an_object() {
    for file in ["containers.json", "derived_containers.json", "sandboxes.json", "derived_sandboxes.json"] {
        for case in cases(file) {
            let mut snapshot = snapshot(&case);
            let name = format!("{file}: {}", text(&case, "name"));
            safe_keeps_more(&name, &snapshot, &policy(&case), |plan, id, reason| is_named(&snapshot, plan, id, reason));
            let pods = case["pods"].as_array().unwrap().iter().map(|pod| text(pod, "uid").to_owned());
            snapshot.memory = long_absent(&snapshot, pods);
            safe_keeps_more(&name, &snapshot, &policy(&case), |plan, id, reason| is_named(&snapshot, plan, id, reason));
        }
    }
}

/// Says whether the reason is a guard, or a consequence of one:
/// - The slot has a CREATED container that a guard does not count, so the limits are reached later.
/// - A guard keeps a container, which keeps its sandbox.
/// - The list of pods is not complete, which the kubelet's sandbox step does not check.
pub(super) fn is_named(snapshot: &Snapshot, plan: &Plan, id: &str, reason: &KeepReason) -> bool {
    let containers = snapshot.containers.as_ref().unwrap();
    let guarded =
        |id: &str, named: fn(&KeepReason) -> bool| plan.kept.iter().any(|kept| kept.id == id && named(&kept.reason));
    match reason {
        KeepReason::WithinMaxPerPodContainer { .. } | KeepReason::NoLimit {} => {
            plan.kept.iter().any(|kept| matches!(kept.reason, KeepReason::MaybeStarting { .. }))
        }
        KeepReason::HasContainers { .. } => containers
            .iter()
            .any(|container| container.sandbox_id.as_str() == id && guarded(container.id.as_str(), is_doubtful)),
        KeepReason::PodsIncomplete { .. } => true,
        reason => reason.is_guard(),
    }
}

fn is_doubtful(reason: &KeepReason) -> bool {
    reason.is_guard() || matches!(reason, KeepReason::WithinMaxPerPodContainer { .. } | KeepReason::NoLimit {})
}

/// Returns what is left after the plan, with the failures of the case: a failed removal leaves its object.
fn remaining(case: &Value, plan: &Plan) -> BTreeSet<String> {
    let kind = if case["sandboxes"].is_array() { "sandboxes" } else { "containers" };
    let all: BTreeSet<_> = case[kind].as_array().unwrap().iter().map(|object| text(object, "id").to_owned()).collect();
    let failing: BTreeSet<_> = texts(&case["fail_stop"]).union(&texts(&case["fail_remove"])).cloned().collect();
    let gone: BTreeSet<_> = removed(plan).difference(&failing).cloned().collect();
    all.difference(&gone).cloned().collect()
}

fn policy(case: &Value) -> Policy {
    let mut policy = kubelet();
    policy.containers.evict_terminated_pods = case["evict_terminated_pods"] == true;
    if let Some(limits) = case["policy"].as_object() {
        policy.containers.min_age = Duration::from_secs(limits["min_age_s"].as_u64().unwrap());
        policy.containers.max_per_pod_container = limits["max_per_pod_container"].as_i64().unwrap().try_into().ok();
        policy.containers.max_containers = limits["max_containers"].as_i64().unwrap().try_into().ok();
    } else {
        // Sandbox cases have containers only to make a sandbox active.
        policy.containers.min_age = Duration::from_hours(1_000_000);
    }
    policy
}

fn snapshot(case: &Value) -> Snapshot {
    let pods = case["pods"].as_array().unwrap().iter().map(|pod| (text(pod, "uid"), text(pod, "state")));
    let containers = case["containers"].as_array().into_iter().flatten().map(container);
    let sandboxes = case["sandboxes"].as_array().into_iter().flatten().map(sandbox);
    Snapshot {
        containers: seen(containers.collect()),
        sandboxes: seen(sandboxes.collect()),
        log_dirs: seen(Vec::new()),
        log_links: seen(Vec::new()),
        images: seen(Vec::new()),
        pods: seen(pod_list(case["all_sources_ready"] == true, pods)),
        ..blank()
    }
}

fn container(from: &Value) -> Container {
    Container {
        id: text(from, "id").into(),
        sandbox_id: text(from, "sandbox_id").into(),
        pod: Some(PodRef { uid: text(from, "pod_uid").into(), ..PodRef::default() }),
        name: text(from, "name").into(),
        attempt: 0,
        state: state(text(from, "state")),
        created_at: at(from["created_at_s"].as_f64().unwrap_or(-1.0)),
        finished_at: from["finished_at_s"].as_f64().map(at),
        exit_code: None,
        exit_reason: None,
        log_bytes: None,
        image_id: None,
        image: None,
        image_volumes: Vec::new(),
        image_volumes_unknown: None,
    }
}

fn sandbox(from: &Value) -> Sandbox {
    Sandbox {
        id: text(from, "id").into(),
        pod: Some(PodRef { uid: text(from, "pod_uid").into(), ..PodRef::default() }),
        attempt: 0,
        state: if text(from, "state") == "ready" { SandboxState::Ready } else { SandboxState::NotReady },
        created_at: at(from["created_at_s"].as_f64().unwrap()),
        is_static: false,
    }
}

pub(super) fn state(word: &str) -> ContainerState {
    match word {
        "created" => ContainerState::Created,
        "running" => ContainerState::Running,
        "exited" => ContainerState::Exited,
        "unknown" => ContainerState::Unknown,
        other => panic!("container state {other}"),
    }
}
