//! What can go wrong between us and the runtime.

use tonic::{Code, Status};

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// The runtime answered with an error.
    #[error("{call}: {} ({:?})", status.message(), status.code())]
    Call {
        /// The call, as the CRI names it.
        call: &'static str,
        /// Its answer.
        status: Box<Status>,
    },
    /// The runtime did not answer in time.
    #[error("{call}: no answer within {seconds} s")]
    Timeout {
        /// The call, as the CRI names it.
        call: &'static str,
        /// The limit that passed.
        seconds: u64,
    },
}

// === impl CriError ===

impl CriError {
    /// An answer that is an error.
    pub fn call(call: &'static str, status: Status) -> Self {
        Self::Call { call, status: Box::new(status) }
    }

    /// Says whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == Code::NotFound)
    }
}
