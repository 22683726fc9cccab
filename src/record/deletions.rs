//! The history of `kubegc controller`: which objects it deleted or changed, why, and by which command. It is a file of JSON
//! lines, written by a thread of its own: a frozen disk delays no collection. A full file replaces the one before it, `FILE.1`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::store_error::StoreError;

/// The bytes from which a file is full: tenants decide how many objects are deleted (G5).
const FULL: u64 = if cfg!(test) { 1 << 20 } else { 16 << 20 };
/// Entries that wait for the disk. What comes beyond is lost, and that is logged once.
const WAITING: usize = 10_000;
/// How long the end of a command waits for the disk.
const CLOSING: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// A change of an object of a cluster.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
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
    pub name: String,
    pub uid: String,
    /// Its owners at that moment, as `Deployment/web`, with commas.
    pub owners: String,
    /// Why, as in plans.
    pub reason: String,
    /// The result, as in reports.
    pub result: String,
}

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
    /// Opens the file, and creates it (mode 0600) and its directory (0700) if they do not exist.
    ///
    /// # Errors
    /// The file has other data, or cannot be written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        opened(path).map_err(|cause| StoreError::of_history(path, cause))?;
        let ((sender, entries), (ended, done)) = (sync_channel(WAITING), sync_channel(1));
        let path = path.to_owned();
        let thread = std::thread::spawn(move || {
            write_all(&path, &entries);
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

    /// Reads the entries of a file and of the one before, newest first, at most this many; those of a namespace, if one is given.
    ///
    /// # Errors
    /// The file has other data, or cannot be read.
    pub fn read(path: &Path, limit: usize, namespace: Option<&str>) -> Result<Vec<DeletionEntry>, StoreError> {
        let mut entries = Vec::new();
        for path in [path, &before(path)] {
            let text = read(path).map_err(|cause| StoreError::of_history(path, cause))?;
            // A line that was not written whole is none.
            let of_file = text.split(|byte| *byte == b'\n').rev().filter_map(|line| serde_json::from_slice(line).ok());
            let wanted = of_file.filter(|entry: &DeletionEntry| namespace.is_none_or(|name| entry.namespace == name));
            entries.extend(wanted.take(limit - entries.len()));
        }
        Ok(entries)
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
fn write_all(path: &Path, entries: &Receiver<DeletionEntry>) {
    let mut has_failed = false;
    while let Ok(first) = entries.recv() {
        // One write for all that waits.
        let batch: Vec<_> = std::iter::once(first).chain(entries.try_iter()).collect();
        if let Err(cause) = write(path, &batch)
            && !std::mem::replace(&mut has_failed, true)
        {
            tracing::warn!(path = %path.display(), %cause, "the history of deletions cannot be written");
        }
    }
}

/// Adds entries to the file. It is opened each time: another command may have made it the file before.
fn write(path: &Path, batch: &[DeletionEntry]) -> io::Result<()> {
    let mut file = opened(path)?;
    if file.metadata()?.len() >= FULL {
        fs::rename(path, before(path))?;
        file = opened(path)?;
    }
    let mut lines = Vec::new();
    for entry in batch {
        serde_json::to_writer(&mut lines, entry)?;
        lines.push(b'\n');
    }
    file.write_all(&lines)
}

/// Opens a file to add to it.
fn opened(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut begin = Vec::new();
    (&file).take(1).read_to_end(&mut begin)?;
    check(&begin)?;
    Ok(file)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        text => text.and_then(|text| check(&text).map(|()| text)),
    }
}

/// Refuses a file of another kind, such as the store of a node.
fn check(text: &[u8]) -> io::Result<()> {
    let is_other = text.first().is_some_and(|byte| *byte != b'{');
    let error = || io::Error::new(ErrorKind::InvalidData, "it has other data; name another file, or move it away");
    if is_other { Err(error()) } else { Ok(()) }
}

/// Returns the path of the file before.
fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
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
        let path = directory.path().join("state/controller.jsonl");
        assert_eq!(DeletionLog::read(&path, 1, None).unwrap(), []);
        for from in [0, 500] {
            let log = DeletionLog::open(&path).unwrap();
            (from..from + 500).for_each(|number| log.add(numbered(number)));
        }
        let all = DeletionLog::read(&path, 2000, None).unwrap();
        assert_eq!((all.len(), &all[0], &all[999]), (1000, &numbered(999), &numbered(0)));
        let some = DeletionLog::read(&path, 2, Some("ns0")).unwrap();
        assert_eq!(some, [numbered(998), numbered(996)]);
    }

    #[test]
    fn a_full_file_replaces_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("controller.jsonl");
        let batch = |from: usize| (from..from + 5000).map(numbered).collect::<Vec<_>>();
        for from in [0, 5000, 10_000] {
            write(&path, &batch(from)).unwrap();
            assert!(fs::metadata(&path).unwrap().len() > FULL);
        }
        let newest = |count| DeletionLog::read(&path, count, None).unwrap().len();
        assert_eq!((newest(20_000), newest(6000)), (10_000, 6000));
        assert_eq!(DeletionLog::read(&path, 20_000, None).unwrap()[9999], numbered(5000));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_line_that_was_not_written_whole_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("controller.jsonl");
        write(&path, &[numbered(0), numbered(1)]).unwrap();
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(DeletionLog::read(&path, 9, None).unwrap(), [numbered(0)]);
    }

    /// To read a pipe blocks until something is written, as a frozen disk does.
    #[test]
    fn the_end_of_a_command_waits_for_its_disk_only_for_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("controller.jsonl");
        let log = DeletionLog::open(&path).unwrap();
        fs::rename(&path, directory.path().join("empty")).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        log.add(numbered(0));
        drop(log);
        fs::write(&path, "{").expect("the thread still reads");
    }

    /// It may be the store of a node, which must not change.
    #[test]
    fn a_file_of_another_kind_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubegc.db");
        fs::write(&path, "SQLite format 3").unwrap();
        for error in [DeletionLog::open(&path).unwrap_err(), DeletionLog::read(&path, 1, None).unwrap_err()] {
            let text = error.to_string();
            assert!(text.starts_with("the history of deletions") && text.contains("move it away"), "{text}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"SQLite format 3");
    }
}
