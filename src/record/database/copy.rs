//! Copies the file of the store to memory, where a command reads it while an agent may write to the file.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::fault::FileFault;
use super::file::{BUSY, EMPTIED, LOG, check, in_memory, is_emptied, keep_log, with_suffix};
use super::migrations::{self, MIGRATIONS};
use crate::host_path::BoundedCalls;
use crate::model::Memory;
use crate::record::memory::read_memory;
use crate::record::store_error::StoreError;

/// How many times a copy starts again because the file changed during the copy.
const COPIES: usize = 10;

/// Whether another process may use the file during the copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CopyMode {
    /// An agent may use the file, and the copy must not disturb it.
    Shared,
    /// The caller holds the lock. Works without free space on the disk.
    Exclusive,
}

/// Values that show whether a file changed: its identity, its length, its last change, and whether it has a log.
#[derive(Debug, Eq, PartialEq)]
struct FileStamp {
    file: Option<(u64, u64, i64, i64)>,
    has_log: bool,
}

// === impl FileStamp ===

impl FileStamp {
    fn at(path: &Path) -> Self {
        let key = |file: Metadata| (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        Self { file: path.metadata().ok().map(key), has_log: with_suffix(path, LOG).exists() }
    }
}

/// Copies the file to memory and migrates the copy to the current schema. The file does not change. `None` = there is
/// no file.
///
/// A dry run reads the store this way. A read-only connection would be enough for reading, but SQLite creates a missing
/// index of the log again. The copy also allows migrating an older file. How the file is read depends on its log:
/// - With a log: an agent is running, or one was killed. The copy uses SQLite's own locks. Only the index of the log
///   changes, which is a named piece of shared memory.
/// - Without a log: the file was closed cleanly, and no process has it open. The copy reads it as immutable, without
///   locks and without creating a log. If the file changes meanwhile, the copy starts again.
pub(super) fn copy(path: &Path, mode: CopyMode) -> Result<Option<Connection>, FileFault> {
    match File::open(path).and_then(|file| file.metadata()) {
        Ok(_) if is_emptied(path) => return Err(FileFault::Damaged(EMPTIED.to_owned())),
        Ok(file) if file.len() == 0 => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(StoreError::Access { path: path.to_owned(), cause }.into()),
    }
    let mut copy = read_whole(path, mode).map_err(|error| FileFault::of(path, error))?;
    check(path, &copy)?;
    migrations::migrate(&mut copy, MIGRATIONS).map_err(|error| FileFault::of(path, error))?;
    Ok(Some(copy))
}

fn read_whole(path: &Path, mode: CopyMode) -> rusqlite::Result<Connection> {
    for _ in 0..COPIES {
        let before = FileStamp::at(path);
        let source = source(path, &before, mode)?;
        source.busy_timeout(BUSY)?;
        let mut copy = Connection::open_in_memory()?;
        transfer(&source, &mut copy)?;
        if before.has_log || FileStamp::at(path) == before {
            return Ok(copy);
        }
    }
    Err(busy())
}

/// Opens a file only for a copy.
fn source(path: &Path, stamp: &FileStamp, mode: CopyMode) -> rusqlite::Result<Connection> {
    match (stamp.has_log, mode) {
        (false, _) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable_uri(path), flags)
        }
        (true, CopyMode::Shared) => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY),
        (true, CopyMode::Exclusive) => {
            // With the exclusive lock, SQLite keeps the index of the log on the heap. A full disk has no room for it.
            let source = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            keep_log(&source, true)?;
            source.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
            Ok(source)
        }
    }
}

/// Copies the data of an open connection to memory, page by page. `None` if the copy fails or is damaged.
pub(super) fn checked_copy(path: &Path, from: &Connection) -> Option<Connection> {
    let mut copy = Connection::open_in_memory().ok()?;
    transfer(from, &mut copy).ok()?;
    check(path, &copy).ok()?;
    Some(copy)
}

/// Replaces all data in `to` with all data in `from`, in one transaction.
pub(super) fn transfer(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    match Backup::new(from, to)?.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(busy()),
    }
}

/// Returns the path as an SQLite URI. The `immutable` option exists only in URIs.
fn immutable_uri(path: &Path) -> OsString {
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'?' | b'#' | b'%' => uri.extend(format!("%{byte:02X}").bytes()),
            _ => uri.push(byte),
        }
    }
    uri.extend(b"?immutable=1");
    OsString::from_vec(uri)
}

fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}

/// What a file has: the memory and the history.
#[derive(Debug)]
pub struct StoreReader {
    path: PathBuf,
    connection: Connection,
}

// === impl StoreReader ===

impl StoreReader {
    /// Reads the file. It and its directory do not change. `None` = there is no store yet.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program, is damaged, or cannot be read.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let copy = copy(path, CopyMode::Shared).map_err(|fault| fault.into_error(path))?;
        Ok(copy.map(|connection| Self { path: path.to_owned(), connection }))
    }

    /// Reads nothing, for a node without a store.
    ///
    /// # Errors
    /// None in practice: SQLite is out of memory.
    pub fn empty() -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        match in_memory() {
            Ok(connection) => Ok(Self { path, connection }),
            Err(cause) => Err(StoreError::Open { path, cause }),
        }
    }

    /// Returns what earlier passes learned. `agent_started_at` is the beginning of this memory; `None` = no pass has stored
    /// anything yet. A one-shot run counts from it, the service from its own start.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn memory(&self) -> Result<Memory, StoreError> {
        self.read("the memory", read_memory)
    }

    /// Reads with `work`; `what` names the data in errors.
    pub(in crate::record) fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|cause| StoreError::Read { what, path: self.path.clone(), cause })
    }
}

/// Runs `read` in a blocking thread, for one look at a store.
///
/// # Errors
/// Those of `read`, or [`StoreError::Access`] if the file system of `path` does not respond within the limit.
pub async fn read_within<T: Send + 'static>(
    limit: Duration,
    path: &Path,
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let blocked = |error| StoreError::Access { path: path.to_owned(), cause: io::Error::other(error) };
    BoundedCalls::new(limit).run(path, read).await.map_err(blocked)?
}
