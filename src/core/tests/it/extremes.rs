//! A snapshot with the largest sizes, also at the first and the last time that there is. Sums and times overflowed with such ones.

use std::sync::Arc;

use jiff::Timestamp;
use kubegc_core::lab::{Ruler, Totals, suggest};
use kubegc_core::model::{EvictionLimits, Pulls, Snapshot};
use kubegc_core::plan::{Guards, Policy, Profile, Scope, confirm, decide, update_memory};

fn extremes() -> Snapshot {
    serde_json::from_str(include_str!("../../../../tests/data/snapshots/extremes.json")).unwrap()
}

#[test]
fn extreme_sizes_and_times_are_planned() {
    let snapshot = extremes();
    for taken_at in [Timestamp::MIN, snapshot.taken_at, Timestamp::MAX] {
        let snapshot = Snapshot { taken_at, ..snapshot.clone() };
        for profile in [Profile::Safe, Profile::Kubelet] {
            let policy = Policy { profile, guards: Guards::of(profile), ..Policy::default() };
            let plan = decide(&snapshot, &policy, Scope::All);
            let _ = confirm(plan, &snapshot, &policy);
            let _ = update_memory(&snapshot, &policy);
        }
    }
}

#[test]
fn extreme_sizes_are_replayed() {
    let trace = extremes().trace.unwrap();
    let (since, until) = (trace.events[0].at, Timestamp::MAX);
    let (eviction, pulls) = (EvictionLimits::default(), Arc::new(Pulls::default()));
    let ruler = Ruler { since, until, counts_since: since, high_threshold_percent: 85, eviction, pulls };
    let happened = Totals::happened(&trace, trace.removals.as_deref().unwrap(), &ruler, since);
    assert_eq!((happened.removed, happened.removed_bytes), (2, u64::MAX));
    let _ = suggest(&trace, &Policy::default(), &ruler, |_| Vec::new());
}
