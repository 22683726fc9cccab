//! The clock of the process. All other modules receive the time from here.

use std::sync::Arc;

use jiff::Timestamp;

/// A source of the current time: the system clock, or one that a test sets.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns the clock of this host.
pub fn system() -> Clock {
    Arc::new(now)
}

/// Returns the current time of the host.
#[expect(clippy::disallowed_methods, reason = "the daemon owns the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
