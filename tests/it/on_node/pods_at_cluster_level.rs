//! The collection of pods at cluster level on a real API server, without any controller or kubelet beside it: upstream's
//! integration tests of its pod garbage collector, and cases of our own.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kubegc::controller::{PodCollector, PodGcSettings, PodNotice, PodReport, PodResult, PodsService};
use kubegc::kubernetes::Connection;
use kubegc::pod_gc::{PodGcPolicy, PodKeepReason, PodReason};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rig::{NodeRig, eventually, scenarios};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const HOLD: &str = "example.com/hold";

// === nodes and pods ===

/// Creates a node. `ready` is the status of its condition Ready, `None` = it has no such condition.
async fn add_node(rig: &NodeRig, name: &str, ready: Option<&str>, tainted: bool) {
    let nodes = nodes(rig);
    let taints = if tainted { json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]) } else { json!([]) };
    let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    if let Some(ready) = ready {
        set_ready(rig, name, ready).await;
    }
}

async fn set_ready(rig: &NodeRig, name: &str, ready: &str) {
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
    nodes(rig).patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await.unwrap();
}

fn nodes(rig: &NodeRig) -> Api<Node> {
    Api::all(rig.kube())
}

/// A pod in the namespace `default`; without a node if that is empty.
fn pod(name: &str, node: &str, finalizers: &[&str]) -> Value {
    let spec = json!({"containers": [{"name": "app", "image": "app"}], "nodeName": node});
    json!({"metadata": {"name": name, "finalizers": finalizers}, "spec": spec})
}

/// Creates a pod and sets its phase. Returns its uid.
async fn add_pod(rig: &NodeRig, pod: Value, phase: &str) -> String {
    let made = rig.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let ready = json!({"type": "Ready", "status": "False", "reason": "OfATest"});
    let status = json!({"status": {"phase": phase, "conditions": [ready]}});
    let name = made.metadata.name.unwrap();
    rig.pods().patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status)).await.unwrap();
    made.metadata.uid.unwrap()
}

/// Returns the phase and the types of the conditions of a pod.
fn state(pod: &Pod) -> (String, Vec<String>) {
    let status = pod.status.clone().unwrap();
    let conditions = status.conditions.unwrap_or_default().into_iter().map(|condition| condition.type_);
    let mut conditions: Vec<_> = conditions.collect();
    conditions.sort_unstable();
    (status.phase.unwrap(), conditions)
}

async fn state_of(rig: &NodeRig, name: &str) -> (String, Vec<String>) {
    state(&rig.pod_named(name).await.unwrap())
}

fn phase_with(phase: &str, conditions: &[&str]) -> (String, Vec<String>) {
    (phase.to_owned(), conditions.iter().map(ToString::to_string).collect())
}

/// Checks the condition of an orphaned pod. Server 1.20 has no `observedGeneration`.
fn assert_disrupted(pod: &Pod) {
    assert_eq!(state(pod), phase_with("Failed", &["DisruptionTarget", "Ready"]));
    let conditions = pod.status.clone().unwrap().conditions.unwrap();
    let condition = conditions.into_iter().find(|condition| condition.type_ == "DisruptionTarget").unwrap();
    assert_eq!((&*condition.status, condition.reason.as_deref()), ("True", Some("DeletionByPodGC")));
    assert_eq!(condition.message.as_deref(), Some("PodGC: node no longer exists"));
    assert!(condition.last_transition_time.is_some());
}

// === the collector ===

fn connection(rig: &NodeRig) -> Arc<Connection> {
    Arc::new(Connection::through(rig.kube(), "a test"))
}

fn settings(policy: PodGcPolicy) -> PodGcSettings {
    PodGcSettings { policy, ..PodGcSettings::default() }
}

fn log(notice: PodNotice<'_>) {
    println!("{notice:?}");
}

fn collector(rig: &NodeRig, policy: PodGcPolicy) -> PodCollector {
    PodCollector::new(&connection(rig), settings(policy), false, jiff::Timestamp::now, log)
}

fn no_quarantine() -> PodGcPolicy {
    PodGcPolicy { node_quarantine: Duration::ZERO, ..PodGcPolicy::default() }
}

