//! The waits between the attempts to list and watch a resource.

use std::time::Duration;

use tokio::time::Instant;

use super::Timing;
use crate::model::Backoff;

/// The waits after failures. Full lists cost the most, so one that was of use for a moment only is not repeated soon (G5).
pub(super) struct Pauses {
    after_failure: Backoff,
    /// After lists that a watch did not outlast.
    relist: Backoff,
    least: Duration,
    longest: Duration,
    /// When the last list was complete; `None` = never, or it was of use for long.
    listed: Option<Instant>,
}

// === impl Pauses ===

impl Pauses {
    pub(super) fn new(timing: &Timing) -> Self {
        let backoff = Backoff::new(timing.least_pause, timing.longest_pause);
        Self {
            after_failure: backoff,
            relist: backoff,
            least: timing.least_pause,
            longest: timing.longest_pause,
            listed: None,
        }
    }

    /// Records a complete list.
    pub(super) fn listed(&mut self) {
        self.listed = Some(Instant::now());
    }

    /// Records that the server works.
    pub(super) fn works(&mut self) {
        self.after_failure.reset();
    }

    /// Returns the wait after a failure. A version expires now and then although the server works, so a list of long ago is
    /// repeated soon. The versions of all nodes expire at the same time, so not at once.
    pub(super) fn after(&mut self, is_expired: bool, lists_again: bool) -> Duration {
        if self.listed.take_if(|at| at.elapsed() >= self.longest).is_some() {
            self.relist.reset();
            if is_expired {
                self.after_failure.reset();
                return self.least;
            }
        }
        let wait = self.after_failure.fail();
        if lists_again { wait.max(self.relist.fail()) } else { wait }
    }
}
