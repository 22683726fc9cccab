//! The rows of upstream's unit tests of the pod garbage collector, and our own.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;

/// A pod that was created `hours` after 1970. Its uid is its name.
fn pod(name: &str, phase: &str, hours: i64) -> PodMeta {
    PodMeta {
        name: name.to_owned(),
        uid: name.to_owned(),
        namespace: "default".to_owned(),
        phase: phase.to_owned(),
        created_at: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours),
        ..PodMeta::default()
    }
}

fn evicted(name: &str, hours: i64) -> PodMeta {
    PodMeta { reason: "Evicted".to_owned(), ..pod(name, "Failed", hours) }
}

fn on(node: &str, pod: PodMeta) -> PodMeta {
    PodMeta { node: node.to_owned(), ..pod }
}

fn deleted(pod: PodMeta) -> PodMeta {
    PodMeta { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), ..pod }
}

fn node(name: &str, is_ready: bool, is_out_of_service: bool) -> NodeMeta {
    NodeMeta { name: name.to_owned(), is_ready, is_out_of_service }
}

fn snapshot(pods: Vec<PodMeta>, nodes: Vec<NodeMeta>) -> PodsSnapshot {
    PodsSnapshot { taken_at: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(100), pods, nodes }
}

fn names(actions: &[PodAction]) -> Vec<&str> {
    actions.iter().map(|action| &*action.name).collect()
}

/// The pods that a policy selects, without deleted nodes.
fn selected(pods: Vec<PodMeta>, policy: &PodGcPolicy) -> Vec<String> {
    let actions = plan(&snapshot(pods, Vec::new()), &BTreeSet::new(), policy);
    assert!(actions.iter().all(|action| action.reason == PodReason::Terminated && !action.marks_failed));
    names(&actions).into_iter().map(str::to_owned).collect()
}

fn threshold(pods: usize) -> PodGcPolicy {
    PodGcPolicy { terminated_pod_threshold: Some(pods), ..PodGcPolicy::upstream() }
}

#[test]
fn the_first_terminated_pods_over_the_threshold_are_deleted() {
    let (failed, done) = ("Failed", "Succeeded");
    let off = PodGcPolicy { terminated_pod_threshold: None, ..PodGcPolicy::upstream() };
    let rows = [
        (
            "over by two",
            vec![pod("a", failed, 0), pod("b", done, 1), pod("c", failed, 2)],
            threshold(1),
            vec!["a", "b"],
        ),
        ("switched off", vec![pod("a", failed, 0), pod("b", done, 1)], off, vec![]),
        (
            "a running pod does not count",
            vec![pod("a", "Running", 0), pod("b", done, 1), pod("c", failed, 2)],
            threshold(1),
            vec!["b"],
        ),
        ("below the threshold", vec![pod("a", failed, 0), pod("b", done, 1)], threshold(5), vec![]),
        (
            "evicted pods first",
            vec![pod("a", failed, 0), pod("b", done, 1), evicted("c", 2)],
            threshold(1),
            vec!["c", "a"],
        ),
        ("same age: by name", vec![pod("b", failed, 0), pod("a", failed, 0)], threshold(1), vec!["a"]),
        ("no phase counts as terminated", vec![pod("a", "", 0), pod("b", done, 1)], threshold(1), vec!["a"]),
        ("pending and unknown do not", vec![pod("a", "Pending", 0), pod("b", "Unknown", 1)], threshold(0), vec![]),
    ];
    for (name, pods, policy, expected) in rows {
        assert_eq!(selected(pods, &policy), expected, "{name}");
    }
}

#[test]
fn further_limits_add_pods_and_never_save_one() {
    let in_namespace = |namespace: &str, pod| PodMeta { namespace: namespace.to_owned(), ..pod };
    let pods = || {
        let finished = |hours, pod| PodMeta {
            finished_at: Some(Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)),
            ..pod
        };
        vec![
            finished(90, pod("a", "Failed", 0)),
            finished(20, pod("b", "Succeeded", 1)),
            in_namespace("other", pod("c", "Failed", 2)),
        ]
    };
    let off = || PodGcPolicy { terminated_pod_threshold: None, ..PodGcPolicy::default() };
    let rows = [
        ("per namespace", PodGcPolicy { per_namespace: Some(1), ..off() }, vec!["a"]),
        ("failed pods", PodGcPolicy { failed_pod_threshold: Some(1), ..off() }, vec!["a"]),
        ("by finish time", PodGcPolicy { order: PodOrder::Finished, ..threshold(2) }, vec!["c"]),
        ("by finish time, two", PodGcPolicy { order: PodOrder::Finished, ..threshold(1) }, vec!["c", "b"]),
        ("older than 50 h", PodGcPolicy { max_age: Some(Duration::from_hours(50)), ..off() }, vec!["b", "c"]),
        ("as old as the limit", PodGcPolicy { max_age: Some(Duration::from_hours(98)), ..off() }, vec![]),
        (
            "age and threshold",
            PodGcPolicy { max_age: Some(Duration::from_hours(50)), ..threshold(2) },
            vec!["a", "b", "c"],
        ),
    ];
    for (name, policy, expected) in rows {
        assert_eq!(selected(pods(), &policy), expected, "{name}");
    }
}

#[test]
fn a_pod_that_finished_in_the_future_has_no_age() {
    let policy = PodGcPolicy { max_age: Some(Duration::from_secs(1)), ..PodGcPolicy::default() };
    assert_eq!(selected(vec![pod("a", "Failed", 1000)], &policy), [""; 0]);
}