/// Lists, plans and acts once.
async fn collect(rig: &NodeRig, policy: PodGcPolicy) -> PodReport {
    let report = collector(rig, policy).collect(None, &CancellationToken::new()).await.unwrap();
    assert!(report.failures.is_empty() && report.errors.is_empty(), "{report:#?}");
    report
}

fn outcomes(report: &PodReport) -> Vec<(&str, PodReason, PodResult)> {
    let mut outcomes: Vec<_> =
        report.outcomes.iter().map(|it| (&*it.action.name, it.action.reason, it.result)).collect();
    outcomes.sort_by_key(|(name, ..)| *name);
    outcomes
}

fn kept(report: &PodReport) -> Vec<(&str, PodKeepReason)> {
    report.kept.iter().map(|kept| (&*kept.name, kept.reason)).collect()
}

// === tests ===

#[tokio::test]
async fn pods_at_cluster_level() {
    let rig = NodeRig::start_api_alone().await;
    rig.play(&scenarios![
        the_service_marks_the_pods_of_a_deleted_node_after_the_quarantine,
        pods_with_duplicated_names_of_variables_and_ports_are_marked,
        pods_in_deletion_are_deleted_on_nodes_that_are_out_of_service,
        a_node_that_comes_back_between_the_list_and_the_deletion_saves_its_pods,
        a_new_pod_of_the_same_name_is_not_deleted,
        exactly_the_threshold_of_terminated_pods_is_left,
        without_permission_there_is_no_snapshot
    ])
    .await;
}

