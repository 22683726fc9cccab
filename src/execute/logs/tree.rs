//! Removes a tree, or some files of one directory, starting from an open directory.
//!
//! Memory and file descriptors are bounded for any content: each level has one descriptor and one batch of names, and
//! the number of levels is limited. An entry that cannot be removed is skipped, so that one bad entry does not keep the
//! rest. The first such error is returned.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::dir::Dir;
use super::{LogError, RemovedStats};
use crate::model::EntryKind;
use crate::observe::DirEntry;

/// The number of names read at a time.
const BATCH: usize = 512;
/// The highest number of levels. The kubelet creates two. Each level takes one descriptor.
const MAX_DEPTH: usize = 64;
/// The highest number of entries in one removal, so that a process that writes faster than kubegc removes cannot block
/// it. The next pass continues.
const MAX_ENTRIES: u64 = if cfg!(test) { 2_000 } else { 1_000_000 };

/// Removes the directory `name` with its content. An entry of another kind is kept.
pub fn remove_tree(parent: &Dir, name: &OsStr) -> Result<RemovedStats, LogError> {
    let mut removed = RemovedStats::default();
    remove_dir(parent, name, 0, &mut removed)?;
    Ok(removed)
}

/// Removes the files whose names begin with a log file's name: the current one, and rotated, compressed and temporary
/// ones.
pub fn remove_logs(dir: &Dir, log: &OsStr) -> Result<RemovedStats, LogError> {
    let mut removed = RemovedStats::default();
    loop {
        let names = dir.names(BATCH, |name| is_log_of(name, log))?;
        let before = removed.entries;
        for name in &names {
            remove_file(dir, name, &mut removed)?;
        }
        if names.len() < BATCH || removed.entries == before {
            return Ok(removed);
        }
    }
}

/// Removes `name` if it is a symlink. An entry of another kind is kept.
pub fn remove_link(dir: &Dir, name: &OsStr) -> Result<RemovedStats, LogError> {
    match dir.entry(name)? {
        None => Ok(RemovedStats::default()),
        Some(entry) if entry.kind == EntryKind::Symlink => dir.unlink(name, entry),
        Some(_) => Err(LogError::foreign(dir.path_of(name), "it is not a symbolic link")),
    }
}

/// Returns whether a file belongs to a log: `0.log` has `0.log.20260102-150405.gz`, but neither `0.log2` nor `10.log`.
fn is_log_of(name: &OsStr, log: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(log.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Removes a file or a symlink. A directory with the name of a log is not a log file. It is kept until the log
/// directory of its pod is removed.
fn remove_file(dir: &Dir, name: &OsStr, removed: &mut RemovedStats) -> Result<(), LogError> {
    let Some(entry) = dir.entry(name)? else { return Ok(()) };
    if entry.kind != EntryKind::Directory {
        *removed += dir.unlink(name, entry)?;
    }
    Ok(())
}

fn remove_dir(parent: &Dir, name: &OsStr, depth: usize, removed: &mut RemovedStats) -> Result<(), LogError> {
    if depth >= MAX_DEPTH {
        return Err(LogError::foreign(parent.path_of(name), "it lies too deep"));
    }
    let Some(dir) = parent.enter(name)? else { return Ok(()) };
    empty(&dir, depth, removed)?;
    *removed += parent.unlink_dir(name)?;
    Ok(())
}

/// Removes the content of a directory, batch after batch, as long as each batch removes something.
fn empty(dir: &Dir, depth: usize, removed: &mut RemovedStats) -> Result<(), LogError> {
    loop {
        let names = dir.names(BATCH, |_| true)?;
        let before = removed.entries;
        let mut failure = None;
        for name in &names {
            if let Err(error) = remove_entry(dir, name, depth, removed) {
                failure.get_or_insert(error);
            }
        }
        match failure {
            Some(error) if names.len() < BATCH || removed.entries == before => return Err(error.nested()),
            None if names.len() < BATCH => return Ok(()),
            _ => {}
        }
    }
}

fn remove_entry(dir: &Dir, name: &OsStr, depth: usize, removed: &mut RemovedStats) -> Result<(), LogError> {
    if removed.entries >= MAX_ENTRIES {
        return Err(LogError::foreign(dir.path_of(name), "the directory is too large for one pass"));
    }
    match dir.entry(name)? {
        None => Ok(()),
        Some(DirEntry { kind: EntryKind::Directory, .. }) => remove_dir(dir, name, depth + 1, removed),
        Some(entry) => dir.unlink(name, entry).map(|freed| *removed += freed),
    }
}
