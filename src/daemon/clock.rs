//! The one clock. Everybody else is told what time it is.

use std::sync::Arc;

use jiff::Timestamp;

/// A source of the current time: the system clock, or one that a test sets.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of this host.
pub fn system() -> Clock {
    Arc::new(now)
}

/// Now.
#[expect(clippy::disallowed_methods, reason = "the daemon owns the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
