//! A pass against an API server that answers as each test says.

use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::known_pods::{Store, StoreSink};
use super::*;
use crate::kubernetes::{Cause, Follower as _, MonitorEvent};
use crate::pod_gc::{NodeMeta, PodGcPolicy, PodKeepReason, PodMeta};
use crate::testing::fake_api::{FakeApi, failure, not_found, status};

const POD: &str = "/api/v1/namespaces/default/pods/a";
const STATUS: &str = "/api/v1/namespaces/default/pods/a/status";
const NODE: &str = "/api/v1/nodes/n";

/// An API server with fixed answers. A request that no test expects is answered with 500.
struct Server {
    api: FakeApi,
    notices: Arc<Mutex<Vec<String>>>,
}

// === impl Server ===

impl Default for Server {
    fn default() -> Self {
        Self { api: FakeApi::answering(|_| status(500, "InternalError")), notices: Arc::default() }
    }
}

impl Server {
    fn with(self, method: &str, path: &str, code: u16, answer: Value) -> Self {
        self.api.answers_path(&format!("{method} {path}"), code, answer);
        self
    }

    /// The answers to the deletion of a pod that finalizers do not hold.
    fn deletes(self) -> Self {
        self.with("PATCH", STATUS, 200, live("Pod", "a")).with("DELETE", POD, 200, live("Pod", "a"))
    }

    /// A collector with this policy; with that of the profile upstream, any 404 is a proof, as in its settings.
    fn collector(&self, policy: PodGcPolicy, dry_run: bool) -> PodCollector {
        let notices = Arc::clone(&self.notices);
        let report = move |notice: PodNotice<'_>| {
            notice.log();
            let text = match notice {
                PodNotice::Done(done) => format!("{} {}", done.action.reason, done.result),
                PodNotice::Failed { failure, is_new } => format!("{} {is_new}", failure.cause),
            };
            notices.lock().unwrap().push(text);
        };
        let clock = || "2026-01-02T03:04:05.678Z".parse().unwrap();
        PodCollector::new(
            &Arc::new(self.api.connection()),
            PodGcSettings { strict_not_found: policy.uid_precondition, policy, ..PodGcSettings::default() },
            dry_run,
            clock,
            report,
        )
    }

    /// Makes a pass and returns the methods of its requests.
    async fn pass(&self, policy: PodGcPolicy, snapshot: &PodsSnapshot) -> (PodReport, Vec<String>) {
        let report = self.collector(policy, false).pass(snapshot, &CancellationToken::new()).await;
        (report, self.methods())
    }

    fn methods(&self) -> Vec<String> {
        self.api.made().into_iter().map(|made| made.method.to_string()).collect()
    }

    /// Returns the body of the last request with this method.
    fn body(&self, method: &str) -> Value {
        self.api.made().into_iter().rfind(|made| made.method == method).unwrap().body
    }
}

fn live(kind: &str, name: &str) -> Value {
    let namespace = if kind == "Pod" { "default" } else { "" };
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"namespace": namespace, "name": name, "uid": "u"}})
}

fn node(ready: &str, taints: &Value) -> Value {
    let mut node = live("Node", "n");
    node["spec"] = json!({"taints": taints});
    node["status"] = json!({"conditions": [{"type": "Ready", "status": ready}]});
    node
}

fn out_of_service() -> Value {
    json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}])
}

fn pod(phase: &str) -> PodMeta {
    let [namespace, name, uid, node, phase] = ["default", "a", "u", "n", phase].map(str::to_owned);
    PodMeta { namespace, name, uid, node, phase, ..PodMeta::default() }
}

fn snapshot(pod: PodMeta, nodes: Vec<NodeMeta>) -> PodsSnapshot {
    PodsSnapshot { taken_at: Timestamp::UNIX_EPOCH, server: String::new(), pods: vec![Arc::new(pod)], nodes }
}

/// A pod in deletion on a node that is out of service.
fn killed(phase: &str) -> PodsSnapshot {
    let pod = PodMeta { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), ..pod(phase) };
    let is_out_of_service = true;
    snapshot(pod, vec![NodeMeta { name: "n".to_owned(), is_ready: false, is_out_of_service }])
}

