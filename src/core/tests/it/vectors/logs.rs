//! Vectors of logs: `logs.json`, `derived_logs.json`; and `extra.json`, where nothing else applies to kubegc.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kubegc_core::model::{
    Container, LinkTarget, LogDir, LogLink, Seen, Snapshot, container_id_of_link, log_link_name, pod_uid_of_dir,
};
use kubegc_core::plan::{KeepReason, Policy, Scope, decide};
use serde_json::Value;

use super::{at, blank, cases, is_guard, kubelet, long_absent, pod_list, removed, safe_keeps_more, seen, text, texts};

/// Kinds of cases that do not apply to a plan, with the reason.
const NOT_PLANNED: [(&str, &str); 9] = [
    ("remove_container", "files of a container: shown in execute, on real directories"),
    ("clean_logs", "files of a container: shown in execute, on real directories"),
    ("rotated_in_use", "log rotation is the kubelet's"),
    ("rotation_leftovers", "log rotation is the kubelet's"),
    ("rotation_excess", "log rotation is the kubelet's"),
    ("restart_count_from_log_dir", "the kubelet's own restart count; the reason why newest instances stay (I3)"),
    ("deletor", "the kubelet's own reaction to a container's death, not its collector"),
    ("prune_init", "the kubelet's own step before init containers start, not its collector"),
    ("reclaim_order", "the eviction manager's order of steps: comes with the pressure settings"),
];

/// Cases that apply, but that a snapshot cannot represent.
const NOT_OURS: [(&str, &str); 2] = [
    ("dangling link stays when the status answer is empty", "a list has no container without a status"),
    ("symlink name is cut to 255 with the suffix", "a pod's full name without its namespace; the next case cuts too"),
];

#[test]
fn log_directories_are_removed_as_by_the_kubelet() {
    let cases = of_kind("pod_log_dirs");
    assert_eq!(cases.len(), 2);
    for case in cases {
        let (snapshot, name) = (pod_logs(&case), text(&case, "name").to_owned());
        assert_eq!(
            removed(&decide(&snapshot, &kubelet(), Scope::Containers)),
            texts(&case["expect_removed"]),
            "{name}"
        );
        safe_keeps_more(&name, &snapshot, &kubelet(), is_guard);
        let pods = case["pods"].as_array().unwrap().iter().map(|pod| text(pod, "uid").to_owned());
        let memory = long_absent(&snapshot, pods);
        safe_keeps_more(&name, &Snapshot { memory, ..snapshot }, &kubelet(), is_guard);
    }
}

#[test]
fn log_links_are_removed_as_by_the_kubelet() {
    let cases = of_kind("container_log_symlink");
    assert_eq!(cases.len(), 13);
    for case in cases.iter().filter(|case| !is_not_ours(case)) {
        let (snapshot, policy) = (link(case), link_policy(case));
        let plan = decide(&snapshot, &policy, Scope::Containers);
        assert_eq!(removed(&plan), texts(&case["expect_removed"]), "{}", text(case, "name"));
        safe_keeps_more(text(case, "name"), &snapshot, &policy, is_guard);
    }
}

#[test]
fn safe_keeps_a_link_without_a_runtime_answer() {
    let case = of_kind("container_log_symlink")
        .into_iter()
        .find(|case| case["container_status"]["error"] == "Unavailable")
        .unwrap();
    let plan = decide(&link(&case), &super::safe(&link_policy(&case)), Scope::Containers);
    assert_eq!(plan.actions, []);
    assert!(plan.kept.iter().any(|kept| matches!(kept.reason, KeepReason::RuntimeNotSeen { .. })), "{:?}", plan.kept);
}

#[test]
fn log_names_match_those_of_the_kubelet() {
    for case in of_kind("parse_container_id") {
        let name = Path::new(text(&case, "path")).file_name().unwrap().to_str().unwrap();
        let id = container_id_of_link(name).map(|id| id.to_string());
        assert_eq!(id.as_deref(), case["expect_id"].as_str(), "{}", text(&case, "name"));
    }
    for case in of_kind("pod_uid_from_dir") {
        assert_eq!(pod_uid_of_dir(text(&case, "dir")).as_str(), text(&case, "expect_uid"), "{}", text(&case, "name"));
    }
    for case in of_kind("build_symlink").iter().filter(|case| !is_not_ours(case)) {
        let expected = Path::new(text(case, "expect_path")).file_name().unwrap().to_str().unwrap();
        let (pod, namespace) = text(case, "pod_full_name").split_once('_').unwrap();
        let name = log_link_name(pod, namespace, text(case, "container_name"), &text(case, "container_id").into());
        assert_eq!(name, expected, "{}", text(case, "name"));
    }
}

