//! The history of `kubegc controller`: which objects it deleted or changed, why, and by which command. It is in a file of
//! SQLite, written by a thread of its own: a frozen disk delays no collection.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::database::file;
use super::database::reader::StoreReader;
use super::database::sql_types::{integer, moment, nanos};
use super::store_error::StoreError;

/// The entries that are kept: tenants decide how many objects are deleted (G5).
const KEPT: i64 = 100_000;
/// Entries that wait for the disk. What comes beyond is lost, and that is logged once.
const WAITING: usize = 10_000;
/// How long the end of a command waits for the disk.
const CLOSING: Duration = Duration::from_secs(10);

const TABLE: &str = "CREATE TABLE IF NOT EXISTS deletions (
     id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
     at INTEGER NOT NULL, command TEXT NOT NULL, cluster TEXT NOT NULL, action TEXT NOT NULL,
     api_version TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL,
     owners TEXT NOT NULL, reason TEXT NOT NULL, result TEXT NOT NULL
 ) STRICT";
const COLUMNS: &str = "at, command, cluster, action, api_version, kind, namespace, name, uid, owners, reason, result";

/// A change of an object of a cluster.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DeletionEntry {
    /// When.
    pub at: Timestamp,
    /// The command, as `controller collect`.
    pub command: String,
    /// The address of the API server, and the credentials.
    pub cluster: String,
    /// What was done, as in reports.
    pub action: String,
    /// The kind of the object.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// Its owners at that moment, as `Deployment/web`, with commas.
    pub owners: String,
    /// Why, as in plans.
    pub reason: String,
    /// The result, as in reports.
    pub result: String,
}

/// Writes the history.
#[derive(Debug)]
pub struct DeletionLog {
    sender: Option<SyncSender<DeletionEntry>>,
    thread: Option<JoinHandle<()>>,
    /// An entry was lost.
    has_lost: AtomicBool,
    /// The thread has ended.
    done: Mutex<Receiver<()>>,
}

// === impl DeletionLog ===

impl DeletionLog {
    /// Opens the file, and creates it (mode 0600) and its directory (0700) if they do not exist. It may be that of a store.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program, is damaged, or cannot be written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = file::open(path).map_err(|fault| fault.into_error(path).of_history())?;
        let created = connection.execute_batch(TABLE);
        created.map_err(|cause| StoreError::Open { path: path.to_owned(), cause })?;
        let ((sender, entries), (ended, done)) = (sync_channel(WAITING), sync_channel(1));
        let path = path.to_owned();
        let thread = std::thread::spawn(move || {
            write_all(&connection, &path, &entries);
            // The receiver may have stopped to wait.
            let _ = ended.send(());
        });
        Ok(Self {
            sender: Some(sender),
            thread: Some(thread),
            has_lost: AtomicBool::new(false),
            done: Mutex::new(done),
        })
    }

    /// Reads the entries of a file, newest first, at most this many; those of a namespace, if one is given.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read.
    pub fn read(path: &Path, limit: usize, namespace: Option<&str>) -> Result<Vec<DeletionEntry>, StoreError> {
        let reader = StoreReader::open(path).map_err(StoreError::of_history)?;
        reader.map_or_else(|| Ok(Vec::new()), |reader| reader.deletions(limit, namespace))
    }

    /// Adds an entry. It never waits.
    pub fn add(&self, entry: DeletionEntry) {
        let is_lost = self.sender.as_ref().is_some_and(|sender| sender.try_send(entry).is_err());
        if is_lost && !self.has_lost.swap(true, Ordering::Relaxed) {
            tracing::warn!("the history of deletions is not complete: its disk is too slow, or cannot be written");
        }
    }
}

impl Drop for DeletionLog {
    /// Waits for the disk, for a time.
    fn drop(&mut self) {
        self.sender = None;
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_done = done.recv_timeout(CLOSING) != Err(RecvTimeoutError::Timeout);
        if let Some(thread) = self.thread.take().filter(|_| is_done) {
            let _ = thread.join();
        }
    }
}