fn no_quarantine() -> PodGcPolicy {
    PodGcPolicy { node_quarantine: Duration::ZERO, ..PodGcPolicy::default() }
}

fn results(report: &PodReport) -> Vec<PodResult> {
    report.outcomes.iter().map(|outcome| outcome.result).collect()
}

/// Upstream's `TestGCInspectingPatchedPodBeforeDeletion`. That the other conditions stay is shown on a real API server.
#[tokio::test]
async fn an_orphaned_pod_is_marked_before_deletion_by_uid() {
    let server = Server::default().with("GET", NODE, 404, not_found("nodes", "n")).deletes();
    let (report, methods) = server.pass(no_quarantine(), &snapshot(pod("Running"), vec![])).await;
    assert_eq!(methods, ["GET", "PATCH", "DELETE"]);
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let expected = json!({"metadata": {"uid": "u"}, "status": {"phase": "Failed", "conditions": [condition]}});
    assert_eq!(server.body("PATCH"), expected);
    let deletion = server.body("DELETE");
    assert_eq!((&deletion["gracePeriodSeconds"], &deletion["preconditions"]), (&json!(0), &json!({"uid": "u"})));
    assert_eq!(results(&report), [PodResult::Removed]);
    assert_eq!(*server.notices.lock().unwrap(), ["orphaned removed"]);
}

#[tokio::test]
async fn the_patch_contains_the_observed_generation() {
    let server = Server::default().with("GET", NODE, 404, not_found("nodes", "n")).deletes();
    let newer = PodMeta { generation: Some(2), is_disrupted: true, ..pod("Pending") };
    server.pass(no_quarantine(), &snapshot(newer, vec![])).await;
    let status = server.body("PATCH")["status"].clone();
    assert_eq!((&status["observedGeneration"], &status["conditions"][0]["observedGeneration"]), (&json!(2), &json!(2)));
    assert_eq!(status["conditions"][0]["lastTransitionTime"], Value::Null, "the condition was true before");
}

#[tokio::test]
async fn a_pod_that_cannot_be_marked_is_not_deleted() {
    let server = Server::default().with("GET", NODE, 200, node("Unknown", &out_of_service()));
    let mut collector = server.collector(PodGcPolicy::default(), false);
    for _ in 0..2 {
        let report = collector.pass(&killed("Running"), &CancellationToken::new()).await;
        assert_eq!((report.failures.len(), results(&report).len()), (1, 0));
    }
    assert_eq!(server.methods(), ["GET", "PATCH", "GET", "PATCH"]);
    let cause = "cannot change the status of pods \"a\" (v1): InternalError it is (500)";
    assert_eq!(*server.notices.lock().unwrap(), [format!("{cause} true"), format!("{cause} false")]);
}

/// kubernetes#141887.
#[tokio::test]
async fn an_out_of_service_kill_rereads_its_node() {
    let rows = [
        (node("False", &out_of_service()), None),
        (node("True", &out_of_service()), Some(PodKeepReason::NodeReady)),
        (node("Unknown", &json!([{"key": "other"}])), Some(PodKeepReason::TaintRemoved)),
    ];
    for (answer, kept) in rows {
        let server = Server::default().with("GET", NODE, 200, answer.clone()).deletes();
        let (report, methods) = server.pass(PodGcPolicy::default(), &killed("Running")).await;
        let expected: &[_] = if kept.is_none() { &["GET", "PATCH", "DELETE"] } else { &["GET"] };
        assert_eq!(methods, expected, "{answer}");
        assert_eq!(report.kept.iter().map(|kept| kept.reason).collect::<Vec<_>>(), Vec::from_iter(kept));
    }
    let (report, methods) = Server::default().pass(PodGcPolicy::default(), &killed("Running")).await;
    assert_eq!((report.kept[0].reason, methods), (PodKeepReason::NodeUnverified, vec!["GET".to_owned()]));
    assert_eq!(report.errors, ["cannot read node \"n\": InternalError it is (500)"]);
    let server = Server::default().deletes();
    let (_, methods) = server.pass(PodGcPolicy::upstream(), &killed("Succeeded")).await;
    assert_eq!(methods, ["DELETE"], "the profile upstream reads nothing");
    assert_eq!(server.body("DELETE")["preconditions"], Value::Null);
}

