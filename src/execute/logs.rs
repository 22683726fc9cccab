//! The file side of removals: pod log directories, a container's log files, log links.
//!
//! A pod can plant whatever it likes beneath a log root that it has mounted. So (I7): a path is taken apart here and
//! walked again from its root, one open directory at a time; no link is followed, no mount is crossed, and what turns
//! out to be another kind of entry than expected stays. Nothing here decides what goes, and nothing asks the runtime.

mod dir;
mod roots;
#[cfg(test)]
pub(super) mod tests;
mod tree;

pub use roots::{LogFile, LogRoots};

use std::path::{Path, PathBuf};

use crate::host_path::CallError;

/// What came off the disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RemovedStats {
    /// Entries removed, directories included. 0 = there was nothing.
    pub entries: u64,
    /// Bytes given back: the blocks of files that had no other name.
    pub bytes: u64,
}

/// Why log entries stay.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The entry is not one that we remove.
    #[error("{} is left alone: {what}", path.display())]
    Foreign {
        /// The entry.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Something in the tree stays, and so does the tree.
    #[error("{} stays: {what}", path.display())]
    Blocked {
        /// The entry in the way.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The system refused.
    #[error("cannot {act} {}: {source}", path.display())]
    Io {
        /// The act.
        act: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// The answer.
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

    /// Says whether the entry is none of ours, rather than one that could not be removed.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign { .. })
    }

    /// The same of something deeper in a tree, whose siblings may be gone already.
    fn nested(self) -> Self {
        match self {
            Self::Foreign { path, what } => Self::Blocked { path, what },
            other => other,
        }
    }
}
