//! Opens, copies and, if it is damaged, renames the file of the store.
//!
//! This module does not depend on the contents of the tables. A process that opens the file for writing holds the
//! [`super::Lock`], so no other process writes or renames the file meanwhile. Readers may have it open at any time.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::{StoreError, StoreNote, is_damage};
use super::migrations::{self, MIGRATIONS, SchemaStatus};

/// The longest wait of a statement for another program's transaction. A reader never blocks a writer, so this only
/// matters when two programs migrate an old file at the same time. A pass waits at most once or twice. After that, the
/// store continues in memory.
const BUSY: Duration = Duration::from_secs(2);
/// How many times a copy starts again because the file changed during the copy.
const COPIES: usize = 10;
/// The suffix of SQLite's log.
const LOG: &str = "-wal";
/// The suffixes of the files that SQLite creates beside the database: its log, and the index of the log.
const BESIDE: [&str; 2] = [LOG, "-shm"];
/// The error text for an empty file with a log that is not empty.
const EMPTIED: &str = "it is empty beside a log that is not";

/// The first bytes of every SQLite file.
const HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Why a file could not be opened.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no free space to open it; the cause.
    Full(String),
    /// The file is damaged; SQLite's description.
    Damaged(String),
    /// A fault that needs an administrator.
    Error(StoreError),
}

/// Whether another process may use the file during the copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CopyMode {
    /// An agent may use the file, and the copy must not disturb it.
    Shared,
    /// The caller holds the lock. Works without free space on the disk.
    Exclusive,
}

// === impl Trouble ===

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Error(error)
    }
}

/// Opens the file for writing, creates it and its directory if they do not exist, and migrates it to the current
/// schema.
pub(super) fn open(path: &Path) -> Result<Connection, Trouble> {
    make_dir(dir_of(path))?;
    make_file(path)?;
    let had_log = Look::at(path).has_log;
    if is_emptied(path) {
        return Err(Trouble::Damaged(EMPTIED.to_owned()));
    }
    if is_overwritten(path) {
        return Err(Trouble::Damaged("file is not a database".to_owned()));
    }
    let mut connection = connect(path).map_err(|error| classify(path, error))?;
    if let Err(trouble) = check(path, &connection) {
        keep_log(&connection, had_log).map_err(|error| classify(path, error))?;
        return Err(trouble);
    }
    prepare(&mut connection).map_err(|error| classify(path, error))?;
    Ok(connection)
}

/// Opens the file as [`open`] does. Renames a damaged file and creates a new one.
pub(super) fn open_or_begin(path: &Path, notes: &mut Vec<StoreNote>) -> Result<Connection, Trouble> {
    match open(path) {
        Err(Trouble::Damaged(detail)) => {
            let to = set_aside(path)?;
            notes.push(StoreNote::SetAside { path: path.to_owned(), to, detail });
            open(path)
        }
        opened => opened,
    }
}

/// Returns the directory of a file.
pub(super) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a directory with mode 0700. Does not change a directory that already exists.
fn make_dir(dir: &Path) -> Result<(), Trouble> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|cause| match cause.kind() {
        kind if is_full_kind(kind) => Trouble::Full(cause.to_string()),
        _ => StoreError::CreateDir { dir: dir.to_owned(), cause }.into(),
    })
}

