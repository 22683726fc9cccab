//! Tests with a runtime that stops answering: which calls the client still sends.

use super::*;
use crate::sim::{Fault, MIB, Node, Rpc, Sim, Times};

const IMAGE: &str = "docker.io/library/web:1";
const LIMIT: Duration = Duration::from_secs(1);

fn sim() -> Sim {
    let node = Node::new().image(IMAGE, &[("web", MIB)]).pod("default", "web-0", "u1");
    Sim::start(node.id("c1").exited("app", IMAGE).id("c2").exited("app", IMAGE)).unwrap()
}

fn options() -> CriOptions {
    CriOptions { read_timeout: LIMIT, removal_timeout: LIMIT, answer_timeout: LIMIT, ..CriOptions::default() }
}

fn reader(sim: &Sim) -> RuntimeReader {
    super::reader(&sim.endpoint(), options())
}

fn writer(sim: &Sim) -> RuntimeWriter {
    super::writer(&sim.endpoint(), options())
}

fn hang(sim: &Sim, methods: impl IntoIterator<Item = Rpc>) {
    methods.into_iter().for_each(|method| sim.fault(method, Fault::Hang, Times::Forever));
}

fn methods(sim: &Sim) -> Vec<Rpc> {
    sim.calls().into_iter().map(|call| call.method).collect()
}

#[tokio::test]
async fn after_an_unanswered_probe_no_call_is_sent() {
    let sim = sim();
    let reader = reader(&sim);
    hang(&sim, Rpc::all());
    let first = within(reader.image(IMAGE)).await.unwrap_err();
    assert!(matches!(first, CriError::Timeout { call: "ImageStatus", .. }), "{first}");
    let second = within(reader.container_status(&"c1".into())).await.unwrap_err();
    assert_eq!(methods(&sim), [Rpc::ImageStatus, Rpc::Version]);
    assert!(second.to_string().starts_with("ContainerStatus not sent: "), "{second}");
    assert!(second.to_string().contains("did not answer Version"), "{second}");
}

#[tokio::test]
async fn an_answered_probe_allows_the_next_call() {
    let sim = sim();
    let reader = reader(&sim);
    sim.fault(Rpc::ImageStatus, Fault::Hang, Times::N(1));
    within(reader.image(IMAGE)).await.unwrap_err();
    assert!(within(reader.container_status(&"c1".into())).await.unwrap().is_some());
    assert!(within(reader.image(IMAGE)).await.unwrap().is_some());
    assert_eq!(methods(&sim), [Rpc::ImageStatus, Rpc::Version, Rpc::ContainerStatus, Rpc::ImageStatus]);
}

#[tokio::test]
async fn reader_clones_send_one_probe_after_a_time_out() {
    let sim = sim();
    let reader = reader(&sim);
    let other = reader.clone();
    sim.fault(Rpc::ImageStatus, Fault::Hang, Times::N(1));
    within(reader.image(IMAGE)).await.unwrap_err();
    let [c1, c2] = ["c1", "c2"].map(ContainerId::from);
    let (first, second) = tokio::join!(within(reader.container_status(&c1)), within(other.container_status(&c2)));
    assert!(first.unwrap().is_some() && second.unwrap().is_some());
    assert_eq!(sim.calls_of(Rpc::Version).len(), 1);
}

#[tokio::test]
async fn a_removal_in_progress_is_not_sent_again() {
    let sim = sim();
    let writer = writer(&sim);
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(1));
    let id = ContainerId::from("c1");
    within(writer.remove_container(&id)).await.unwrap_err();
    let error = within(writer.remove_container(&id)).await.unwrap_err();
    assert_eq!(error.to_string(), "RemoveContainer not sent: an earlier removal of c1 is still in progress");
    within(writer.remove_container(&"c2".into())).await.unwrap();
    assert_eq!(sim.calls_of(Rpc::RemoveContainer), ["c1", "c2"]);

    // A restart of the runtime ends the call.
    sim.cut_connections();
    within(async {
        while writer.remove_container(&id).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(sim.state().container_ids(), Vec::<String>::new());
}

#[tokio::test]
async fn limited_readers_stop_methods_after_two_unanswered_calls() {
    let sim = sim();
    let reader = reader(&sim).limited(2);
    hang(&sim, [Rpc::ContainerStatus]);
    for _ in 0..4 {
        within(reader.container_status(&"c1".into())).await.unwrap_err();
    }
    let error = within(reader.container_status(&"c1".into())).await.unwrap_err();
    assert_eq!(error.to_string(), "ContainerStatus not sent: 2 earlier calls of this pass had no answer");
    assert_eq!(sim.calls_of(Rpc::ContainerStatus).len(), 2);
    assert!(within(reader.image(IMAGE)).await.unwrap().is_some(), "other methods are called");
    let next = reader.limited(2);
    assert!(matches!(within(next.container_status(&"c1".into())).await, Err(CriError::Timeout { .. })), "a new stage");
}

#[tokio::test]
async fn limited_readers_send_nothing_after_an_unanswered_probe() {
    let sim = sim();
    let reader = reader(&sim).limited(2);
    hang(&sim, Rpc::all());
    for _ in 0..4 {
        within(reader.image(IMAGE)).await.unwrap_err();
    }
    assert_eq!(methods(&sim), [Rpc::ImageStatus, Rpc::Version]);
    assert!(reader.check_suspicion().await.is_err());
    sim.heal();
    assert!(reader.check_suspicion().await.is_err(), "the stage stays ended");
    assert!(within(reader.limited(2).image(IMAGE)).await.unwrap().is_some(), "the next one probes");
}

#[tokio::test(start_paused = true)]
async fn a_limited_reader_awaits_the_runtime_once_per_method() {
    let options = CriOptions { patience: Duration::from_mins(1), ..quick() };
    let reader = super::reader("/nonexistent/x.sock", options).limited(2);
    let start = tokio::time::Instant::now();
    for _ in 0..5 {
        reader.image(IMAGE).await.unwrap_err();
    }
    assert_eq!(start.elapsed(), Duration::from_mins(1));
    reader.container_status(&"c1".into()).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_mins(2));
}
