//! The fault matrix: every method that kubegc calls, under every fault, in every kind of pass, once and always; and
//! every step of the clock. All in virtual time.
//!
//! A cell makes the passes of its scope under the fault: one round if the fault affects the first call only, two if it
//! affects every call. Then the fault is removed, and the cell makes two more rounds, two hours apart, so that every
//! guard and every back-off has elapsed. Guards and defaults are those of the profile `safe`, with two other settings:
//! a call has a limit of 10 s, and lists shorter than 90 % of the last ones are not trusted. Images are removed by the
//! thresholds, on a disk that is always above both, so that every unused image is due.
//!
//! What a cell expects:
//! - **Safety**: a pass removes nothing that `protected.rs` protects, which reads the state of the simulated node only.
//! - **Time**: a pass ends within 70 s. The sum of the limits for each object of a wide node is larger.
//! - **Isolation**: what does not need the failing method is removed in the rounds under the fault (`expect.rs`).
//! - **Recovery**: after the two rounds, the same objects are left as after the same rounds without a fault.
//!
//! Expectations that are not obvious:
//! - A list that is empty or lacks half of its items proves nothing (I12), in every pass as long as this lasts. This
//!   applies to images, to pods and to sandboxes, none of which counts as empty. Nothing needs to be removed meanwhile.
//! - A list with items without an ID does not show what these items use.
//! - A status without a container or without its ID is no proof that the container does not exist.
//! - The calls of containerd's own API improve the estimates only: whatever they answer, the same images are removed.
//! - One failing status or removal keeps one object and what depends on it. A status that always fails keeps the
//!   images, because nothing else shows what is mounted.
//! - If a runtime does not answer Version, the pass makes no further calls.
//! - Garbage in creation times leaves no evidence for I3 and I4, so the cell does not assert them. Garbage in the log
//!   path of a container leaves its log files behind.
//! - A wrong fact keeps only what depends on it (`wrong_facts.rs`): an unknown creation time is that of a young object,
//!   the newest one by time and the newest one by attempt are both kept, and a path that is not absolute is not used.
//! - After a step of the clock the cell continues with the new time. Times in the future count as unknown, so
//!   everything is removed within the two rounds, whatever year the clock shows.

mod cell;
mod clock;
mod expect;
mod node;
mod protected;
mod run;
mod stage;
mod store;
mod wrong_facts;

use std::collections::BTreeMap;

use kubegc::sim::{Defect, Fault, Rpc, Streaming, WrongFact};
use tonic::Code;

use cell::{Cell, METHODS, SCOPES, cells, clock_cells, is_called, late};
use node::Size;

use crate::sample;

/// Returns all faults of calls.
fn faults() -> Vec<Fault> {
    let refusals = [Code::Unavailable, Code::PermissionDenied, Code::Internal].map(Fault::Fail);
    let defects = [Defect::Empty, Defect::Truncated, Defect::WithoutId, Defect::Twice, Defect::Garbage];
    let others = [Fault::Hang, late(), Fault::BreakOff];
    let wrong = wrong_facts::ALL.map(Defect::Wrong).into_iter();
    refusals.into_iter().chain(others).chain(defects.into_iter().chain(wrong).map(Fault::Answer)).collect()
}

/// Runs the cells of a wrong fact.
fn run_wrong(wrong: WrongFact) {
    run_all(&format!("{wrong:?}"), cells(Fault::Answer(Defect::Wrong(wrong))));
}

/// Runs a part of the cells of calls or of clock steps.
fn run_all(name: &str, cells: Vec<Cell>) {
    hold(name, sample::of(name.len(), cells).into_iter().map(|cell| (cell.to_string(), run::run(cell))));
}

