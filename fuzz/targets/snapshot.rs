//! A snapshot of a node, with both profiles.
#![no_main]

use kubegc::model::Snapshot;
use kubegc::plan::{Guards, Policy, Profile, Scope, confirm, decide, update_memory};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(text) else { return };
    let safe = Policy::default();
    let kubelet = Policy { profile: Profile::Kubelet, guards: Guards::of(Profile::Kubelet), ..Policy::default() };
    for policy in [safe, kubelet] {
        let plan = decide(&snapshot, &policy, Scope::All);
        for kept in &plan.kept {
            let _ = kept.reason.explain();
        }
        let _ = confirm(plan, &snapshot, &policy);
        let _ = update_memory(&snapshot, &policy);
    }
});
