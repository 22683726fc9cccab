//! The rows of upstream's unit tests of the pod garbage collector, and our own.

use std::collections::BTreeMap;
use std::sync::Arc;
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
    let taken_at = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(100);
    PodsSnapshot { taken_at, server: String::new(), pods: pods.into_iter().map(Arc::new).collect(), nodes }
}

fn deleted_node(name: &str) -> NodeStates {
    BTreeMap::from([(name.to_owned(), NodeState::Deleted)])
}

/// The names of the pods that are deleted, in order.
fn names(plan: &PodPlan) -> Vec<&str> {
    plan.actions.iter().map(|action| &*action.name).collect()
}

/// The names of the pods that are marked as failed.
fn marked(plan: &PodPlan) -> Vec<&str> {
    plan.actions.iter().filter(|action| action.mark.is_some()).map(|action| &*action.name).collect()
}

fn kept(plan: &PodPlan) -> Vec<(&str, PodKeepReason)> {
    plan.kept.iter().map(|kept| (&*kept.name, kept.reason)).collect()
}

/// The pods that a policy selects because they have terminated.
fn selected(pods: Vec<PodMeta>, policy: &PodGcPolicy) -> Vec<String> {
    let plan = plan(&snapshot(pods, Vec::new()), &NodeStates::new(), policy);
    assert!(plan.actions.iter().all(|action| action.reason == PodReason::Terminated && action.limit.is_some()));
    assert_eq!((marked(&plan), kept(&plan)), (vec![], vec![]));
    names(&plan).into_iter().map(str::to_owned).collect()
}

fn threshold(pods: u64) -> PodGcPolicy {
    PodGcPolicy { terminated_pod_threshold: pods, ..PodGcPolicy::upstream() }
}

