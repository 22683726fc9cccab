//! Runs one cell in virtual time and compares it with the same passes without a fault.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use kubegc::sim::{Rpc, Streaming};
use tokio::time::Instant;

use super::cell::{Cell, CellFault, Often, Scope, When};
use super::expect;
use super::node::Size;
use super::protected::{Things, protected, things};
use super::stage::{Kind, Stage};

/// The longest time for a pass, however many objects there are.
const BOUND: Duration = Duration::from_secs(70);
/// The time after which a pass counts as endless.
const ENDLESS: Duration = Duration::from_hours(24);
/// The time between two rounds under a fault.
const SOON: Duration = Duration::from_mins(1);
/// The time before each round after the fault: longer than every guard and every back-off.
const LATER: Duration = Duration::from_hours(2);
/// The number of rounds within which everything is removed after the fault.
const HEALING: usize = 2;

/// A failure of a cell: its class, and the details.
pub type Failure = (&'static str, String);

/// What the same passes remove without a fault.
#[derive(Clone)]
pub struct Reference {
    pub before: Things,
    /// After the first round.
    pub first: Things,
    /// After the last round.
    pub last: Things,
    pub called: HashSet<Rpc>,
}

/// One running cell.
pub struct Run {
    pub stage: Stage,
    /// Everything on the node after the last pass.
    pub things: Things,
    cell: Cell,
    /// Every method that was called.
    called: HashSet<Rpc>,
    failures: Vec<Failure>,
}

/// Runs a cell and returns its failures.
pub fn run(cell: Cell) -> Vec<Failure> {
    let reference = reference(cell.scope, cell.size(), cell.streaming());
    let ended = catch_unwind(AssertUnwindSafe(|| in_virtual_time(whole(cell, &reference))));
    ended.unwrap_or_else(|_| vec![("panicked", "see above".to_owned())])
}

/// Drives a future on a runtime of its own with virtual time. Time stands still while a task can run, and else advances
/// to the next timer.
pub fn in_virtual_time<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

/// Returns what the passes of a scope remove without a fault. Computed once in a process.
pub fn reference(scope: Scope, size: Size, streaming: Streaming) -> Reference {
    type Known = HashMap<(Scope, Size, bool), Reference>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let key = (scope, size, streaming == Streaming::Unimplemented);
    let mut known = KNOWN.lock().unwrap();
    known.entry(key).or_insert_with(|| in_virtual_time(faultless(scope, size, streaming))).clone()
}

async fn faultless(scope: Scope, size: Size, streaming: Streaming) -> Reference {
    let mut run = Run::new(Cell { fault: CellFault::Nothing, scope }, Stage::new(size, streaming));
    let before = run.things.clone();
    run.round().await;
    let first = run.things.clone();
    run.later_rounds().await;
    assert_eq!(run.failures, [], "without a fault");
    Reference { before, first, last: run.things, called: run.called }
}

/// Runs all rounds of a cell.
async fn whole(cell: Cell, reference: &Reference) -> Vec<Failure> {
    let mut run = Run::new(cell, Stage::new(cell.size(), cell.streaming()));
    match cell.fault {
        CellFault::Nothing => run.round().await,
        CellFault::Call { method, fault, often } => {
            run.stage.sim.fault(method, fault, often.times());
            run.rounds(often).await;
            expect::untouched(&mut run, reference, method, fault, often);
            expect::unused_facts(&mut run, reference, method, fault, often);
            run.stage.sim.heal();
            run.stage.sim.listen_again().unwrap();
        }
        CellFault::Clock { by, when } => run.clock_rounds(by, when).await,
    }
    run.later_rounds().await;
    expect::healed(&mut run, reference);
    run.into_failures()
}

// === impl Run ===

impl Run {
    pub fn new(cell: Cell, stage: Stage) -> Self {
        let things = things(&stage);
        Self { stage, things, cell, called: HashSet::new(), failures: Vec::new() }
    }

    pub fn cell(&self) -> Cell {
        self.cell
    }

    pub fn fail(&mut self, class: &'static str, details: impl Into<String>) {
        self.failures.push((class, details.into()));
    }

    pub fn into_failures(self) -> Vec<Failure> {
        self.failures
    }

    /// Runs the rounds under a fault.
    pub async fn rounds(&mut self, often: Often) {
        for number in 0..often.rounds() {
            if number > 0 {
                tokio::time::sleep(SOON).await;
            }
            self.round().await;
        }
    }

    /// Runs the rounds after the fault.
    pub async fn later_rounds(&mut self) {
        for _ in 0..HEALING {
            tokio::time::sleep(LATER).await;
            self.round().await;
        }
    }

    async fn clock_rounds(&mut self, by: SignedDuration, when: When) {
        if matches!(when, When::Before | When::ThereAndBack) {
            self.stage.clock.step(by);
        }
        for pass in self.cell.scope.passes() {
            self.pass(*pass).await;
            if when == When::Within {
                self.stage.clock.step(by);
            }
        }
        match when {
            When::Between => self.stage.clock.step(by),
            When::ThereAndBack => self.stage.clock.step(-by),
            When::Before | When::Within => {}
        }
        self.round().await;
    }

    /// Makes the passes of the scope, one after the other.
    async fn round(&mut self) {
        for pass in self.cell.scope.passes() {
            self.pass(*pass).await;
        }
    }

    /// Makes one pass, and checks its duration and what it must not remove.
    async fn pass(&mut self, kind: Kind) {
        let protected = protected(&self.stage, &self.things, kind.is_under_pressure());
        let (containers, started) = (self.stage.sim.state().containers(), Instant::now());
        self.stage.sim.forget_calls();
        if tokio::time::timeout(ENDLESS, self.stage.pass(kind)).await.is_err() {
            self.fail("no end", format!("{kind:?}: still under way after {} h", ENDLESS.as_secs() / 3600));
        }
        self.called.extend(self.stage.sim.calls().into_iter().map(|call| call.method));
        if started.elapsed() > BOUND {
            self.fail("too slow", format!("{kind:?} took {} s", started.elapsed().as_secs()));
        }
        let before = std::mem::replace(&mut self.things, things(&self.stage));
        let removed: Things = before.difference(&self.things).cloned().collect();
        expect::kept(self, kind, &removed, &protected);
        expect::removed_by_id(self, kind, &containers);
    }
}
