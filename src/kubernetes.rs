//! The API server and the kubelet's HTTPS door: how to reach them, and what they say of pods; the sister of `cri`.
//!
//! What comes from there is reduced to [`crate::model::Pod`] while it arrives, so that 500 pods cost little. This room
//! never guesses: an answer that was cut, that came from a proxy or that is silent for long says so (I2). It changes
//! nothing in the cluster but what a caller asks for by name.

mod access;
mod api_types;
mod connection;
mod error;
mod items;
mod kubelet;
mod list;
mod node;
mod pod_lookup;
mod watch;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

pub use access::{Access, CredentialCandidates, Credentials};
pub use api_types::NodeInfo;
pub use connection::Connection;
pub use error::KubernetesError;
#[cfg(test)]
pub(crate) use kubelet::fake as fake_kubelet;
pub use kubelet::{Kubelet, KubeletAccess, KubeletError, KubeletPod, KubeletPods, KubeletProcess};
pub use pod_lookup::pod_exists;
pub use watch::{Heard, PodWatch};

use std::time::Duration;

use jiff::Timestamp;

/// Tells the time. The daemon owns the clock and lends it.
pub type Clock = fn() -> Timestamp;

/// How long the API server is waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The longest wait for one answer, and for the next piece of a long one. Default 15 s.
    pub answer: Duration,
    /// How long the first question waits for the first list. Default 10 s.
    pub first_list: Duration,
    /// After how long without an event, a bookmark or the end of a watch in order a list of pods counts as not seen. After
    /// half of it the watch is taken for dead and pods are listed anew. Default 3 min.
    pub max_silence: Duration,
    /// After how long the server ends a watch, so that rights are checked again and a quiet server is heard: one of version
    /// 1.20 sends no bookmark before the first event. Default 1 min; at most 290 s, and a third of the longest silence.
    pub watch: Duration,
    /// The first wait after a failure; it doubles. Default 1 s.
    pub least_pause: Duration,
    /// The longest wait after a failure, and between two looks for a Node that is not there. Default 30 s.
    pub longest_pause: Duration,
}

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(15),
            first_list: Duration::from_secs(10),
            max_silence: Duration::from_mins(3),
            watch: Duration::from_mins(1),
            least_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
        }
    }
}
