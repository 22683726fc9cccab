//! Tests of the features that the contract tests do not cover: faults, hooks, socket removal, shared layers, logs.

use std::io::{Read, Write};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};

use super::{FakeSocket, Fault, GIB, MIB, Node, Rpc, Sim, Streaming, Times};
use crate::cri::generated as pb;
use crate::cri::generated::image_service_client::ImageServiceClient;
use crate::cri::generated::runtime_service_client::RuntimeServiceClient;

const WEB: &str = "docker.io/library/web:1";
const DB: &str = "docker.io/library/db:1";

// === shared layers and the disk ===

#[test]
fn a_shared_layer_is_freed_with_its_last_user() {
    let mut node = Node::new()
        .disk(GIB, 100 * MIB)
        .image(WEB, &[("base", 50 * MIB), ("web", 8 * MIB)])
        .image(DB, &[("base", 50 * MIB), ("db", 4 * MIB)]);
    let used = |node: &Node| GIB - node.file_system().available_bytes;
    assert_eq!(used(&node), 162 * MIB);
    node.remove_image(WEB).unwrap();
    assert_eq!(used(&node), 154 * MIB);
    node.remove_image(DB).unwrap();
    assert_eq!(used(&node), 100 * MIB);
}

#[test]
fn a_container_holds_the_layers_of_a_removed_image() {
    let mut node = Node::new().disk(GIB, 0).image(WEB, &[("web", 8 * MIB)]);
    node.also(|node| node.pod("default", "web-0", "u1").id("c1").running("app", WEB)).unwrap();
    node.remove_image(WEB).unwrap();
    assert!(node.image_ids().is_empty());
    assert_eq!(node.file_system().available_bytes, GIB - 8 * MIB);
    node.remove_container("c1").unwrap();
    assert_eq!(node.file_system().available_bytes, GIB);
}

#[test]
fn a_tag_moves_from_one_image_to_another() {
    let node = Node::new().id("sha256:aa").image(WEB, &[("one", MIB)]).id("sha256:bb").image(WEB, &[("two", MIB)]);
    assert_eq!(node.image_id("web:1").as_deref(), Some("sha256:bb"));
    assert_eq!(node.image_names(), [WEB, "sha256:aa"]);
}

#[test]
fn images_are_found_by_every_name_they_have() {
    let node = Node::new().id("sha256:aabb").image(WEB, &[]).image("docker.io/library/web:latest", &[]);
    let digest = node.list_images().into_iter().find(|image| image.id == "sha256:aabb").unwrap().repo_digests;
    for name in ["sha256:aabb", "sha256:aa", "aabb", "aa", WEB, "web:1", "library/web:1", &digest.concat()] {
        assert_eq!(node.image_id(name).as_deref(), Some("sha256:aabb"), "{name}");
    }
    assert_eq!(node.image_id("web"), node.image_id("docker.io/library/web:latest"));
    assert_eq!(node.image_id(""), None);
    assert_eq!(node.image_id("web:2"), None);
}

// === faults ===

#[tokio::test]
async fn every_method_fails_as_often_as_requested() {
    let sim = Sim::start(Node::new()).unwrap();
    for method in Rpc::all() {
        sim.fault(method, Fault::Fail(Code::Unavailable), Times::N(2));
        assert_eq!(fails_with(&sim, method).await, Some(Code::Unavailable), "{method}");
        assert_eq!(fails_with(&sim, method).await, Some(Code::Unavailable), "{method}");
        assert_ne!(fails_with(&sim, method).await, Some(Code::Unavailable), "{method}");
    }
    assert_eq!(sim.calls().len(), 3 * Rpc::all().count());
}

#[tokio::test]
async fn a_lasting_fault_lasts_until_it_is_healed() {
    let sim = Sim::start(Node::new()).unwrap();
    sim.fault(Rpc::ListImages, Fault::Fail(Code::Internal), Times::Forever);
    for _ in 0..3 {
        assert_eq!(fails_with(&sim, Rpc::ListImages).await, Some(Code::Internal));
    }
    sim.heal();
    assert_eq!(fails_with(&sim, Rpc::ListImages).await, None);
}

