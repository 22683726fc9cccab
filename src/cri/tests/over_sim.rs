//! The client against a node that behaves as a runtime does.

use super::*;
use crate::model::{Container, Image, Sandbox};
use crate::sim::{Fault, MIB, Method, Node, Sim, Streaming, Times};

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
    super::reader(&sim.endpoint(), CriOptions { read_timeout: Duration::from_millis(500), ..quick() })
}

fn writer(sim: &Sim, removal_timeout: Duration) -> RuntimeWriter {
    RuntimeWriter::new(&sim.endpoint(), &sim.endpoint(), CriOptions { removal_timeout, ..quick() })
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
    let told = lists(&reader(&unary)).await;
    assert_eq!((told.0.len(), told.1.len(), told.2.len()), (4, 3, 2));
    assert_eq!(lists(&reader(&streamed)).await, told);
    assert_eq!(streamed.calls_of(Method::ListContainers).len(), 0);
    assert_eq!(unary.calls_of(Method::ListContainers).len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error_and_not_a_short_list() {
    let sim = Sim::start(node().streaming(Streaming::BreaksOff(1))).unwrap();
    let reader = reader(&sim);
    assert!(within(reader.containers(Only::All)).await.is_err());
    assert!(within(reader.sandboxes(Only::All)).await.is_err());
    assert!(within(reader.images()).await.is_err());
    assert_eq!(sim.calls_of(Method::ListContainers).len(), 0, "the part is not patched up with another list either");
}

#[tokio::test]
async fn lists_for_one_object_hold_what_belongs_to_it() {
    let sim = Sim::start(node()).unwrap();
    let reader = reader(&sim);
    let sandbox = sim.state().sandbox_id("web-0").unwrap();
    let count = |list: Vec<Container>| list.len();
    assert_eq!(count(within(reader.containers(Only::Container(exited(&sim)))).await.unwrap()), 1);
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
async fn reader_and_writer_survive_a_runtime_that_goes_and_comes_back() {
    let mut sim = Sim::start(node()).unwrap();
    let (reader, writer) = (reader(&sim), writer(&sim, BOUND));
    within(reader.images()).await.unwrap();
    within(writer.stop_sandbox(&"absent".into())).await.unwrap();
    sim.vanish();
    assert!(within(reader.images()).await.unwrap_err().is_unreachable());
    assert!(within(writer.stop_sandbox(&"absent".into())).await.unwrap_err().is_unreachable());
    sim.come_back().unwrap();
    assert_eq!(within(reader.images()).await.unwrap().len(), 2);
    within(writer.remove_container(&exited(&sim))).await.unwrap();
    assert_eq!(sim.state().container_ids().len(), 3);
}

#[tokio::test]
async fn connections_that_were_cut_are_made_anew_without_an_error() {
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
async fn a_removal_is_done_although_nobody_waits_for_it_any_more() {
    let sim = Sim::start(node()).unwrap();
    let id = exited(&sim);
    // The simulated runtime does nothing if the caller gave up before.
    sim.fault(Method::RemoveContainer, Fault::Slow(Duration::from_millis(300)), Times::N(1));
    let error = within(writer(&sim, Duration::from_millis(100)).remove_container(&id)).await.unwrap_err();
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
async fn a_removal_whose_answer_was_cut_off_comes_again_and_finds_it_gone() {
    let sim = Sim::start(node()).unwrap();
    let id = exited(&sim);
    sim.fault(Method::RemoveContainer, Fault::DoThenCut, Times::N(1));
    within(writer(&sim, BOUND).remove_container(&id)).await.unwrap();
    assert_eq!(sim.state().container_ids().len(), 3);
    assert_eq!(sim.calls_of(Method::RemoveContainer), [id.to_string(), id.to_string()]);
}

#[tokio::test]
async fn a_node_from_before_the_cri_v1_is_told_as_such() {
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
