//! Tests of the client against the simulated node.

use super::*;
use crate::model::{Container, Image, Sandbox};
use crate::sim::{Fault, MIB, Node, Rpc, Sim, Streaming, Times};

fn node() -> Node {
    Node::new()
        .sandbox_image("registry.k8s.io/pause:3.6")
        .image("registry.k8s.io/pause:3.6", &[("pause", MIB)])
        .pinned()
        .image("docker.io/library/web:1", &[("base", 50 * MIB)])
        .also_tagged("docker.io/library/web:latest")
        .pod("default", "web-0", "u1")
        .exited("app", "docker.io/library/web:1")
        .running("app", "docker.io/library/web:1")
        .pod("default", "web-1", "u2")
        .created("app", "docker.io/library/web:1")
        .foreign("build")
        .running("step", "docker.io/library/web:1")
}

fn reader(sim: &Sim) -> RuntimeReader {
    super::reader(&sim.endpoint(), CriOptions { read_timeout: BOUND, ..quick() })
}

fn writer(sim: &Sim, removal_timeout: Duration) -> RuntimeWriter {
    super::writer(&sim.endpoint(), CriOptions { removal_timeout, ..quick() })
}

fn exited(sim: &Sim) -> ContainerId {
    let state = sim.state();
    let is_exited = |id: &&String| state.container_state(id) == Some(crate::model::ContainerState::Exited);
    state.container_ids().iter().find(is_exited).unwrap().as_str().into()
}

async fn lists(reader: &RuntimeReader) -> (Vec<Container>, Vec<Sandbox>, Vec<Image>) {
    within(async {
        let containers = reader.containers(Only::All).await.unwrap();
        (containers, reader.sandboxes(Only::All).await.unwrap(), reader.images().await.unwrap())
    })
    .await
}

#[tokio::test]
async fn streamed_lists_are_the_same_as_unary_ones() {
    let unary = Sim::start(node()).unwrap();
    let streamed = Sim::start(node().streaming(Streaming::Batches(1))).unwrap();
    let listed = lists(&reader(&unary)).await;
    assert_eq!((listed.0.len(), listed.1.len(), listed.2.len()), (4, 3, 2));
    assert_eq!(lists(&reader(&streamed)).await, listed);
    assert_eq!(streamed.calls_of(Rpc::ListContainers).len(), 0);
    assert_eq!(unary.calls_of(Rpc::ListContainers).len(), 1);
}

#[tokio::test]
async fn a_broken_stream_gives_an_error_without_list() {
    let sim = Sim::start(node().streaming(Streaming::BreaksOff(1))).unwrap();
    let reader = reader(&sim);
    assert!(within(reader.containers(Only::All)).await.is_err());
    assert!(within(reader.sandboxes(Only::All)).await.is_err());
    assert!(within(reader.images()).await.is_err());
    assert_eq!(sim.calls_of(Rpc::ListContainers).len(), 0, "the part is not patched up with another list either");
}

#[tokio::test]
async fn lists_for_one_object_hold_what_belongs_to_it() {
    let sim = Sim::start(node()).unwrap();
    let reader = reader(&sim);
    let sandbox = sim.state().sandbox_id("web-0").unwrap();
    let count = |list: Vec<Container>| list.len();
    assert_eq!(count(within(reader.containers(Only::Sandbox(sandbox.as_str().into()))).await.unwrap()), 2);
    assert_eq!(count(within(reader.containers(Only::Pod("u2".into()))).await.unwrap()), 1);
    assert_eq!(within(reader.sandboxes(Only::Sandbox(sandbox.into()))).await.unwrap().len(), 1);
    assert_eq!(within(reader.sandboxes(Only::Pod("u2".into()))).await.unwrap().len(), 1);
}

#[tokio::test]
async fn single_objects_that_are_not_there_are_none() {
    let sim = Sim::start(node()).unwrap();
    let reader = reader(&sim);
    assert_eq!(within(reader.container_status(&"absent".into())).await.unwrap(), None);
    assert_eq!(within(reader.image("absent:1")).await.unwrap(), None);
    let image = within(reader.image("docker.io/library/web:1")).await.unwrap().unwrap();
    assert_eq!(Some(image.id.to_string()), sim.state().image_id("docker.io/library/web:1"));
    assert!(within(reader.image_filesystem()).await.unwrap().is_some());
    assert_eq!(within(reader.sandbox_image()).await.unwrap().as_deref(), Some("registry.k8s.io/pause:3.6"));
}

#[tokio::test]
async fn reader_and_writer_survive_a_runtime_restart() {
    let mut sim = Sim::start(node()).unwrap();
    let (reader, writer) = (reader(&sim), writer(&sim, BOUND));
    within(reader.images()).await.unwrap();
    within(writer.stop_sandbox(&"absent".into())).await.unwrap();
    sim.stop_listening();
    assert!(within(reader.images()).await.unwrap_err().is_unreachable());
    assert!(within(writer.stop_sandbox(&"absent".into())).await.unwrap_err().is_unreachable());
    sim.listen_again().unwrap();
    assert_eq!(within(reader.images()).await.unwrap().len(), 2);
    within(writer.remove_container(&exited(&sim))).await.unwrap();
    assert_eq!(sim.state().container_ids().len(), 3);
}

#[tokio::test]
async fn cut_connections_are_reopened_without_an_error() {
    let sim = Sim::start(node()).unwrap();
    let (reader, writer) = (reader(&sim), writer(&sim, BOUND));
    within(reader.images()).await.unwrap();
    within(writer.stop_sandbox(&"absent".into())).await.unwrap();
    for _ in 0..20 {
        sim.cut_connections();
        within(reader.images()).await.unwrap();
        within(writer.stop_sandbox(&"absent".into())).await.unwrap();
    }
}

