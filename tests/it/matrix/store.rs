//! The store's part of the matrix: every operation under every fault, in every kind of pass, once and always.
//!
//! A failing store stops no pass: the agent has its memory in the process, so a pass removes what it would remove without
//! the fault. After the fault the agent is restarted with a working store, and two rounds remove the rest.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kubegc::record::{Store, StoreFault};
use kubegc::sim::Streaming;

use super::cell::{Cell, CellFault, Often, SCOPES, Scope};
use super::node::Size;
use super::run::{Failure, Reference, Run, in_virtual_time, reference};
use super::stage::Stage;
use super::{expect, hold};
use crate::sample;

/// One cell of the store.
#[derive(Clone, Copy)]
struct StoreCell {
    operation: &'static str,
    fault: StoreFault,
    scope: Scope,
    often: Often,
}

/// Sets the fault hook of the store. No other code uses the hook.
fn inject(store: &Store, cell: StoreCell) {
    let times = match cell.often {
        Often::Once => 1,
        Often::Always => usize::MAX,
    };
    store.inject(Some(cell.operation), cell.fault, times);
}

fn cells(fault: StoreFault) -> Vec<StoreCell> {
    let mut cells = Vec::new();
    for scope in SCOPES {
        for &operation in Store::OPERATIONS.iter().filter(|operation| is_used(operation, scope)) {
            cells.extend([Often::Once, Often::Always].map(|often| StoreCell { operation, fault, scope, often }));
        }
    }
    cells
}

/// Says whether passes of a scope use an operation. The others belong to the start and to output.
fn is_used(operation: &str, scope: Scope) -> bool {
    match operation {
        // Passes over containers alone record no usage.
        "a sample of the usage" => scope != Scope::Containers,
        _ => true,
    }
}

/// Opens a store in a file, so that a reopened store has the data of the previous one.
fn open(stage: &Stage) -> Store {
    Store::open_blocking(&stage.sim.dir().join("state/kubegc.db")).unwrap()
}

async fn whole(cell: StoreCell, reference: &Reference) -> Vec<Failure> {
    let dir = |dir: &std::path::Path| Store::open_blocking(&dir.join("state/kubegc.db")).unwrap();
    let stage = Stage::with_store(Size::Small, Streaming::Unimplemented, dir);
    let mut run = Run::new(Cell { fault: CellFault::Nothing, scope: cell.scope }, stage);
    let store = open(&run.stage);
    inject(&store, cell);
    run.stage.start_agent(store);
    run.rounds(cell.often).await;
    let left = expect::left(&run, &reference.first, &reference.before);
    if let Some(first) = left.first() {
        run.fail("untouched not collected", format!("{} things, as {first}", left.len()));
    }
    let store = open(&run.stage);
    run.stage.start_agent(store);
    run.later_rounds().await;
    expect::healed(&mut run, reference);
    run.into_failures()
}

fn run(cell: StoreCell) -> Vec<Failure> {
    let reference = reference(cell.scope, Size::Small, Streaming::Unimplemented);
    let ended = catch_unwind(AssertUnwindSafe(|| in_virtual_time(whole(cell, &reference))));
    ended.unwrap_or_else(|_| vec![("panicked", "see above".to_owned())])
}

fn hold_all(fault: StoreFault) {
    let name = |cell: &StoreCell| {
        let StoreCell { operation, fault, scope, often } = cell;
        format!("store {operation:?} {fault:?} {scope:?} {often:?}")
    };
    let offset = StoreFault::ALL.iter().position(|other| *other == fault).unwrap();
    let cells = sample::of(offset, cells(fault));
    hold("store", cells.into_iter().map(|cell| (name(&cell), run(cell))));
}

#[test]
fn stores_with_io_errors() {
    hold_all(StoreFault::Io);
}

#[test]
fn stores_on_a_full_disk() {
    hold_all(StoreFault::Full);
}

#[test]
fn stores_that_are_locked() {
    hold_all(StoreFault::Locked);
}

#[test]
fn stores_that_are_damaged() {
    hold_all(StoreFault::Damaged);
}

#[test]
fn stores_that_are_read_only() {
    hold_all(StoreFault::ReadOnly);
}

#[test]
fn every_fault_of_the_store_has_its_cells() {
    let size: usize = StoreFault::ALL.into_iter().map(|fault| cells(fault).len()).sum();
    println!("{size} cells of the store");
    assert_eq!(StoreFault::ALL.len(), 5, "each has a test above");
    assert!(size >= 200, "{size}");
}
