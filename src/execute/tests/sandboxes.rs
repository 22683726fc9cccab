use tonic::Code;

use super::*;
use crate::sim::{Fault, Times};

fn stopped() -> Node {
    Node::new().image(WEB, &[]).id("s1").pod("default", "web", "u1").stopped()
}

#[tokio::test]
async fn a_sandbox_is_stopped_and_then_removed() {
    let bench = Bench::new(stopped());
    assert_eq!(bench.carry_out(vec![sandbox("s1")]).await, ["s1 removed"]);
    assert_eq!(bench.writes(), ["StopPodSandbox(s1)", "RemovePodSandbox(s1)"]);
    assert_eq!(bench.sim.state().sandbox_ids(), Vec::<String>::new());
}

#[tokio::test]
async fn a_stop_that_fails_ends_the_removal() {
    let bench = Bench::new(stopped());
    bench.sim.fault(Rpc::StopPodSandbox, Fault::Fail(Code::Unknown), Times::N(1));
    let lines = bench.carry_out(vec![sandbox("s1")]).await;
    assert!(lines[0].starts_with("s1 failed: StopPodSandbox"), "{lines:?}");
    assert_eq!(bench.writes(), ["StopPodSandbox(s1)"]);
}

#[tokio::test]
async fn a_ready_sandbox_stays() {
    let bench = Bench::new(Node::new().id("s1").pod("default", "web", "u1"));
    assert_eq!(bench.carry_out(vec![sandbox("s1")]).await, ["s1 refused: the sandbox is ready"]);
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_sandbox_with_a_new_container_is_kept() {
    let bench = Bench::new(stopped());
    let add = |node: &mut Node| node.also(|node| node.in_sandbox("s1").created("app", WEB)).unwrap();
    bench.sim.on_call(Rpc::ListPodSandbox, 1, add);
    assert_eq!(bench.carry_out(vec![sandbox("s1")]).await, ["s1 refused: it has containers"]);
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn removing_a_deleted_sandbox_succeeds_even_by_empty_id() {
    let bench = Bench::new(stopped());
    assert_eq!(bench.carry_out(vec![sandbox("s2"), sandbox("")]).await, ["s2 already_removed", " already_removed"]);
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_sandbox_whose_containers_cannot_be_listed_stays() {
    let bench = Bench::new(stopped());
    bench.sim.fault(Rpc::ListContainers, Fault::Fail(Code::Internal), Times::Forever);
    let lines = bench.carry_out(vec![sandbox("s1")]).await;
    assert!(lines[0].starts_with("s1 failed: ListContainers"), "{lines:?}");
    assert_eq!(bench.writes(), Vec::<String>::new());
}