/// Upstream's `TestGCTerminated` (D1), and three rows of our own.
#[test]
fn the_first_terminated_pods_over_the_threshold_are_deleted() {
    let (failed, done) = ("Failed", "Succeeded");
    let two = || vec![pod("a", failed, 0), pod("b", done, 1)];
    let rows = [
        ("threshold = 1, disables nothing", [two(), vec![pod("c", failed, 2)]].concat(), threshold(1), vec!["a", "b"]),
        ("threshold = 0, disables terminated pod deletion", two(), threshold(0), vec![]),
        (
            "1 delete because pod succeeded, 1 not delete because pod running",
            vec![pod("a", "Running", 0), pod("b", done, 1), pod("c", failed, 2)],
            threshold(1),
            vec!["b"],
        ),
        ("threshold = 5, below it", two(), threshold(5), vec![]),
        ("evicted pods first", [two(), vec![evicted("c", 2)]].concat(), threshold(1), vec!["c", "a"]),
        ("ours: same age, by name", vec![pod("b", failed, 0), pod("a", failed, 0)], threshold(1), vec!["a"]),
        ("ours: no phase counts as terminated", vec![pod("a", "", 0), pod("b", done, 1)], threshold(1), vec!["a"]),
        (
            "ours: pending and unknown do not",
            vec![pod("a", "Pending", 0), pod("b", "Unknown", 1), pod("c", done, 2)],
            threshold(1),
            vec![],
        ),
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
    let off = || PodGcPolicy { terminated_pod_threshold: 0, ..PodGcPolicy::default() };
    let rows = [
        ("per namespace", PodGcPolicy { per_namespace: 1, ..off() }, vec!["a"]),
        ("per namespace, 0", PodGcPolicy { per_namespace: 0, ..off() }, vec![]),
        ("failed pods", PodGcPolicy { failed_pod_threshold: 1, ..off() }, vec!["a"]),
        ("older than 50 h", PodGcPolicy { max_age: Duration::from_hours(50), ..off() }, vec!["b", "c"]),
        ("as old as the limit", PodGcPolicy { max_age: Duration::from_hours(98), ..off() }, vec![]),
        ("age and threshold", PodGcPolicy { max_age: Duration::from_hours(50), ..threshold(2) }, vec!["a", "b", "c"]),
    ];
    for (name, policy, expected) in rows {
        assert_eq!(selected(pods(), &policy), expected, "{name}");
    }
}

#[test]
fn an_action_names_the_first_limit_exceeded() {
    let pods = vec![pod("a", "Failed", 0), pod("b", "Failed", 1), pod("c", "Failed", 2), pod("d", "Failed", 3)];
    let policy =
        PodGcPolicy { per_namespace: 2, failed_pod_threshold: 1, max_age: Duration::from_hours(1), ..threshold(3) };
    let plan = plan(&snapshot(pods, Vec::new()), &NodeStates::new(), &policy);
    let limits: Vec<_> = plan.actions.iter().filter_map(|action| action.limit).collect();
    let expected =
        [PodLimit::TerminatedPodThreshold, PodLimit::PerNamespace, PodLimit::FailedPodThreshold, PodLimit::MaxAge];
    assert_eq!(limits, expected);
}

#[test]
fn a_pod_terminated_in_the_future_has_no_age() {
    let policy = PodGcPolicy { max_age: Duration::from_secs(1), ..PodGcPolicy::default() };
    assert_eq!(selected(vec![pod("a", "Failed", 1000)], &policy), [""; 0]);
}

/// Upstream's `TestGCTerminating` (D3). The fields of a node are ready, tainted; the effect and the value of the taint do
/// not count (`controller::pods::tests`).
#[test]
fn terminating_pods_on_tainted_unready_nodes_are_deleted() {
    let on_all = |nodes: &[NodeMeta], prefix: &str, hours| -> Vec<_> {
        let name = |node: &NodeMeta| format!("{prefix}{}", node.name);
        nodes.iter().map(|node| on(&node.name, pod(&name(node), "Running", hours))).collect()
    };
    let not_ready = vec![node("1", false, false), node("2", false, false)];
    let mixture = vec![
        node("1", false, true),
        node("2", true, true),
        node("3", false, false),
        node("4", false, true),
        node("5", false, true),
        node("6", false, true),
    ];
    let terminating = |nodes: &[NodeMeta]| on_all(nodes, "b", 0).into_iter().map(deleted).collect::<Vec<_>>();
    let done = vec![on("1", pod("d1", "Succeeded", 0)), on("4", pod("d4", "Failed", 0))];
    let rows = [
        ("nodes not ready, no taint", terminating(&not_ready), not_ready, vec![]),
        (
            "some nodes not ready and out of service",
            [terminating(&mixture), on_all(&mixture, "a", 1), done].concat(),
            mixture,
            vec!["b1", "b4", "b5", "b6"],
        ),
        ("ours: the node is not in the list", vec![deleted(on("x", pod("b", "Running", 0)))], vec![], vec![]),
    ];
    for (name, pods, nodes, expected) in rows {
        let plan = plan(&snapshot(pods, nodes), &NodeStates::new(), &PodGcPolicy::upstream());
        assert_eq!(names(&plan), expected, "{name}");
        assert_eq!(marked(&plan), expected, "{name}");
        let is_plain = |action: &PodAction| action.mark.as_ref().is_some_and(|mark| !mark.disruption_target);
        assert!(plan.actions.iter().all(|it| it.reason == PodReason::OutOfService && is_plain(it)), "{name}");
    }
}

#[test]
fn terminating_pods_on_ready_tainted_nodes_are_kept() {
    let nodes = vec![node("ready", true, true), node("out", false, true)];
    let pods = vec![
        deleted(on("ready", pod("kept", "Running", 0))),
        on("ready", pod("not in deletion", "Running", 0)),
        deleted(on("out", pod("finished", "Succeeded", 1))),
    ];
    let plan = plan(&snapshot(pods, nodes), &NodeStates::new(), &PodGcPolicy::default());
    assert_eq!((names(&plan), marked(&plan)), (vec!["finished"], vec![]));
    assert_eq!(kept(&plan), [("kept", PodKeepReason::NodeReady)]);
}

/// kubernetes#141887.
#[test]
fn out_of_service_kills_need_a_tainted_unready_node() {
    let rows = [
        (NodeAnswer::Exists(node("n", false, true)), None),
        (NodeAnswer::Exists(node("n", true, true)), Some(PodKeepReason::NodeReady)),
        (NodeAnswer::Exists(node("n", true, false)), Some(PodKeepReason::NodeReady)),
        (NodeAnswer::Exists(node("n", false, false)), Some(PodKeepReason::TaintRemoved)),
        (NodeAnswer::NotFound, Some(PodKeepReason::NodeDeleted)),
        (NodeAnswer::Unavailable("down".to_owned()), Some(PodKeepReason::NodeUnverified)),
    ];
    for (answer, expected) in rows {
        assert_eq!(recheck_node(PodReason::OutOfService, &answer), expected, "{answer:?}");
    }
}

#[test]
fn a_pod_is_kept_if_its_deleted_node_returns() {
    let rows = [
        (NodeAnswer::Exists(node("n", true, false)), Some(PodKeepReason::NodeExists)),
        (NodeAnswer::Exists(node("n", false, true)), Some(PodKeepReason::NodeExists)),
        (NodeAnswer::NotFound, None),
        (NodeAnswer::Unavailable("down".to_owned()), Some(PodKeepReason::NodeUnverified)),
    ];
    for (answer, expected) in rows {
        assert_eq!(recheck_node(PodReason::Orphaned, &answer), expected, "{answer:?}");
    }
}

/// Upstream's `TestGCOrphaned` (D2): a pass, a part of the quarantine, a change, a pass. The second nodes are what the
/// list has in the second pass, the answer is that of the live read.
#[test]
fn pods_of_a_deleted_node_are_deleted_after_quarantine() {
    struct Row {
        name: &'static str,
        pods: Vec<PodMeta>,
        nodes: [&'static [&'static str]; 2],
        seconds: i64,
        answer: NodeAnswer,
        quarantined: usize,
        deleted: &'static [&'static str],
        marked: &'static [&'static str],
    }
    let exists = || NodeAnswer::Exists(NodeMeta::default());
    let done = || vec![on("n1", pod("a", "Failed", 0)), on("n2", pod("b", "Succeeded", 1))];
    let running = || vec![on("n1", pod("a", "Running", 0))];
    let row = |name, pods| Row {
        name,
        pods,
        nodes: [&[], &[]],
        seconds: 40,
        answer: NodeAnswer::NotFound,
        quarantined: 1,
        deleted: &[],
        marked: &[],
    };
    let all: &[&str] = &["n1", "n2"];
    let rows = [
        Row { nodes: [all, all], quarantined: 0, ..row("nodes present in lister", done()) },
        Row { quarantined: 2, answer: exists(), ..row("nodes present in client", done()) },
        Row { quarantined: 2, deleted: &["a", "b"], ..row("no nodes", done()) },
        Row { deleted: &["a"], marked: &["a"], ..row("no nodes, one running pod", running()) },
        Row { seconds: 20, ..row("quarantine not finished", running()) },
        Row { nodes: [&["n2"], &["n2"]], deleted: &["a"], marked: &["a"], ..row("wrong nodes", running()) },
        Row { answer: exists(), ..row("node added to client after quarantine", running()) },
        Row { nodes: [&[], &["n1"]], ..row("ours: node added to the list after quarantine", running()) },
        Row {
            nodes: [&["n1"], &[]],
            quarantined: 0,
            ..row("ours: node removed from the list after the first pass", running())
        },
        Row { deleted: &["a"], marked: &["a"], ..row("node deleted from client after quarantine", running()) },
        Row { answer: NodeAnswer::Unavailable("down".to_owned()), ..row("ours: no answer about the node", running()) },
    ];
    for row in rows {
        let look = |seconds, nodes: &[&str]| PodsSnapshot {
            taken_at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds),
            ..snapshot(row.pods.clone(), nodes.iter().map(|name| node(name, true, false)).collect())
        };
        let policy = PodGcPolicy::upstream();
        let mut missing = MissingNodes::default();
        assert_eq!(
            missing.observe(&look(0, row.nodes[0]), Duration::ZERO, policy.node_quarantine),
            [""; 0],
            "{}",
            row.name
        );
        assert_eq!(missing.iter().count(), row.quarantined, "{}", row.name);
        let second = look(row.seconds, row.nodes[1]);
        let due = missing.observe(&second, Duration::from_secs(row.seconds.unsigned_abs()), policy.node_quarantine);
        let states = missing.resolve(due.into_iter().map(|node| (node, row.answer.clone())));
        let plan = plan(&second, &states, &policy);
        assert_eq!((names(&plan), marked(&plan)), (row.deleted.to_vec(), row.marked.to_vec()), "{}", row.name);
        let disrupts = |action: &PodAction| action.mark.as_ref().is_none_or(|mark| mark.disruption_target);
        assert!(plan.actions.iter().all(|it| it.reason == PodReason::Orphaned && disrupts(it)), "{}", row.name);
    }
}

