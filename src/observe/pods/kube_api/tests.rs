//! Tests of the source as a pass uses it.

use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::model::{ContainerState, SandboxState};
use crate::testing::fake_api::{Answer, Call, FakeApi, pod, status};

fn source(api: &FakeApi) -> KubeApi {
    KubeApi::new(Arc::new(api.connection()), " NODE-1\n", || Timestamp::UNIX_EPOCH)
}

fn pod_ref(name: &str) -> PodRef {
    PodRef { uid: format!("uid-{name}").as_str().into(), namespace: "default".into(), name: name.into() }
}

fn container(state: ContainerState, pod: Option<PodRef>) -> Container {
    let json = serde_json::json!({"id": "c", "state": state, "created_at": Timestamp::UNIX_EPOCH});
    Container { pod, ..serde_json::from_value(json).unwrap() }
}

fn sandbox(state: SandboxState, pod: Option<PodRef>) -> Sandbox {
    Sandbox { id: "s".into(), pod, attempt: 0, state, created_at: Timestamp::UNIX_EPOCH, is_static: false }
}

fn away<T>() -> Seen<T> {
    Seen::NotSeen("away".to_owned())
}

async fn list(source: &KubeApi, containers: &[Container], sandboxes: &[Sandbox]) -> Seen<PodList> {
    source.list(&Seen::Seen(containers.to_vec()), &Seen::Seen(sandboxes.to_vec())).await
}

#[tokio::test(start_paused = true)]
async fn a_complete_list_shows_who_said_it_and_when() {
    let api = FakeApi::new().with_pods(&["a", "b", "c"]);
    let list = list(&source(&api), &[], &[]).await;
    let list = list.as_ref().unwrap();
    assert_eq!((list.source.as_str(), list.complete, list.pods.len()), ("kube-api", true, 3));
    let report = PodSourceReport {
        name: "kube-api".into(),
        chosen_by: "a test".into(),
        pods: 3,
        as_of: Some(Timestamp::UNIX_EPOCH),
        missing: None,
    };
    assert_eq!(list.sources, [report]);
}

