//! Table tests of the pod sources and of the kubelet's directories.

use std::fs;

use jiff::Timestamp;

use super::*;
use crate::model::{ContainerState, SandboxState};

fn pod_ref(uid: &str) -> PodRef {
    PodRef { uid: uid.into(), namespace: "default".into(), name: format!("name-of-{uid}") }
}

fn container(pod: Option<PodRef>, state: ContainerState) -> Container {
    let json = serde_json::json!({"id": "c", "state": state, "created_at": Timestamp::UNIX_EPOCH});
    Container { pod, ..serde_json::from_value(json).unwrap() }
}

fn sandbox(pod: Option<PodRef>, state: SandboxState) -> Sandbox {
    Sandbox { id: "s".into(), pod, attempt: 0, state, created_at: Timestamp::UNIX_EPOCH, is_static: false }
}

async fn listed(containers: Seen<Vec<Container>>, sandboxes: Seen<Vec<Sandbox>>) -> Seen<PodList> {
    RuntimePods.list(&containers, &sandboxes).await
}

#[tokio::test]
async fn without_a_source_no_list_is_seen() {
    let (containers, sandboxes) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
    let list = NoPods.list(&containers, &sandboxes).await;
    assert_eq!(list.cause(), Some("pods.source is none"));
}

#[tokio::test]
async fn the_runtime_lists_a_pod_while_any_part_runs() {
    use ContainerState::{Created, Exited, Running, Unknown};
    use SandboxState::{NotReady, Ready};
    let rows = [
        ("a running container", Some(Running), None, true),
        ("a ready sandbox", None, Some(Ready), true),
        ("a running container in a stopped sandbox", Some(Running), Some(NotReady), true),
        ("a dead container in a ready sandbox", Some(Exited), Some(Ready), true),
        ("an exited container", Some(Exited), Some(NotReady), false),
        ("a created container", Some(Created), Some(NotReady), false),
        ("an unknown container", Some(Unknown), Some(NotReady), false),
        ("nothing", None, None, false),
    ];
    for (row, container_state, sandbox_state, is_listed) in rows {
        let containers = container_state.map(|state| container(Some(pod_ref("u1")), state)).into_iter().collect();
        let sandboxes = sandbox_state.map(|state| sandbox(Some(pod_ref("u1")), state)).into_iter().collect();
        let list = listed(Seen::Seen(containers), Seen::Seen(sandboxes)).await;
        let list = list.as_ref().unwrap();
        assert_eq!((list.source.as_str(), list.complete), ("runtime", true), "{row}");
        assert_eq!(list.pods.len(), usize::from(is_listed), "{row}");
    }
}

#[tokio::test]
async fn a_running_pod_is_listed_once_without_foreign_objects() {
    let containers = vec![
        container(Some(pod_ref("u2")), ContainerState::Running),
        container(Some(pod_ref("u2")), ContainerState::Running),
        container(None, ContainerState::Running),
    ];
    let sandboxes =
        vec![sandbox(Some(pod_ref("u1")), SandboxState::Ready), sandbox(Some(pod_ref("u2")), SandboxState::Ready)];
    let list = listed(Seen::Seen(containers), Seen::Seen(sandboxes)).await;
    let expected = ["u1", "u2"].map(|uid| Pod {
        uid: uid.into(),
        namespace: "default".into(),
        name: format!("name-of-{uid}"),
        phase: Phase::Running,
        ..Pod::default()
    });
    assert_eq!(list.as_ref().unwrap().pods, expected);
}

#[tokio::test]
async fn the_runtime_pod_list_needs_containers_and_sandboxes() {
    let failed = |what: &str| format!("{what}: on purpose");
    let list = listed(Seen::NotSeen(failed("ListContainers")), Seen::Seen(Vec::new())).await;
    assert_eq!(list.cause(), Some("ListContainers: on purpose"));
    let list = listed(Seen::Seen(Vec::new()), Seen::NotSeen(failed("ListPodSandbox"))).await;
    assert_eq!(list.cause(), Some("ListPodSandbox: on purpose"));
}

#[test]
fn every_entry_of_the_kubelets_pods_is_a_veto() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("u2")).unwrap();
    fs::write(dir.path().join("u1"), "").unwrap();
    assert_eq!(dirs::uids(dir.path()).unwrap(), ["u1", "u2"].map(PodUid::from));
    assert_eq!(dirs::uids(&dir.path().join("absent")).unwrap(), []);
    assert!(dirs::uids(&dir.path().join("u1")).is_err());
}

#[test]
fn pulls_in_progress_are_reported_by_the_kubelets_records() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    assert!(pulls(&dir.path().join("absent")).unwrap().is_empty());
    let record = |image: &str| {
        format!(r#"{{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"{image}"}}"#)
    };
    write("sha256-02", &record("docker.io/library/b:1"));
    write("sha256-01", &record("docker.io/library/a:1"));
    write("sha256-03.tmp", "{");
    write("README", "not a record");
    let pulling = pulls(dir.path()).unwrap();
    assert_eq!(pulling.keys().collect::<Vec<_>>(), ["docker.io/library/a:1", "docker.io/library/b:1"]);
    assert!(
        pulling.values().all(|since| since.is_some_and(|at| at.duration_since(Timestamp::UNIX_EPOCH).is_positive()))
    );
}

#[test]
fn records_without_an_image_make_all_pulls_unknown() {
    for text in ["", "{", "{}", r#"{"image":""}"#, r#"{"image":7}"#] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sha256-01"), text).unwrap();
        let error = pulls(dir.path()).unwrap_err();
        assert!(matches!(error, ObserveError::ReadPull { .. }), "{text:?}: {error}");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sha256-01")).unwrap();
    assert!(matches!(pulls(dir.path()), Err(ObserveError::ReadPull { .. })), "a record that cannot be read");
}

#[test]
fn a_deleted_record_belongs_to_an_ended_pull() {
    assert!(pull(Path::new("/nonexistent/sha256-01")).unwrap().is_none());
}
