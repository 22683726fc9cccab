//! Table tests of what the kubelet's list proves. The kubelet's clock shows noon unless a test sets it.

use serde_json::{Value, json};

use super::*;
use crate::testing::fake_kubelet::FakeKubelet;

fn clock() -> Timestamp {
    "2026-01-02T12:00:07Z".parse().unwrap()
}

fn pod(uid: &str, source: &str, seen: &str) -> Value {
    json!({"metadata": {"uid": uid, "namespace": "n", "name": format!("name-of-{uid}"), "annotations": {
        "kubernetes.io/config.source": source, "kubernetes.io/config.seen": format!("2026-01-02T{seen}Z")}}})
}

/// Returns the metrics of a kubelet that started at this time, and whether it has cleaned up after pods.
fn metrics(started: &str, tidied: &str) -> String {
    let started: Timestamp = format!("2026-01-02T{started}Z").parse().unwrap();
    format!("{tidied}\nprocess_start_time_seconds {}.25\n", started.as_second())
}

const TIDIED: &str = "kubelet_desired_pods{static=\"\"} 0";

fn running(uid: &str, is_static: bool) -> Sandbox {
    let pod = PodRef { uid: uid.into(), namespace: "n".to_owned(), name: format!("name-of-{uid}") };
    Sandbox {
        id: format!("sandbox-of-{uid}").as_str().into(),
        pod: Some(pod),
        attempt: 0,
        state: SandboxState::Ready,
        created_at: Timestamp::UNIX_EPOCH,
        is_static,
    }
}

fn container(uid: &str, state: ContainerState) -> Container {
    let json = json!({"id": "c", "sandbox_id": format!("sandbox-of-{uid}"), "state": state,
        "created_at": Timestamp::UNIX_EPOCH});
    serde_json::from_value(json).unwrap()
}

async fn list_of(source: &KubeletSource, containers: Vec<Container>, sandboxes: Vec<Sandbox>) -> Seen<PodList> {
    source.list(&Seen::Seen(containers), &Seen::Seen(sandboxes)).await
}

/// Returns why pods may be missing.
async fn missing(source: &KubeletSource, sandboxes: Vec<Sandbox>) -> Option<String> {
    let list = list_of(source, Vec::new(), sandboxes).await;
    let list = list.as_ref().unwrap();
    assert_eq!(list.complete, list.sources[0].missing.is_none());
    list.sources[0].missing.clone()
}

fn source(kubelet: &FakeKubelet) -> KubeletSource {
    KubeletSource::new(kubelet.client(), clock)
}

#[tokio::test]
async fn a_list_is_complete_only_after_api_server_contact() {
    let old = || (200, metrics("11:00:00", ""));
    let no = "it names no pod of the API server";
    let not_received = ", so it may not have received pods from the API server since it started";
    let forbidden = ", and its start time is unavailable: may not read /metrics from the kubelet: grant `get` \
                     on nodes/metrics";
    let rows = [
        ("a pod of the API server, long there", vec![pod("a", "api", "11:00:00")], (403, String::new()), None),
        ("just long enough", vec![pod("a", "api", "11:59:30")], (403, String::new()), None),
        (
            "one old and one young",
            vec![pod("b", "api", "11:59:59"), pod("a", "api", "11:00:00")],
            (403, String::new()),
            None,
        ),
        (
            "one just received",
            vec![pod("a", "api", "11:59:31")],
            old(),
            Some(format!("it received its pods only now{not_received}")),
        ),
        (
            "one of the future",
            vec![pod("a", "api", "13:00:00")],
            old(),
            Some(format!("it received its pods only now{not_received}")),
        ),
        ("static pods only", vec![pod("s", "file", "11:00:00")], old(), Some(format!("{no}{not_received}"))),
        ("nothing", Vec::new(), old(), Some(format!("{no}{not_received}"))),
        ("nothing, and no right to look further", Vec::new(), (403, String::new()), Some(format!("{no}{forbidden}"))),
        ("nothing, and tidied up", Vec::new(), (200, metrics("11:00:00", TIDIED)), None),
        (
            "static pods only, and tidied up",
            vec![pod("s", "file", "11:00:00")],
            (200, metrics("11:00:00", TIDIED)),
            None,
        ),
        (
            "tidied up, and only just started",
            vec![pod("a", "api", "11:59:58")],
            (200, metrics("11:59:50", TIDIED)),
            Some("it started only at 2026-01-02T11:59:50Z".to_owned()),
        ),
    ];
    for (row, pods, (code, text), expected) in rows {
        let kubelet = FakeKubelet::plain().await;
        kubelet.set_pods(&pods);
        kubelet.set_answer("/metrics", code, text);
        assert_eq!(missing(&source(&kubelet), Vec::new()).await, expected, "{row}");
    }
}

