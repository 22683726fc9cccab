//! Tests of the client against sockets with every known kind of fault.

mod hang;
mod over_sim;

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tonic::Code;

use super::generated as pb;
use super::*;
use crate::model::{ContainerId, ImageId};
use crate::testing::scripted_runtime::{Scripted, Step, say};

/// The time limit of every wait in these tests.
const BOUND: Duration = Duration::from_secs(20);

fn quick() -> CriOptions {
    CriOptions { answer_timeout: Duration::from_secs(2), ..CriOptions::default() }
}

fn reader(endpoint: &str, options: CriOptions) -> RuntimeReader {
    RuntimeReader::new(endpoint, endpoint, options)
}

fn writer(endpoint: &str, options: CriOptions) -> RuntimeWriter {
    RuntimeWriter::new(&reader(endpoint, options), &InProgress::default())
}

fn is_unconnected(error: &CriError, kind: ErrorKind) -> bool {
    matches!(error, CriError::Unconnected { cause, .. } if cause.kind() == kind)
}

async fn check(endpoint: &str) -> CriError {
    reader(endpoint, quick()).check().await.unwrap_err()
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, work).await.expect("no end within the bound")
}

fn containers(ids: &[&str]) -> Step {
    let container = |id: &&str| pb::Container { id: (*id).into(), ..Default::default() };
    say(&pb::ListContainersResponse { containers: ids.iter().map(container).collect() })
}

async fn listed(reader: &RuntimeReader) -> Result<Vec<String>, CriError> {
    let list = within(reader.containers(Only::All)).await?;
    Ok(list.into_iter().map(|container| container.id.to_string()).collect())
}

// --- unavailable runtime ---------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_missing_socket_is_reported() {
    let error = check("/nonexistent/x.sock").await;
    assert!(error.is_no_socket(), "{error}");
    assert!(error.is_unreachable());
    assert_eq!(
        error.to_string(),
        "/nonexistent/x.sock: no such socket; start the runtime, or name its socket with --runtime-endpoint or runtime.endpoint"
    );
}

#[tokio::test]
async fn a_socket_without_a_listener_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stale.sock");
    drop(UnixListener::bind(&path).unwrap());
    let error = check(path.to_str().unwrap()).await;
    assert!(is_unconnected(&error, ErrorKind::ConnectionRefused), "{error}");
    assert!(error.is_unreachable());
}

/// Root may open every socket. As root, the test therefore builds the error from the OS error code.
#[tokio::test]
async fn a_socket_without_permission_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let error = if nix::unistd::geteuid().is_root() {
        CriError::unreached(&path, &std::io::Error::from_raw_os_error(nix::libc::EACCES))
    } else {
        check(path.to_str().unwrap()).await
    };
    assert!(is_unconnected(&error, ErrorKind::PermissionDenied), "{error}");
    assert!(error.is_unreachable());
}

#[tokio::test]
async fn a_silent_socket_is_reported_within_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mute.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let error = within(check(path.to_str().unwrap())).await;
    assert!(matches!(error, CriError::Unanswered { call: "Version", .. }), "{error}");
    assert!(error.is_unreachable());
}

#[tokio::test]
async fn a_runtime_with_only_v1alpha2_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let old = Scripted::start_with_paths(dir.path(), |path| match path {
        "/runtime.v1alpha2.RuntimeService/Version" => vec![say(&pb::VersionResponse::default())],
        _ => vec![Step::Fail(Code::Unimplemented)],
    });
    let error = within(check(old.endpoint())).await;
    assert!(matches!(error, CriError::OnlyV1alpha2 { .. }), "{error}");
    assert!(error.is_unreachable());
}

#[tokio::test]
async fn a_server_without_any_cri_is_reported_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let other = Scripted::start_with_paths(dir.path(), |_| vec![Step::Fail(Code::Unimplemented)]);
    let error = within(check(other.endpoint())).await;
    assert!(matches!(error, CriError::NotCri { .. }), "{error}");
    assert!(error.is_unreachable());
}

#[tokio::test]
async fn a_socket_with_another_protocol_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("http.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.writable().await.unwrap();
            let _ = stream.try_write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    let error = within(check(path.to_str().unwrap())).await;
    server.abort();
    assert!(matches!(error, CriError::Broken { .. }), "{error}");
    assert!(error.is_unreachable());
}

#[tokio::test]
async fn a_missing_image_service_is_reported_with_its_socket() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), |_| vec![]);
    let reader = RuntimeReader::new(runtime.endpoint(), "/nonexistent/images.sock", quick());
    let error = within(reader.check()).await.unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/images.sock: no such socket"), "{error}");
}

#[tokio::test]
async fn a_runtime_that_works_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), |_| vec![]);
    within(reader(&format!("unix://{}", runtime.endpoint()), quick()).check()).await.unwrap();
}