/// Fails with a line for each class of failure of each cell, and with the number of cells by class.
fn hold(name: &str, cells: impl Iterator<Item = (String, Vec<run::Failure>)>) {
    let (mut size, mut lines, mut classes) = (0, Vec::new(), BTreeMap::<_, usize>::new());
    for (cell, failures) in cells {
        size += 1;
        let mut of_cell = BTreeMap::<_, Vec<String>>::new();
        for (class, details) in failures {
            of_cell.entry(class).or_default().push(details);
        }
        for (class, details) in of_cell {
            *classes.entry(class).or_default() += 1;
            lines.push(format!("{cell}: {class}: {} (and {} more)", details[0], details.len() - 1));
        }
    }
    println!("{name}: {size} cells");
    assert!(lines.is_empty(), "{name}: {size} cells, cells by class of failure: {classes:#?}\n{}", lines.join("\n"));
}

#[test]
fn the_matrix_has_at_least_a_thousand_cells() {
    let calls: usize = faults().into_iter().map(|fault| cells(fault).len()).sum();
    let clocks = clock_cells().len();
    println!("{calls} cells of calls and {clocks} cells of clock steps");
    assert!(calls + clocks >= 1000, "{calls} + {clocks}");
}

#[test]
fn without_a_fault_every_matrix_method_is_called() {
    for scope in SCOPES {
        let unary = run::reference(scope, Size::Small, Streaming::Unimplemented);
        let streaming = run::reference(scope, Size::Small, Streaming::Batches(5));
        let called = |method: &Rpc| unary.called.contains(method) || streaming.called.contains(method);
        for method in Rpc::all() {
            assert_eq!(called(&method), METHODS.contains(&method) && is_called(method, scope), "{scope:?} {method}");
        }
        assert_eq!((&unary.before, &unary.last), (&streaming.before, &streaming.last));
        let removed: Vec<_> = unary.before.difference(&unary.last).collect();
        let has = |kind: &str| removed.iter().any(|thing| thing.starts_with(kind));
        let all = ["container ", "sandbox ", "log pods/", "log containers/"].map(has);
        assert_eq!(all, [scope != cell::Scope::Images; 4], "{scope:?}: {removed:#?}");
        assert_eq!(has("image "), scope != cell::Scope::Containers, "{scope:?}: {removed:#?}");
    }
}

#[test]
fn calls_that_are_unavailable() {
    run_all("unavailable", cells(Fault::Fail(Code::Unavailable)));
}

#[test]
fn calls_that_are_denied() {
    run_all("permission denied", cells(Fault::Fail(Code::PermissionDenied)));
}

#[test]
fn calls_that_fail() {
    run_all("internal", cells(Fault::Fail(Code::Internal)));
}

#[test]
fn calls_that_hang() {
    run_all("hang", cells(Fault::Hang));
}

#[test]
fn answers_after_the_deadline() {
    run_all("late", cells(late()));
}

#[test]
fn connections_that_break_in_mid_answer() {
    run_all("break off", cells(Fault::BreakOff));
}

#[test]
fn empty_answers() {
    run_all("empty", cells(Fault::Answer(Defect::Empty)));
}

#[test]
fn truncated_lists() {
    run_all("truncated", cells(Fault::Answer(Defect::Truncated)));
}

#[test]
fn items_without_an_id() {
    run_all("without id", cells(Fault::Answer(Defect::WithoutId)));
}

#[test]
fn items_that_are_listed_twice() {
    run_all("twice", cells(Fault::Answer(Defect::Twice)));
}

#[test]
fn garbage_in_answers() {
    run_all("garbage", cells(Fault::Answer(Defect::Garbage)));
}

#[test]
fn creation_times_in_1970() {
    run_wrong(WrongFact::CreatedIn1970);
}

#[test]
fn creation_times_that_are_equal() {
    run_wrong(WrongFact::CreatedAtOnce);
}

#[test]
fn creation_times_in_the_future() {
    run_wrong(WrongFact::CreatedInFuture);
}

#[test]
fn attempt_numbers_in_reverse_order() {
    run_wrong(WrongFact::AttemptsReversed);
}

#[test]
fn paths_that_are_empty() {
    run_wrong(WrongFact::EmptyPath);
}

#[test]
fn paths_that_are_relative() {
    run_wrong(WrongFact::RelativePath);
}

#[test]
fn steps_of_the_clock() {
    run_all("clock", clock_cells());
}
