//! Replays of made traces: suggestions, and the table in docs/images.md. All 20 nodes take a minute, so each tenth is tried, and all of them
//! with `KUBEGC_CASES=all`.

mod generate;
mod recorded;

use std::path::Path;
use std::sync::Arc;

use jiff::SignedDuration;
use kubegc::lab::{Replay, Ruler, Totals, of_kubelet, orders, suggest};
use kubegc::model::{EvictionLimits, Trace, size_text};
use kubegc::plan::{ImagePolicy, Policy};

use crate::sample;
use generate::Load;

/// What is before and after the table.
const BOUNDS: [&str; 2] = ["<!-- nodes -->", "<!-- end of nodes -->"];

fn is_written() -> bool {
    std::env::var_os("KUBEGC_GENERATE").is_some()
}

fn ruler(trace: &Trace) -> Ruler {
    let until = trace.disk.last().unwrap().at + SignedDuration::from_secs(1);
    let eviction = EvictionLimits::default();
    Ruler {
        since: generate::start(),
        until,
        counts_since: generate::start(),
        high_threshold_percent: 85,
        eviction,
        pulls: Arc::default(),
    }
}

/// The nodes that are tried, and what part of all nodes they are.
fn loads() -> (impl Iterator<Item = Load>, usize) {
    let all = sample::plays_all() || is_written();
    let step = if all { 1 } else { 10 };
    (generate::loads().into_iter().step_by(step), step)
}

/// On most nodes a suggestion holds on days that it was not made for.
#[test]
fn suggestions_hold_on_the_second_half() {
    let (loads, step) = loads();
    let is_worse = |load: &Load| {
        let trace = load.trace();
        let found = suggest(&trace, &Policy::default(), &ruler(&trace), |images| vec![format!("{images:?}")]);
        let (before, after) = (&found.second_half_in_force, &found.second_half);
        println!("{}: {:?}\n  {before:?}\n  {after:?}", load.name, found.settings);
        let cost = |totals: &Totals| (totals.above_eviction_seconds, totals.pulled_again_bytes);
        cost(after) > cost(before)
    };
    let worse: Vec<_> = loads.filter(is_worse).map(|load| load.name).collect();
    assert!(worse.len() * step <= 2, "{worse:?}");
}

/// The page has what each policy pulls again in 30 days.
#[test]
fn the_page_has_every_node_that_was_made() {
    let order = orders().pop().unwrap();
    let by_cost = Policy { images: ImagePolicy { order, ..ImagePolicy::default() }, ..Policy::default() };
    let policies = [of_kubelet(&Policy::default()), Policy::default(), by_cost];
    let row = |load: Load| {
        let trace = load.trace();
        let ruler = ruler(&trace);
        let again = policies.each_ref().map(|policy| Replay::of(&trace, policy, &ruler).totals.pulled_again_bytes);
        let [kubelet, safe, cost] = again.map(size_text);
        format!("| {} | {kubelet} | {safe} | {cost} |\n", load.name)
    };
    let rows: Vec<String> = loads().0.map(row).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images.md");
    let page = std::fs::read_to_string(&path).unwrap();
    if is_written() {
        let [begin, end] = BOUNDS.map(|bound| page.find(bound).unwrap());
        let head = "| node | kubelet | `safe` | by cost |\n|---|---|---|---|\n";
        let table = format!("{}{}\n{head}{}{}", &page[..begin], BOUNDS[0], rows.concat(), &page[end..]);
        std::fs::write(&path, table).unwrap();
    }
    let missing: Vec<_> = rows.into_iter().filter(|row| !page.contains(row)).collect();
    assert!(is_written() || missing.is_empty(), "{missing:?}: run scripts/generate.sh");
}
