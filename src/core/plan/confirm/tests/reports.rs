//! What a saved plan that is compared with the node reports.

use crate::model::{Container, PodList, PodRef, Sandbox, Seen, Snapshot};
use crate::plan::confirm::{Confirmed, confirm};
use crate::plan::decide;
use crate::plan::document::Plan;
use crate::plan::document::reason::RemoveReason;
use crate::plan::document::report::{Outcome, Report};
use crate::plan::policy::guards::{Guards, Profile};
use crate::plan::policy::{Policy, Scope};
use crate::plan::tests::node::removed;

/// A saved plan without the actions that no longer apply, and the reports of those.
struct Revalidated {
    plan: Plan,
    refused: Vec<Report>,
}

fn revalidate(saved: Plan, snapshot: &Snapshot, policy: &Policy) -> Revalidated {
    let Confirmed { plan, denied } = confirm(saved, snapshot, policy);
    Revalidated { plan, refused: denied.into_iter().map(|(action, denial)| denial.report(action)).collect() }
}

/// Three dead instances of a container, the second in this state, and an image on a disk that is 90 % full.
fn three(state: &str) -> Snapshot {
    let pod = serde_json::json!({ "uid": "u" });
    let at = ["2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"];
    serde_json::from_value(serde_json::json!({
        "taken_at": "2026-11-21T12:00:00Z",
        "containers": { "seen": [
            { "id": "old", "pod": pod, "name": "app", "state": state, "created_at": at[0] },
            { "id": "mid", "pod": pod, "name": "app", "state": "exited", "created_at": at[0] },
            { "id": "new", "pod": pod, "name": "app", "state": "exited", "created_at": at[1] },
        ] },
        "images": { "seen": [{ "id": "sha256:1", "size_bytes": 500 }] },
        "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 100 } },
        "memory": { "images": [{ "id": "sha256:1", "first_seen": at[0] }] },
    }))
    .expect("a snapshot")
}

fn plan(state: &str) -> Plan {
    decide(&three(state), &Policy::default(), Scope::All)
}

#[test]
fn a_saved_plan_goes_on_where_nothing_changed() {
    let checked = revalidate(plan("exited"), &three("exited"), &Policy::default());
    assert_eq!(removed(&checked.plan), ["mid", "old", "sha256:1"]);
    assert_eq!(checked.refused, []);
}

#[test]
fn what_runs_by_now_is_refused_and_says_why() {
    let checked = revalidate(plan("exited"), &three("running"), &Policy::default());
    assert_eq!(removed(&checked.plan), ["mid", "sha256:1"]);
    assert_eq!(checked.refused.len(), 1);
    assert_eq!(checked.refused[0].note.as_deref(), Some("kept now: it is running"));
}

#[test]
fn a_removal_for_a_deleted_pod_names_that_pod() {
    let pods = PodList { source: "test".into(), complete: true, ..PodList::default() };
    let fresh = Snapshot { pods: Seen::Seen(pods), ..three("exited") };
    let mut policy = Policy::default();
    policy.guards.gone_after = std::time::Duration::ZERO;
    let mut saved = plan("exited");
    saved.actions[1].pod = Some(PodRef { uid: "another".into(), ..PodRef::default() });
    let checked = revalidate(saved, &fresh, &policy);
    assert_eq!(checked.plan.actions[1].reason, RemoveReason::PodDeleted {});
    assert_eq!(checked.plan.actions[1].pod.as_ref().map(|pod| pod.uid.as_str()), Some("u"));
}

#[test]
fn changed_limits_and_thresholds_do_not_undo_the_plan() {
    let mut policy = Policy::default();
    policy.containers.max_per_pod_container = None;
    policy.containers.min_age = std::time::Duration::from_hours(24);
    policy.images.high_threshold_percent = 100;
    policy.images.min_age = std::time::Duration::from_hours(24);
    let checked = revalidate(plan("exited"), &three("exited"), &policy);
    assert_eq!(removed(&checked.plan), ["mid", "old", "sha256:1"]);
}

