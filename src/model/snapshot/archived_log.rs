//! Log files that only the archive has.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{PodRef, container_log_dir};

/// A log file in the archive that its pod has no more.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ArchivedLog {
    /// The pod, from the name of its directory.
    pub pod: PodRef,
    /// Name of the container.
    pub container: String,
    /// Its name, such as `3.log` or `3.log.20260102-150405.gz`.
    pub name: String,
    /// Its bytes on the disk.
    pub size_bytes: u64,
    /// When its pod lost it: the last change of the inode. `null` = unknown.
    #[serde(default)]
    pub lost_at: Option<Timestamp>,
}

// === impl ArchivedLog ===

impl ArchivedLog {
    /// Returns its path beneath the archive, if its names can be the kubelet's.
    pub fn path(&self) -> Option<PathBuf> {
        Some(container_log_dir(&self.pod, &self.container)?.join(&self.name))
    }
}
