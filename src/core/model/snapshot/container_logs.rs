//! The log files of containers.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{PodRef, container_log_dir, is_current_log, rotated_log};

/// The log files of a container that the runtime lists.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ContainerLogs {
    /// The pod, from the labels of the container.
    pub pod: PodRef,
    /// Name of the container in the pod spec.
    pub container: String,
    /// The regular files that have one name, which is one of the kubelet.
    pub files: Vec<ContainerLog>,
    /// Whether files may be missing: the time was over, the directory has too many, or it cannot be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// A log file of a container.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ContainerLog {
    /// Its name, such as `3.log` or `3.log.20260102-150405.gz`.
    pub name: String,
    /// Its bytes on the disk.
    pub size_bytes: u64,
    /// When it was last modified; `null` = unknown.
    #[serde(default)]
    pub modified_at: Option<Timestamp>,
}

/// What decides, besides its name, whether a log file may be removed while its pod exists.
#[derive(Clone, Copy, Debug)]
pub struct LogFacts {
    /// Whether the runtime has its instance.
    pub is_listed: bool,
    /// Whether its instance has its current file.
    pub has_current: bool,
    /// Whether the kubelet may be compressing the rotated file.
    pub is_compressing: bool,
    /// Whether a newer instance of its container has a log file.
    pub has_newer: bool,
}

// === impl ContainerLogs ===

impl ContainerLogs {
    /// Returns the directory beneath the pod log root, if the names can be the kubelet's.
    pub fn dir(&self) -> Option<PathBuf> {
        container_log_dir(&self.pod, &self.container)
    }
}

// === impl LogFacts ===

impl LogFacts {
    /// How long ago the last write of a file was, so that no compression of it is in progress. The kubelet needs seconds for its 10 MiB.
    pub const COMPRESSION: SignedDuration = SignedDuration::from_hours(1);

    /// Returns whether a log file of this name may be removed. An instance in the runtime keeps its current file and its only
    /// file. The newest instance keeps its current file: without an instance in the runtime the kubelet counts restarts from the names
    /// (1.36, `calcRestartCountByLogDir`).
    pub fn permit_removal(self, name: &str) -> bool {
        let is_lost = !self.is_listed && self.has_newer;
        match rotated_log(name) {
            Some(_) => !self.is_compressing && (self.has_current || is_lost),
            None => is_current_log(name) && is_lost,
        }
    }
}
