//! SIGKILL at any time of a run (I10): the store opens, the lock is free, and the next run finishes the work. The lives of a node
//! (`src/daemon/service/tests/lives.rs`) end a process in memory at any call.

mod log_archive;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kubegc::plan::Kind;
use kubegc::record::{HistoryFilter, Lock, Store, StoreReader};
use kubegc::sim::{Fault, MIB, Node, Rpc, Sim, Times};
use nix::sys::signal::Signal;

use crate::agent::Home;

/// How often a process is killed, unless the variable `KUBEGC_SIGKILLS` is set.
const KILLS: u64 = 15;
/// The garbage of one round: so many deleted pods with a container each, and so many images.
const RUBBISH: u64 = 4;
/// The most removals in progress at a time.
const AT_ONCE: usize = 4;
const WEB: &str = "docker.io/library/web:1";
/// The wait of a killed run at each removal, before or after it is done.
const DELAY: Duration = Duration::from_millis(4);
/// The minimum number of calls of a run, by method.
const CALLS: [(Rpc, u64); 6] = [
    (Rpc::Version, 1),
    (Rpc::ListContainers, 1),
    (Rpc::ContainerStatus, RUBBISH),
    (Rpc::RemoveContainer, RUBBISH),
    (Rpc::RemovePodSandbox, RUBBISH),
    (Rpc::RemoveImage, RUBBISH),
];

/// Reproducible random numbers (`SplitMix64`).
struct Dice(u64);

// === impl Dice ===

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn kills() -> u64 {
    std::env::var("KUBEGC_SIGKILLS").map_or(KILLS, |kills| kills.parse().unwrap())
}

/// Returns running pods. They have more objects than the garbage, so that the lists do not become much shorter.
fn alive() -> Node {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(9)).image(WEB, &[("web", MIB)]);
    (0..8).fold(node, |node, number| {
        let name = format!("live-{number}");
        node.pod("default", &name, &name).running("app", WEB)
    })
}

fn with_rubbish(mut node: Node, round: u64) -> Node {
    node = node.ago(Duration::from_hours(5));
    for number in 0..RUBBISH {
        let name = format!("gone-{round}-{number}");
        node = node.image(&format!("docker.io/library/old:{round}-{number}"), &[(&name, MIB)]);
        node = node.pod("default", &name, &name).exited("app", WEB).stopped();
    }
    node
}

/// Returns everything that can be removed, by the IDs in the history.
fn objects(sim: &Sim) -> BTreeSet<String> {
    let node = sim.state();
    let mut all: BTreeSet<_> = node.container_ids().into_iter().chain(node.sandbox_ids()).collect();
    all.extend(node.image_ids());
    drop(node);
    for root in [sim.log_roots().pods, sim.log_roots().containers] {
        all.extend(std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path().display().to_string()));
    }
    all
}

/// Returns what the history lists as removed, without symlinks: those of containers are removed with them.
fn recorded(store: &StoreReader) -> Vec<String> {
    let history = store.history(&HistoryFilter::default()).unwrap();
    assert!(
        history.iter().all(|entry| entry.outcome == "removed" || entry.outcome == "already_removed"),
        "{history:#?}"
    );
    history.into_iter().filter(|entry| entry.outcome == "removed").map(|entry| entry.id).collect()
}

/// Starts a run and kills it at a random time.
async fn kill_one(sim: &Sim, home: &Home, dice: &mut Dice) -> String {
    let fault = if dice.below(2) == 0 { Fault::Slow(DELAY) } else { Fault::Late(DELAY) };
    for method in [Rpc::RemoveContainer, Rpc::RemovePodSandbox, Rpc::RemoveImage] {
        sim.fault(method, fault, Times::Forever);
    }
    let (method, most) = CALLS[usize::try_from(dice.below(CALLS.len() as u64)).unwrap()];
    let (nth, more) = (1 + dice.below(most), Duration::from_micros(dice.below(6_000)));
    sim.forget_calls();
    let mut agent = home.start(&["collect"]);
    sim.await_calls(method, usize::try_from(nth).unwrap()).await.unwrap();
    // The time is random, so there is no event to wait for.
    tokio::time::sleep(more).await;
    agent.signal(Signal::SIGKILL);
    agent.ended().await;
    format!("{fault:?}, killed {more:?} after {method} {nth}")
}

/// Checks the store after a kill: it is correct, except for the actions in progress.
fn check(sim: &Sim, home: &Home, before: &BTreeSet<String>, case: &str) {
    drop(Lock::take(&home.lock(), "test").expect(case));
    let opened = Store::open_blocking(&home.store()).expect(case);
    assert_eq!(opened.fault(), None, "{case}");
    assert!(!home.store().with_extension("db.corrupt-1").exists(), "{case}: the file is damaged");
    drop(opened);
    let (recorded, remains) = (recorded(&StoreReader::open(&home.store()).unwrap().unwrap()), objects(sim));
    let recorded_once: BTreeSet<_> = recorded.iter().cloned().collect();
    assert_eq!(recorded.len(), recorded_once.len(), "{case}: a removal is recorded twice");
    assert_eq!(remains.intersection(&recorded_once).next(), None, "{case}: what is recorded as removed is there");
    let links = sim.log_roots().containers.display().to_string();
    let unrecorded: Vec<_> =
        before.difference(&remains).filter(|id| !recorded_once.contains(*id) && !id.starts_with(&links)).collect();
    assert!(
        unrecorded.len() <= AT_ONCE,
        "{case}: only what was under way may be missing from the record: {unrecorded:?}"
    );
}

#[tokio::test]
async fn after_sigkill_the_next_run_finishes_the_work() {
    let set = std::env::var("KUBEGC_KILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = set.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    let mut dice = Dice(seed);
    let sim = Sim::start(alive()).unwrap();
    let home = Home::new(&sim, "images.all_unused = true");
    let clean = objects(&sim);
    let kills = kills();
    for round in 0..kills {
        sim.state().also(|node| with_rubbish(node, round)).unwrap();
        let before = objects(&sim);
        let killed = kill_one(&sim, &home, &mut dice).await;
        let case = format!("KUBEGC_KILL_SEED={seed}, round {round}, {killed}");
        check(&sim, &home, &before, &case);
        sim.heal();
        let next = home.run(&["collect"]);
        assert!(next.status.success(), "{case}: {}", String::from_utf8_lossy(&next.stderr));
        assert_eq!(objects(&sim), clean, "{case}: the next run finishes the work");
        check(&sim, &home, &before, &case);
    }
    let store = StoreReader::open(&home.store()).unwrap().unwrap();
    let runs = store.runs(1000).unwrap();
    assert!(runs.iter().all(|run| run.finished_at.is_some()), "{runs:#?}");
    let interrupted = runs.iter().filter(|run| run.error.as_deref() == Some("interrupted")).count() as u64;
    // Of few runs all may by chance be killed before the first removal.
    let fewest = if kills == KILLS { 0 } else { kills / 4 };
    assert!(interrupted > fewest, "seed {seed}: only {interrupted} runs were killed at work");
    let images = HistoryFilter { kind: Some(Kind::Image), ..HistoryFilter::default() };
    assert!(store.history(&images).unwrap().len() as u64 >= kills, "images were removed too");
}
