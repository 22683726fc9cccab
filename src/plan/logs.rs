//! Log directories of pods that are gone, and log links that lead nowhere.

use std::path::PathBuf;

/// Where logs lie.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPolicy {
    /// The pod log root. Default `/var/log/pods`.
    pub pods_root: PathBuf,
    /// The container log root. Default `/var/log/containers`.
    pub containers_root: PathBuf,
}

// === impl LogPolicy ===

impl Default for LogPolicy {
    fn default() -> Self {
        Self { pods_root: "/var/log/pods".into(), containers_root: "/var/log/containers".into() }
    }
}
