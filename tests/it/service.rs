//! Two agents on one node, and the shutdown, the waits and the signals of the service: the real binary twice.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use kubegc::record::{HistoryFilter, StoreReader};
use kubegc::sim::{FakeSocket, Fault, MIB, Node, Rpc, Sim, Times};
use nix::sys::signal::Signal;

use crate::agent::Home;

const WEB: &str = "docker.io/library/web:1";
const OLD: &str = "docker.io/library/old:1";
/// Short intervals, so that no test waits long for the next pass.
const OFTEN: &str = "containers.interval = \"1s\"\nimages.interval = \"1s\"";

/// Returns a node with three dead containers, an unused image and running pods.
fn node() -> Node {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5));
    let node = node.image(WEB, &[("web", MIB)]).image(OLD, &[("old", MIB)]);
    let node = ["gone-0", "gone-1", "gone-2"]
        .into_iter()
        .fold(node, |node, name| node.pod("default", name, name).exited("app", WEB).stopped());
    ["live-0", "live-1", "live-2", "live-3"]
        .into_iter()
        .fold(node, |node, name| node.pod("default", name, name).running("app", WEB))
}

fn sim() -> Sim {
    Sim::start(node()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_second_service_is_refused_but_plan_works() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let mut service = home.start(&["run"]);
    service.says("pass done").await;
    let before = sim.state().container_names();

    let second = home.run(&["run"]);
    let shown = text(&second.stderr);
    assert_eq!(second.status.code(), Some(5), "{shown}");
    assert!(shown.contains(&format!("pid {}, run", service.pid)) && shown.contains("kubegc plan"), "{shown}");
    let plan = home.run(&["plan"]);
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    assert_eq!(sim.state().container_names(), before);

    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
    assert!(home.run(&["collect"]).status.success(), "the lock went with the service");
}

#[tokio::test]
async fn a_signaled_service_finishes_and_records_its_action() {
    let sim = sim();
    let home = Home::new(&sim, "");
    sim.fault(Rpc::RemoveContainer, Fault::Slow(Duration::from_millis(500)), Times::Forever);
    let mut service = home.start(&["run"]);
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));

    let begun = sim.calls_of(Rpc::RemoveContainer);
    assert_eq!(begun.len(), 1, "nothing else is begun");
    assert_eq!(sim.state().container_state(&begun[0]), None, "it is finished");
    let store = StoreReader::open(&home.store()).unwrap().unwrap();
    let history = store.history(&HistoryFilter::default()).unwrap();
    let recorded: Vec<_> = history.iter().map(|entry| (&entry.id, entry.outcome.as_str())).collect();
    assert_eq!(recorded, [(&begun[0], "removed")]);
    let run = store.runs(1).unwrap().remove(0);
    assert!(run.finished_at.is_some() && run.error.is_none() && run.removed == 1, "{run:?}");
}

#[tokio::test]
async fn a_second_signal_ends_the_service_at_once() {
    let sim = sim();
    let home = Home::new(&sim, "");
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    let mut service = home.start(&["run"]);
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    service.signal(Signal::SIGTERM);
    service.says("a second signal aborts").await;
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(143));
    sim.heal();
    assert!(home.run(&["collect"]).status.success(), "the next finishes the work");
    assert_eq!(sim.state().container_ids().len(), 4);
}

#[tokio::test]
async fn a_service_started_before_its_runtime_waits_for_it() {
    let mut sim = sim();
    sim.stop_listening();
    let home = Home::new(&sim, "");
    let mut service = home.start(&["run"]);
    service.says("waiting for the runtime").await;
    sim.listen_again().unwrap();
    service.says("pass done").await;
    assert_eq!(sim.state().container_ids().len(), 4);
}

#[tokio::test]
async fn a_waiting_service_stops_at_a_signal() {
    let mut sim = sim();
    sim.stop_listening();
    let home = Home::new(&sim, "");
    let mut service = home.start(&["run"]);
    service.says("waiting for the runtime").await;
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));

    let silent = FakeSocket::silent().unwrap();
    let mut service = home.start(&["run", "--runtime-endpoint", &silent.endpoint()]);
    service.says("starting").await;
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
}

#[tokio::test]
async fn the_service_retries_a_stopped_runtime_with_back_off() {
    let mut sim = sim();
    let home = Home::new(&sim, OFTEN);
    let mut service = home.start(&["run", "--log-level=debug"]);
    // It follows a pass over images. Its calls would be among the knocks.
    service.says("account of the disks taken").await;
    service.says("pass done").await;
    sim.stop_listening();
    let listener = UnixListener::bind(sim.socket()).unwrap();
    // Connections are accepted and closed immediately, which counts as an unavailable runtime.
    let knocks = tokio::task::spawn_blocking(move || {
        let first = listener.accept().map(|_| Instant::now()).unwrap();
        for _ in 0..8 {
            listener.accept().unwrap();
        }
        first.elapsed()
    });
    let took = tokio::time::timeout(Duration::from_mins(3), knocks).await.expect("it goes on knocking").unwrap();
    assert!(took > Duration::from_secs(2), "nine knocks within {took:?}");

    sim.stop_listening();
    sim.state().also(|node| node.pod("default", "gone-9", "gone-9").exited("app", WEB).stopped()).unwrap();
    sim.listen_again().unwrap();
    let at_work = async {
        while sim.state().container_ids().len() > 4 {
            service.says("pass done").await;
        }
    };
    tokio::time::timeout(Duration::from_mins(3), at_work).await.expect("it works when the runtime is back");
}
