//! Foreground deletions that wait for their dependents, and since when.

use std::collections::HashMap;
use std::time::Duration;

use crate::model::Uid;
use tokio::time::Instant;

/// A foreground deletion that waits is reported after this time, and again each time it has passed.
pub(in crate::controller) const STUCK: Duration = Duration::from_mins(10);

#[derive(Debug, Default)]
pub(in crate::controller) struct Waiting(HashMap<Uid, Wait>);

#[derive(Debug)]
struct Wait {
    /// When its deletion began: a restart of this process does not change that.
    since: Instant,
    reported: Instant,
}

// === impl Waiting ===

impl Waiting {
    /// Records that a deletion waits, for so long. Returns whether it is to be reported. The end of each dependent is a reason to check
    /// the owner again, so it may wait often and long without being stuck.
    pub(super) fn note(&mut self, uid: &Uid, waited: Duration) -> bool {
        let now = Instant::now();
        let since = now.checked_sub(waited).unwrap_or(now);
        let wait = self.0.entry(uid.clone()).or_insert(Wait { since, reported: now });
        let is_due = now - wait.reported >= STUCK;
        if is_due {
            wait.reported = now;
        }
        is_due
    }

    /// Records that a deletion does not wait any more.
    pub(super) fn end(&mut self, uid: &Uid) {
        self.0.remove(uid);
    }

    /// Returns how long the deletion has waited that waits the longest.
    pub(in crate::controller) fn longest(&self) -> Duration {
        self.0.values().map(|wait| wait.since.elapsed()).max().unwrap_or_default()
    }
}
