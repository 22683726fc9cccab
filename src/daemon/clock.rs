//! The clocks of the process. All other modules receive the time from here.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// A source of the current time: the system clock, or one that a test sets.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A source of the time of a monotonic clock, since any start.
pub type Monotonic = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Returns the time since the start of this host, with the time in which it was suspended; zero if the kernel does not say so.
pub fn since_boot() -> Monotonic {
    Arc::new(|| clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default())
}

/// Returns a clock that passes as this one does, for a clock that never jumps.
pub fn as_it_passes(clock: &Clock) -> Monotonic {
    let clock = Arc::clone(clock);
    Arc::new(move || clock().duration_since(Timestamp::UNIX_EPOCH).unsigned_abs())
}

/// Returns the clock of this host.
pub fn system() -> Clock {
    Arc::new(now)
}

/// Returns the current time of the host.
#[expect(clippy::disallowed_methods, reason = "the daemon owns the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
