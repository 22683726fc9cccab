//! A wall clock that follows the virtual time of the runtime and that a test can step.

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use kubegc::daemon::{Clock, Monotonic};
use tokio::time::Instant;

/// The clock of one cell.
#[derive(Debug)]
pub struct TestClock {
    base: Timestamp,
    started: Instant,
    offset: Mutex<SignedDuration>,
}

// === impl TestClock ===

impl TestClock {
    /// Creates a clock that shows `base` now.
    pub fn at(base: Timestamp) -> Arc<Self> {
        Arc::new(Self { base, started: Instant::now(), offset: Mutex::default() })
    }

    /// Returns the time that it shows.
    pub fn now(&self) -> Timestamp {
        self.unset() + *self.offset.lock().unwrap()
    }

    /// Steps it forward or back. No virtual time passes.
    pub fn step(&self, by: SignedDuration) {
        *self.offset.lock().unwrap() += by;
    }

    /// Returns the time that it would show without steps.
    pub fn unset(&self) -> Timestamp {
        self.base + SignedDuration::try_from(self.started.elapsed()).unwrap()
    }

    /// Returns the clock that no step changes.
    pub fn as_monotonic(self: &Arc<Self>) -> Monotonic {
        let clock = Arc::clone(self);
        Arc::new(move || clock.started.elapsed())
    }

    /// Returns the clock for the cycle.
    pub fn as_clock(self: &Arc<Self>) -> Clock {
        let clock = Arc::clone(self);
        Arc::new(move || clock.now())
    }
}