// --- runtime restarts ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_same_reader_survives_a_restart_of_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let first = Scripted::start(dir.path(), |_| vec![containers(&["before"])]);
    let reader = reader(first.endpoint(), quick());
    assert_eq!(listed(&reader).await.unwrap(), ["before"]);
    drop(first);
    let error = listed(&reader).await.unwrap_err();
    assert!(is_unconnected(&error, ErrorKind::ConnectionRefused), "{error}");
    let _second = Scripted::start(dir.path(), |_| vec![containers(&["after"])]);
    assert_eq!(listed(&reader).await.unwrap(), ["after"]);
}

#[tokio::test]
async fn a_patient_call_waits_for_the_runtime_to_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cri.sock");
    let patient = CriOptions { patience: BOUND, ..quick() };
    let reader = reader(path.to_str().unwrap(), patient);
    let listing = tokio::spawn(async move { reader.containers(Only::All).await });
    tokio::time::sleep(Duration::from_millis(150)).await;
    let _runtime = Scripted::start(dir.path(), |_| vec![containers(&["c1"])]);
    assert_eq!(within(listing).await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn a_read_that_hangs_ends_at_its_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), |_| vec![Step::Hang]);
    let reader = reader(runtime.endpoint(), CriOptions { read_timeout: Duration::from_secs(1), ..quick() });
    let error = listed(&reader).await.unwrap_err();
    assert!(matches!(error, CriError::Timeout { call: "StreamContainers", .. }), "{error}");
}

// --- streaming lists -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_streamed_list_is_all_its_batches() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), |_| vec![containers(&["c1", "c2"]), containers(&["c3"])]);
    assert_eq!(listed(&reader(runtime.endpoint(), quick())).await.unwrap(), ["c1", "c2", "c3"]);
    assert_eq!(runtime.methods(), ["StreamContainers"]);
}

/// Answers the unary lists. Answers the streams with Unimplemented: as the whole answer, or at the first receive.
fn unary_only(opened_first: bool) -> impl Fn(&str) -> Vec<Step> + Send + Sync {
    move |name| match name {
        "ListContainers" => vec![containers(&["c1"])],
        "ListPodSandbox" | "ListImages" => vec![Step::Say(Vec::new())],
        _ if opened_first => vec![Step::Note("opened"), Step::Fail(Code::Unimplemented)],
        _ => vec![Step::Fail(Code::Unimplemented)],
    }
}

#[tokio::test]
async fn an_unsupported_stream_is_requested_once_per_list() {
    for opened_first in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Scripted::start(dir.path(), unary_only(opened_first));
        let reader = reader(runtime.endpoint(), quick());
        for reader in [&reader, &reader.clone()] {
            assert_eq!(listed(reader).await.unwrap(), ["c1"]);
            assert_eq!(within(reader.sandboxes(Only::All)).await.unwrap(), []);
            assert_eq!(within(reader.images()).await.unwrap(), []);
        }
        let first = ["StreamContainers", "ListContainers", "StreamPodSandboxes", "ListPodSandbox"];
        let rest = ["StreamImages", "ListImages", "ListContainers", "ListPodSandbox", "ListImages"];
        assert_eq!(runtime.methods(), [&first[..], &rest[..]].concat(), "opened first: {opened_first}");
    }
}

#[tokio::test]
async fn a_part_of_a_stream_is_thrown_away() {
    for code in [Code::Internal, Code::Unimplemented, Code::ResourceExhausted] {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Scripted::start(dir.path(), move |_| vec![containers(&["c1"]), Step::Fail(code)]);
        let error = listed(&reader(runtime.endpoint(), quick())).await.unwrap_err();
        assert!(error.to_string().contains("scripted"), "{code:?}: {error}");
        assert_eq!(runtime.methods(), ["StreamContainers"], "{code:?}");
    }
}

#[tokio::test]
async fn a_hanging_stream_times_out_without_partial_list() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), |_| vec![containers(&["c1"]), Step::Hang]);
    let reader = reader(runtime.endpoint(), CriOptions { read_timeout: Duration::from_secs(1), ..quick() });
    assert!(matches!(listed(&reader).await, Err(CriError::Timeout { .. })));
}

/// A stream has a size as well as a time: 2 GiB arrive in seconds.
#[tokio::test]
async fn a_stream_without_end_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let runtime =
        Scripted::start(dir.path(), |_| (0..200).map(|_| containers(&["c1"; 100])).chain([Step::Hang]).collect());
    let reader = reader(runtime.endpoint(), CriOptions { max_message_bytes: 10_000, ..quick() });
    let error = listed(&reader).await.unwrap_err();
    assert!(error.to_string().contains("the stream has more than 10000 bytes"), "{error}");
    assert_eq!(runtime.methods(), ["StreamContainers"]);
}

#[tokio::test]
async fn a_list_for_one_sandbox_is_never_streamed() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), |_| vec![containers(&["c1"])]);
    let reader = reader(runtime.endpoint(), quick());
    within(reader.containers(Only::Sandbox("s1".into()))).await.unwrap();
    assert_eq!(runtime.methods(), ["ListContainers"]);
}

