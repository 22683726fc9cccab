//! Tests of the other loops while a container pass waits for a runtime that hangs.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::{clock, node};
use super::*;
use crate::config::{Intervals, Settings};
use crate::cri::Endpoint;
use crate::daemon::process::signals;
use crate::daemon::removals_ended;
use crate::model::ListCounts;
use crate::observe::{DiskFn, RuntimePods};
use crate::plan::Outcome;
use crate::record::{Store, StoreReader};
use crate::sim::{Fault, GIB, Node, Rpc, Sim, Times};

mod as_root;
mod lives;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const NEVER: Duration = Duration::from_hours(1000);
const OLD: &str = "r.example/old:1";

/// A node with two containers of terminated pods and an unused image. 30 of 100 GiB are free.
fn sim() -> Sim {
    let node =
        Node::new().now(clock::now()).disk(100 * GIB, 68 * GIB).ago(600 * MINUTE).image(OLD, &[("old", 2 * GIB)]);
    let node = node.pod("default", "job-0", "u0").id("c0").exited("job", "r.example/gone:1").stopped();
    Sim::start(node.pod("default", "job-1", "u1").id("c1").exited("job", "r.example/gone:1").stopped()).unwrap()
}

fn settings(sim: &Sim) -> Settings {
    let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
    settings.intervals = Intervals { containers: NEVER, images: NEVER, pressure: NEVER, max_backoff: NEVER };
    settings.state.path = sim.dir().join("state/kubegc.db");
    settings.policy.logs.pods_root = sim.log_roots().pods;
    settings.policy.logs.containers_root = sim.log_roots().containers;
    settings.policy.images.min_age = Duration::ZERO;
    let guards = &mut settings.policy.guards;
    (guards.settle, guards.sandbox_grace, guards.gone_after) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    settings
}

fn cycle(sim: &Sim, settings: Settings) -> Cycle {
    let store = Store::open_blocking(&settings.state.path).unwrap();
    cycle_with(sim, settings, store)
}

fn cycle_with(sim: &Sim, settings: Settings, store: Store) -> Cycle {
    Cycle::live(settings, &local_node(sim), store, clock::now())
}

fn local_node(sim: &Sim) -> node::LocalNode {
    let endpoint = Endpoint::at(sim.endpoint());
    let disks = Arc::new(DiskFn(sim.disk_reader()));
    node::LocalNode::new(endpoint, disks, Arc::new(RuntimePods))
}

/// I19: `kubegc pause` waits for the removals in progress.
#[tokio::test]
async fn a_removal_is_in_progress_until_its_call_has_ended() {
    let sim = sim();
    let cycle = cycle(&sim, settings(&sim));
    let file = cycle.settings().state.pause_file();
    let (lock, (send, is_free)) = (file.with_extension("removals"), std::sync::mpsc::channel());
    let look = move |_: &mut Node| send.send(std::fs::File::open(lock).unwrap().try_lock().is_ok()).unwrap();
    sim.on_call(Rpc::RemoveContainer, 1, look);
    let pass = cycle.pass(PassKind::Regular(Scope::Containers), &CancellationToken::new(), |_, _| {}).await;
    assert!(pass.summary.total().removed > 0);
    assert!(!is_free.recv().unwrap() && removals_ended(&file, SECOND).await);
}

/// Runs the service until an image is removed. `after` receives that as the end of a pass over images.
async fn until_an_image_is_removed(sim: &Sim, settings: Settings) -> Vec<(Scope, bool)> {
    let stop = CancellationToken::new();
    let mut passes = Vec::new();
    let after = |pass: &Pass| {
        passes.push((pass.scope, pass.plan.pressure.is_some()));
        // Before there is disk pressure, the loop for images may remove nothing.
        if pass.scope == Scope::Images && pass.summary.total().removed > 0 {
            stop.cancel();
        }
    };
    Box::pin(serve(sim, settings, &stop, after)).await;
    passes
}

/// Runs the service until `stop`. Passes that run for longer than `moment` do not delay the other loops.
async fn serve(sim: &Sim, settings: Settings, stop: &CancellationToken, after: impl FnMut(&Pass)) {
    let moment = Duration::from_millis(100);
    let limits = Limits { hold_up: moment, shutdown: moment, stall: NEVER, ..Limits::default() };
    let (_signals, _, reload) = signals::listen().unwrap();
    let mut requests = Requests { reload, inbox: Inbox::closed(clock::now()), progress: Progress::default() };
    let service = run(cycle(sim, settings), &limits, stop, &mut requests, || None::<()>, after);
    let (store, _) = timeout(MINUTE, service).await.expect("the service ends in time");
    store.close().await;
}

#[tokio::test]
async fn image_passes_remove_images_during_hanging_container_removals() {
    let sim = sim();
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    let mut settings = settings(&sim);
    settings.policy.images.all_unused = true;
    let passes = Box::pin(until_an_image_is_removed(&sim, settings)).await;
    assert_eq!(passes, [(Scope::Images, false)], "the container pass still waits");
    assert_eq!(sim.state().image_names(), Vec::<String>::new());
    assert_eq!(sim.calls_of(Rpc::RemoveContainer).len(), 1);
}

#[tokio::test]
async fn pressure_passes_remove_images_during_hanging_container_removals() {
    let sim = sim();
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    let mut settings = settings(&sim);
    settings.intervals.pressure = SECOND;
    settings.policy.images.high_threshold_percent = 100;
    settings.policy.pressure.free_percent = 40;
    let passes = Box::pin(until_an_image_is_removed(&sim, settings)).await;
    assert!(passes.contains(&(Scope::Images, true)), "{passes:?}");
    assert!(passes.iter().all(|(scope, _)| *scope == Scope::Images), "the container passes still wait: {passes:?}");
    assert_eq!(sim.state().image_names(), Vec::<String>::new());
    let sent = sim.calls_of(Rpc::RemoveContainer);
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), sent.len(), "no removal is sent twice: {sent:?}");
}

