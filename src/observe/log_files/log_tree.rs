//! The log files in the directory of a container: the one reader of them, for sizes, limits, leftovers, the archive and a command.
//!
//! A pod that mounts the log root can create any entry there. So no link is followed, and what has no name of the kubelet does not count.
//!
//! The files are in the order of their lines, each of them once. The name of a rotated file has the local time of its node, which is set
//! back once a year. And of a file that was rotated and compressed between two looks the archive has both forms under different names. The
//! first line of a file says where it belongs and which file it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufReader, Read as _};

use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;
use rustix::io::Errno;
use tokio::time::Instant;

use super::log_lines::time_of_line;
use super::pod_logs::LogFile;
use super::sparse::Sparse;
use crate::model::{EntryKind, LogFileName, is_current_log, rotated_log};
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

/// The bytes in which the first line is looked for. Files of an instance that begin with the same are one, if one is compressed or as long.
const HEAD: u64 = 4 << 10;

/// Returns files that are in the order of their names in that of their lines. The current file is the last of its instance. A pod that
/// comes again with its uid counts its instances from 0 again, so one of which only the archive has a file may be earlier than its number.
pub(super) fn in_order(files: &[LogFile]) -> Vec<LogFile> {
    let (mut ordered, mut known, mut once) = (Vec::new(), HashMap::new(), Vec::<LogFile>::new());
    let mixes = files.iter().any(|file| file.folder.is_archive);
    for instance in files.chunk_by(|one, next| one.name.attempt == next.name.attempt) {
        let mut latest = None;
        for file in instance {
            let (time, head) = if mixes || instance.len() > 1 { head(file) } else { Default::default() };
            let time = if file.name.is_current { time.max(latest) } else { time.or(latest) };
            latest = latest.max(time);
            ordered.push((time, (file.name.attempt, head), file));
        }
    }
    ordered.sort_by_key(|(time, (attempt, _), _)| (Some(*attempt).filter(|_| !mixes), *time));
    for (_, head, file) in ordered {
        let at = if head.1.is_empty() { once.len() } else { *known.entry(head).or_insert(once.len()) };
        match once.get_mut(at) {
            Some(other) if other.name.is_compressed && !file.name.is_compressed => *other = file.clone(),
            Some(other) if !other.name.is_compressed && file.name.is_compressed => {}
            // A copy, such as an export beside the archive.
            Some(other) if other.name.is_compressed == file.name.is_compressed && other.bytes == file.bytes => {}
            _ => once.push(file.clone()),
        }
    }
    once
}

/// Returns the time of the first line of a file, and its first bytes; nothing if it has no line in the format.
fn head(file: &LogFile) -> (Option<Timestamp>, Vec<u8>) {
    let mut head = Vec::new();
    if let Ok((opened, name)) = file.open() {
        // Of a damaged file what can be read counts.
        let _ = if LogFileName::parse(&name).is_some_and(|name| name.is_compressed) {
            MultiGzDecoder::new(BufReader::new(opened)).take(HEAD).read_to_end(&mut head)
        } else {
            Sparse::new(opened, 0, u64::MAX).take(HEAD).read_to_end(&mut head)
        };
    }
    let time = head.split(|byte| *byte == b'\n').find_map(time_of_line);
    (time, if time.is_some() { head } else { Vec::new() })
}