#[test]
fn pods_of_missing_nodes_are_kept_with_node_state() {
    let state_of = |state: NodeState| {
        let states = BTreeMap::from([("n".to_owned(), state)]);
        let pods = vec![on("n", pod("a", "Running", 0)), on("here", pod("b", "Running", 0))];
        let plan = plan(&snapshot(pods, vec![node("here", true, false)]), &states, &PodGcPolicy::default());
        assert_eq!(names(&plan), [""; 0]);
        assert_eq!(plan.kept.len(), 1);
        (plan.kept[0].reason, plan.kept[0].since, plan.errors)
    };
    let since = Timestamp::UNIX_EPOCH;
    let in_quarantine = state_of(NodeState::InQuarantine(since));
    assert_eq!(in_quarantine, (PodKeepReason::NodeInQuarantine, Some(since), vec![]));
    assert_eq!(state_of(NodeState::Exists), (PodKeepReason::NodeExists, None, vec![]));
    let unavailable = state_of(NodeState::Unavailable("down".to_owned()));
    assert_eq!(unavailable, (PodKeepReason::NodeUnverified, None, vec!["down".to_owned()]));
}

/// Upstream's `TestGCUnscheduledTerminating` (D3).
#[test]
fn unscheduled_terminating_pods_are_deleted_in_any_phase() {
    let unscheduled =
        vec![deleted(pod("a", "Failed", 0)), deleted(pod("b", "Succeeded", 1)), deleted(pod("c", "Running", 2))];
    let scheduled = vec![deleted(on("node", pod("scheduled", "Pending", 0))), pod("waiting", "Pending", 0)];
    let rows = [
        ("unscheduled pod in any phase must be deleted", unscheduled, vec!["a", "b", "c"], vec!["c"]),
        ("ours: scheduled, or not in deletion", scheduled, vec![], vec![]),
    ];
    for (name, pods, expected, expected_marks) in rows {
        let plan = plan(&snapshot(pods, Vec::new()), &NodeStates::new(), &PodGcPolicy::default());
        assert_eq!((names(&plan), marked(&plan)), (expected, expected_marks), "{name}");
    }
}

