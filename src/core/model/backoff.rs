//! Exponential back-off, and a fault that lasts.

use std::time::Duration;

/// Waits that double up to a limit. It counts failures and has no clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

// === impl Backoff ===

impl Backoff {
    /// Creates a back-off without failures. `longest` never shortens the first wait.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Returns the same back-off after this number of failures in a row.
    #[must_use]
    pub const fn after(self, failures: u32) -> Self {
        Self { failures, ..self }
    }

    /// Returns the wait: the first one without failures, and twice as long after each failure.
    pub fn wait(&self) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.longest).max(self.first)
    }

    /// Counts a failure and returns the wait before it was counted, so that the first failure has the first wait.
    pub fn fail(&mut self) -> Duration {
        let wait = self.wait();
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Begins again with the first wait.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Whether what is repeated fails, so that a fault that lasts is logged once.
#[derive(Debug, Default)]
pub struct Outage(bool);

// === impl Outage ===

impl Outage {
    /// Records the fault of an attempt; `None` = it worked. Returns the fault if it is the first one since an attempt worked.
    pub fn begins<E>(&mut self, fault: Option<E>) -> Option<E> {
        let was_failing = std::mem::replace(&mut self.0, fault.is_some());
        fault.filter(|_| !was_failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(first: u64, longest: u64) -> Vec<u64> {
        let mut backoff = Backoff::new(Duration::from_secs(first), Duration::from_secs(longest));
        (0..5).map(|_| backoff.fail().as_secs()).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        assert_eq!(waits(1, 6), [1, 2, 4, 6, 6]);
        assert_eq!(waits(7, 3), [7; 5], "the longest wait never shortens the first");
        assert_eq!(waits(0, 3), [0; 5]);
    }

    #[test]
    fn a_reset_begins_again() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::MAX).after(3);
        assert_eq!(backoff.wait().as_secs(), 8);
        backoff.reset();
        assert_eq!(backoff.fail().as_secs(), 1);
        assert_eq!(backoff.fail().as_secs(), 2);
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff::new(Duration::from_secs(2), Duration::MAX).after(u32::MAX);
        assert!(backoff.fail() > Duration::from_hours(1));
        assert_eq!(backoff.fail(), backoff.wait());
    }

    #[test]
    fn a_fault_is_returned_once_until_an_attempt_works() {
        let mut outage = Outage::default();
        let begun = [Some(1), Some(2), None, None, Some(3), Some(4)].map(|fault| outage.begins(fault));
        assert_eq!(begun, [Some(1), None, None, None, Some(3), None]);
    }
}
