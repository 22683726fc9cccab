//! Tests of two one-shot runs that share data only through the store.

use serde_json::json;

use super::*;
use crate::model::Snapshot;
use crate::plan::{Policy, decide, update_memory};

/// Makes a one-shot run at a time in seconds: takes a snapshot and plans. Returns what it would remove.
fn run(path: &Path, seconds: i64, pods: &serde_json::Value) -> Vec<String> {
    let store = open(path);
    let mut snapshot: Snapshot = serde_json::from_value(json!({
        "taken_at": at(seconds),
        "containers": { "seen": [
            { "id": "c1", "pod": { "uid": "u1" }, "name": "app", "state": "exited", "created_at": at(-3600) },
        ] },
        "sandboxes": { "seen": [] },
        "log_dirs": { "seen": [] },
        "pods": pods,
    }))
    .unwrap();
    snapshot.memory = store.memory();
    let policy = Policy::default();
    store.learn(&update_memory(&snapshot, &policy));
    decide(&snapshot, &policy, Scope::Containers).actions.iter().map(|action| action.target.id()).collect()
}

#[test]
fn the_second_distant_run_treats_the_pod_as_deleted() {
    let (_dir, path) = place();
    let no_pods = json!({ "seen": { "source": "kube-api", "complete": true } });
    assert_eq!(run(&path, 0, &no_pods), Vec::<String>::new(), "the first look");
    assert_eq!(run(&path, 59, &no_pods), Vec::<String>::new(), "too early");
    assert_eq!(run(&path, 60, &json!({ "not_seen": "no answer" })), Vec::<String>::new(), "unavailable");
    assert_eq!(run(&path, 61, &no_pods), ["c1"]);
}

#[test]
fn a_run_that_finds_the_pod_resets_its_absence() {
    let (_dir, path) = place();
    let no_pods = json!({ "seen": { "source": "kube-api", "complete": true } });
    let here = json!({ "seen": { "source": "kube-api", "complete": true, "pods": [{ "uid": "u1" }] } });
    for (seconds, pods) in [(0, &no_pods), (30, &here), (90, &no_pods), (149, &no_pods)] {
        assert_eq!(run(&path, seconds, pods), Vec::<String>::new(), "at {seconds} s");
    }
    assert_eq!(run(&path, 150, &no_pods), ["c1"]);
}