/// A pass over thousands of pods takes minutes, and the node was registered again meanwhile.
#[tokio::test(start_paused = true)]
async fn a_pod_of_a_reregistered_node_is_kept() {
    let server = Server::default().with("GET", NODE, 404, not_found("nodes", "n")).deletes();
    let mut collector = server.collector(no_quarantine(), false);
    let plan = collector.plan(&snapshot(pod("Running"), vec![])).await;
    assert_eq!(plan.actions.len(), 1);
    tokio::time::advance(Duration::from_millis(1500)).await;
    let server = server.with("GET", NODE, 200, node("True", &json!([])));
    let report = collector.carry_out(plan, &CancellationToken::new()).await;
    assert_eq!(server.methods(), ["GET", "GET"]);
    assert_eq!(report.kept.iter().map(|kept| kept.reason).collect::<Vec<_>>(), [PodKeepReason::NodeExists]);
}

#[tokio::test(start_paused = true)]
async fn one_node_read_serves_pods_for_a_second() {
    let server = Server::default().with("GET", NODE, 404, not_found("nodes", "n"));
    let mut collector = server.collector(no_quarantine(), false);
    let pods = (0..50).map(|number| Arc::new(PodMeta { uid: number.to_string(), ..pod("Failed") }));
    let snapshot = PodsSnapshot { pods: pods.collect(), ..snapshot(pod("Failed"), vec![]) };
    collector.pass(&snapshot, &CancellationToken::new()).await;
    assert_eq!(server.methods().iter().filter(|method| *method == "GET").count(), 1);
}

#[tokio::test]
async fn a_pod_without_a_uid_is_not_changed() {
    for policy in [no_quarantine(), PodGcPolicy { node_quarantine: Duration::ZERO, ..PodGcPolicy::upstream() }] {
        let server = Server::default().with("GET", NODE, 404, not_found("nodes", "n")).deletes();
        let nameless = PodMeta { uid: String::new(), ..pod("Running") };
        let (report, methods) = server.pass(policy, &snapshot(nameless, vec![])).await;
        assert_eq!((report.failures.len(), methods), (1, vec!["GET".to_owned()]));
    }
}

#[tokio::test]
async fn only_a_status_naming_the_node_proves_deletion() {
    let rows = [
        (404, not_found("nodes", "n"), true, true),
        (404, not_found("", "n"), true, true),
        (404, failure(404, "NotFound", &json!({})), false, true),
        (404, json!("404 page not found"), false, true),
        (503, failure(503, "ServiceUnavailable", &json!({})), false, false),
        (200, node("True", &json!([])), false, false),
        (200, live("Node", "other"), false, false),
    ];
    for (code, answer, safe, upstream) in rows {
        let policies = [
            (no_quarantine(), safe),
            (PodGcPolicy { node_quarantine: Duration::ZERO, ..PodGcPolicy::upstream() }, upstream),
        ];
        for (policy, expected) in policies {
            let server = Server::default().with("GET", NODE, code, answer.clone()).deletes();
            let (report, _) = server.pass(policy, &snapshot(pod("Failed"), vec![])).await;
            assert_eq!(!report.outcomes.is_empty(), expected, "{code} {answer}");
        }
    }
}

