//! Removes a tree, or some files of one directory, starting from an open directory.
//!
//! Memory and descriptors are bounded whatever lies there: one descriptor and one batch of names for each level, and a
//! limit on levels. What cannot be removed is passed over, so that one bad entry does not save the rest; the first such
//! error is told.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::dir::{Entry, Folder};
use super::{Erased, LogError};
use crate::model::EntryKind;

/// Names read at a time.
const BATCH: usize = 512;
/// The most levels: a kubelet makes two. Each costs a descriptor.
const MAX_DEPTH: usize = 64;
/// The most entries that one removal takes, so that a writer who is faster than we are cannot keep us here. The next
/// pass goes on.
const MAX_ENTRIES: u64 = if cfg!(test) { 2_000 } else { 1_000_000 };

/// Removes the directory `name` with all that is in it. Something else by that name stays.
pub fn remove_tree(parent: &Folder, name: &OsStr) -> Result<Erased, LogError> {
    let mut erased = Erased::default();
    remove_dir(parent, name, 0, &mut erased)?;
    Ok(erased)
}

/// Removes the files that begin with a log file's name: the live one, rotated, compressed and temporary ones.
pub fn remove_logs(folder: &mut Folder, log: &OsStr) -> Result<Erased, LogError> {
    let mut erased = Erased::default();
    loop {
        let names = folder.names(BATCH, |name| is_log_of(name, log))?;
        let before = erased.entries;
        for name in &names {
            remove_file(folder, name, &mut erased)?;
        }
        if names.len() < BATCH || erased.entries == before {
            return Ok(erased);
        }
    }
}

/// Removes `name` if it is a symbolic link. Something else by that name stays.
pub fn remove_link(folder: &Folder, name: &OsStr) -> Result<Erased, LogError> {
    match folder.look(name)? {
        None => Ok(Erased::default()),
        Some(entry) if entry.kind == EntryKind::Symlink => folder.unlink(name, entry),
        Some(_) => Err(LogError::foreign(folder.path_of(name), "it is not a symbolic link")),
    }
}

/// Says whether a file belongs to a log: `0.log` has `0.log.20260102-150405.gz`, but neither `0.log2` nor `10.log`.
fn is_log_of(name: &OsStr, log: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(log.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Removes a file or a link; a directory that has a log's name is none, and stays for its pod's end.
fn remove_file(folder: &Folder, name: &OsStr, erased: &mut Erased) -> Result<(), LogError> {
    let Some(entry) = folder.look(name)? else { return Ok(()) };
    if entry.kind != EntryKind::Directory {
        *erased += folder.unlink(name, entry)?;
    }
    Ok(())
}

fn remove_dir(parent: &Folder, name: &OsStr, depth: usize, erased: &mut Erased) -> Result<(), LogError> {
    if depth >= MAX_DEPTH {
        return Err(LogError::foreign(parent.path_of(name), "it lies too deep"));
    }
    let Some(mut folder) = parent.enter(name)? else { return Ok(()) };
    empty(&mut folder, depth, erased)?;
    *erased += parent.unlink_dir(name)?;
    Ok(())
}

/// Removes what is in a directory, batch after batch, as long as that gets anywhere.
fn empty(folder: &mut Folder, depth: usize, erased: &mut Erased) -> Result<(), LogError> {
    loop {
        let names = folder.names(BATCH, |_| true)?;
        let before = erased.entries;
        let mut failure = None;
        for name in &names {
            if let Err(error) = remove_entry(folder, name, depth, erased) {
                failure.get_or_insert(error);
            }
        }
        match failure {
            Some(error) if names.len() < BATCH || erased.entries == before => return Err(error.nested()),
            None if names.len() < BATCH => return Ok(()),
            _ => {}
        }
    }
}

fn remove_entry(folder: &Folder, name: &OsStr, depth: usize, erased: &mut Erased) -> Result<(), LogError> {
    if erased.entries >= MAX_ENTRIES {
        return Err(LogError::foreign(folder.path_of(name), "there is too much for one pass"));
    }
    match folder.look(name)? {
        None => Ok(()),
        Some(Entry { kind: EntryKind::Directory, .. }) => remove_dir(folder, name, depth + 1, erased),
        Some(entry) => folder.unlink(name, entry).map(|gone| *erased += gone),
    }
}
