use std::sync::atomic::AtomicUsize;

use tonic::Code;

use super::*;
use crate::plan::{Counts, Kind};
use crate::sim::{Fault, GIB, MIB, Times};

/// A deleted pod with two containers, its sandbox and its image, and the logs of another deleted pod.
fn gone() -> Node {
    Node::new()
        .disk(GIB, 0)
        .id("sha256:aa")
        .image(WEB, &[("web", 8 * MIB)])
        .id("s1")
        .pod("default", "web", "u1")
        .stopped()
        .id("c1")
        .exited("app", WEB)
        .id("c2")
        .exited("app", WEB)
        .orphan_logs("default", "db", "u2")
}

fn all(bench: &Bench) -> Vec<Action> {
    let image = Target::RemoveImage {
        id: "sha256:aa".into(),
        tags: vec![WEB.to_owned()],
        digests: Vec::new(),
        estimated_bytes: 0,
    };
    let logs = ["default_web_u1", "default_db_u2"].map(|name| action(Target::RemoveLogDir { path: bench.pods(name) }));
    let [own, orphan] = logs;
    vec![exited("c1"), exited("c2"), sandbox("s1"), own, orphan, action(image)]
}

#[tokio::test]
async fn actions_run_in_plan_order_and_report_immediately() {
    let bench = Bench::new(gone());
    let mut writes_by_report = Vec::new();
    let plan = plan(all(&bench));
    let summary = bench
        .live()
        .carry_out(&plan, &CancellationToken::new(), &mut |report: Report| {
            writes_by_report.push((lines(&report), bench.writes().len()));
        })
        .await;
    let expected = [("c1", 1), ("c2", 2), ("s1", 4), ("default_web_u1", 4), ("default_db_u2", 4), ("sha256:aa", 5)];
    assert_eq!(writes_by_report, expected.map(|(id, writes)| (format!("{id} removed"), writes)));
    assert_eq!(summary.total().removed, 6);
    assert_eq!(summary.outcomes[&Kind::Container], Counts { removed: 2, ..Counts::default() });
    assert_eq!((summary.not_begun, summary.is_stopped), (0, false));
    assert_eq!(fs::read_dir(bench.pods("")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(bench.links("")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_dry_run_follows_the_plan_without_changes() {
    let bench = Bench::new(gone());
    let (before, state) = (bench.files(), format!("{:?}", bench.sim.state()));
    let executor = bench.dry();
    let mut reports = Vec::new();
    executor
        .carry_out(&plan(all(&bench)), &CancellationToken::new(), &mut |report: Report| reports.push(lines(&report)))
        .await;
    let expected = ["c1", "c2", "s1", "default_web_u1", "default_db_u2", "sha256:aa"];
    assert_eq!(reports, expected.map(|id| format!("{id} would_remove")));
    assert_eq!(bench.writes(), Vec::<String>::new());
    assert_eq!((bench.files(), format!("{:?}", bench.sim.state())), (before, state));
}

#[tokio::test]
async fn a_dry_run_refuses_what_a_real_one_would() {
    let bench = Bench::new(gone());
    bench.sim.state().set_container_state("c2", ContainerState::Running);
    let expected = [
        "c1 would_remove",
        "c2 refused: its state changed",
        "s1 refused: it has containers",
        "default_web_u1 refused: it has containers",
        "default_db_u2 would_remove",
        "sha256:aa refused: a container uses it",
    ];
    assert_eq!(bench.rehearse(all(&bench)).await, expected);
    assert_eq!(bench.carry_out(all(&bench)).await, expected.map(|line| line.replace("would_remove", "removed")));
}

#[tokio::test]
async fn a_dry_run_leaves_the_reserve_alone() {
    let bench = Bench::new(gone());
    let mut plan = plan(Vec::new());
    plan.images.stop_at_available_bytes = 2 * GIB;
    plan.images.reserve = all(&bench).split_off(5);
    let executor = bench.dry();
    executor.carry_out(&plan, &CancellationToken::new(), &mut |report: Report| panic!("{report:?}")).await;
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_failure_does_not_stop_the_rest() {
    let bench = Bench::new(gone());
    bench.sim.fault(Rpc::RemoveContainer, Fault::Fail(Code::Internal), Times::N(1));
    let (lines, _, summary) = bench.carry_out_plan(&plan(all(&bench))).await;
    assert!(lines[0].starts_with("c1 failed: "), "{lines:?}");
    assert_eq!(lines[1..3], ["c2 removed", "s1 refused: it has containers"]);
    assert_eq!(lines[4], "default_db_u2 removed");
    assert_eq!((summary.total().failed, summary.total().removed, summary.total().refused), (1, 2, 3));
}

#[tokio::test]
async fn a_plan_carried_out_twice_finds_nothing_left() {
    let bench = Bench::new(gone());
    bench.carry_out(all(&bench)).await;
    bench.sim.forget_calls();
    let lines = bench.carry_out(all(&bench)).await;
    assert!(lines.iter().all(|line| line.ends_with("already_removed")), "{lines:?}");
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_shutdown_finishes_the_current_action_and_stops() {
    let bench = Bench::new(gone());
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    // The shutdown request arrives during the removal of the first container.
    bench.sim.on_call(Rpc::RemoveContainer, 1, move |_| stopper.cancel());
    let mut reports = Vec::new();
    let summary =
        bench.live().carry_out(&plan(all(&bench)), &stop, &mut |report: Report| reports.push(lines(&report))).await;
    assert_eq!(reports, ["c1 removed"]);
    assert_eq!(bench.writes(), ["RemoveContainer(c1)"]);
    assert_eq!((summary.not_begun, summary.is_stopped), (5, true));
}

#[tokio::test]
async fn a_stop_keeps_the_reserve_from_being_touched() {
    let mut bench = Bench::new(gone());
    bench.options.space_settle = Duration::from_hours(1);
    let mut plan = plan(Vec::new());
    plan.images.stop_at_available_bytes = 2 * GIB;
    plan.images.reserve = all(&bench).split_off(5);
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    bench.sim.on_call(Rpc::ImageFsInfo, 1, move |_| stopper.cancel());
    let summary = bench.live().carry_out(&plan, &stop, &mut |report: Report| panic!("{report:?}")).await;
    assert!(summary.is_stopped);
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn every_action_fails_while_the_runtime_is_unavailable() {
    let mut bench = Bench::new(gone());
    bench.sim.stop_listening();
    let before = bench.files();
    let (lines, _, summary) = bench.carry_out_plan(&plan(all(&bench))).await;
    assert_eq!(summary.total().failed, 6, "{lines:?}");
    assert_eq!(bench.files(), before);
    bench.sim.listen_again().unwrap();
    let lines = bench.carry_out(all(&bench)).await;
    assert!(lines.iter().all(|line| line.ends_with(" removed")), "{lines:?}");
}

#[test]
fn the_work_can_be_handed_to_a_task() {
    fn task<T: Send>(_: T) {}
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let bench = Bench::new(Node::new());
    let (live, plan, stop) = (bench.live(), plan(Vec::new()), CancellationToken::new());
    task(live.carry_out(&plan, &stop, &mut |_: Report| ()));
}

/// Closes after a number of looks.
struct ClosesAfter(AtomicUsize);

#[async_trait::async_trait]
impl RemovalGate for ClosesAfter {
    async fn closed_by(&self) -> Option<String> {
        use std::sync::atomic::Ordering::SeqCst;
        let left = self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        left.is_err().then(|| "paused by root".to_owned())
    }
}

#[tokio::test]
async fn no_removal_begins_once_the_gate_is_closed() {
    let with_gate = |looks| Bench { gate: Arc::new(ClosesAfter(AtomicUsize::new(looks))), ..Bench::new(gone()) };
    let open = with_gate(usize::MAX);
    let (_, _, summary) = open.carry_out_plan(&plan(all(&open))).await;
    assert_eq!((summary.total().removed, summary.not_begun, &summary.suspended), (6, 0, &None));

    // One look at the start, one at the kind, and one for each container.
    let closing = with_gate(4);
    let (lines, _, summary) = closing.carry_out_plan(&plan(all(&closing))).await;
    assert_eq!(lines, ["c1 removed", "c2 removed"]);
    assert_eq!((summary.not_begun, summary.suspended.as_deref()), (4, Some("paused by root")));
    assert!(summary.halts.is_empty() && !summary.is_stopped, "{summary:?}");

    let closed = with_gate(0);
    let mut reports = Vec::new();
    let stop = CancellationToken::new();
    let summary = closed.dry().carry_out(&plan(all(&closed)), &stop, &mut |report: Report| reports.push(report)).await;
    assert_eq!((reports.len(), summary.total().would_remove), (6, 6), "a dry run goes on");
    assert_eq!((summary.suspended.as_deref(), closed.writes().len()), (Some("paused by root"), 0));
}