/// Writes entries until there is no sender any more.
fn write_all(connection: &Connection, path: &Path, entries: &Receiver<DeletionEntry>) {
    let mut has_failed = false;
    while let Ok(first) = entries.recv() {
        // One write for all that waits.
        let batch: Vec<_> = std::iter::once(first).chain(entries.try_iter()).collect();
        if let Err(cause) = write(connection, &batch)
            && !std::mem::replace(&mut has_failed, true)
        {
            tracing::warn!(path = %path.display(), %cause, "the history of deletions cannot be written");
        }
    }
}

fn write(connection: &Connection, batch: &[DeletionEntry]) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    let insert =
        format!("INSERT INTO deletions ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)");
    for entry in batch {
        let DeletionEntry { command, cluster, action, api_version, kind, namespace, name, uid, .. } = entry;
        let at = nanos(entry.at);
        let (owners, reason, result) = (&entry.owners, &entry.reason, &entry.result);
        let values =
            params![at, command, cluster, action, api_version, kind, namespace, name, uid, owners, reason, result];
        transaction.prepare_cached(&insert)?.execute(values)?;
    }
    transaction.execute("DELETE FROM deletions WHERE id <= (SELECT max(id) FROM deletions) - ?1", [KEPT])?;
    transaction.commit()
}

// === impl StoreReader ===

impl StoreReader {
    fn deletions(&self, limit: usize, namespace: Option<&str>) -> Result<Vec<DeletionEntry>, StoreError> {
        self.read("the history of deletions", |connection| {
            let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'deletions'";
            if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
                return Ok(Vec::new());
            }
            let query =
                format!("SELECT {COLUMNS} FROM deletions WHERE ?1 IS NULL OR namespace = ?1 ORDER BY id DESC LIMIT ?2");
            let mut statement = connection.prepare(&query)?;
            statement.query_map(params![namespace, integer(limit as u64)], entry)?.collect()
        })
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<DeletionEntry> {
    Ok(DeletionEntry {
        at: moment(row.get(0)?),
        command: row.get(1)?,
        cluster: row.get(2)?,
        action: row.get(3)?,
        api_version: row.get(4)?,
        kind: row.get(5)?,
        namespace: row.get(6)?,
        name: row.get(7)?,
        uid: row.get(8)?,
        owners: row.get(9)?,
        reason: row.get(10)?,
        result: row.get(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: usize) -> DeletionEntry {
        let text = |text: &str| text.to_owned();
        DeletionEntry {
            at: Timestamp::UNIX_EPOCH,
            command: text("controller collect"),
            cluster: text("https://api.example"),
            action: text("delete"),
            api_version: text("v1"),
            kind: text("ConfigMap"),
            namespace: format!("ns{}", number % 2),
            name: format!("map{number}"),
            uid: format!("uid{number}"),
            owners: text("ConfigMap/gone"),
            reason: text("owners_absent"),
            result: text("removed"),
        }
    }

    #[test]
    fn entries_are_there_after_a_restart_newest_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/controller.db");
        for from in [0, 500] {
            let log = DeletionLog::open(&path).unwrap();
            (from..from + 500).for_each(|number| log.add(numbered(number)));
        }
        let reader = StoreReader::open(&path).unwrap().unwrap();
        let all = reader.deletions(2000, None).unwrap();
        assert_eq!((all.len(), &all[0], &all[999]), (1000, &numbered(999), &numbered(0)));
        let some = reader.deletions(2, Some("ns0")).unwrap();
        assert_eq!(some, [numbered(998), numbered(996)]);
    }

    /// No run renames it, unlike the store of a node.
    #[test]
    fn a_damaged_history_is_to_be_moved_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("controller.db");
        std::fs::write(&path, "no database").unwrap();
        for error in [DeletionLog::open(&path).unwrap_err(), DeletionLog::read(&path, 1, None).unwrap_err()] {
            let text = error.to_string();
            assert!(text.starts_with("the history of deletions") && text.contains("move the file away"), "{text}");
        }
        std::fs::rename(&path, directory.path().join("away.db")).unwrap();
        drop(DeletionLog::open(&path).unwrap());
        assert_eq!(DeletionLog::read(&path, 1, None).unwrap(), []);
    }

    #[test]
    fn a_store_of_a_node_has_no_deletions() {
        assert_eq!(StoreReader::empty().unwrap().deletions(10, None).unwrap(), []);
    }
}
