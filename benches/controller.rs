//! `kubegc controller`: memory for a million objects, deletions beside kube-controller-manager, and how soon it works.
//!
//! `cargo bench --bench controller`, or with the names of parts, as `-- cascade chain`: `million`, `start`, `lists`, `plan`, `garbage`,
//! `owners`, `first`, `cascade`, `chain`, `contest`. The objects of `million` and `plan` come from a simulated API server in this process. The
//! other parts need root and use real API servers (`scripts/kubernetes.sh`).

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
use it::rig;

fn main() {
    let parts: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| parts.is_empty() || parts.iter().any(|part| part == name);
    if is_wanted("million") {
        million::measure();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if is_wanted("start") {
        runtime.block_on(start::measure());
    }
    if is_wanted("lists") {
        runtime.block_on(lists::measure());
    }
    if is_wanted("plan") {
        lists::measure_plan();
    }
    if is_wanted("garbage") {
        runtime.block_on(garbage::measure(garbage::OWNERS));
    }
    if is_wanted("owners") {
        runtime.block_on(garbage::measure(garbage::GARBAGE));
    }
    if is_wanted("first") {
        runtime.block_on(garbage::measure_first(100_000));
    }
    // Minutes long, and an API server of some gigabytes.
    if parts.iter().any(|part| part == "first_of_a_million") {
        runtime.block_on(garbage::measure_first(1_000_000));
    }
    if is_wanted("cascade") {
        runtime.block_on(cascade::measure());
    }
    if is_wanted("chain") {
        runtime.block_on(cascade::measure_chains());
    }
    if is_wanted("contest") {
        runtime.block_on(contest::measure());
    }
}
