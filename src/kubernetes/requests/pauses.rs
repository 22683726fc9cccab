//! The waits between the attempts to list and watch a resource.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::Backoff;

/// The first back-off after a failure. It doubles with each failure.
const LEAST: Duration = Duration::from_secs(1);
/// The longest back-off after a failure, and the interval between two checks for a missing Node.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// The waits after failures. Full lists cost the most, so one that was of use for a moment only is not repeated soon (G5).
pub(in crate::kubernetes) struct Pauses {
    after_failure: Backoff,
    /// After lists that a watch did not outlast.
    relist: Backoff,
    /// When the last list was complete; `None` = never, or it was of use for long.
    listed: Option<Instant>,
}

// === impl Pauses ===

impl Pauses {
    pub(in crate::kubernetes) fn new() -> Self {
        let backoff = Backoff::new(LEAST, LONGEST);
        Self { after_failure: backoff, relist: backoff, listed: None }
    }

    /// Records a complete list.
    pub(in crate::kubernetes) fn listed(&mut self) {
        self.listed = Some(Instant::now());
    }

    /// Records that the server works.
    pub(in crate::kubernetes) fn works(&mut self) {
        self.after_failure.reset();
    }

    /// Returns the wait after a failure. A version expires now and then although the server works, so a list of long ago is
    /// repeated soon. The versions of all nodes expire at the same time, so not at once.
    pub(in crate::kubernetes) fn after(&mut self, is_expired: bool, lists_again: bool) -> Duration {
        if self.listed.take_if(|at| at.elapsed() >= LONGEST).is_some() {
            self.relist.reset();
            if is_expired {
                self.after_failure.reset();
                return LEAST;
            }
        }
        let wait = self.after_failure.fail();
        if lists_again { wait.max(self.relist.fail()) } else { wait }
    }
}
