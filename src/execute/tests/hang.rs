//! Tests of a runtime that hangs during a plan: how many calls hang, and what is still removed.

use super::*;
use crate::plan::Kind;
use crate::sim::{Fault, GIB, MIB, Times};

/// The limit of calls that hang. Calls that work have a longer limit, so that a busy machine does not change the
/// result.
const SHORT: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(30);
/// A number of objects on which no bound may depend.
const MANY: usize = 12;

fn id(number: usize) -> String {
    format!("c{number:02}")
}

/// A sandbox with many exited containers, another sandbox, and three images.
fn node() -> Node {
    let images = ["a", "b", "c"];
    let node = images.iter().fold(Node::new().disk(GIB, 0), |node, name| {
        node.id(&format!("sha256:{name}")).image(&format!("docker.io/library/{name}:1"), &[(name, 8 * MIB)])
    });
    let node = node.id("s1").pod("default", "web", "u1").stopped();
    let node = (0..MANY).fold(node, |node, number| node.id(&id(number)).exited(&format!("app-{number}"), WEB));
    node.id("s2").pod("default", "db", "u2").stopped()
}

fn containers() -> Vec<Action> {
    (0..MANY).map(|number| exited(&id(number))).collect()
}

fn images() -> Vec<Action> {
    let image = |name: &str| Target::RemoveImage {
        id: format!("sha256:{name}").as_str().into(),
        tags: vec![],
        digests: Vec::new(),
        estimated_bytes: 0,
    };
    ["a", "b", "c"].map(|name| action(image(name))).into()
}

/// A bench with these limits for read calls, removals and probes.
fn bench([read_timeout, removal_timeout, answer_timeout]: [Duration; 3]) -> Bench {
    let mut bench = Bench::new(node());
    bench.cri = CriOptions { read_timeout, removal_timeout, answer_timeout, ..bench.cri };
    bench
}

fn hang(bench: &Bench, methods: impl IntoIterator<Item = Rpc>) {
    methods.into_iter().for_each(|method| bench.sim.fault(method, Fault::Hang, Times::Forever));
}

fn halts(summary: &Summary) -> Vec<(Option<Kind>, usize)> {
    summary.halts.iter().map(|halt| (halt.kind, halt.not_begun)).collect()
}

#[tokio::test]
async fn twelve_removals_that_hang_cost_two_time_outs() {
    let bench = bench([LONG, SHORT, LONG]);
    hang(&bench, [Rpc::RemoveContainer]);
    let plan = plan([containers(), vec![sandbox("s2")]].concat());
    let (lines, _, summary) = bench.carry_out_plan(&plan).await;
    assert_eq!(bench.sim.calls_of(Rpc::RemoveContainer), ["c00", "c01"]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[..2].iter().all(|line| line.contains("failed: RemoveContainer: no answer")), "{lines:?}");
    assert_eq!(lines[2], "s2 removed", "what the fault does not touch");
    assert_eq!((summary.not_begun, halts(&summary)), (MANY - 2, vec![(Some(Kind::Container), MANY - 2)]));
    assert!(summary.halts[0].cause.starts_with("RemoveContainer: no answer"), "{summary:?}");
    assert!(!summary.is_stopped);
}

#[tokio::test]
async fn hanging_rechecks_cost_two_time_outs_per_kind() {
    let bench = bench([SHORT, LONG, SHORT]);
    hang(&bench, [Rpc::ContainerStatus, Rpc::ImageStatus]);
    let plan = plan([containers(), vec![sandbox("s2")], images()].concat());
    let (lines, _, summary) = bench.carry_out_plan(&plan).await;
    assert_eq!(bench.sim.calls_of(Rpc::ContainerStatus).len(), 2);
    assert_eq!(bench.sim.calls_of(Rpc::ImageStatus).len(), 2);
    assert!(lines.contains(&"s2 removed".to_owned()), "{lines:?}");
    assert_eq!(halts(&summary), [(Some(Kind::Container), MANY - 2), (Some(Kind::Image), 1)]);
}

#[tokio::test]
async fn a_hanging_runtime_ends_the_pass_after_a_probe() {
    let bench = bench([LONG, SHORT, SHORT]);
    bench.sim.fault(Rpc::RemoveContainer, Fault::Late(Duration::ZERO), Times::N(1));
    bench.sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    hang(&bench, [Rpc::Version]);
    let plan = plan([containers(), vec![sandbox("s2")], images()].concat());
    let (lines, _, summary) = bench.carry_out_plan(&plan).await;
    let calls: Vec<_> = bench.sim.calls().iter().map(ToString::to_string).collect();
    assert_eq!(calls[calls.len() - 3..], ["ContainerStatus(c01)", "RemoveContainer(c01)", "Version()"]);
    assert_eq!((lines.len(), lines[0].as_str()), (2, "c00 removed"));
    assert_eq!(halts(&summary), [(None, MANY - 2 + 1 + 3)]);
    assert!(summary.halts[0].cause.contains("did not answer Version"), "{summary:?}");
}

