//! A pass with a runtime that fails, hangs, is late, loses answers, becomes unreachable or changes during the pass.
//!
//! A pass without faults determines what must be kept. The next pass after a fault removes what is left.

mod bench;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kubegc::plan::Scope;
use kubegc::sim::{Fault, Node, Rpc, Streaming, Times};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::Code;

use crate::sample;
use bench::{Bench, OLD, WAITING, WEB, not_removed};

/// The faults, and whether each affects the first call only or all calls.
const FAULTS: [(Fault, Times); 11] = [
    (Fault::Fail(Code::Internal), Times::N(1)),
    (Fault::Fail(Code::Unavailable), Times::Forever),
    (Fault::Fail(Code::NotFound), Times::Forever),
    (Fault::Hang, Times::N(1)),
    (Fault::Hang, Times::Forever),
    (Fault::Slow(Duration::from_millis(5)), Times::Forever),
    (Fault::Late(Duration::from_millis(200)), Times::Forever),
    (Fault::DoThenHang, Times::Forever),
    (Fault::DoThenCut, Times::N(1)),
    (Fault::DoThenCut, Times::Forever),
    (Fault::Vanish, Times::N(1)),
];
/// The limit for a call while there are faults: less than `Late`. If a call without a fault exceeds it, that is one
/// more fault. The pass after the faults has no limit.
const LIMIT: Duration = Duration::from_millis(100);
/// The number of cases that run at the same time: most of them wait.
const AT_ONCE: usize = 12;

type Things = BTreeSet<String>;

/// Returns everything on the node, and what a pass without faults leaves.
async fn before_and_after(streaming: Streaming) -> (Things, Things) {
    let mut bench = Bench::new(streaming);
    let before = bench.remains();
    let pass = bench.pass().await;
    assert_eq!(pass.plan.errors, []);
    assert_eq!(not_removed(&pass), Vec::<String>::new());
    (before, bench.remains())
}

/// Returns the methods that a pass without faults calls.
async fn used(streaming: Streaming) -> Vec<Rpc> {
    let mut bench = Bench::new(streaming);
    bench.pass().await;
    let calls = bench.sim.calls();
    Rpc::all().filter(|method| calls.iter().any(|call| call.method == *method)).collect()
}

fn missing(wanted: &Things, remains: &Things) -> Vec<String> {
    wanted.difference(remains).cloned().collect()
}

/// Makes one pass under a fault and one after it.
async fn faulted(streaming: Streaming, method: Rpc, fault: Fault, times: Times, survivors: &Things) {
    let case = format!("{method} {fault:?} {times:?} {streaming:?}");
    let mut bench = Bench::limited(streaming, LIMIT);
    bench.sim.fault(method, fault, times);
    bench.pass().await;
    assert_eq!(missing(survivors, &bench.remains()), [""; 0], "{case}: what must stay is gone");
    bench.sim.heal();
    bench.sim.listen_again().unwrap();
    let mut bench = bench.unlimited();
    let pass = bench.pass().await;
    let (remains, shown) = (bench.remains(), (pass.plan.errors.as_slice(), not_removed(&pass)));
    assert_eq!(missing(survivors, &remains), [""; 0], "{case}: the next pass takes too much");
    assert_eq!(missing(&remains, survivors), [""; 0], "{case}: the next pass leaves too much, {shown:?}");
}

/// Tests each of these methods under every fault.
async fn all_faults(streaming: Streaming, methods: impl IntoIterator<Item = Rpc>) {
    let (before, survivors) = before_and_after(streaming).await;
    assert!(before.len() > survivors.len() + 15, "there is rubbish of each kind: {before:#?}, {survivors:#?}");
    let survivors = Arc::new(survivors);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut cases = JoinSet::new();
    for (offset, method) in methods.into_iter().enumerate() {
        for (fault, times) in sample::of(offset, FAULTS.to_vec()) {
            let (survivors, turns) = (Arc::clone(&survivors), Arc::clone(&turns));
            cases.spawn(async move {
                let _turn = turns.acquire().await.unwrap();
                Box::pin(faulted(streaming, method, fault, times, &survivors)).await;
            });
        }
    }
    let mut failed = 0;
    while let Some(case) = cases.join_next().await {
        failed += usize::from(case.is_err());
    }
    assert_eq!(failed, 0, "cases failed, as shown above");
}