/// Creates the file before SQLite does, with mode 0600, so that only its owner can read it. SQLite creates its log and
/// the index with the same mode.
fn make_file(path: &Path) -> Result<(), Trouble> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.map(drop).map_err(|cause| of_io(path, cause))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Sets whether SQLite keeps the log when the last connection closes. By default, SQLite writes the log into the file
/// and deletes it. That is wrong for a file that is damaged or that must not change.
pub(super) fn keep_log(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Returns whether a file is not an SQLite file, even if its log is valid. The log could hide this until the file is
/// read without the log.
fn is_overwritten(path: &Path) -> bool {
    let has_content = path.metadata().is_ok_and(|file| file.len() > 0);
    has_content && matches!(Identity::of(path).difference(path), Some((_, true)))
}

/// Returns whether a file with a log lost all its content. SQLite would delete the log.
fn is_emptied(path: &Path) -> bool {
    let length = |path: &Path| path.metadata().map_or(0, |file| file.len());
    length(path) == 0 && length(&with_suffix(path, LOG)) > 0
}

/// Checks whether this program can use the file.
///
/// The check reads the whole file, which takes some milliseconds for a full history. Otherwise a damaged page would be
/// found in the middle of a pass, and would stop every pass that reads it.
fn check(path: &Path, connection: &Connection) -> Result<(), Trouble> {
    match migrations::schema_status(connection, MIGRATIONS).map_err(|error| classify(path, error))? {
        SchemaStatus::Usable => {}
        SchemaStatus::NotOurs => return Err(StoreError::NotOurs { path: path.to_owned() }.into()),
        SchemaStatus::Newer(found) => {
            let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
            return Err(StoreError::Newer { path: path.to_owned(), found, known }.into());
        }
    }
    match connection.pragma_query_value(None, "quick_check", |row| row.get::<_, String>(0)) {
        Ok(answer) if answer == "ok" => Ok(()),
        Ok(answer) => Err(Trouble::Damaged(answer)),
        Err(error) => Err(classify(path, error)),
    }
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    migrations::migrate(connection, MIGRATIONS)
}

/// Creates an empty store in memory.
pub(super) fn in_memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    migrations::migrate(&mut connection, MIGRATIONS)?;
    Ok(connection)
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
pub(super) fn copy(path: &Path, mode: CopyMode) -> Result<Option<Connection>, Trouble> {
    match File::open(path).and_then(|file| file.metadata()) {
        Ok(_) if is_emptied(path) => return Err(Trouble::Damaged(EMPTIED.to_owned())),
        Ok(file) if file.len() == 0 => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(StoreError::Access { path: path.to_owned(), cause }.into()),
    }
    let mut copy = read_whole(path, mode).map_err(|error| classify(path, error))?;
    check(path, &copy)?;
    migrations::migrate(&mut copy, MIGRATIONS).map_err(|error| classify(path, error))?;
    Ok(Some(copy))
}

fn read_whole(path: &Path, mode: CopyMode) -> rusqlite::Result<Connection> {
    for _ in 0..COPIES {
        let before = Look::at(path);
        let source = source(path, &before, mode)?;
        source.busy_timeout(BUSY)?;
        let mut copy = Connection::open_in_memory()?;
        transfer(&source, &mut copy)?;
        if before.has_log || Look::at(path) == before {
            return Ok(copy);
        }
    }
    Err(busy())
}

/// Opens a file only for a copy.
fn source(path: &Path, look: &Look, mode: CopyMode) -> rusqlite::Result<Connection> {
    match (look.has_log, mode) {
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
fn transfer(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    match Backup::new(from, to)?.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(busy()),
    }
}

/// Renames a damaged file and its log to a free name: `kubegc.db.corrupt-1` and so on.
///
/// The log is renamed first. SQLite would delete a log without its file when it creates the new file, and a kill
/// between the two steps must not lose the log.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let to = free_name(path);
    for suffix in BESIDE.into_iter().chain([""]) {
        let (from, to) = (with_suffix(path, suffix), with_suffix(&to, suffix));
        match std::fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(StoreError::SetAside { path: from, to, cause }),
            Ok(()) => {}
        }
    }
    Ok(to)
}