#[tokio::test]
async fn a_replaced_or_deleted_pod_is_no_failure() {
    let conflict = || failure(409, "Conflict", &json!({"kind": "pods", "name": "a"}));
    let invalid = |field| failure(422, "Invalid", &json!({"kind": "Pod", "name": "a", "causes": [{"field": field}]}));
    let rows = [
        (409, conflict(), Some(PodResult::Refused)),
        (422, invalid("metadata.uid"), Some(PodResult::Refused)),
        (422, invalid("status.phase"), None),
        (404, not_found("pods", "a"), Some(PodResult::AlreadyDeleted)),
        (404, json!("404 page not found"), None),
    ];
    for (code, answer, expected) in rows {
        for (method, path, phase) in [("DELETE", POD, "Succeeded"), ("PATCH", STATUS, "Running")] {
            let server = Server::default().with("GET", NODE, 404, not_found("nodes", "n")).deletes();
            let server = server.with(method, path, code, answer.clone());
            let (report, methods) = server.pass(no_quarantine(), &snapshot(pod(phase), vec![])).await;
            assert_eq!(results(&report), Vec::from_iter(expected), "{method} {answer}");
            assert_eq!(report.failures.len(), usize::from(expected.is_none()));
            assert_eq!(methods, ["GET", method], "nothing follows");
        }
    }
}

#[tokio::test]
async fn a_dry_run_reads_and_changes_nothing() {
    let server = Server::default().with("GET", NODE, 200, node("False", &out_of_service()));
    let report =
        server.collector(PodGcPolicy::default(), true).pass(&killed("Running"), &CancellationToken::new()).await;
    assert_eq!((results(&report), server.methods()), (vec![PodResult::DryRun], vec!["GET".to_owned()]));
}

#[tokio::test]
async fn after_the_stop_nothing_begins() {
    let stop = CancellationToken::new();
    stop.cancel();
    let server = Server::default().deletes();
    let report = server.collector(PodGcPolicy::default(), false).pass(&killed("Running"), &stop).await;
    assert!(report.interrupted);
    assert_eq!(server.methods(), [""; 0]);
}

#[tokio::test]
async fn a_snapshot_has_what_decides_about_pods_and_nodes() {
    let pod = json!({
        "metadata": {
            "namespace": "default", "name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["x/y"],
            "generation": 3,
        },
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Failed", "reason": "Evicted",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [
                {"state": {"terminated": {"finishedAt": "2026-01-01T02:00:00Z"}}},
                {"state": {"terminated": {"finishedAt": "2026-01-01T01:00:00Z"}}},
            ],
        },
    });
    let running = json!({
        "metadata": {"namespace": "default", "name": "b", "uid": "v", "creationTimestamp": null},
        "status": {"phase": "Running", "containerStatuses": [
            {"state": {"running": {}}}, {"state": {"terminated": {"finishedAt": "2026-01-01T01:00:00Z"}}},
        ]},
    });
    let list = |kind, items: Value| json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items});
    // The effect and the value of the taint do not count.
    let taints = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map(
        |effect| json!([{"key": "x"}, {"key": "node.kubernetes.io/out-of-service", "effect": effect, "value": effect}]),
    );
    let mut nodes: Vec<_> = taints.iter().map(|taints| node("False", taints)).collect();
    nodes.push(node("True", &json!([{"key": "other", "value": "node.kubernetes.io/out-of-service"}])));
    nodes.push(json!({"metadata": {"name": "no-condition"}, "spec": {"taints": out_of_service()}, "status": {}}));
    let server = Server::default().with("GET", "/api/v1/pods", 200, list("PodList", json!([pod, running]))).with(
        "GET",
        "/api/v1/nodes",
        200,
        list("NodeList", json!(nodes)),
    );
    let snapshot = server.collector(PodGcPolicy::default(), false).snapshot().await.unwrap();
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let expected = PodMeta {
        namespace: "default".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        node: "n".to_owned(),
        phase: "Failed".to_owned(),
        reason: "Evicted".to_owned(),
        created_at: time("2026-01-01T00:00:00Z"),
        finished_at: Some(time("2026-01-01T02:00:00Z")),
        deletion_timestamp: Some(time("2026-01-02T00:00:00Z")),
        deletion_grace_seconds: Some(0),
        has_finalizers: true,
        is_disrupted: true,
        generation: Some(3),
    };
    assert_eq!(*snapshot.pods[0], expected);
    let running = &snapshot.pods[1];
    assert_eq!((running.finished_at, running.generation, running.has_finalizers), (None, None, false));
    let nodes: Vec<_> = snapshot.nodes.iter().map(|node| (node.is_ready, node.is_out_of_service)).collect();
    assert_eq!(nodes, [(false, true), (false, true), (false, true), (true, false), (false, true)]);
}