#[test]
fn a_mark_reflects_the_pod_in_the_api_server() {
    let orphaned = |pod| {
        let plan = plan(&snapshot(vec![on("gone", pod)], Vec::new()), &deleted_node("gone"), &PodGcPolicy::default());
        plan.actions[0].mark.clone()
    };
    let running = pod("a", "Running", 0);
    let mark = PodMark { disruption_target: true, ..PodMark::default() };
    assert_eq!(orphaned(running.clone()), Some(mark.clone()));
    let newer = PodMeta { generation: Some(3), is_disrupted: true, ..running };
    assert_eq!(orphaned(newer), Some(PodMark { generation: Some(3), is_disrupted: true, ..mark }));
    assert_eq!(orphaned(pod("a", "Succeeded", 0)), None);
}

#[test]
fn a_pod_is_deleted_once_for_the_first_reason() {
    let pods = vec![deleted(on("gone", pod("a", "Failed", 0))), pod("b", "Failed", 1)];
    let plan = plan(&snapshot(pods, Vec::new()), &deleted_node("gone"), &threshold(1));
    assert_eq!(names(&plan), ["a"]);
    assert_eq!(plan.actions[0].reason, PodReason::Terminated);
}

/// kubernetes#141190. A Job waits for the final phase of its pods before it removes its finalizer.
#[test]
fn a_terminated_pod_held_by_a_finalizer_is_kept() {
    let held = PodMeta { deletion_grace_seconds: Some(0), has_finalizers: true, ..deleted(pod("held", "Failed", 0)) };
    let running = PodMeta { phase: "Running".to_owned(), ..held.clone() };
    let in_grace = PodMeta { deletion_grace_seconds: Some(30), ..held.clone() };
    let free = PodMeta { has_finalizers: false, ..held.clone() };
    for (pod, safe) in [(held, false), (running, true), (in_grace, true), (free, true)] {
        let snapshot = snapshot(vec![pod], Vec::new());
        let plan = |policy| plan(&snapshot, &NodeStates::new(), &policy);
        let guarded = plan(PodGcPolicy::default());
        assert_eq!(guarded.actions.len(), usize::from(safe));
        let expected = if safe { vec![] } else { vec![("held", PodKeepReason::HeldByFinalizers)] };
        assert_eq!(kept(&guarded), expected);
        assert_eq!(plan(PodGcPolicy::upstream()).actions.len(), 1);
    }
}

