//! Opens the file of the store, and renames a damaged one.
//!
//! This module does not depend on the contents of the tables. A process that opens the file for writing holds the
//! [`crate::record::Lock`], so no other process writes or renames the file meanwhile. Readers may have it open at any time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::copy::transfer;
use super::fault::{Cause, FileFault, dir_of, is_full_kind};
use super::migrations::{self, MIGRATIONS, SchemaStatus};
use crate::record::store_error::StoreError;

/// The longest wait of a statement for another program's transaction. A reader never blocks a writer, so this only
/// matters when two programs migrate an old file at the same time. A pass waits for it once.
pub(super) const BUSY: Duration = Duration::from_secs(2);
/// The suffix of SQLite's log.
pub(super) const LOG: &str = "-wal";
/// The suffix of the copy of a store before its migration.
const OLD: &str = ".before-migration";
/// The suffixes of the files that SQLite creates beside the database: its log, and the index of the log.
const COMPANIONS: [&str; 2] = [LOG, "-shm"];
/// The error text for an empty file with a log that is not empty.
pub(super) const EMPTIED: &str = "it is empty beside a log that is not";

/// The first bytes of every SQLite file.
const HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Opens the file for writing, creates it and its directory if they do not exist, and migrates it to the current
/// schema.
pub(in crate::record) fn open(path: &Path) -> Result<Connection, FileFault> {
    make_dir(dir_of(path))?;
    make_file(path)?;
    let had_log = with_suffix(path, LOG).exists();
    if is_emptied(path) {
        return Err(FileFault::Damaged(EMPTIED.to_owned()));
    }
    if is_overwritten(path) {
        return Err(FileFault::Damaged("file is not a database".to_owned()));
    }
    let mut connection = connect(path).map_err(|error| FileFault::of(path, error))?;
    if let Err(fault) = check(path, &connection) {
        keep_log(&connection, had_log).map_err(|error| FileFault::of(path, error))?;
        return Err(fault);
    }
    if let Err(fault) = keep_old(path, &connection) {
        let cause = Cause::from(fault).text;
        tracing::warn!(path = %path.display(), cause, "cannot copy the store before its migration; a rollback will have no history");
    }
    prepare(&mut connection).map_err(|error| FileFault::of(path, error))?;
    Ok(connection)
}

/// Copies a file of an older schema before its migration, for a rollback. There is one copy: the next migration replaces it.
fn keep_old(path: &Path, connection: &Connection) -> Result<(), FileFault> {
    let (of_sqlite, of_system) = (|error| FileFault::of(path, error), |error| FileFault::of_io(path, error));
    let version = migrations::version(connection).map_err(of_sqlite)? as usize;
    if version == 0 || version == MIGRATIONS.len() {
        return Ok(());
    }
    let to = with_suffix(path, OLD);
    let name = with_suffix(Path::new(to.file_name().unwrap_or_default()), ".tmp");
    // Its name is fixed, so that a kill leaves one behind at most.
    let create = |path: &Path| OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let unfinished = tempfile::Builder::new().prefix(&name).rand_bytes(0).make_in(dir_of(path), create);
    let unfinished = unfinished.map_err(of_system)?;
    let mut copy = connect(unfinished.path()).map_err(of_sqlite)?;
    // A file that is not complete never gets the name of the copy, so it needs no journal.
    copy.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(())).map_err(of_sqlite)?;
    transfer(connection, &mut copy).map_err(of_sqlite)?;
    drop(copy);
    unfinished.as_file().sync_all().map_err(of_system)?;
    unfinished.persist(to).map(drop).map_err(|error| of_system(error.error))
}

/// Creates a directory with mode 0700. Does not change a directory that already exists.
fn make_dir(dir: &Path) -> Result<(), FileFault> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|cause| match cause.kind() {
        kind if is_full_kind(kind) => FileFault::Full(cause.to_string()),
        _ => StoreError::CreateDir { dir: dir.to_owned(), cause }.into(),
    })
}

/// Creates the file before SQLite does, with mode 0600, so that only its owner can read it. SQLite creates its log and
/// the index with the same mode.
fn make_file(path: &Path) -> Result<(), FileFault> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.map(drop).map_err(|cause| FileFault::of_io(path, cause))
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
pub(super) fn is_emptied(path: &Path) -> bool {
    let length = |path: &Path| path.metadata().map_or(0, |file| file.len());
    length(path) == 0 && length(&with_suffix(path, LOG)) > 0
}

/// Checks whether this program can use the file.
///
/// The check reads the whole file, which takes some milliseconds for a full history. Otherwise a damaged page would be
/// found in the middle of a pass, and would stop every pass that reads it.
pub(super) fn check(path: &Path, connection: &Connection) -> Result<(), FileFault> {
    match migrations::schema_status(connection, MIGRATIONS).map_err(|error| FileFault::of(path, error))? {
        SchemaStatus::Usable => {}
        SchemaStatus::NotOurs => return Err(StoreError::NotOurs { path: path.to_owned() }.into()),
        SchemaStatus::Newer(found) => {
            let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
            return Err(StoreError::Newer { path: path.to_owned(), found, known }.into());
        }
    }
    match connection.pragma_query_value(None, "quick_check", |row| row.get::<_, String>(0)) {
        Ok(answer) if answer == "ok" => Ok(()),
        Ok(answer) => Err(FileFault::Damaged(answer)),
        Err(error) => Err(FileFault::of(path, error)),
    }
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // 512 KiB: the default of 2 MiB is as much as the rest of an idle agent. Pages come from the system's cache.
    connection.pragma_update(None, "cache_size", -512)?;
    migrations::migrate(connection, MIGRATIONS)
}

/// Creates an empty store in memory.
pub(super) fn in_memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    migrations::migrate(&mut connection, MIGRATIONS)?;
    Ok(connection)
}

/// Renames a damaged file and its log to a free name: `kubegc.db.corrupt-1` and so on.
///
/// The log is renamed first. SQLite would delete a log without its file when it creates the new file, and a kill
/// between the two steps must not lose the log.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let to = free_name(path);
    for suffix in COMPANIONS.into_iter().chain([""]) {
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
        COMPANIONS.into_iter().chain([""]).all(|suffix| with_suffix(name, suffix).symlink_metadata().is_err())
    };
    let mut names = (1_u64..).map(|number| with_suffix(path, &format!(".corrupt-{number}")));
    names.find(is_free).unwrap_or_else(|| with_suffix(path, ".corrupt"))
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Identifies the file that was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::record) struct Identity(Option<(u64, u64)>);

// === impl Identity ===

impl Identity {
    pub(in crate::record) fn of(path: &Path) -> Self {
        Self(path.metadata().ok().map(|file| (file.dev(), file.ino())))
    }

    pub(in crate::record) fn of_file(file: &File) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_name_is_unused_by_the_whole_set() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("kubegc.db");
        std::fs::write(with_suffix(&path, ".corrupt-1"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", with_suffix(&path, ".corrupt-2-shm")).unwrap();
        assert_eq!(free_name(&path), with_suffix(&path, ".corrupt-3"));
    }
}
