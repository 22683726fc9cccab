//! Removes a tree, or some files of one directory, starting from an open directory.
//!
//! Memory and descriptors are bounded whatever lies there: one descriptor and one batch of names for each level, and a
//! limit on levels. What cannot be removed is passed over, so that one bad entry does not save the rest; the first such
//! error is told.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::dir::{Dir, DirEntry};
use super::{LogError, RemovedStats};
use crate::model::EntryKind;

/// Names read at a time.
const BATCH: usize = 512;
/// The most levels: a kubelet makes two. Each costs a descriptor.
const MAX_DEPTH: usize = 64;
/// The most entries that one removal takes, so that a writer who is faster than we are cannot keep us here. The next
/// pass goes on.
const MAX_ENTRIES: u64 = if cfg!(test) { 2_000 } else { 1_000_000 };

/// Removes the directory `name` with all that is in it. Something else by that name stays.
pub fn remove_tree(parent: &Dir, name: &OsStr) -> Result<RemovedStats, LogError> {
    let mut removed = RemovedStats::default();
    remove_dir(parent, name, 0, &mut removed)?;
    Ok(removed)
}

/// Removes the files that begin with a log file's name: the live one, rotated, compressed and temporary ones.
pub fn remove_logs(dir: &mut Dir, log: &OsStr) -> Result<RemovedStats, LogError> {
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

/// Removes `name` if it is a symbolic link. Something else by that name stays.
pub fn remove_link(dir: &Dir, name: &OsStr) -> Result<RemovedStats, LogError> {
    match dir.look(name)? {
        None => Ok(RemovedStats::default()),
        Some(entry) if entry.kind == EntryKind::Symlink => dir.unlink(name, entry),
        Some(_) => Err(LogError::foreign(dir.path_of(name), "it is not a symbolic link")),
    }
}

/// Says whether a file belongs to a log: `0.log` has `0.log.20260102-150405.gz`, but neither `0.log2` nor `10.log`.
fn is_log_of(name: &OsStr, log: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(log.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Removes a file or a link; a directory that has a log's name is none, and stays for its pod's end.
fn remove_file(dir: &Dir, name: &OsStr, removed: &mut RemovedStats) -> Result<(), LogError> {
    let Some(entry) = dir.look(name)? else { return Ok(()) };
    if entry.kind != EntryKind::Directory {
        *removed += dir.unlink(name, entry)?;
    }
    Ok(())
}

fn remove_dir(parent: &Dir, name: &OsStr, depth: usize, removed: &mut RemovedStats) -> Result<(), LogError> {
    if depth >= MAX_DEPTH {
        return Err(LogError::foreign(parent.path_of(name), "it lies too deep"));
    }
    let Some(mut dir) = parent.enter(name)? else { return Ok(()) };
    empty(&mut dir, depth, removed)?;
    *removed += parent.unlink_dir(name)?;
    Ok(())
}

/// Removes what is in a directory, batch after batch, as long as that gets anywhere.
fn empty(dir: &mut Dir, depth: usize, removed: &mut RemovedStats) -> Result<(), LogError> {
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
        return Err(LogError::foreign(dir.path_of(name), "there is too much for one pass"));
    }
    match dir.look(name)? {
        None => Ok(()),
        Some(DirEntry { kind: EntryKind::Directory, .. }) => remove_dir(dir, name, depth + 1, removed),
        Some(entry) => dir.unlink(name, entry).map(|gone| *removed += gone),
    }
}
