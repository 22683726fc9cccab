//! `kubegc controller`: memory for a million objects, deletions beside kube-controller-manager, and how soon it works.
//!
//! `cargo bench --bench controller`, or with the names of parts, as `-- cascade chain`: `million`, `start`, `lists`, `plan`, `garbage`,
//! `owners`, `first`, `cascade`, `chain`, `contest`. The objects of `million` and `plan` come from a simulated API server in this process. The
//! other parts need root and use real API servers (`scripts/kubernetes.sh`). `first_of_a_million` runs only by its name: it takes minutes,
//! and an API server of some gigabytes (`GOMEMLIMIT=8GiB`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a benchmark may fail loudly, asks the clock and starts programs"
)]

#[path = "controller/aim.rs"]
mod aim;
#[path = "controller/cascade.rs"]
mod cascade;
#[path = "controller/contest.rs"]
mod contest;
#[path = "common/figures.rs"]
mod figures;
#[path = "controller/filled.rs"]
mod filled;
#[path = "controller/garbage.rs"]
mod garbage;
#[path = "controller/lists.rs"]
mod lists;
#[path = "controller/million.rs"]
mod million;
#[path = "controller/process.rs"]
mod process;
#[path = "controller/simulated.rs"]
mod simulated;
#[path = "controller/start.rs"]
mod start;
#[path = "controller/ways.rs"]
mod ways;

/// The API servers of the tests.
#[path = "../tests/it"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod it {
    pub mod rig;
}
use figures::{is_chosen, is_named};
use it::rig;

fn main() {
    if is_chosen("million") {
        million::measure();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if is_chosen("start") {
        runtime.block_on(start::measure());
    }
    if is_chosen("lists") {
        runtime.block_on(lists::measure());
    }
    if is_chosen("plan") {
        lists::measure_plan();
    }
    if is_chosen("garbage") {
        runtime.block_on(garbage::measure(garbage::OWNERS));
    }
    if is_chosen("owners") {
        runtime.block_on(garbage::measure(garbage::GARBAGE));
    }
    if is_chosen("first") {
        runtime.block_on(garbage::measure_first(100_000));
    }
    if is_named("first_of_a_million") {
        runtime.block_on(garbage::measure_first(1_000_000));
    }
    if is_chosen("cascade") {
        runtime.block_on(cascade::measure());
    }
    if is_chosen("chain") {
        runtime.block_on(cascade::measure_chains());
    }
    if is_chosen("contest") {
        runtime.block_on(contest::measure());
    }
}
