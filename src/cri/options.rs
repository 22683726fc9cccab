//! Settings of the CRI client.

use std::time::Duration;

/// Settings of the CRI client.
#[derive(Clone, Debug, PartialEq)]
pub struct CriOptions {
    /// For one read call, like the kubelet's `runtimeRequestTimeout`.
    pub read_timeout: Duration,
    /// `runtime.removal_timeout`: how long the client waits for one removal. After that it stops waiting, but does not
    /// cancel the call: a canceled removal leaves stray records in containerd (containerd#13875).
    pub removal_timeout: Duration,
    /// The largest answer, in one message or in a stream. About 3,000 containers exceed tonic's own limit of 4 MiB.
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
    pub(super) fn first_answer_timeout(&self) -> Duration {
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
