//! When the runtime's lists are not to be believed (I12).

use jiff::Timestamp;

use super::{Guards, KeepReason};
use crate::model::Snapshot;

/// Fewer objects than this may vanish between two looks without arousing doubt.
const FEW: u64 = 10;

/// Why nothing may count as unused or gone in this pass, if so.
pub(super) fn doubt(snapshot: &Snapshot, guards: &Guards) -> Option<KeepReason> {
    just_started(snapshot, guards).or_else(|| fell(snapshot, guards))
}

fn just_started(snapshot: &Snapshot, guards: &Guards) -> Option<KeepReason> {
    let since: Timestamp = snapshot.runtime.as_ref()?.listening_since?;
    let young = !guards.settle.is_zero() && super::age(snapshot.taken_at, since) < guards.settle;
    young.then(|| KeepReason::RuntimeJustStarted { settle_seconds: super::seconds(guards.settle) })
}

fn fell(snapshot: &Snapshot, guards: &Guards) -> Option<KeepReason> {
    let last = snapshot.memory.last_counts?;
    let before = last.containers + last.sandboxes;
    let now = (snapshot.listed_containers()?.len() + snapshot.listed_sandboxes()?.len()) as u64;
    let fell = before >= FEW && now.saturating_mul(100) < before.saturating_mul(guards.fall_percent);
    fell.then_some(KeepReason::ListFell { before, now })
}
