//! The one clock. Everybody else is told what time it is.

use jiff::Timestamp;

/// Now.
#[expect(clippy::disallowed_methods, reason = "the daemon owns the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