#[tokio::test]
async fn queued_faults_occur_in_their_order() {
    let sim = Sim::start(Node::new()).unwrap();
    sim.fault(Rpc::Version, Fault::Fail(Code::Internal), Times::N(1));
    sim.fault(Rpc::Version, Fault::Fail(Code::Unknown), Times::N(1));
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(fails_with(&sim, Rpc::Version).await);
    }
    assert_eq!(codes, [Some(Code::Internal), Some(Code::Unknown), None]);
}

#[tokio::test]
async fn a_hanging_call_arrives_and_is_never_answered() {
    let sim = Sim::start(web()).unwrap();
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(1));
    let removal = tokio::spawn(remove(&sim, "c1"));
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    assert_eq!(sim.calls_of(Rpc::RemoveContainer), ["c1"]);
    assert!(containers(&sim).await.is_ok(), "others are answered");
    assert!(!removal.is_finished());
    assert_eq!(sim.state().container_ids(), ["c1"]);
}

#[tokio::test]
async fn late_faults_delay_answers_and_slow_faults_delay_changes() {
    let sim = Sim::start(web()).unwrap();
    let hour = Duration::from_hours(1);
    sim.fault(Rpc::RemoveImage, Fault::Slow(hour), Times::N(1));
    sim.fault(Rpc::RemoveContainer, Fault::Late(hour), Times::N(1));
    sim.fault(Rpc::ListImages, Fault::Slow(Duration::from_millis(1)), Times::N(1));
    let web = pb::ImageSpec { image: WEB.to_owned(), ..pb::ImageSpec::default() };
    let mut images = ImageServiceClient::new(channel(sim.socket()));
    let slow = {
        let mut images = images.clone();
        tokio::spawn(async move { images.remove_image(pb::RemoveImageRequest { image: Some(web) }).await })
    };
    let late = tokio::spawn(remove(&sim, "c1"));
    sim.await_call(Rpc::RemoveImage).await.unwrap();
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    // The answers of later calls on other connections prove that the server handled both calls.
    let list = images.list_images(pb::ListImagesRequest { filter: None }).await.unwrap().into_inner();
    assert_eq!(list.images.len(), 1);
    assert!(sim.state().container_ids().is_empty());
    assert!(!slow.is_finished() && !late.is_finished());
}

#[tokio::test]
async fn an_answer_is_lost_after_the_change() {
    let sim = Sim::start(web()).unwrap();
    sim.fault(Rpc::RemoveContainer, Fault::DoThenCut, Times::N(1));
    assert!(is_broken(&remove(&sim, "c1").await));
    assert!(sim.state().container_ids().is_empty());
    assert!(remove(&sim, "c1").await.is_ok(), "the socket is still there");
}

#[tokio::test]
async fn a_call_may_hang_after_its_change() {
    let sim = Sim::start(web()).unwrap();
    sim.fault(Rpc::RemoveContainer, Fault::DoThenHang, Times::N(1));
    let removal = tokio::spawn(remove(&sim, "c1"));
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    assert!(containers(&sim).await.unwrap().is_empty());
    assert!(!removal.is_finished());
}

// === hooks ===

#[tokio::test]
async fn a_hook_changes_the_state_before_the_nth_call() {
    let sim = Sim::start(web().id("c2").created("late", WEB)).unwrap();
    sim.on_call(Rpc::ListContainers, 2, |node| node.start_container("c2").unwrap());
    for state in [pb::ContainerState::ContainerCreated, pb::ContainerState::ContainerRunning] {
        assert_eq!(containers(&sim).await.unwrap().last().unwrap().state(), state);
    }
}

#[tokio::test]
async fn a_hook_may_add_to_the_node() {
    let sim = Sim::start(web()).unwrap();
    sim.on_call(Rpc::ListContainers, 1, |node| {
        node.also(|node| node.in_sandbox("s1").running("sidecar", WEB)).unwrap();
    });
    assert_eq!(containers(&sim).await.unwrap().len(), 2);
    assert!(sim.log_roots().pods.join("default_web-0_u1/sidecar/0.log").is_file());
}

// === the socket ===

#[tokio::test]
async fn the_socket_vanishes_and_returns_with_the_same_state() {
    let mut sim = Sim::start(web()).unwrap();
    let mut client = client(&sim);
    let mut listed = async || {
        let list = client.list_containers(pb::ListContainersRequest { filter: None }).await?;
        Ok::<_, Status>(list.into_inner().containers.len())
    };
    assert_eq!(listed().await.unwrap(), 1);
    sim.stop_listening();
    assert!(!sim.socket().exists() && !sim.is_there());
    assert!(listed().await.is_err());
    sim.listen_again().unwrap();
    assert_eq!(listed().await.unwrap(), 1, "the connection heals by itself");
}

