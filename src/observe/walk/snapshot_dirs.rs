//! Directories of containerd's snapshotter that its database does not have, as after a crash or a full disk. containerd removes them
//! with the next snapshot that it collects, or never.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rustix::fs::CWD;

use super::bolt::Bolt;
use super::{names, open_directory, stat};
use crate::model::{DirUsage, PathUsage};

/// How long ago a directory was last changed: one that is just made or being removed is not left over.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// How often the database is read if it changes meanwhile.
const ATTEMPTS: usize = 3;

/// Returns the directories in `snapshots` beneath that of the snapshotter that are in no entry of `metadata.db` (containerd 1.6 to
/// 2.1, `snapshots/storage/bolt.go`), as `measure` sees them. The directories are listed first: one that is made later is not among
/// them.
///
/// # Errors
/// The directory or the database cannot be read.
pub(super) fn find(
    snapshotter: &Path,
    on_host: &Path,
    now: Timestamp,
    mut measure: impl FnMut(BorrowedFd, &str) -> io::Result<DirUsage>,
) -> io::Result<Vec<PathUsage>> {
    let directory = open_directory(CWD, snapshotter.join("snapshots"))?;
    let listed: Vec<_> = names(&directory);
    let known = known(&snapshotter.join("metadata.db"))?;
    let mut found = Vec::new();
    for name in listed {
        let text = name.to_string_lossy();
        if !known.contains(&*text) && stat(directory.as_fd(), &*name)?.stx_mtime.tv_sec < (now - SETTLED).as_second() {
            let usage = measure(directory.as_fd(), &text)?;
            let path = on_host.join("snapshots").join(&*text).display().to_string();
            found.push(PathUsage { path, is_kubelets: false, usage });
        }
    }
    Ok(found)
}

/// Returns the names of the directories that the database has.
fn known(database: &Path) -> io::Result<HashSet<String>> {
    let mut last = Err(io::ErrorKind::NotFound.into());
    for _ in 0..ATTEMPTS {
        last = read(database);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn read(database: &Path) -> io::Result<HashSet<String>> {
    let bolt = Bolt::open(database)?;
    let mut known = HashSet::new();
    let Some(snapshots) = bolt.bucket(&["v1", "snapshots"])? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no snapshots"));
    };
    for snapshot in bolt.entries(&snapshots)?.into_iter().filter(|entry| entry.is_bucket) {
        let fields = bolt.entries(&snapshot.bucket()?)?;
        let id = fields.iter().find(|field| field.key == b"id").and_then(|field| varint(&field.value));
        known.insert(id.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a snapshot has no id"))?.to_string());
    }
    bolt.check_unchanged()?;
    Ok(known)
}

/// Reads a number in the encoding of Go's `binary.PutUvarint`.
fn varint(bytes: &[u8]) -> Option<u64> {
    let last = bytes.iter().position(|byte| *byte < 0x80).filter(|last| *last < 9)?;
    Some(bytes.get(..=last)?.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)))
}