/// The reader of an observation fails calls at once after some without an answer. Here the halts do that, for each kind.
#[tokio::test]
async fn the_reader_limit_does_not_apply_to_rechecks() {
    let bench = bench([SHORT, LONG, LONG]);
    hang(&bench, [Rpc::ContainerStatus]);
    let mut live = bench.live();
    live.reader = live.reader.limited(1);
    live.carry_out(&plan(containers()), &CancellationToken::new(), &mut |_: Report| {}).await;
    assert_eq!(bench.sim.calls_of(Rpc::ContainerStatus), ["c00", "c01"]);
}

#[tokio::test]
async fn a_hang_with_no_action_left_is_no_halt() {
    let bench = bench([LONG, SHORT, LONG]);
    hang(&bench, [Rpc::RemoveContainer]);
    let (lines, _, summary) = bench.carry_out_plan(&plan(vec![exited("c00"), exited("c01")])).await;
    assert_eq!((lines.len(), summary.not_begun, halts(&summary)), (2, 0, Vec::new()));
}

#[tokio::test]
async fn one_hanging_removal_does_not_stop_the_others() {
    let bench = bench([LONG, SHORT, LONG]);
    bench.sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(1));
    let (live, plan) = (bench.live(), plan(containers()));
    let mut first = Vec::new();
    let summary =
        live.carry_out(&plan, &CancellationToken::new(), &mut |report: Report| first.push(lines(&report))).await;
    assert!(first[0].starts_with("c00 failed: RemoveContainer: no answer"), "{first:?}");
    assert_eq!((summary.total().removed, summary.not_begun), (MANY - 1, 0));

    let mut second = Vec::new();
    live.carry_out(&plan, &CancellationToken::new(), &mut |report: Report| second.push(lines(&report))).await;
    assert_eq!(second[0], "c00 refused: an earlier removal is still in progress");
    assert_eq!(bench.sim.calls_of(Rpc::RemoveContainer).iter().filter(|id| *id == "c00").count(), 1, "sent once");

    // A restart of the runtime ends the call that hangs.
    bench.sim.cut_connections();
    let done = async {
        while !bench.sim.state().container_ids().is_empty() {
            live.carry_out(&plan, &CancellationToken::new(), &mut |_: Report| ()).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), done).await.expect("it is removed after the restart");
}

#[tokio::test]
async fn a_hanging_image_removal_ends_the_image_removals() {
    let bench = bench([LONG, SHORT, LONG]);
    hang(&bench, [Rpc::RemoveImage]);
    let mut plan = plan(images()[..2].to_vec());
    plan.images.stop_at_available_bytes = 2 * GIB;
    plan.images.reserve = images()[2..].to_vec();
    let (lines, _, summary) = bench.carry_out_plan(&plan).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(bench.sim.calls_of(Rpc::RemoveImage), ["sha256:a"]);
    assert_eq!(halts(&summary), [(Some(Kind::Image), 1)]);
    assert!(summary.shortfall_bytes > 0);
}

#[tokio::test]
async fn a_bounded_shutdown_does_not_cancel_a_hanging_removal() {
    let mut bench = bench([LONG; 3]);
    bench.options.stop_wait = SHORT;
    // The simulated runtime removes nothing if the caller gave up earlier.
    bench.sim.fault(Rpc::RemoveContainer, Fault::Slow(4 * SHORT), Times::Forever);
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    bench.sim.on_call(Rpc::RemoveContainer, 1, move |_| stopper.cancel());
    let (live, plan, mut reports) = (bench.live(), plan(containers()), Vec::new());
    let summary = live.carry_out(&plan, &stop, &mut |report: Report| reports.push(lines(&report))).await;
    assert_eq!(reports.len(), 1);
    assert!(reports[0].starts_with("c00 failed: no answer within"), "{reports:?}");
    assert_eq!((summary.not_begun, summary.is_stopped, summary.halts.len()), (MANY - 1, true, 0));
    let removed = async {
        while bench.sim.state().container_ids().len() == MANY {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), removed).await.expect("the removal goes on");
}