#[tokio::test]
async fn the_socket_vanishes_in_the_middle_of_a_call() {
    let mut sim = Sim::start(web()).unwrap();
    sim.fault(Rpc::RemoveContainer, Fault::Vanish, Times::N(1));
    assert!(is_broken(&remove(&sim, "c1").await));
    assert!(!sim.socket().exists());
    sim.listen_again().unwrap();
    assert!(sim.is_there());
    assert_eq!(sim.state().container_ids(), ["c1"]);
    assert!(remove(&sim, "c1").await.is_ok());
    assert!(sim.state().container_ids().is_empty());
}

#[tokio::test]
async fn cut_connections_break_only_calls_in_progress() {
    let sim = Sim::start(web()).unwrap();
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(1));
    let removal = tokio::spawn(remove(&sim, "c1"));
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    sim.cut_connections();
    assert!(is_broken(&removal.await.unwrap()));
    assert!(remove(&sim, "c1").await.is_ok());
}

#[test]
fn nothing_is_left_of_a_dropped_node() {
    let sim = Sim::start(web()).unwrap();
    let dir = sim.dir().to_owned();
    assert!(sim.socket().exists() && dir.exists());
    drop(sim);
    assert!(!dir.exists());
}

#[test]
fn a_test_without_an_async_runtime_may_call_it() {
    let sim = Sim::start(web()).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(sim.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let no_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&no_settings).unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(frame.get(3), no_settings.get(3), "its first frame has its settings");
}

#[tokio::test]
async fn an_old_runtime_answers_under_the_old_name_only() {
    let sim = Sim::start(web().only_v1alpha2().runtime("containerd", "1.5.0")).unwrap();
    let error = client(&sim).list_containers(pb::ListContainersRequest { filter: None }).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/runtime.v1alpha2.RuntimeService/Version");
    let mut client = tonic::client::Grpc::new(channel(sim.socket()));
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<pb::VersionRequest, pb::VersionResponse>::default();
    let answer = client.unary(tonic::Request::new(pb::VersionRequest::default()), path, codec).await.unwrap();
    assert_eq!(answer.get_ref().runtime_name, "containerd");
    assert_eq!(answer.get_ref().runtime_api_version, "v1alpha2");
}