#[tokio::test]
async fn a_removal_completes_after_its_caller_timed_out() {
    let sim = Sim::start(node()).unwrap();
    let id = exited(&sim);
    // The simulated runtime does not carry out the call if the caller gives up before the delay.
    sim.fault(Rpc::RemoveContainer, Fault::Slow(Duration::from_secs(2)), Times::N(1));
    let error = within(writer(&sim, Duration::from_millis(500)).remove_container(&id)).await.unwrap_err();
    assert!(matches!(error, CriError::Timeout { .. }), "{error}");
    assert_eq!(sim.state().container_ids().len(), 4);
    within(async {
        while sim.state().container_ids().len() == 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_removal_with_a_cut_answer_is_resent() {
    let sim = Sim::start(node()).unwrap();
    let id = exited(&sim);
    sim.fault(Rpc::RemoveContainer, Fault::DoThenCut, Times::N(1));
    within(writer(&sim, BOUND).remove_container(&id)).await.unwrap();
    assert_eq!(sim.state().container_ids().len(), 3);
    assert_eq!(sim.calls_of(Rpc::RemoveContainer), [id.to_string(), id.to_string()]);
}

#[tokio::test]
async fn a_node_without_cri_v1_is_reported() {
    let sim = Sim::start(node().only_v1alpha2()).unwrap();
    let error = within(reader(&sim).check()).await.unwrap_err();
    assert!(matches!(error, CriError::OnlyV1alpha2 { .. }), "{error}");
}

#[tokio::test]
async fn twenty_thousand_containers_are_listed_in_one_message() {
    let sim = Sim::start(Node::big(20_000, 10)).unwrap();
    let reader = super::reader(&sim.endpoint(), CriOptions::default());
    assert!(within(reader.containers(Only::All)).await.unwrap().len() == 20_000);
}

// --- lists that are too large to send ---

/// Returns a node with ten pods, each with ten exited containers and one running container. The runtime sends lists of
/// at most `limit` bytes.
fn crowded(limit: usize) -> Node {
    let mut node = Node::new().without_logs().send_limit(limit).image("a:1", &[("a", MIB)]);
    for pod in 0..10 {
        node = node.pod("default", &format!("web-{pod}"), &format!("u{pod}"));
        for _ in 0..10 {
            node = node.exited("app", "a:1");
        }
        node = node.running("app", "a:1");
    }
    node
}

/// The encoded size of one exited container of [`crowded`] in a list, in bytes.
const LISTED: usize = 400;

fn ids(containers: &[Container]) -> std::collections::BTreeSet<String> {
    containers.iter().map(|container| container.id.to_string()).collect()
}

#[tokio::test]
async fn lists_over_the_send_limit_come_in_parts() {
    let sim = Sim::start(crowded(20 * LISTED)).unwrap();
    let containers = within(reader(&sim).containers(Only::All)).await.unwrap();
    assert_eq!(containers.len(), 110);
    assert_eq!(ids(&containers).into_iter().collect::<Vec<_>>(), sim.state().container_ids());
}

#[tokio::test]
async fn lists_over_our_own_limit_come_in_parts() {
    let sim = Sim::start(crowded(usize::MAX)).unwrap();
    let options = CriOptions { max_message_bytes: 20 * LISTED, ..quick() };
    let reader = super::reader(&sim.endpoint(), options);
    assert_eq!(within(reader.containers(Only::All)).await.unwrap().len(), 110);
}

#[tokio::test]
async fn too_many_sandboxes_are_received_by_state() {
    let mut node = Node::new().without_logs();
    for pod in 0..10 {
        node = node.pod("default", &format!("job-{pod}"), &format!("u{pod}")).stopped();
        node = node.pod("default", &format!("web-{pod}"), &format!("w{pod}"));
    }
    let sim = Sim::start(node.send_limit(12 * 260)).unwrap();
    let sandboxes = within(reader(&sim).sandboxes(Only::All)).await.unwrap();
    assert_eq!(sandboxes.len(), 20);
}

/// Each change happens between two parts: after the list of the current state, before the list of the next state.
#[tokio::test]
async fn a_container_changed_between_parts_is_listed_once() {
    let node = crowded(20 * LISTED).pod("default", "late", "late").id("c-new").created("app", "a:1");
    let sim = Sim::start(node).unwrap();
    // The first call is for all states. The parts follow: created, running, unknown, exited.
    sim.on_call(Rpc::ListContainers, 3, |node| node.start_container("c-new").unwrap());
    sim.on_call(Rpc::ListContainers, 4, |node| node.end_container("c-new", 1));
    let containers = within(reader(&sim).containers(Only::All)).await.unwrap();
    let states: Vec<_> = containers.iter().filter(|it| it.id.as_str() == "c-new").map(|it| it.state).collect();
    assert_eq!((states, containers.len()), (vec![crate::model::ContainerState::Exited], 111));
}

#[tokio::test]
async fn another_error_in_a_part_fails_the_list() {
    let sim = Sim::start(crowded(20 * LISTED)).unwrap();
    sim.fault(Rpc::ListContainers, Fault::Slow(Duration::ZERO), Times::N(3));
    sim.fault(Rpc::ListContainers, Fault::Fail(Code::Internal), Times::N(1));
    let error = within(reader(&sim).containers(Only::All)).await.unwrap_err();
    assert!(error.to_string().contains("Internal"), "{error}");
}

#[tokio::test]
async fn a_sandbox_with_unlistable_containers_fails_the_list() {
    let sim = Sim::start(crowded(8 * LISTED)).unwrap();
    let error = within(reader(&sim).containers(Only::All)).await.unwrap_err();
    assert!(error.to_string().contains("exited containers of sandbox"), "{error}");
}
