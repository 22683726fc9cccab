//! The client of the Container Runtime Interface (CRI).
//!
//! Code that observes uses a [`RuntimeReader`], which has no method that removes anything. Only `execute` holds a
//! [`RuntimeWriter`]. Generated protobuf types are used only in this module and in the simulated node, which serves
//! them.

mod breaker;
mod connect;
mod convert;
mod endpoint;
mod error;
/// The types and stubs of `proto/cri.proto`, written by `scripts/generate.sh`. Outside this module, only `sim` and the
/// tests use them.
#[doc(hidden)]
#[expect(clippy::all, clippy::pedantic, reason = "generated")]
#[rustfmt::skip]
pub mod generated;
mod in_progress;
mod lists;
mod parts;
mod reader;
mod retry;
#[cfg(test)]
mod tests;
mod writer;

pub use breaker::Breaker;
pub use endpoint::{Endpoint, EndpointCandidates, Named, WELL_KNOWN, resolve};
pub use error::CriError;
pub use in_progress::InProgress;
pub use parts::List;
pub use reader::{ContainerStatus, Only, RuntimeReader};
pub use writer::RuntimeWriter;

use std::time::Duration;

/// Settings of the CRI client.
#[derive(Clone, Debug, PartialEq)]
pub struct CriOptions {
    /// For one read call, like the kubelet's `runtimeRequestTimeout`.
    pub read_timeout: Duration,
    /// `runtime.removal_timeout`: how long the client waits for one removal. After that it stops waiting, but does not
    /// cancel the call: a canceled removal leaves stray records in containerd (containerd#13875).
    pub removal_timeout: Duration,
    /// The largest answer. About 3,000 containers exceed tonic's own limit of 4 MiB.
    pub max_message_bytes: usize,
    /// For a Version call: the first call, and the probe after a call without an answer. Also for a lookup of the socket file.
    pub answer_timeout: Duration,
    /// The total back-off time of a read call while the runtime is unavailable. 0 = the call fails at once, as for all
    /// clients but the service.
    pub patience: Duration,
}

// === impl CriOptions ===

impl CriOptions {
    /// Returns the time limit for the first answer of a service, and for calls that a pass can do without.
    fn first_answer_timeout(&self) -> Duration {
        self.answer_timeout.min(self.read_timeout)
    }
}

impl Default for CriOptions {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_mins(2),
            removal_timeout: Duration::from_mins(10),
            max_message_bytes: 256 << 20,
            answer_timeout: Duration::from_secs(5),
            patience: Duration::ZERO,
        }
    }
}
