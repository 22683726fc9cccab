//! Foreground deletions that wait for their dependents, and since when.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::owners::Uid;

/// After this time a foreground deletion that waits has an event, and again each time it has passed.
pub(super) const STUCK: Duration = Duration::from_mins(10);

/// The owners that wait, and since when this process has seen that.
#[derive(Debug, Default)]
pub(super) struct Waiting(HashMap<Uid, Instant>);

// === impl Waiting ===

impl Waiting {
    /// Records that a deletion waits. Returns for how long it has.
    pub(super) fn note(&mut self, uid: &Uid) -> Duration {
        self.0.entry(uid.clone()).or_insert_with(Instant::now).elapsed()
    }

    /// Returns how long the deletion has waited that waits the longest. Forgets those that `waits` denies.
    pub(super) fn longest(&mut self, waits: impl Fn(&Uid) -> bool) -> Duration {
        self.0.retain(|uid, _| waits(uid));
        self.0.values().map(Instant::elapsed).max().unwrap_or_default()
    }
}
