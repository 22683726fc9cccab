//! The log files in the directory of a container: the one reader of them, for sizes, limits, leftovers, the archive and a command.
//!
//! A pod that mounts the log root can create any entry there. So no link is followed, and what has no name of the kubelet does not count.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;
use tokio::time::Instant;

use crate::model::{EntryKind, is_current_log, rotated_log};
use crate::observe::open_dir::{DirEntry, OpenDir};

/// The most entries of the log directory of a container, or of a pod. What has more decides nothing: which file is missing, the only one or
/// the newest is not known, and to read it takes the time of others. A kubelet has some files for each restart.
pub const MOST_LOG_FILES: usize = if cfg!(test) { 50 } else { 10_000 };

/// The log files of a container in one directory.
#[derive(Debug, Default)]
pub struct LogFiles {
    /// What has the name of a log file, also of one that the kubelet is compressing. Not each is a regular file.
    pub entries: BTreeMap<String, DirEntry>,
    /// The names of the other entries.
    pub others: BTreeSet<String>,
    /// Whether files may be missing: the directory has more than [`MOST_LOG_FILES`] entries, or the time was over.
    pub at_least: bool,
}

// === impl LogFiles ===

impl LogFiles {
    /// Reads a directory until a time; `None` = however long it takes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(dir: &OpenDir, until: Option<Instant>) -> Result<Self, Errno> {
        let is_over = || until.is_some_and(|until| Instant::now() >= until);
        let mut found = Self::default();
        for (read, name) in dir.all()?.enumerate() {
            if read == MOST_LOG_FILES || is_over() {
                found.at_least = true;
                break;
            }
            let name = name?.to_string_lossy().into_owned();
            if is_current_log(&name) || rotated_log(&name).is_some() {
                found.entries.extend(dir.entry(&name)?.map(|entry| (name, entry)));
            } else {
                found.others.insert(name);
            }
        }
        Ok(found)
    }

    pub fn files(self) -> impl Iterator<Item = (String, DirEntry)> {
        self.entries.into_iter().filter(|(_, entry)| entry.kind == EntryKind::File)
    }
}