#[tokio::test(start_paused = true)]
async fn the_table_has_every_method_of_a_pass() {
    let mut both = used(Streaming::Unimplemented).await;
    both.extend(used(Streaming::Batches(3)).await);
    let mut missing: Vec<_> = Rpc::all().collect();
    missing.retain(|method| !both.contains(method));
    assert_eq!(missing, [Rpc::RunPodSandbox, Rpc::CreateContainer, Rpc::StartContainer]);
}

#[tokio::test(start_paused = true)]
async fn under_every_fault_protected_objects_are_kept() {
    let methods = used(Streaming::Unimplemented).await;
    all_faults(Streaming::Unimplemented, methods).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_holds_for_streamed_lists() {
    let streaming = [Rpc::StreamContainers, Rpc::StreamPodSandboxes, Rpc::StreamImages];
    all_faults(Streaming::Batches(3), streaming).await;
}

#[tokio::test(start_paused = true)]
async fn agents_survive_a_runtime_restart_in_mid_pass() {
    let (_, survivors) = before_and_after(Streaming::Unimplemented).await;
    let mut bench = Bench::new(Streaming::Unimplemented);
    bench.sim.fault(Rpc::RemoveContainer, Fault::DoThenCut, Times::N(1));
    bench.sim.fault(Rpc::RemoveContainer, Fault::Vanish, Times::N(1));
    let pass = bench.pass().await;
    assert!(!bench.sim.is_there());
    assert!(not_removed(&pass).len() > 3, "the rest failed: {pass:#?}");

    bench.sim.forget_calls();
    let blind = bench.pass().await;
    assert!(!blind.plan.errors.is_empty());
    assert_eq!((blind.reports, bench.sim.calls()), (vec![], vec![]));
    let run = bench.last_run();
    assert!(run.error.is_some_and(|error| error.contains("cri.sock")), "the record has the cause");

    bench.sim.listen_again().unwrap();
    bench.pass().await;
    assert_eq!(bench.remains(), survivors);
    assert_eq!(bench.last_run().error, None);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_restart_between_passes_has_no_effect() {
    passes_after(|bench| {
        bench.sim.stop_listening();
        bench.sim.listen_again().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_broken_in_the_first_call_is_renewed() {
    passes_after(|bench| bench.sim.fault(Rpc::Version, Fault::DoThenCut, Times::N(1))).await;
}

/// Makes a pass, breaks the connection, and makes a pass that has something to remove and removes it.
async fn passes_after(break_connection: impl FnOnce(&mut Bench)) {
    let mut bench = Bench::new(Streaming::Unimplemented);
    bench.pass().await;
    let clean = bench.remains();
    break_connection(&mut bench);
    let [old, older] = [7, 8].map(Duration::from_hours);
    let crashed = |node: Node| {
        let node = node.ago(older).pod("default", "live-1", "live-1").exited("again", WEB);
        node.ago(old).exited("again", WEB).stopped()
    };
    bench.sim.state().also(crashed).unwrap();
    assert_ne!(bench.remains(), clean);
    let pass = bench.pass().await;
    assert_eq!((pass.plan.errors.as_slice(), not_removed(&pass).as_slice()), (&[][..], &[][..]));
    assert!(!pass.reports.is_empty(), "there was something to do");
}

#[tokio::test(start_paused = true)]
async fn objects_that_change_between_plan_and_removal_are_kept() {
    let mut bench = Bench::new(Streaming::Unimplemented);
    let sandbox = bench.sim.state().sandbox_id("gone-0").unwrap();
    // The first status call is the recheck of the first container.
    let home = sandbox.clone();
    bench.sim.on_call(Rpc::ContainerStatus, 1, move |node| {
        node.start_container(WAITING).unwrap();
        node.also(|node| node.in_sandbox(&home).created("next", WEB)).unwrap();
    });
    let left = not_removed(&bench.pass_of(Scope::Containers).await);
    assert_eq!(left[..2], [format!("{WAITING} refused"), format!("{sandbox} refused")], "{left:#?}");
    let node = bench.sim.state();
    assert!(node.container_state(WAITING).is_some() && node.sandbox_state(&sandbox).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_image_used_after_the_plan_is_kept() {
    let mut bench = Bench::new(Streaming::Unimplemented);
    bench.pass_of(Scope::Containers).await;
    let image = bench.sim.state().image_id(OLD[0]).unwrap();
    bench.sim.on_call(Rpc::ImageStatus, 1, |node| {
        node.also(|node| node.pod("default", "live-9", "live-9").created("app", OLD[0])).unwrap();
    });
    let pass = bench.pass_of(Scope::Images).await;
    assert_eq!(not_removed(&pass), [format!("{image} refused")]);
    assert_eq!(bench.sim.state().image_id(OLD[0]), Some(image));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_unavailable() {
    let (before, survivors) = before_and_after(Streaming::Batches(1)).await;
    let mut bench = Bench::new(Streaming::BreaksOff(1));
    let pass = bench.pass().await;
    assert!(pass.plan.errors.len() >= 3, "{:?}", pass.plan.errors);
    let kinds: BTreeSet<_> = pass.reports.iter().map(|report| report.action.target.kind().as_str()).collect();
    assert!(kinds.is_subset(&["log_dir", "log_link"].into()), "no list, no removal: {kinds:?}");
    assert_eq!(missing(&survivors, &bench.remains()), [""; 0]);
    assert!(bench.last_run().error.is_some());

    bench.sim.state().also(|node| node.streaming(Streaming::Batches(1))).unwrap();
    assert_ne!(bench.remains(), survivors, "there is something left of {before:#?}");
    bench.pass().await;
    assert_eq!(bench.remains(), survivors);
}

#[tokio::test]
async fn one_container_whose_status_always_fails_blocks_only_images() {
    let (_, survivors) = before_and_after(Streaming::Unimplemented).await;
    let mut bench = Bench::new(Streaming::Unimplemented);
    let broken = bench.sim.state().container_id("live-1", "app").unwrap();
    bench.sim.fault_of(Rpc::ContainerStatus, &broken, Fault::Fail(Code::Internal), Times::Forever);
    let pass = bench.pass().await;
    assert!(pass.plan.errors[0].to_string().contains(&broken), "{:?}", pass.plan.errors);
    let mut left = missing(&bench.remains(), &survivors);
    left.sort();
    assert_eq!(left, OLD.map(|image| format!("image {image}")), "its pod's spec is not known, so images wait");

    bench.sim.heal();
    bench.pass().await;
    assert_eq!(bench.remains(), survivors);
}

#[tokio::test]
async fn lists_too_large_to_send_give_the_same_removals() {
    let (_, survivors) = before_and_after(Streaming::Unimplemented).await;
    let mut bench = Bench::new(Streaming::Unimplemented);
    bench.sim.state().also(|node| node.send_limit(4000)).unwrap();
    let pass = bench.pass().await;
    assert_eq!(pass.plan.lists.iter().map(|note| note.list.as_str()).collect::<Vec<_>>(), ["containers"]);
    assert_eq!((pass.plan.errors.as_slice(), not_removed(&pass).as_slice()), (&[][..], &[][..]));
    assert_eq!(bench.remains(), survivors);
}

/// Tests the memory of an image that is used only as a volume. It is in use in each pass, also if no image is to be
/// removed.
#[tokio::test]
async fn a_mounted_image_is_used_in_each_pass() {
    let mut bench = Bench::new(Streaming::Unimplemented);
    bench.pass().await;
    let live = || Duration::from_hours(40);
    let add = |node: kubegc::sim::Node| {
        let node = node.ago(live()).image("docker.io/library/data:1", &[("data", 10)]);
        node.pod("default", "live-7", "live-7")
            .id("mounter")
            .running("reader", WEB)
            .mounting("docker.io/library/data:1")
    };
    bench.sim.state().also(add).unwrap();
    bench.sim.forget_calls();
    for _ in 0..3 {
        let pass = bench.pass_of(Scope::Images).await;
        assert_eq!(pass.reports, []);
    }
    assert_eq!(bench.sim.calls_of(Rpc::ContainerStatus), ["mounter"]);
    let image = bench.sim.state().image_id("docker.io/library/data:1").unwrap();
    assert!(bench.has_last_use(&image));
}
