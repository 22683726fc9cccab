//! The container runtime interface: the only room that knows protobuf.
//!
//! Whoever observes gets a [`RuntimeReader`], which has no way to remove anything; only `execute` gets a
//! [`RuntimeWriter`]. Generated types stay inside, but for the simulated node, which serves them.

mod breaker;
mod connect;
mod convert;
mod endpoint;
mod error;
mod in_progress;
mod lists;
mod parts;
mod reader;
mod retry;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tests;
mod writer;

pub use crate::host_path;
pub use breaker::Breaker;
pub use endpoint::{Endpoint, EndpointCandidates, Named, Rule, WELL_KNOWN, resolve};
pub use error::CriError;
pub use parts::List;
pub use reader::{ContainerStatus, Only, RuntimeReader};
pub use writer::RuntimeWriter;

/// The generated types and stubs of `proto/cri.proto`, for `sim` and the tests alone.
#[doc(hidden)]
#[expect(clippy::all, clippy::pedantic, reason = "generated")]
pub mod generated {
    tonic::include_proto!("runtime.v1");
}

use std::time::Duration;

/// How the runtime is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub struct CriOptions {
    /// The longest wait for one reading call. Default 2 min, as the kubelet's `runtimeRequestTimeout`.
    pub read_timeout: Duration,
    /// The longest wait for one removal. It is not cancelled then, only no longer waited for: a removal that is cut off
    /// strands records in containerd (containerd#13875). Default 10 min.
    pub removal_timeout: Duration,
    /// The largest message taken. Default 256 MiB; tonic's own 4 MiB are passed at about 3,000 containers.
    pub max_message_bytes: usize,
    /// The longest wait for the answer to Version: the first call, and the probe after a call without an answer. Default
    /// 5 s.
    pub answer_timeout: Duration,
    /// For how long, waits added up, a reading call tries again while the runtime is away. Default 0 = it fails at once;
    /// the service, which outlives the runtime's restarts, sets some seconds.
    pub patience: Duration,
}

// === impl CriOptions ===

impl CriOptions {
    /// The longest wait for the first answer of a service, and for whatever a pass can do without.
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