#[tokio::test]
async fn a_message_over_the_limit_is_an_error() {
    let long = "x".repeat(5 << 20);
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), move |_| vec![containers(&[&long])]);
    let small = CriOptions { max_message_bytes: 1 << 20, ..quick() };
    let error = listed(&reader(runtime.endpoint(), small)).await.unwrap_err();
    assert!(error.to_string().contains("decoded message length too large"), "{error}");
    assert_eq!(listed(&reader(runtime.endpoint(), quick())).await.unwrap().len(), 1);
}

// --- removals --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_removal_continues_after_its_time_out() {
    let dir = tempfile::tempdir().unwrap();
    let (turn, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let script = [Step::Await(Arc::clone(&turn)), Step::Note("removed"), Step::Say(Vec::new())];
    let arrivals = Arc::clone(&arrived);
    let runtime = Scripted::start(dir.path(), move |_| {
        arrivals.add_permits(1);
        script.to_vec()
    });
    let options = CriOptions { removal_timeout: Duration::from_millis(50), ..quick() };
    let writer = writer(runtime.endpoint(), options);
    let error = within(writer.remove_image(&ImageId::from("sha256:aa"))).await.unwrap_err();
    assert!(matches!(error, CriError::Timeout { call: "RemoveImage", .. }), "{error}");

    // The same holds if the caller itself is dropped.
    let id = ContainerId::from("c1");
    let dropped = tokio::time::timeout(Duration::from_millis(50), writer.remove_container(&id)).await;
    assert!(dropped.is_err() || matches!(dropped, Ok(Err(CriError::Timeout { .. }))));
    drop(writer);
    within(arrived.acquire_many(2)).await.unwrap().forget();
    turn.add_permits(2);
    within(async {
        while runtime.noted() != ["removed", "removed"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_removal_carries_no_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start(dir.path(), |_| vec![Step::Say(Vec::new())]);
    let writer = writer(runtime.endpoint(), quick());
    within(async {
        writer.stop_container(&"c1".into(), Duration::from_secs(3)).await.unwrap();
        writer.remove_container(&"c1".into()).await.unwrap();
        writer.stop_sandbox(&"s1".into()).await.unwrap();
        writer.remove_sandbox(&"s1".into()).await.unwrap();
        writer.remove_image(&"sha256:aa".into()).await.unwrap();
    })
    .await;
    let requests = runtime.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.deadline.is_none()), "{requests:?}");
}

#[tokio::test]
async fn a_removal_of_a_missing_container_succeeds() {
    for (code, succeeds) in [(Code::NotFound, true), (Code::Internal, false), (Code::Unavailable, false)] {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Scripted::start(dir.path(), move |_| vec![Step::Fail(code)]);
        let writer = writer(runtime.endpoint(), quick());
        let answer = within(writer.remove_container(&"c1".into())).await;
        assert_eq!(answer.is_ok(), succeeds, "{code:?}: {answer:?}");
        assert_eq!(runtime.methods(), ["RemoveContainer"], "{code:?}: sent once");
    }
}

#[tokio::test]
async fn a_removal_does_not_wait_for_an_unavailable_runtime() {
    let writer = writer("/nonexistent/x.sock", CriOptions { patience: Duration::from_hours(1), ..quick() });
    let error = within(writer.remove_container(&"c1".into())).await.unwrap_err();
    assert!(error.is_no_socket(), "{error}");
}

#[tokio::test]
async fn the_writer_survives_a_restart_of_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let first = Scripted::start(dir.path(), |_| vec![Step::Say(Vec::new())]);
    let writer = writer(first.endpoint(), quick());
    within(writer.remove_container(&"c1".into())).await.unwrap();
    drop(first);
    let _second = Scripted::start(dir.path(), |_| vec![Step::Say(Vec::new())]);
    within(writer.remove_container(&"c2".into())).await.unwrap();
}

// --- runtime information ---------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_failed_verbose_status_is_an_error() {
    for (code, expected) in [(Code::Internal, None), (Code::Unavailable, None), (Code::Unimplemented, Some(None))] {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Scripted::start(dir.path(), move |_| vec![Step::Fail(code)]);
        let reader = reader(runtime.endpoint(), quick());
        assert_eq!(within(reader.sandbox_image()).await.ok(), expected, "{code:?}");
        assert_eq!(within(reader.runtime()).await.unwrap().name, "scripted", "the version is a call of its own");
        assert!(within(reader.listening_since()).await.is_ok());
    }
}

#[tokio::test]
async fn a_verbose_status_shows_the_sandbox_image() {
    let dir = tempfile::tempdir().unwrap();
    let config = r#"{"sandboxImage":"registry.k8s.io/pause:3.6"}"#;
    let info = [("config".into(), config.into())].into();
    let status = pb::StatusResponse { status: Some(pb::RuntimeStatus::default()), info };
    let runtime = Scripted::start(dir.path(), move |_| vec![say(&status)]);
    let image = within(reader(runtime.endpoint(), quick()).sandbox_image()).await.unwrap();
    assert_eq!(image.as_deref(), Some("registry.k8s.io/pause:3.6"));
}
