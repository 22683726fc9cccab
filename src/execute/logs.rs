//! Removes pod log directories, the log files of a container, log symlinks, and single files of the kubelet.
//!
//! A pod that mounts a log root can create any entry beneath it. Therefore (I7) a path is split into names here, and
//! each directory is opened from its root on, one after the other. No symlink is followed and no mount is crossed. An
//! entry of another kind than expected is kept. This module does not decide what is removed and does not call the
//! runtime.

mod archive;
mod archived_pods;
mod dir;
mod kubelet_files;
mod of_container;
mod roots;
#[cfg(test)]
pub(super) mod tests;
mod tree;

pub use archive::Archived;
pub use kubelet_files::KubeletFile;
pub use of_container::{LogNames, RemovedLogs};
pub use roots::{KnownLog, LogFile, LogRoots};

use std::path::{Path, PathBuf};

use crate::host_path::CallError;

/// The entries and bytes that a removal deleted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RemovedStats {
    /// Entries removed, directories included. 0 = no entry existed.
    pub entries: u64,
    /// Reclaimed bytes: the blocks of files that had no other hard link.
    pub bytes: u64,
}

/// Why log entries were not removed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The entry is not one that kubegc removes.
    #[error("{} is kept: {what}", path.display())]
    Foreign {
        path: PathBuf,
        /// Why the entry is kept.
        what: &'static str,
    },
    /// An entry in the tree could not be removed, so the tree is kept.
    #[error("{} is kept: {what}", path.display())]
    Blocked {
        /// The entry that could not be removed.
        path: PathBuf,
        /// Why the entry is kept.
        what: &'static str,
    },
    /// A system call failed.
    #[error("cannot {act} {}: {source}", path.display())]
    Io {
        act: &'static str,
        /// The path of the entry.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file system did not respond. A removal that was started continues in its thread.
    #[error(transparent)]
    Access(#[from] CallError),
}

// === impl RemovedStats ===

impl std::ops::AddAssign for RemovedStats {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

// === impl LogError ===

impl LogError {
    fn foreign(path: impl Into<PathBuf>, what: &'static str) -> Self {
        Self::Foreign { path: path.into(), what }
    }

    fn io(act: &'static str, path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::Io { act, path: path.to_owned(), source: source.into() }
    }

    /// Returns whether the entry is one that kubegc must not remove, rather than one that it could not remove.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign { .. })
    }

    /// Converts the error of an entry deeper in a tree. Other entries of the tree may already be removed, so the tree
    /// counts as blocked and not as foreign.
    fn nested(self) -> Self {
        match self {
            Self::Foreign { path, what } => Self::Blocked { path, what },
            other => other,
        }
    }
}