#[test]
fn a_missing_node_is_read_after_its_quarantine() {
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
    assert_eq!(missing.observe(&look(0, &["a"]), Duration::from_secs(0), QUARANTINE), [""; 0]);
    assert_eq!(missing.iter().count(), 0);
    assert_eq!(missing.observe(&look(0, &[]), Duration::from_secs(0), QUARANTINE), [""; 0]);
    assert_eq!(missing.observe(&look(39, &[]), Duration::from_secs(39), QUARANTINE), [""; 0]);
    assert_eq!(missing.observe(&look(40, &[]), Duration::from_secs(40), QUARANTINE), ["a"]);
    let answers = [
        (NodeAnswer::Exists(NodeMeta::default()), NodeState::Exists),
        (NodeAnswer::Unavailable("down".to_owned()), NodeState::Unavailable("down".to_owned())),
        (NodeAnswer::NotFound, NodeState::Deleted),
    ];
    for (answer, state) in answers {
        let mut again = missing.clone();
        assert_eq!(again.resolve([("a".to_owned(), answer)]), BTreeMap::from([("a".to_owned(), state)]));
        assert_eq!(again.observe(&look(41, &[]), Duration::from_secs(41), QUARANTINE), [""; 0]);
        assert_eq!(again.observe(&look(81, &[]), Duration::from_secs(81), QUARANTINE), ["a"]);
    }
    // Without an answer the quarantine continues.
    let since = Timestamp::UNIX_EPOCH;
    assert_eq!(missing.resolve([]), BTreeMap::from([("a".to_owned(), NodeState::InQuarantine(since))]));
    // A node that is in the list again leaves the quarantine.
    assert_eq!(missing.observe(&look(50, &["a"]), Duration::from_secs(50), QUARANTINE), [""; 0]);
    assert_eq!(missing.observe(&look(60, &[]), Duration::from_mins(1), QUARANTINE), [""; 0]);
    // A clock that is set proves nothing.
    for wall in [0, 3600] {
        assert_eq!(missing.observe(&look(wall, &[]), Duration::from_secs(80), QUARANTINE), [""; 0]);
    }
    assert_eq!(missing.observe(&look(3600, &[]), Duration::from_secs(100), QUARANTINE), ["a"]);
    // One command has no memory: only without a quarantine is the node read at once.
    assert_eq!(MissingNodes::default().observe(&look(0, &[]), Duration::from_secs(0), Duration::ZERO), ["a"]);
}

#[test]
fn the_profile_kubelet_has_no_guard() {
    let PodGcPolicy { skip_held, uid_precondition, recheck_nodes, require_watches, .. } = PodGcPolicy::upstream();
    assert_eq!([skip_held, uid_precondition, recheck_nodes, require_watches], [false; 4]);
}