#[tokio::test(start_paused = true)]
async fn one_watch_serves_all_passes() {
    let api = FakeApi::new().with_pods(&["a"]);
    let source = source(&api);
    for _ in 0..3 {
        assert!(list(&source, &[], &[]).await.as_ref().unwrap().complete);
    }
    assert_eq!((api.count(Call::List), api.requests()[0].as_str()), (1, "GET /api/v1/nodes/node-1"));
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_beside_running_pods_is_incomplete() {
    let running = |pod| vec![container(ContainerState::Running, pod)];
    let ready = |pod| vec![sandbox(SandboxState::Ready, pod)];
    for (containers, sandboxes, missing) in [
        (vec![], vec![], None),
        (
            running(Some(pod_ref("x"))),
            vec![],
            Some("the API server lists no pod of node \"node-1\", but default/x runs on this node"),
        ),
        (
            vec![],
            ready(Some(pod_ref("y"))),
            Some("the API server lists no pod of node \"node-1\", but default/y runs on this node"),
        ),
        (running(None), ready(None), None),
        (
            vec![
                container(ContainerState::Exited, Some(pod_ref("x"))),
                container(ContainerState::Created, Some(pod_ref("x"))),
            ],
            vec![sandbox(SandboxState::NotReady, Some(pod_ref("y")))],
            None,
        ),
    ] {
        let list = list(&source(&FakeApi::new()), &containers, &sandboxes).await;
        let list = list.as_ref().unwrap();
        assert_eq!((list.complete, list.sources[0].missing.as_deref()), (missing.is_none(), missing));
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_with_unavailable_runtime_is_incomplete() {
    let (empty, one) = (source(&FakeApi::new()), source(&FakeApi::new().with_pods(&["a"])));
    assert!(!empty.list(&away(), &Seen::Seen(vec![])).await.as_ref().unwrap().complete);
    assert!(!empty.list(&Seen::Seen(vec![]), &away()).await.as_ref().unwrap().complete);
    assert!(one.list(&away(), &away()).await.as_ref().unwrap().complete);
}

#[tokio::test(start_paused = true)]
async fn a_nonempty_list_is_complete_despite_unlisted_running_pods() {
    let api = FakeApi::new().with_pods(&["a"]);
    let list = list(&source(&api), &[container(ContainerState::Running, Some(pod_ref("forced")))], &[]).await;
    assert!(list.as_ref().unwrap().complete);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_list_is_reported_with_its_cause() {
    let api = FakeApi::new().with_pods(&["a"]);
    api.plan(Call::Node, [status(403, "Forbidden")]);
    let list = list(&source(&api), &[], &[]).await;
    let list = list.as_ref().unwrap();
    assert_eq!((list.complete, list.pods.len()), (false, 1));
    assert!(list.sources[0].missing.as_ref().unwrap().contains("grant `get` on nodes"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_came_is_not_seen() {
    let api = FakeApi::new().with_pods(&["a"]);
    api.plan(Call::List, [status(403, "Forbidden")]);
    let list = list(&source(&api), &[], &[]).await;
    assert_eq!(list.cause(), Some("may not list the pods of all namespaces: Forbidden it is"));
}

#[tokio::test(start_paused = true)]
async fn a_recheck_reads_the_pod_not_the_list() {
    let api = FakeApi::new().with_pods(&["a"]);
    let source = source(&api);
    assert!(list(&source, &[], &[]).await.as_ref().is_some());
    let a = pod_ref("a");
    assert_eq!(source.cached_pods().await.len(), 1);
    assert_eq!(source.still_exists(&a).await, Seen::Seen(true));
    api.remove(&pod("a"));
    assert_eq!(source.still_exists(&a).await, Seen::Seen(false));
    api.plan(Call::Get, vec![Answer::Refused; 2]);
    assert!(source.still_exists(&a).await.cause().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_watch_ends_with_the_source() {
    let api = FakeApi::new();
    let source = Arc::new(source(&api));
    list(&source, &[], &[]).await;
    let mut server = api.watched().await;
    drop(source);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert!(server.is_left().await);
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

/// Creates a host with this machine id.
fn host(machine_id: &str) -> tempfile::TempDir {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("etc")).unwrap();
    std::fs::write(host.path().join("etc/machine-id"), format!("{machine_id}\n")).unwrap();
    host
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_of_this_machines_node_is_complete() {
    let (boot_id, other) = (boot_id(), "00000000-0000-0000-0000-000000000000");
    let zombie = [container(ContainerState::Running, Some(pod_ref("zombie")))];
    for (row, info, complete) in [
        ("the same boot", serde_json::json!({"bootID": boot_id}), true),
        ("the same boot and machine", serde_json::json!({"bootID": boot_id, "machineID": "abc"}), true),
        (
            "the same boot of another machine, as in nested nodes",
            serde_json::json!({"bootID": boot_id, "machineID": "x"}),
            false,
        ),
        ("the same machine, and no boot is known", serde_json::json!({"bootID": "", "machineID": "ABC"}), true),
        ("another boot of a machine with the same id", serde_json::json!({"bootID": other, "machineID": "abc"}), false),
        ("another machine", serde_json::json!({"bootID": other, "machineID": "x"}), false),
        ("nothing is known of the node", serde_json::json!({}), false),
    ] {
        let host = host("abc");
        let source = source(&FakeApi::new().with_node_info(info)).with_host(HostFs::new(host.path()));
        let list = list(&source, &zombie, &[]).await;
        assert_eq!(list.as_ref().unwrap().complete, complete, "{row}: {list:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_agents_machine_id_is_not_the_hosts() {
    let host = tempfile::tempdir().unwrap();
    let own = std::fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned();
    let source = source(&FakeApi::new().with_node_info(serde_json::json!({"machineID": own})));
    let zombie = [container(ContainerState::Running, Some(pod_ref("zombie")))];
    assert!(!list(&source.with_host(HostFs::new(host.path())), &zombie, &[]).await.as_ref().unwrap().complete);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_after_known_host_pods_is_complete() {
    let api = FakeApi::new().with_pods(&["a"]);
    let source = source(&api);
    let (a, zombie) = (pod_ref("a"), container(ContainerState::Running, Some(pod_ref("zombie"))));
    let running = [container(ContainerState::Running, Some(a)), zombie.clone()];
    assert!(list(&source, &running, &[]).await.as_ref().unwrap().complete);
    let mut server = api.watched().await;
    server.event("DELETED", &pod("a")).await;
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    let after = list(&source, &[zombie], &[]).await;
    let after = after.as_ref().unwrap();
    assert_eq!((after.pods.len(), after.complete), (0, true), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn the_labels_of_the_node_are_listed() {
    let list = list(&source(&FakeApi::new()), &[], &[]).await;
    let labels = list.as_ref().unwrap().node_labels.as_ref().unwrap();
    assert_eq!(labels.get("pool").map(String::as_str), Some("build"));
}

#[tokio::test(start_paused = true)]
async fn the_list_confirms_a_deletion_by_name() {
    let list = list(&source(&FakeApi::new()), &[], &[]).await;
    assert_eq!(list.as_ref().unwrap().confirms, Confirms::ByName);
}

/// The answers to lists of CronJobs, StatefulSets and ReplicaSets.
fn workloads(job: &str) -> [Answer; 4] {
    let list = |kind: &str, items: serde_json::Value| {
        let metadata = serde_json::json!({ "resourceVersion": "1" });
        Answer::Text(200, serde_json::json!({ "kind": kind, "metadata": metadata, "items": items }).to_string())
    };
    let metadata = serde_json::json!({ "namespace": "shop", "name": job });
    let none = || serde_json::json!([]);
    [
        list("CronJobList", serde_json::json!([{ "metadata": metadata }])),
        list("JobList", none()),
        list("StatefulSetList", none()),
        list("ReplicaSetList", none()),
    ]
}

#[tokio::test(start_paused = true)]
async fn workloads_are_listed_once_in_some_minutes() {
    let api = FakeApi::new();
    let source = source(&api);
    let named = async || source.workloads().await.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>());
    let one = |name: &str| Seen::Seen(vec![name.to_owned()]);
    api.plan(Call::Get, [status(403, "Forbidden")]);
    assert!(named().await.as_ref().is_none(), "nothing is known yet");

    api.plan(Call::Get, workloads("first"));
    assert_eq!(named().await, one("first"));
    tokio::time::advance(WORKLOADS.checked_sub(Duration::from_secs(1)).unwrap()).await;
    assert_eq!((named().await, api.count(Call::Get)), (one("first"), 5));

    tokio::time::advance(SPREAD + Duration::from_secs(1)).await;
    api.plan(Call::Get, [status(403, "Forbidden")]);
    assert_eq!((named().await, api.count(Call::Get)), (one("first"), 6), "a failed list");
    assert_eq!((named().await, api.count(Call::Get)), (one("first"), 6), "is not sent again at once");

    tokio::time::advance(WORKLOADS + SPREAD).await;
    api.plan(Call::Get, workloads("second"));
    assert_eq!(named().await, one("second"));
}

#[test]
fn nodes_list_workloads_at_different_times() {
    let spreads: std::collections::BTreeSet<_> = (0..100).map(|node| spread(&format!("node-{node}"))).collect();
    assert!(spreads.len() > 90 && spreads.iter().all(|spread| *spread <= SPREAD), "{spreads:?}");
}