/// Checks a plan made without guards and limits against this node, under the default policy.
fn compared(node: &Snapshot) -> Revalidated {
    let mut policy = Policy { guards: Guards::of(Profile::Kubelet), ..Policy::default() };
    policy.containers.max_per_pod_container = Some(0);
    policy.containers.max_containers = Some(0);
    let before = Snapshot { containers: crashed(), sandboxes: emptied(), ..node.clone() };
    let saved = decide(&before, &policy, Scope::All);
    assert_eq!(removed(&saved), ["old", "new", "s"]);
    revalidate(saved, node, &Policy::default())
}

/// Two dead instances of a container.
fn crashed() -> Seen<Vec<Container>> {
    let container = |id: &str, at: &str| serde_json::json!({ "id": id, "sandbox_id": "s", "pod": { "uid": "u" }, "name": "app", "state": "exited", "created_at": at });
    let both = serde_json::json!([container("old", "2026-11-21T10:00:00Z"), container("new", "2026-11-21T11:00:00Z")]);
    Seen::Seen(serde_json::from_value(both).expect("containers"))
}

/// Their sandbox, and a newer sandbox.
fn emptied() -> Seen<Vec<Sandbox>> {
    let sandbox = |id: &str, at: &str| serde_json::json!({ "id": id, "pod": { "uid": "u" }, "state": "not_ready", "created_at": at });
    let both = serde_json::json!([sandbox("s", "2026-11-21T09:00:00Z"), sandbox("t", "2026-11-21T11:30:00Z")]);
    Seen::Seen(serde_json::from_value(both).expect("sandboxes"))
}

fn crashed_node() -> Snapshot {
    let node = serde_json::json!({
        "taken_at": "2026-11-21T12:00:00Z",
        "images": { "seen": [] },
        "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 900 } },
        "log_dirs": { "seen": [] }, "log_links": { "seen": [] },
        "pods": { "seen": { "source": "test", "complete": true, "pods": [{ "uid": "u" }] } },
    });
    let node = serde_json::from_value(node).expect("a snapshot");
    Snapshot { containers: crashed(), sandboxes: emptied(), ..node }
}

fn notes(checked: &Revalidated) -> Vec<&str> {
    checked.refused.iter().filter_map(|report| report.note.as_deref()).collect()
}

#[test]
fn a_plan_of_other_rules_removes_no_newest_instance() {
    let checked = compared(&crashed_node());
    assert_eq!(removed(&checked.plan), ["old"]);
    let notes = notes(&checked);
    assert!(notes[0].starts_with("kept now: it is the newest instance of this container"), "{notes:?}");
    assert_eq!(notes[1], "kept now: the sandbox has 1 container");
}

#[test]
fn nothing_is_removed_from_an_unavailable_list() {
    let node = Snapshot { containers: Seen::NotSeen("no answer".to_owned()), ..crashed_node() };
    let checked = compared(&node);
    assert_eq!(removed(&checked.plan), [""; 0]);
    assert_eq!(checked.refused.len(), 3);
    assert!(notes(&checked)[0].contains("no answer"), "{:?}", notes(&checked));
    assert_eq!(checked.plan.errors.len(), 1, "{:?}", checked.plan.errors);
}

#[test]
fn objects_missing_from_the_node_are_already_removed() {
    let node = Snapshot { containers: Seen::Seen(Vec::new()), ..crashed_node() };
    let checked = compared(&node);
    assert_eq!(removed(&checked.plan), ["s"]);
    assert!(checked.refused.iter().all(|report| report.outcome == Outcome::AlreadyRemoved {}));
    assert_eq!(checked.refused.len(), 2);
}

#[test]
fn pods_deleted_in_the_plan_must_still_be_deleted() {
    let mut node = crashed_node();
    node.pods = Seen::Seen(PodList { source: "test".into(), complete: true, ..PodList::default() });
    let policy = Policy { guards: Guards::of(Profile::Kubelet), ..Policy::default() };
    let saved = decide(&node, &policy, Scope::All);
    assert!(saved.actions.iter().all(|action| action.reason == RemoveReason::PodDeleted {}));
    let checked = revalidate(saved, &node, &Policy::default());
    assert_eq!(removed(&checked.plan), [""; 0], "missing for the first time is not deleted");
    assert_eq!(checked.refused.len(), 4);
}