#[tokio::test]
async fn a_proof_counts_until_the_kubelet_restarts() {
    let kubelet = FakeKubelet::plain().await;
    let source = source(&kubelet);
    kubelet.set_pods(&[pod("a", "api", "11:00:00")]);
    assert_eq!(missing(&source, Vec::new()).await, None);
    kubelet.set_date("Fri, 02 Jan 2026 12:30:00 GMT");
    kubelet.set_pods(&[]);
    kubelet.set_answer("/metrics", 200, metrics("11:00:00", ""));
    assert_eq!(missing(&source, Vec::new()).await, None, "its last pod went");
    kubelet.set_answer("/metrics", 200, metrics("12:10:00", ""));
    assert!(missing(&source, Vec::new()).await.unwrap().contains("may not have received"), "it restarted");
}

#[tokio::test]
async fn a_list_without_a_running_pod_is_incomplete() {
    let kubelet = FakeKubelet::plain().await;
    let source = source(&kubelet);
    kubelet.set_pods(&[pod("a", "api", "11:00:00"), pod("s", "file", "11:00:00")]);
    let rows = [
        ("all are named", vec![running("a", false), running("s", true)], None),
        ("one is being torn down", vec![running("gone", false)], None),
        (
            "a static pod is not named",
            vec![running("s", true), running("t", true)],
            Some("it does not list the static pod n/name-of-t, which runs on this node"),
        ),
        ("a static pod that ended", vec![Sandbox { state: SandboxState::NotReady, ..running("t", true) }], None),
    ];
    for (row, sandboxes, expected) in rows {
        assert_eq!(missing(&source, sandboxes).await.as_deref(), expected, "{row}");
    }
    let half = || vec![Sandbox { state: SandboxState::NotReady, ..running("t", true) }];
    for (state, complete) in [(ContainerState::Running, false), (ContainerState::Exited, true)] {
        let list = list_of(&source, vec![container("t", state)], half()).await;
        assert_eq!(list.as_ref().unwrap().complete, complete, "{state:?} in a sandbox that is down");
    }
    kubelet.set_pods(&[]);
    kubelet.set_answer("/metrics", 200, metrics("11:00:00", TIDIED));
    assert_eq!(missing(&source, Vec::new()).await, None);
    let cause = missing(&source, vec![running("a", false)]).await;
    assert_eq!(cause.as_deref(), Some("it lists no pod, but n/name-of-a runs on this node"));
}

#[tokio::test]
async fn what_runs_must_have_been_seen() {
    let kubelet = FakeKubelet::plain().await;
    kubelet.set_pods(&[pod("a", "api", "11:00:00")]);
    let (failed, fine) = (Seen::NotSeen("no".to_owned()), Seen::Seen(Vec::new()));
    let list = source(&kubelet).list(&fine, &failed).await;
    assert_eq!(list.as_ref().unwrap().sources[0].missing.as_deref(), Some("the running pods are unavailable"));
}

#[tokio::test]
async fn an_unhealthy_kubelet_has_no_complete_list() {
    let kubelet = FakeKubelet::plain().await;
    kubelet.set_pods(&[pod("a", "api", "11:00:00")]);
    kubelet.set_answer("/healthz", 500, "[-]syncloop failed");
    let list = list_of(&source(&kubelet), Vec::new(), Vec::new()).await;
    let list = list.as_ref().unwrap();
    assert_eq!((list.complete, list.pods.len(), list.sources[0].as_of), (false, 1, Some(clock())));
    assert!(list.sources[0].missing.as_ref().unwrap().contains("syncloop failed"));
    kubelet.set_answer("/pods", 503, "");
    let list = list_of(&source(&kubelet), Vec::new(), Vec::new()).await;
    assert_eq!(list.cause(), Some("the kubelet answers 503 for /pods: \"\""));
}

#[tokio::test]
async fn a_pod_is_looked_up_again_before_removal() {
    let kubelet = FakeKubelet::plain().await;
    let source = source(&kubelet);
    let exists = async |uid: &str| {
        let pod = PodRef { uid: uid.into(), ..PodRef::default() };
        source.still_exists(&pod).await
    };
    kubelet.set_pods(&[pod("a", "api", "11:00:00"), pod("b", "api", "11:59:59")]);
    assert_eq!(exists("b").await, Seen::Seen(true));
    assert_eq!(exists("c").await, Seen::Seen(false));
    kubelet.set_pods(&[pod("b", "api", "11:59:59")]);
    kubelet.set_answer("/metrics", 200, metrics("11:59:55", ""));
    assert_eq!(exists("b").await, Seen::Seen(true), "it restarted, and knows this one");
    assert!(exists("c").await.cause().unwrap().contains("started only at"));
    kubelet.set_answer("/pods", 403, "");
    assert!(exists("b").await.cause().unwrap().contains("nodes/proxy"));
}