#[tokio::test]
async fn a_bounded_shutdown_does_not_cancel_a_hanging_removal() {
    let sim = sim();
    // The simulated runtime removes nothing if the caller gave up earlier.
    sim.fault(Rpc::RemoveContainer, Fault::Slow(2 * SECOND), Times::Forever);
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    sim.on_call(Rpc::RemoveContainer, 1, move |_| stopper.cancel());
    let mut ended = Vec::new();
    Box::pin(serve(&sim, settings(&sim), &stop, |pass| ended.push(pass.scope))).await;
    assert_eq!(sim.state().container_ids().len(), 2, "the removal is still in progress");
    assert!(!ended.contains(&Scope::Containers), "the pass was dropped");
    let removed = async {
        while sim.state().container_ids().len() == 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(MINUTE, removed).await.expect("the removal goes on");
    assert_eq!(sim.calls_of(Rpc::RemoveContainer).len(), 1);
}

#[tokio::test]
async fn a_pass_ended_by_a_hanging_runtime_is_recorded() {
    let sim = sim();
    let mut settings = settings(&sim);
    let options = &mut settings.runtime.options;
    (options.removal_timeout, options.answer_timeout) = (SECOND / 2, 2 * SECOND);
    let cycle = cycle(&sim, settings);
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    sim.fault(Rpc::Version, Fault::Late(Duration::ZERO), Times::N(1));
    sim.fault(Rpc::Version, Fault::Hang, Times::N(1));
    let pass = cycle.pass(PassKind::Regular(Scope::Containers), &CancellationToken::new(), |_, _| {}).await;
    assert_eq!((pass.reports.len(), pass.summary.not_begun), (1, pass.plan.actions.len() - 1));
    assert!(matches!(pass.reports[0].outcome, Outcome::Failed { .. }));
    assert!(!pass.is_success());

    sim.heal();
    let pass = cycle.pass(PassKind::Regular(Scope::Containers), &CancellationToken::new(), |_, _| {}).await;
    assert!(pass.summary.not_begun == 0 && pass.is_success());
    assert_eq!(sim.state().container_ids().len(), 1, "the removal that hangs is in progress, the other one was done");
}

#[tokio::test]
async fn a_late_pass_does_not_replace_newer_counts() {
    let sim = sim();
    let (settings, add) = (settings(&sim), |node: Node, number: usize| {
        let name = format!("web-{number}");
        node.pod("default", &name, &name).running("app", "r.example/gone:1")
    });
    let path = settings.state.path.clone();
    let cycle = cycle(&sim, settings);
    sim.fault(Rpc::RemoveContainer, Fault::Slow(2 * SECOND), Times::N(1));
    let stop = CancellationToken::new();
    let late = Box::pin(cycle.pass(PassKind::Regular(Scope::Containers), &stop, |_, _| {}));
    let newer = Box::pin(async {
        sim.await_call(Rpc::RemoveContainer).await.unwrap();
        sim.state().also(|node| (0..3).fold(node, add)).unwrap();
        cycle.pass(PassKind::Regular(Scope::Images), &stop, |_, _| {}).await;
        assert_eq!(sim.state().container_ids().len(), 5, "the other pass still waits");
    });
    let (late, ()) = tokio::join!(late, newer);
    assert_eq!(late.summary.total().failed, 0);
    drop(cycle);
    let memory = StoreReader::open(&path).unwrap().unwrap().memory().unwrap();
    // The newer observation counted 5 of each. Then the late pass removed 2.
    assert_eq!(memory.last_counts, Some(ListCounts { containers: 3, sandboxes: 3, images: 1 }));
}

/// The reload finds the pass over containers in a removal that hangs.
#[tokio::test]
async fn a_reload_waits_briefly_for_hanging_removals() {
    let sim = sim();
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::N(1));
    let (settings, node) = (settings(&sim), local_node(&sim));
    let store = Store::open_blocking(&settings.state.path).unwrap();
    let moment = Duration::from_millis(100);
    let limits = Limits { hold_up: moment, shutdown: moment, stall: NEVER, ..Limits::default() };
    let (_signals, stop, reload) = signals::listen().unwrap();
    let requester = reload.clone();
    let mut requests = Requests { reload, inbox: Inbox::closed(clock::now()), progress: Progress::default() };
    let cycle = Cycle::live(settings.clone(), &node, store, clock::now());
    let first = async {
        let service = run(cycle, &limits, &stop, &mut requests, || Some("other settings"), |_| {});
        tokio::join!(service, async {
            sim.await_call(Rpc::RemoveContainer).await.unwrap();
            requester.request();
        })
    };
    let ((store, reloaded), ()) =
        Box::pin(timeout(MINUTE, first)).await.expect("the reload does not wait for the runtime");
    assert_eq!(reloaded, Some("other settings"));

    let cycle = Cycle::live(settings, &node, store, clock::now());
    let after = |pass: &Pass| {
        if pass.scope == Scope::Containers {
            stop.cancel();
        }
    };
    let second = run(cycle, &limits, &stop, &mut requests, || None::<()>, after);
    let (store, reloaded) = timeout(MINUTE, second).await.expect("the service ends in time");
    assert_eq!(reloaded, None);
    store.close().await;
    let sent = sim.calls_of(Rpc::RemoveContainer);
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_ne!(sent[0], sent[1], "the one in progress is not sent again");
}
