//! Tests of actions of different pods at the same time.

use super::*;
use crate::sim::{Fault, Times};

/// The limit of removals that hang.
const SHORT: Duration = Duration::from_millis(400);

/// Two exited containers of each of four pods: `a1` and `a2` of the pod `a`, and so on.
fn bench() -> Bench {
    let node = ["a", "b", "c", "d"].iter().fold(Node::new(), |node, pod| {
        let node = node.id(&format!("s-{pod}")).pod("default", pod, pod).stopped();
        [1, 2]
            .iter()
            .fold(node, |node, number| node.id(&format!("{pod}{number}")).exited(&format!("app-{number}"), WEB))
    });
    let mut bench = Bench::new(node);
    bench.cri.removal_timeout = SHORT;
    bench
}

fn of_pod(id: &str) -> Action {
    let pod = id.chars().next().unwrap().to_string();
    let pod = PodRef { uid: pod.as_str().into(), namespace: "default".into(), name: pod };
    Action { pod: Some(pod), reason: RemoveReason::OverMaxPerPodContainer { limit: 0 }, ..exited(id) }
}

#[tokio::test]
async fn other_pods_go_on_while_a_removal_hangs() {
    let bench = bench();
    // The first answer is quick, so that two may be in flight.
    bench.sim.fault(Rpc::RemoveContainer, Fault::Late(Duration::ZERO), Times::N(1));
    bench.sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(1));
    let actions = ["a1", "b1", "c1", "d1"].map(of_pod).into();
    let lines = bench.carry_out(actions).await;
    assert!(lines[..3].iter().all(|line| line.ends_with(" removed")), "{lines:?}");
    assert!(lines[3].contains(" failed: RemoveContainer: no answer"), "{lines:?}");
}

#[tokio::test]
async fn removals_that_hang_together_count_once() {
    let bench = bench();
    bench.sim.fault(Rpc::RemoveContainer, Fault::Late(Duration::ZERO), Times::N(1));
    bench.sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(2));
    let (lines, _, summary) = bench.carry_out_plan(&plan(["a1", "b1", "c1", "d1"].map(of_pod).into())).await;
    let total = summary.total();
    assert_eq!((total.removed, total.failed, summary.not_begun), (2, 2, 0), "{lines:?}");
}

#[tokio::test]
async fn actions_of_one_pod_do_not_overlap() {
    let bench = bench();
    bench.sim.fault(Rpc::RemoveContainer, Fault::Late(Duration::ZERO), Times::N(1));
    bench.sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(1));
    let lines = bench.carry_out(["a1", "b1", "b2"].map(of_pod).into()).await;
    assert!(lines[1].starts_with("b1 failed"), "{lines:?}");
    assert_eq!((lines[0].as_str(), lines[2].as_str()), ("a1 removed", "b2 removed"));
}

#[tokio::test]
async fn a_pod_action_is_reported_before_the_next() {
    let bench = bench();
    let actions: Vec<_> = ["a1", "b1", "a2", "b2", "c1", "c2"].map(of_pod).into();
    let mut reported = Vec::new();
    let mut early = Vec::new();
    let summary = bench
        .live()
        .carry_out(&plan(actions), &CancellationToken::new(), &mut |report: Report| {
            let second = report.action.target.id().replace('1', "2");
            let has_begun = bench.sim.calls_of(Rpc::ContainerStatus).contains(&second);
            early.extend((second != report.action.target.id() && has_begun).then_some(second));
            reported.push(report.action.target.id());
        })
        .await;
    assert_eq!((summary.total().removed, early), (6, Vec::<String>::new()), "{reported:?}");
}
