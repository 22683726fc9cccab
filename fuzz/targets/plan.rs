//! A saved plan, compared with a node.
#![no_main]

use std::sync::LazyLock;

use kubegc::model::Snapshot;
use kubegc::plan::{Plan, Policy, confirm};
use libfuzzer_sys::fuzz_target;

const NODE: &str = include_str!("../../tests/data/cases/N6a-unknown-container-created-zero.json");

static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| serde_json::from_str(NODE).expect("a snapshot"));

fuzz_target!(|text: &[u8]| {
    let Ok(plan) = serde_json::from_slice::<Plan>(text) else { return };
    let _ = confirm(plan, &SNAPSHOT, &Policy::default());
});