fn free_name(path: &Path) -> PathBuf {
    let is_free = |name: &PathBuf| {
        BESIDE.into_iter().chain([""]).all(|suffix| with_suffix(name, suffix).symlink_metadata().is_err())
    };
    let mut names = (1_u64..).map(|number| with_suffix(path, &format!(".corrupt-{number}")));
    names.find(is_free).unwrap_or_else(|| with_suffix(path, ".corrupt"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns whether a write failed because the disk is full.
///
/// SQLite has an error code for a failed write, but not for a file beside the store that could not be created or
/// extended. In that case the function tries to write to the directory.
pub(super) fn is_full(path: &Path, error: &rusqlite::Error) -> bool {
    matches!(classify_code(path, error), Some(Trouble::Full(_)))
}

fn classify(path: &Path, error: rusqlite::Error) -> Trouble {
    if is_damage(&error) {
        return Trouble::Damaged(error.to_string());
    }
    classify_code(path, &error).unwrap_or_else(|| StoreError::Open { path: path.to_owned(), cause: error }.into())
}

fn classify_code(path: &Path, error: &rusqlite::Error) -> Option<Trouble> {
    match error.sqlite_error_code()? {
        ErrorCode::DiskFull => Some(Trouble::Full(error.to_string())),
        ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly => {
            probe(dir_of(path)).err().and_then(|cause| of_dir(path, cause))
        }
        _ => None,
    }
}

/// Tries to write one page to the directory, in a temporary file.
fn probe(dir: &Path) -> io::Result<()> {
    tempfile::tempfile_in(dir)?.write_all(&[0; 4096])
}

fn of_io(path: &Path, cause: io::Error) -> Trouble {
    let kind = cause.kind();
    if is_full_kind(kind) || is_read_only_kind(kind) {
        return of_dir(path, cause).unwrap_or_else(|| Trouble::Full(kind.to_string()));
    }
    StoreError::Access { path: path.to_owned(), cause }.into()
}

fn of_dir(path: &Path, cause: io::Error) -> Option<Trouble> {
    match cause.kind() {
        kind if is_full_kind(kind) => Some(Trouble::Full(cause.to_string())),
        kind if is_read_only_kind(kind) => Some(StoreError::ReadOnly { dir: dir_of(path).to_owned(), cause }.into()),
        _ => None,
    }
}

fn is_full_kind(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_read_only_kind(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

pub(super) fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
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

/// Identifies the file that was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Identity(Option<(u64, u64)>);

// === impl Identity ===

impl Identity {
    pub(super) fn of(path: &Path) -> Self {
        Self(path.metadata().ok().map(|file| (file.dev(), file.ino())))
    }

    pub(super) fn of_file(file: &File) -> Self {
        Self(file.metadata().ok().map(|file| (file.dev(), file.ino())))
    }

    /// Returns how the file at this path differs from the opened one, and whether it is damaged; `None` = it is the
    /// same file.
    pub(super) fn difference(&self, path: &Path) -> Option<(&'static str, bool)> {
        let mut beginning = [0; HEADER.len()];
        match File::open(path).and_then(|mut file| file.read_exact(&mut beginning)) {
            _ if *self != Self::of(path) => Some(("the file was removed or replaced", false)),
            // An unreadable file is reported by the operations that read it.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => None,
            Ok(()) if beginning == *HEADER => None,
            _ => Some(("the file was overwritten", true)),
        }
    }
}

/// Values that show whether a file changed: its identity, its length, its last change, and whether it has a log.
#[derive(Debug, Eq, PartialEq)]
struct Look {
    file: Option<(u64, u64, i64, i64)>,
    has_log: bool,
}

// === impl Look ===

impl Look {
    fn at(path: &Path) -> Self {
        let key = |file: Metadata| (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        Self { file: path.metadata().ok().map(key), has_log: with_suffix(path, LOG).exists() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(kind: io::ErrorKind) -> Trouble {
        of_io(Path::new("/state/kubegc.db"), kind.into())
    }

    #[test]
    fn no_space_is_distinguished_from_no_permission() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(matches!(trouble(kind), Trouble::Full(_)), "{kind}");
        }
        for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
            let Trouble::Error(error) = trouble(kind) else { panic!("{kind}") };
            let text = format!(
                "the state directory /state cannot be written: {kind}; \
                 make it writable for this user, or set state.path to another place"
            );
            assert_eq!(error.to_string(), text);
        }
        let other = trouble(io::ErrorKind::IsADirectory);
        assert!(matches!(other, Trouble::Error(StoreError::Access { .. })), "{other:?}");
    }

    #[test]
    fn a_free_name_is_one_that_nothing_of_a_set_has() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("kubegc.db");
        std::fs::write(with_suffix(&path, ".corrupt-1"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", with_suffix(&path, ".corrupt-2-shm")).unwrap();
        assert_eq!(free_name(&path), with_suffix(&path, ".corrupt-3"));
    }
}