/// Upstream's `TestGCTerminating`.
#[test]
fn pods_in_deletion_are_deleted_if_their_node_is_tainted_and_not_ready() {
    let nodes = vec![
        node("ready", true, false),
        node("down", false, false),
        node("tainted", true, true),
        node("out", false, true),
    ];
    let mut pods: Vec<_> = nodes.iter().map(|node| deleted(on(&node.name, pod(&node.name, "Running", 0)))).collect();
    pods.push(on("out", pod("not in deletion", "Failed", 0)));
    pods.push(deleted(on("out", pod("finished", "Succeeded", 1))));
    pods.push(deleted(on("unknown", pod("of an unknown node", "Running", 0))));
    let actions = plan(&snapshot(pods, nodes), &BTreeSet::new(), &PodGcPolicy::upstream());
    assert_eq!(names(&actions), ["out", "finished"]);
    let marks: Vec<_> =
        actions.iter().map(|action| (action.reason, action.marks_failed, action.marks_disrupted)).collect();
    assert_eq!(marks, [(PodReason::OutOfService, true, false), (PodReason::OutOfService, false, false)]);
}

#[test]
fn pods_of_deleted_nodes_are_deleted_and_marked_unless_they_have_finished() {
    let pods = vec![
        on("gone", pod("running", "Running", 0)),
        on("gone", pod("done", "Succeeded", 0)),
        on("here", pod("x", "Running", 0)),
    ];
    let actions = plan(&snapshot(pods, Vec::new()), &BTreeSet::from(["gone".to_owned()]), &PodGcPolicy::default());
    assert_eq!(names(&actions), ["running", "done"]);
    let marks: Vec<_> = actions.iter().map(|action| (action.marks_failed, action.marks_disrupted)).collect();
    assert_eq!(marks, [(true, true), (false, false)]);
}

#[test]
fn pods_in_deletion_without_a_node_are_deleted_in_any_phase() {
    let pods = vec![
        deleted(pod("a", "Running", 0)),
        deleted(pod("b", "Failed", 0)),
        deleted(on("node", pod("scheduled", "Pending", 0))),
        pod("waiting", "Pending", 0),
    ];
    let actions = plan(&snapshot(pods, Vec::new()), &BTreeSet::new(), &PodGcPolicy::default());
    assert_eq!(names(&actions), ["a", "b"]);
    let marks: Vec<_> = actions.iter().map(|action| (action.marks_failed, action.marks_disrupted)).collect();
    assert_eq!(marks, [(true, false), (false, false)]);
}

#[test]
fn a_pod_is_deleted_once_for_the_first_reason() {
    let pods = vec![deleted(on("gone", pod("a", "Failed", 0)))];
    let deleted_nodes = BTreeSet::from(["gone".to_owned()]);
    let actions = plan(&snapshot(pods, Vec::new()), &deleted_nodes, &threshold(0));
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0].reason, PodReason::Terminated);
}

#[test]
fn a_pod_that_only_a_finalizer_holds_is_not_deleted_again() {
    let held = PodMeta { deletion_grace_seconds: Some(0), has_finalizers: true, ..deleted(pod("held", "Running", 0)) };
    let in_grace = PodMeta { deletion_grace_seconds: Some(30), ..held.clone() };
    let free = PodMeta { has_finalizers: false, ..held.clone() };
    for (pod, safe, upstream) in [(held, 0, 1), (in_grace, 1, 1), (free, 1, 1)] {
        let snapshot = snapshot(vec![pod], Vec::new());
        assert_eq!(plan(&snapshot, &BTreeSet::new(), &PodGcPolicy::default()).len(), safe);
        assert_eq!(plan(&snapshot, &BTreeSet::new(), &PodGcPolicy::upstream()).len(), upstream);
    }
}

/// Upstream's `TestGCOrphaned`: a pass, 40 s, a pass.
#[test]
fn a_missing_node_is_read_after_its_quarantine_and_only_then_counts_as_deleted() {
    const QUARANTINE: Duration = Duration::from_secs(40);
    let look = |seconds: i64, nodes: &[&str]| {
        let nodes = nodes.iter().map(|name| node(name, true, false)).collect();
        let taken_at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        PodsSnapshot {
            taken_at,
            ..snapshot(vec![on("a", pod("a", "Running", 0)), pod("unscheduled", "Pending", 0)], nodes)
        }
    };
    let mut missing = MissingNodes::default();
    assert_eq!(missing.observe(&look(0, &["a"]), QUARANTINE), [""; 0]);
    assert_eq!(missing.iter().count(), 0);
    assert_eq!(missing.observe(&look(0, &[]), QUARANTINE), [""; 0]);
    assert_eq!(missing.observe(&look(39, &[]), QUARANTINE), [""; 0]);
    assert_eq!(missing.observe(&look(40, &[]), QUARANTINE), ["a"]);
    // Each answer ends the quarantine; only NotFound proves the deletion.
    for (answer, expected) in [(NodeAnswer::Exists, 0), (NodeAnswer::Unavailable, 0), (NodeAnswer::NotFound, 1)] {
        let mut again = missing.clone();
        assert_eq!(again.resolve([("a".to_owned(), answer)]).len(), expected);
        assert_eq!(again.observe(&look(41, &[]), QUARANTINE), [""; 0]);
        assert_eq!(again.observe(&look(81, &[]), QUARANTINE), ["a"]);
    }
    // A node that is in the list again leaves the quarantine.
    assert_eq!(missing.observe(&look(50, &["a"]), QUARANTINE), [""; 0]);
    assert_eq!(missing.observe(&look(60, &[]), QUARANTINE), [""; 0]);
    // A clock that was set back proves nothing.
    assert_eq!(missing.observe(&look(0, &[]), QUARANTINE), [""; 0]);
}