#[test]
fn pod_statuses_are_those_of_the_kubelets_pod_workers() {
    let cases = of_kind("pod_state");
    assert_eq!(cases.len(), 7);
    for case in cases {
        let pod = &case["input"];
        // A pod source represents the state of the kubelet's pod worker like this: a pod whose content may be removed
        // is in no list.
        let is_listed = pod["known"] == true && case["expect_content_be_removed"] == false;
        let state = if case["expect_runtime_be_removed"] == true { "terminated" } else { "running" };
        let pods = is_listed.then_some(("p", state)).into_iter();
        let complete = pod["known"] == true || pod["synced"] == true;
        let snapshot = Snapshot { pods: seen(pod_list(complete, pods)), ..one_dead_container() };
        let goes = |evict| {
            let mut policy = kubelet();
            policy.containers.evict_terminated_pods = evict;
            !decide(&snapshot, &policy, Scope::Containers).actions.is_empty()
        };
        assert_eq!(goes(false), case["expect_content_be_removed"] == true, "{}", text(&case, "name"));
        let either = case["expect_content_be_removed"] == true || case["expect_runtime_be_removed"] == true;
        assert_eq!(goes(true), either, "{}", text(&case, "name"));
    }
}

#[test]
fn every_case_kind_is_run_or_listed_as_inapplicable() {
    let ours = [
        "pod_log_dirs",
        "container_log_symlink",
        "parse_container_id",
        "pod_uid_from_dir",
        "build_symlink",
        "pod_state",
    ];
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for case in all() {
        *kinds.entry(text(&case, "kind").to_owned()).or_default() += 1;
    }
    // 1.20 reads a pod's state from its status; the profile kubelet has the rules of 1.36.
    kinds.remove("pod_state_1_20");
    let known: BTreeSet<_> = ours.into_iter().chain(NOT_PLANNED.iter().map(|(kind, _)| *kind)).collect();
    let found: BTreeSet<_> = kinds.keys().map(String::as_str).collect();
    assert_eq!(found, known);
}

fn is_not_ours(case: &Value) -> bool {
    NOT_OURS.iter().any(|(name, _)| *name == text(case, "name"))
}

fn all() -> Vec<Value> {
    [cases("logs.json"), cases("derived_logs.json"), cases("extra.json")].concat()
}

fn of_kind(kind: &str) -> Vec<Value> {
    all().into_iter().filter(|case| text(case, "kind") == kind).collect()
}

fn empty() -> Snapshot {
    Snapshot {
        containers: seen(Vec::new()),
        sandboxes: seen(Vec::new()),
        log_dirs: seen(Vec::new()),
        log_links: seen(Vec::new()),
        ..blank()
    }
}

fn one_dead_container() -> Snapshot {
    let container = serde_json::json!({
        "id": "c", "pod": { "uid": "p" }, "name": "app", "state": "exited", "created_at": at(-3600.0),
    });
    Snapshot { containers: seen(vec![serde_json::from_value(container).unwrap()]), ..empty() }
}

fn pod_logs(case: &Value) -> Snapshot {
    let pods = case["pods"].as_array().unwrap().iter().map(|pod| (text(pod, "uid"), text(pod, "state")));
    let dirs = texts(&case["dirs"]).into_iter().map(|name| LogDir { name, ..LogDir::default() });
    Snapshot {
        log_dirs: seen(dirs.collect()),
        pods: seen(pod_list(case["all_sources_ready"] == true, pods)),
        ..empty()
    }
}

/// Returns a policy with the root of the cases, so that the paths are equal.
fn link_policy(case: &Value) -> Policy {
    let mut policy = kubelet();
    policy.logs.containers_root = Path::new(text(case, "link")).parent().unwrap().into();
    // The container only provides a status. It must not be removed itself.
    policy.containers.max_per_pod_container = None;
    policy
}

fn link(case: &Value) -> Snapshot {
    let name = Path::new(text(case, "link")).file_name().unwrap().to_str().unwrap();
    let target = match text(case, "target") {
        "exists" => LinkTarget::Exists,
        "missing" => LinkTarget::Missing,
        _ => LinkTarget::Unknown,
    };
    let status = &case["container_status"];
    let containers = match status["error"].as_str() {
        Some("NotFound") => seen(Vec::new()),
        Some(error) => Seen::NotSeen(error.to_owned()),
        None => seen(status["state"].as_str().map(|state| container_of(name, state)).into_iter().collect()),
    };
    let pods = seen(pod_list(true, [("p", "running")].into_iter()));
    Snapshot { containers, log_links: seen(vec![LogLink { name: name.into(), target }]), pods, ..empty() }
}

/// Returns the container that the name of the symlink refers to.
fn container_of(link: &str, state: &str) -> Container {
    let id = container_id_of_link(link).map_or_else(|| "none".to_owned(), |id| id.to_string());
    serde_json::from_value(serde_json::json!({
        "id": id, "pod": { "uid": "p" }, "name": "app", "state": state, "created_at": at(-3600.0),
    }))
    .unwrap()
}