#[tokio::test]
async fn a_silent_socket_accepts_and_a_deserted_one_refuses() {
    let silent = FakeSocket::silent().unwrap();
    let mut client = RuntimeServiceClient::new(channel(silent.socket()));
    let answer = tokio::time::timeout(Duration::from_millis(50), client.version(pb::VersionRequest::default())).await;
    assert!(answer.is_err(), "{answer:?}");
    let deserted = FakeSocket::deserted().unwrap();
    assert!(deserted.socket().exists());
    let refused = std::os::unix::net::UnixStream::connect(deserted.socket()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

// === streaming ===

#[tokio::test]
async fn streaming_lists_are_unimplemented_batched_or_broken_off() {
    let many = |streaming| Node::big(10, 3).streaming(streaming);
    let batches = |streaming| async move {
        let sim = Sim::start(many(streaming)).unwrap();
        let mut sizes = Vec::new();
        let mut stream =
            client(&sim).stream_containers(pb::StreamContainersRequest { filter: None }).await?.into_inner();
        loop {
            match stream.message().await {
                Ok(Some(batch)) => sizes.push(batch.containers.len()),
                Ok(None) => return Ok((sizes, None)),
                Err(status) => return Ok((sizes, Some(status.code()))),
            }
        }
    };
    let unknown: Result<_, tonic::Status> = batches(Streaming::Unimplemented).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(batches(Streaming::Batches(4)).await.unwrap(), (vec![4, 4, 2], None));
    assert_eq!(batches(Streaming::BreaksOff(4)).await.unwrap(), (vec![4], Some(Code::Internal)));
}

// === the logs ===

#[tokio::test]
async fn log_files_and_links_match_kubelet_and_runtime_paths() {
    let node = web().logging(500).rotated().created("waiting", WEB).orphan_logs("default", "old-0", "u9");
    let sim = Sim::start(node.dangling_link("default", "old-0", "app", "c9")).unwrap();
    let roots = sim.log_roots();
    let request = pb::ContainerStatusRequest { container_id: "c1".to_owned(), verbose: false };
    let status = client(&sim).container_status(request).await.unwrap().into_inner().status.unwrap();
    let log = std::path::PathBuf::from(status.log_path);
    assert_eq!(log, roots.pods.join("default_web-0_u1/app/0.log"));
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 500);
    assert!(roots.pods.join("default_web-0_u1/app/0.log.20261120-120000.gz").is_file());
    assert_eq!(std::fs::read_link(roots.containers.join("web-0_default_app-c1.log")).unwrap(), log);
    assert!(roots.pods.join("default_old-0_u9/app/0.log").is_file());
    assert!(!roots.pods.join("default_web-0_u1/waiting").exists(), "what never started never wrote");
    let dangling = roots.containers.join("old-0_default_app-c9.log");
    assert!(dangling.is_symlink() && !dangling.exists());
    remove(&sim, "c1").await.unwrap();
    assert!(log.is_file(), "the runtime leaves logs alone");
}

// === big nodes ===

#[tokio::test]
async fn a_big_node_is_listed_whole() {
    let sim = Sim::start(Node::big(20_000, 1_000)).unwrap();
    let mut client = client(&sim).max_decoding_message_size(64 << 20);
    let mut of = async |filter| {
        client.list_containers(pb::ListContainersRequest { filter }).await.unwrap().into_inner().containers.len()
    };
    assert_eq!(of(None).await, 20_000);
    let uid = ("io.kubernetes.pod.uid".to_owned(), "00000000-0000-0000-0000-000000000007".to_owned());
    assert_eq!(of(Some(pb::ContainerFilter { label_selector: [uid].into(), ..Default::default() })).await, 5);
    assert_eq!(sim.state().sandbox_ids().len(), 4_000);
    assert_eq!(sim.state().image_ids().len(), 1_000);
}

// === helpers ===

/// Returns a node with one pod, which has one exited container `c1` in sandbox `s1`.
fn web() -> Node {
    Node::new().image(WEB, &[("web", MIB)]).id("s1").pod("default", "web-0", "u1").id("c1").exited("app", WEB)
}

fn channel(socket: &std::path::Path) -> Channel {
    let path = socket.to_owned();
    let connect = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { tokio::net::UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) }
    });
    // The limit applies to every wait in these tests.
    let limit = Duration::from_secs(20);
    Endpoint::from_static("http://localhost").timeout(limit).connect_with_connector_lazy(connect)
}

fn client(sim: &Sim) -> RuntimeServiceClient<Channel> {
    RuntimeServiceClient::new(channel(sim.socket()))
}

async fn containers(sim: &Sim) -> Result<Vec<pb::Container>, Status> {
    let list = client(sim).list_containers(pb::ListContainersRequest { filter: None }).await?;
    Ok(list.into_inner().containers)
}

fn remove(sim: &Sim, id: &str) -> impl Future<Output = Result<(), Status>> + use<> {
    let (mut client, request) = (client(sim), pb::RemoveContainerRequest { container_id: id.to_owned() });
    async move { client.remove_container(request).await.map(|_| ()) }
}

/// Returns whether a call failed because its connection broke, and not because of the limit of these tests.
fn is_broken<T>(answer: &Result<T, Status>) -> bool {
    answer.as_ref().is_err_and(|status| !matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded))
}

/// Calls a method with an empty message and returns the code of its error.
async fn fails_with(sim: &Sim, method: Rpc) -> Option<Code> {
    let service = match method {
        Rpc::ListImages | Rpc::StreamImages | Rpc::ImageStatus | Rpc::RemoveImage | Rpc::ImageFsInfo => "ImageService",
        _ => "RuntimeService",
    };
    let of_store = super::services::store_service::PATHS.iter().find(|(of, _)| *of == method);
    let path = match of_store {
        Some((_, path)) => format!("{}{path}", super::services::store_service::PREFIX),
        None => format!("/runtime.v1.{service}/{method}"),
    };
    let path = path.parse().unwrap();
    let mut client = tonic::client::Grpc::new(channel(sim.socket()));
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<pb::VersionRequest, pb::VersionRequest>::default();
    client.unary(tonic::Request::new(pb::VersionRequest::default()), path, codec).await.err().map(|error| error.code())
}
