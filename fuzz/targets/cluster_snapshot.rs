//! A snapshot of a cluster, and predictions for its objects.
#![no_main]

use kubegc::owners::{ClusterSnapshot, Propagation, explain, find_objects, plan, predict_deletion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Ok(snapshot) = serde_json::from_slice::<ClusterSnapshot>(text) else { return };
    let plan = plan(&snapshot);
    for kept in plan.kept.iter().take(4) {
        let _ = find_objects(&snapshot, &kept.object.kind.kind, &kept.object.name, None);
        let _ = explain(&snapshot, &kept.object);
        for policy in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
            let _ = predict_deletion(&snapshot, &kept.object, policy);
        }
    }
});