/// Upstream's `TestPodGcOrphanedPodsWithFinalizer`: the pending pod, the succeeded pod.
async fn the_service_marks_the_pods_of_a_deleted_node_after_the_quarantine(rig: &NodeRig) {
    for name in ["gone", "here"] {
        add_node(rig, name, Some("True"), false).await;
    }
    add_pod(rig, pod("pending", "gone", &[HOLD]), "Pending").await;
    add_pod(rig, pod("succeeded", "gone", &[HOLD]), "Succeeded").await;
    add_pod(rig, pod("running", "gone", &[]), "Running").await;
    add_pod(rig, pod("other", "here", &[]), "Running").await;
    let policy = PodGcPolicy { node_quarantine: Duration::from_secs(1), ..PodGcPolicy::default() };
    let settings = PodGcSettings { interval: Duration::from_millis(100), ..settings(policy) };
    let stop = CancellationToken::new();
    let service = PodsService::new(PodCollector::new(&connection(rig), settings, false, jiff::Timestamp::now, log));
    let service = tokio::spawn(service.run(stop.clone()));
    nodes(rig).delete("gone", &DeleteParams::default()).await.unwrap();

    let pending = rig.await_pod("pending", "deleted", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    assert_disrupted(&pending);
    rig.await_pod("succeeded", "deleted", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    assert_eq!(state_of(rig, "succeeded").await, phase_with("Succeeded", &["Ready"]));
    assert!(eventually(async || rig.pod_named("running").await.is_none()).await);
    // The watch shows a pod that is created later.
    add_pod(rig, pod("late", "gone", &[]), "Running").await;
    assert!(eventually(async || rig.pod_named("late").await.is_none()).await);
    assert_eq!(state_of(rig, "other").await, phase_with("Running", &["Ready"]));
    stop.cancel();
    service.await.unwrap();
}

/// Upstream's `TestPodGcForPodsWithDuplicatedFieldKeys`: an apply of the whole status is refused for these pods.
async fn pods_with_duplicated_names_of_variables_and_ports_are_marked(rig: &NodeRig) {
    let mut variables = pod("variables", "never", &[HOLD]);
    variables["spec"]["containers"][0]["env"] = json!([{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]);
    let mut ports = pod("ports", "never", &[HOLD]);
    let port = |name| json!({"name": name, "containerPort": 80});
    ports["spec"]["containers"][0]["ports"] = json!([port("a"), port("b")]);
    add_pod(rig, variables, "Running").await;
    add_pod(rig, ports, "Running").await;

    // One command has no memory of the node, so it does not know how long the node is missing.
    let quarantined = collect(rig, PodGcPolicy::default()).await;
    let reason = PodKeepReason::NodeInQuarantine;
    assert_eq!((outcomes(&quarantined), kept(&quarantined)), (vec![], vec![("ports", reason), ("variables", reason)]));
    let mut dry = PodCollector::new(&connection(rig), settings(no_quarantine()), true, jiff::Timestamp::now, log);
    let dry = dry.collect(None, &CancellationToken::new()).await.unwrap();
    assert!(dry.outcomes.len() == 2 && dry.outcomes.iter().all(|it| it.result == PodResult::DryRun));
    assert_eq!(state_of(rig, "ports").await, phase_with("Running", &["Ready"]), "nothing has changed");

    let report = collect(rig, no_quarantine()).await;
    let (orphaned, accepted) = (PodReason::Orphaned, PodResult::Accepted);
    assert_eq!(outcomes(&report), [("ports", orphaned, accepted), ("variables", orphaned, accepted)]);
    for name in ["variables", "ports"] {
        assert_disrupted(&rig.pod_named(name).await.unwrap());
    }
}

/// Upstream's `TestTerminatingOnOutOfServiceNode`, and the node without a condition Ready of
/// `TestPodTerminationWithNodeOOSDetach`.
async fn pods_in_deletion_are_deleted_on_nodes_that_are_out_of_service(rig: &NodeRig) {
    for (node, ready, tainted) in [
        ("out", Some("False"), true),
        ("silent", None, true),
        ("ready", Some("True"), true),
        ("down", Some("False"), false),
    ] {
        add_node(rig, node, ready, tainted).await;
        add_pod(rig, pod(node, node, &[]), "Running").await;
        rig.delete(node).await;
    }
    add_pod(rig, pod("held", "out", &[HOLD]), "Running").await;
    rig.delete("held").await;
    add_pod(rig, pod("alive", "out", &[]), "Running").await;
    // Deleted without a node: only its finalizer holds it from the start.
    add_pod(rig, pod("unscheduled", "", &[HOLD]), "Pending").await;
    rig.delete("unscheduled").await;

    let report = collect(rig, PodGcPolicy::default()).await;
    let reason = PodReason::OutOfService;
    let expected = [
        ("held", reason, PodResult::Accepted),
        ("out", reason, PodResult::Removed),
        ("silent", reason, PodResult::Removed),
        ("unscheduled", PodReason::Unscheduled, PodResult::Accepted),
    ];
    assert_eq!((outcomes(&report), kept(&report)), (expected.to_vec(), vec![("ready", PodKeepReason::NodeReady)]));
    for name in ["held", "unscheduled"] {
        assert_eq!(state_of(rig, name).await, phase_with("Failed", &["Ready"]), "no condition DisruptionTarget");
    }
    for name in ["alive", "ready", "down"] {
        assert_eq!(state_of(rig, name).await.0, "Running", "{name}");
    }
    // They are deleted, and have their final phase.
    let again = collect(rig, PodGcPolicy::default()).await;
    let held = PodKeepReason::HeldByFinalizers;
    assert_eq!(outcomes(&again), []);
    assert_eq!(kept(&again), [("held", held), ("ready", PodKeepReason::NodeReady), ("unscheduled", held)]);
    assert_eq!(collect(rig, PodGcPolicy::upstream()).await.outcomes.len(), 2, "upstream deletes them in each pass");
}

/// kubernetes#141887.
async fn a_node_that_comes_back_between_the_list_and_the_deletion_saves_its_pods(rig: &NodeRig) {
    for name in ["ready-again", "taint-removed", "deleted"] {
        add_node(rig, name, Some("Unknown"), true).await;
        add_pod(rig, pod(name, name, &[]), "Running").await;
        rig.delete(name).await;
    }
    let mut collector = collector(rig, PodGcPolicy::default());
    let snapshot = collector.snapshot().await.unwrap();
    set_ready(rig, "ready-again", "True").await;
    let untainted = json!({"spec": {"taints": []}});
    nodes(rig).patch("taint-removed", &PatchParams::default(), &Patch::Merge(&untainted)).await.unwrap();
    nodes(rig).delete("deleted", &DeleteParams::default()).await.unwrap();
    let report = collector.pass(&snapshot, &CancellationToken::new()).await;
    assert_eq!(outcomes(&report), []);
    let mut reasons = kept(&report);
    reasons.sort_unstable();
    let expected = [
        ("deleted", PodKeepReason::NodeDeleted),
        ("ready-again", PodKeepReason::NodeReady),
        ("taint-removed", PodKeepReason::TaintRemoved),
    ];
    assert_eq!(reasons, expected);
    for name in ["ready-again", "taint-removed", "deleted"] {
        assert_eq!(state_of(rig, name).await.0, "Running");
    }
}

async fn a_new_pod_of_the_same_name_is_not_deleted(rig: &NodeRig) {
    let both = [("running", "Running"), ("succeeded", "Succeeded")];
    for (name, phase) in both {
        add_pod(rig, pod(name, "never", &[]), phase).await;
    }
    let mut safe = collector(rig, no_quarantine());
    let snapshot = safe.snapshot().await.unwrap();
    let mut uids = Vec::new();
    for (name, phase) in both {
        rig.force_delete(name).await;
        uids.push(add_pod(rig, pod(name, "never", &[]), phase).await);
    }
    let report = safe.pass(&snapshot, &CancellationToken::new()).await;
    let (orphaned, refused) = (PodReason::Orphaned, PodResult::Refused);
    assert_eq!(outcomes(&report), [("running", orphaned, refused), ("succeeded", orphaned, refused)]);
    for ((name, phase), uid) in both.into_iter().zip(uids) {
        let pod = rig.pod_named(name).await.unwrap();
        assert_eq!((state(&pod), pod.metadata.uid), (phase_with(phase, &["Ready"]), Some(uid)));
    }
    // The guard does this: upstream has it for the mark only.
    let upstream = PodGcPolicy { node_quarantine: Duration::ZERO, ..PodGcPolicy::upstream() };
    let report = collector(rig, upstream).pass(&snapshot, &CancellationToken::new()).await;
    assert_eq!(outcomes(&report), [("running", orphaned, refused), ("succeeded", orphaned, PodResult::Removed)]);
}

/// Upstream's e2e test "should handle the creation of 1000 pods", smaller.
async fn exactly_the_threshold_of_terminated_pods_is_left(rig: &NodeRig) {
    const PODS: usize = 150;
    const LEFT: u64 = 20;
    add_node(rig, "node", Some("True"), false).await;
    add_pod(rig, pod("running", "node", &[]), "Running").await;
    let names: Vec<_> = (0..PODS).map(|number| format!("pod-{number}")).collect();
    let made = names.iter().map(|name| add_pod(rig, pod(name, "node", &[]), "Failed"));
    assert_eq!(stream::iter(made).buffer_unordered(16).count().await, PODS);

    let policy = PodGcPolicy { terminated_pod_threshold: LEFT, ..PodGcPolicy::default() };
    let settings = PodGcSettings { interval: Duration::from_millis(100), ..settings(policy) };
    let stop = CancellationToken::new();
    let service = PodsService::new(PodCollector::new(&connection(rig), settings, false, jiff::Timestamp::now, log));
    let service = tokio::spawn(service.run(stop.clone()));
    let count = async || rig.pods().list(&ListParams::default()).await.unwrap().items.len() as u64;
    assert!(eventually(async || count().await <= LEFT + 1).await);
    // Further passes delete nothing.
    rig.await_pod("running", "there", |_| true).await;
    stop.cancel();
    service.await.unwrap();
    assert_eq!(count().await, LEFT + 1);
    let policy = PodGcPolicy { terminated_pod_threshold: LEFT, ..PodGcPolicy::default() };
    assert_eq!(outcomes(&collect(rig, policy).await), []);
    assert_eq!(state_of(rig, "running").await.0, "Running");
}

async fn without_permission_there_is_no_snapshot(rig: &NodeRig) {
    add_pod(rig, pod("pod", "never", &[]), "Running").await;
    let connection = Arc::new(Connection::through(rig.kube_as("restricted").await, "a test"));
    let mut collector = PodCollector::new(&connection, settings(no_quarantine()), false, jiff::Timestamp::now, log);
    let error = collector.collect(None, &CancellationToken::new()).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("may not list pods (v1)"), "{cause}");
    assert_eq!(state_of(rig, "pod").await.0, "Running");
}
