//! Tests what a saved plan may still remove, object by object.

mod reports;

use serde_json::{Value, json};

use super::*;
use crate::model::Seen;
use crate::plan::decide;
use crate::plan::policy::guards::Profile;

const AT: &str = "2026-11-21T10:00:00Z";

/// A node with the dead containers of a deleted pod, its sandbox and its logs, and an unused image on a full disk.
fn node() -> Snapshot {
    let pod = json!({ "uid": "u", "namespace": "default", "name": "web" });
    serde_json::from_value(json!({
        "taken_at": "2026-11-21T12:00:00Z",
        "containers": { "seen": [
            { "id": "c", "sandbox_id": "s", "pod": pod, "name": "app", "state": "exited", "created_at": AT },
            { "id": "foreign", "name": "app", "state": "exited", "created_at": AT },
        ] },
        "sandboxes": { "seen": [{ "id": "s", "pod": pod, "state": "not_ready", "created_at": AT }] },
        "images": { "seen": [{ "id": "sha256:1", "size_bytes": 500 }] },
        "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 100 } },
        "log_dirs": { "seen": [{ "name": "default_old_v" }] },
        "log_links": { "seen": [{ "name": "old_default_app-0.log", "target": "missing" }] },
        "pods": { "seen": { "source": "test", "complete": true } },
        "memory": { "images": [{ "id": "sha256:1", "first_seen": AT }] },
    }))
    .unwrap()
}

fn policy() -> Policy {
    Policy {
        profile: Profile::Kubelet,
        guards: crate::plan::policy::guards::Guards::of(Profile::Kubelet),
        ..Policy::default()
    }
}

fn saved() -> Plan {
    decide(&node(), &policy(), Scope::All)
}

/// Returns the denials by object after the node has changed.
fn denials(change: impl FnOnce(&mut Snapshot)) -> (Vec<(String, Denial)>, Plan) {
    let mut node = node();
    change(&mut node);
    let Confirmed { plan, denied } = confirm(saved(), &node, &policy());
    (denied.into_iter().map(|(action, denial)| (action.target.id(), denial)).collect(), plan)
}

fn pod_list(pods: &Value) -> Seen<crate::model::PodList> {
    Seen::Seen(serde_json::from_value(json!({ "source": "test", "complete": true, "pods": pods })).unwrap())
}

#[test]
fn on_the_same_node_everything_is_confirmed() {
    let ids: Vec<_> = saved().actions.iter().map(|action| action.target.id()).collect();
    assert_eq!(ids.len(), 6, "{ids:?}");
    assert_eq!(denials(|_| ()).0, []);
}

#[test]
fn objects_no_longer_listed_are_already_removed() {
    let (denied, plan) = denials(|node| {
        node.images = Seen::Seen(Vec::new());
        node.log_dirs = Seen::NotSeen("dirs unreadable".to_owned());
        node.log_links = Seen::NotSeen("links unreadable".to_owned());
    });
    let unavailable = |source, cause: &str| Denial::Unavailable { source, cause: cause.to_owned() };
    let expected = |(id, denial): &(String, Denial)| match id.as_str() {
        "sha256:1" => *denial == Denial::AlreadyRemoved,
        id if id.contains("/containers/") => *denial == unavailable("log_links", "links unreadable"),
        _ => *denial == unavailable("log_dirs", "dirs unreadable"),
    };
    assert!(denied.len() == 3 && denied.iter().all(expected), "{denied:#?}");
    assert!(plan.errors.iter().any(|error| error.to_string().contains("dirs unreadable")), "{:?}", plan.errors);
}

#[test]
fn a_log_file_that_is_not_listed_is_removed_only_if_both_lists_of_logs_are_available() {
    let path =
        json!({ "action": "remove_log_file", "path": "/var/log/pods/default_web_u/app/0.log", "reason": "superseded" });
    let mut plan = saved();
    plan.actions = vec![serde_json::from_value(path).unwrap()];
    let denial = |change: fn(&mut Snapshot)| {
        let mut node = node();
        change(&mut node);
        confirm(plan.clone(), &node, &policy()).denied.remove(0).1
    };
    let unavailable = |source| Denial::Unavailable { source, cause: "no answer".to_owned() };
    let no_answer = |node: &mut Snapshot| node.container_logs = Seen::NotSeen("no answer".to_owned());
    assert_eq!(denial(|_| ()), Denial::AlreadyRemoved);
    assert_eq!(denial(no_answer), unavailable("container_logs"));
    assert_eq!(denial(|node| node.leftover_logs = Seen::NotSeen("no answer".to_owned())), unavailable("leftover_logs"));
}

#[test]
fn node_errors_are_added_once_where_they_deny_something() {
    let images = |node: &mut Snapshot| node.images = Seen::NotSeen("no answer".to_owned());
    let (_, plan) = denials(images);
    assert_eq!(plan.errors.iter().filter(|error| error.to_string().contains("no answer")).count(), 1);
    let mut again = plan;
    again.actions = saved().actions;
    let mut node = node();
    images(&mut node);
    let twice = confirm(again, &node, &policy()).plan;
    assert_eq!(twice.errors.iter().filter(|error| error.to_string().contains("no answer")).count(), 1);
    let mut containers_only = saved();
    containers_only.actions.retain(|action| action.target.kind() == Kind::Container);
    assert_eq!(confirm(containers_only, &node, &policy()).plan.errors, []);
}

#[test]
fn nothing_is_removed_if_the_pod_exists_again() {
    let (denied, _) = denials(|node| {
        node.pods = pod_list(&json!([{ "uid": "u", "namespace": "default", "name": "web", "phase": "running" }]));
    });
    let of_pod: Vec<_> = denied.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(of_pod, ["c", "s"], "{denied:#?}");
    assert!(denied.iter().any(|(id, denial)| id == "c" && *denial == Denial::PodNotProven), "{denied:#?}");
}

#[test]
fn a_confirmed_action_has_the_nodes_pod_and_reason() {
    let mut saved = saved();
    for action in &mut saved.actions {
        action.pod = None;
        if action.reason == (RemoveReason::PodDeleted {}) {
            action.reason = RemoveReason::OverMaxPerPodContainer { limit: 1 };
        }
    }
    let Confirmed { plan, denied } = confirm(saved, &node(), &policy());
    assert_eq!(denied, []);
    let container = plan.actions.iter().find(|action| action.target.id() == "c").unwrap();
    assert_eq!(container.pod.as_ref().map(|pod| pod.name.as_str()), Some("web"));
    assert_eq!(container.reason, RemoveReason::PodDeleted {});
}

#[test]
fn a_reserve_holds_images_alone() {
    let mut saved = saved();
    saved.images.reserve.clone_from(&saved.actions);
    let Confirmed { plan, .. } = confirm(saved, &node(), &policy());
    assert_eq!(plan.images.reserve.iter().map(|action| action.target.kind()).collect::<Vec<_>>(), [Kind::Image]);
}
