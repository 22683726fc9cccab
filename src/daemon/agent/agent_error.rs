//! The error of an agent.

use std::io;

use crate::cri::CriError;
use crate::record::{LockError, StoreError};

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The system refuses a handler of signals.
    #[error(transparent)]
    Signals(#[from] io::Error),
    /// The lock of the node cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime cannot be used.
    #[error(transparent)]
    Runtime(#[from] CriError),
}
