//! Tests log directories that the plan keeps because the recheck would refuse them.

use std::time::Duration;

use serde_json::json;

use crate::model::{EntryKind, LogDir, Seen, Snapshot};
use crate::plan::{Guards, Kept, Policy, Profile, Scope, decide};

/// A complete list without pods, and these log directories.
fn node(dirs: Vec<LogDir>) -> Snapshot {
    let node = json!({
        "taken_at": "2026-11-21T12:00:00Z",
        "containers": { "seen": [] }, "sandboxes": { "seen": [] }, "log_links": { "seen": [] },
        "pods": { "seen": { "source": "test", "complete": true } },
    });
    Snapshot { log_dirs: Seen::Seen(dirs), ..serde_json::from_value(node).unwrap() }
}

fn dir(name: &str) -> LogDir {
    LogDir { name: name.into(), ..LogDir::default() }
}

/// A policy with no guard but the one that keeps young sandboxes.
fn kubelet() -> Policy {
    let guards = Guards { sandbox_grace: Duration::from_mins(1), ..Guards::of(Profile::Kubelet) };
    Policy { guards, ..Policy::default() }
}

/// Returns the reasons of the log directories that are kept, by name.
fn kept(node: &Snapshot, policy: &Policy) -> Vec<(String, &'static str)> {
    let plan = decide(node, policy, Scope::Containers);
    let dirs =
        plan.kept.iter().filter_map(|Kept { id, reason, .. }| Some((id.strip_prefix("/var/log/pods/")?, reason)));
    dirs.map(|(name, reason)| (name.to_owned(), reason.kind())).collect()
}

#[test]
fn a_log_directory_is_kept_while_the_plan_leaves_a_sandbox_of_its_pod() {
    let mut node = node(vec![dir("default_old_u1"), dir("default_young_u2")]);
    let sandbox =
        |uid: &str, at: &str| json!({ "id": uid, "pod": { "uid": uid }, "state": "not_ready", "created_at": at });
    let both = json!([sandbox("u1", "2026-11-21T11:00:00Z"), sandbox("u2", "2026-11-21T11:59:30Z")]);
    node.sandboxes = Seen::Seen(serde_json::from_value(both).unwrap());
    assert_eq!(kept(&node, &kubelet()), [("default_young_u2".to_owned(), "pod_in_runtime")]);
}

#[test]
fn a_log_directory_is_kept_where_the_runtime_was_not_listed() {
    let node = Snapshot { sandboxes: Seen::NotSeen("no answer".into()), ..node(vec![dir("default_web_u1")]) };
    assert_eq!(kept(&node, &kubelet()), [("default_web_u1".to_owned(), "runtime_not_seen")]);
}

#[test]
fn what_is_no_directory_or_names_no_uid_is_kept_without_any_guard() {
    let link = LogDir { entry: EntryKind::Symlink, ..dir("default_link_u1") };
    let names = ["a_b_", "c_..", "d_."];
    let dirs = names.into_iter().map(dir).chain([link, dir("default_web_u2"), dir("lost+found")]);
    let expected = [names[0], names[1], names[2], "default_link_u1"].map(|name| (name.to_owned(), "unrecognized"));
    assert_eq!(kept(&node(dirs.collect()), &kubelet()), expected);
}