#[test]
fn a_relist_removes_deleted_objects_from_the_store() {
    let (store, known) = watch::channel(Store::default());
    let store = Arc::new(store);
    let mut pods = StoreSink::<ApiPod, _> {
        resource: "pods",
        store: Arc::clone(&store),
        part: |store| &mut store.pods,
        key: |pod| &pod.metadata.uid,
        convert: convert::pod,
    };
    let mut nodes = StoreSink::<ApiNode, _> {
        resource: "nodes",
        store,
        part: |store| &mut store.nodes,
        key: |node| &node.metadata.name,
        convert: convert::node,
    };
    let pod = |uid: &str| serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap();
    let uids = || {
        let mut uids: Vec<_> = known.borrow().snapshot(Timestamp::UNIX_EPOCH, String::new()).pods;
        uids.sort_by(|a, b| a.uid.cmp(&b.uid));
        uids.iter().map(|pod| pod.uid.clone()).collect::<Vec<_>>()
    };
    let ready = |current| known.borrow().is_ready(current);
    pods.show(MonitorEvent::ListBegins);
    pods.show(MonitorEvent::Seen(pod("a")));
    pods.show(MonitorEvent::ListBegins);
    pods.show(MonitorEvent::Seen(pod("b")));
    pods.show(MonitorEvent::Seen(pod("c")));
    pods.show(MonitorEvent::ListEnds);
    pods.show(MonitorEvent::Works);
    assert_eq!(uids(), ["b", "c"], "a list that began again shows all");
    assert!(!ready(false), "the nodes are not listed");
    nodes.show(MonitorEvent::ListBegins);
    nodes.show(MonitorEvent::ListEnds);
    assert!(ready(false) && !ready(true));
    nodes.show(MonitorEvent::Works);
    assert!(ready(true));
    pods.show(MonitorEvent::Deleted(pod("c")));
    pods.show(MonitorEvent::Failed(&unreachable(), true));
    assert!(ready(false) && !ready(true));
    pods.show(MonitorEvent::ListBegins);
    pods.show(MonitorEvent::Seen(pod("d")));
    assert_eq!(uids(), ["b", "d"]);
    pods.show(MonitorEvent::ListEnds);
    pods.show(MonitorEvent::Works);
    assert_eq!(uids(), ["d"]);
    assert!(ready(true));
}

fn unreachable() -> KubernetesError {
    Cause::Silent(Duration::from_secs(1)).of("watch pods")
}

/// Of another namespace, without the labels, and with labels that cannot be read.
#[tokio::test]
async fn pods_that_are_not_selected_stay() {
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [live("Pod", "a")["metadata"]]});
    let labels = ObjectFilter { labels: Some("app=web".to_owned()), ..ObjectFilter::default() };
    let of_namespace = ObjectFilter { namespace: "other".to_owned(), ..ObjectFilter::default() };
    let other = list["items"][0].clone();
    let with_uid = |uid: &str| {
        let mut list = list.clone();
        list["items"][0] = json!({"metadata": other});
        list["items"][0]["metadata"]["uid"] = uid.into();
        list
    };
    for (filter, code, uid, expected) in [
        (of_namespace, 200, "u", (0, 0)),
        (labels.clone(), 200, "v", (0, 0)),
        (labels.clone(), 200, "u", (1, 0)),
        (labels, 500, "u", (0, 1)),
    ] {
        let answer = if code == 200 { with_uid(uid) } else { failure(code, "InternalError", &json!({})) };
        let server = Server::default().with("GET", NODE, 404, not_found("nodes", "n")).deletes();
        let server = server.with("GET", "/api/v1/pods", code, answer);
        let mut collector = server.collector(no_quarantine(), false).of(filter);
        let report = collector.pass(&snapshot(pod("Running"), vec![]), &CancellationToken::new()).await;
        assert_eq!((report.outcomes.len(), report.errors.len()), expected, "{report:?}");
    }
}
