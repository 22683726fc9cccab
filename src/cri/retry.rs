//! Decides when a failed read call is retried.
//!
//! There are two cases. If the connection broke unnoticed because the runtime was restarted since the last call, the
//! call is retried once at once. If the runtime is unavailable, the call is retried with a growing back-off until the
//! total back-off time is used up. Removals never wait, because the recheck before them would no longer be fresh.

use std::time::Duration;

use super::CriError;
use crate::model::Backoff;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The retry state of one call. It adds up the back-off times and needs no clock.
#[derive(Debug)]
pub struct Retry {
    backoff: Backoff,
    left: Duration,
    reconnected: bool,
}

// === impl Retry ===

impl Retry {
    /// Creates the state for a call whose back-off times add up to at most `patience`.
    pub fn new(patience: Duration) -> Self {
        Self { backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT), left: patience, reconnected: false }
    }

    /// Returns the back-off before the next attempt; `None` = the error is final.
    pub fn after(&mut self, error: &CriError) -> Option<Duration> {
        if matches!(error, CriError::Broken { .. }) && !self.reconnected {
            self.reconnected = true;
            return Some(Duration::ZERO);
        }
        if self.left.is_zero() || !error.is_away() {
            return None;
        }
        let wait = self.backoff.fail().min(self.left);
        self.left -= wait;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> CriError {
        CriError::Unconnected { endpoint: "/run/x.sock".into(), cause: std::io::ErrorKind::ConnectionRefused.into() }
    }

    fn broken() -> CriError {
        CriError::Broken {
            call: "Version",
            endpoint: "/run/x.sock".into(),
            status: Box::new(tonic::Status::unknown("broken pipe")),
        }
    }

    fn waits(patience: Duration, error: &CriError) -> Vec<u128> {
        let mut retry = Retry::new(patience);
        std::iter::from_fn(|| retry.after(error)).take(100).map(|wait| wait.as_millis()).collect()
    }

    #[test]
    fn without_patience_an_absent_runtime_is_reported_at_once() {
        assert_eq!(waits(Duration::ZERO, &refused()), [0; 0]);
    }

    #[test]
    fn the_back_off_doubles_up_to_three_seconds() {
        let waits = waits(Duration::from_secs(15), &refused());
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3000, 3000, 3000, 2900]);
    }

    #[test]
    fn a_broken_connection_is_made_again_once_without_patience() {
        assert_eq!(waits(Duration::ZERO, &broken()), [0]);
    }

    #[test]
    fn calls_with_an_error_response_are_not_retried() {
        let no = CriError::Call { call: "ListImages", status: Box::new(tonic::Status::internal("disk")) };
        assert_eq!(waits(Duration::from_secs(15), &no), [0; 0]);
    }
}
