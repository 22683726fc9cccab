//! The lock that allows one agent per node: one file of the node, by default `/run/kubegc/kubegc.lock` (`state.lock`).
//!
//! The file is not in the state directory, for two reasons. Two agents with different state directories still run on
//! one node. The lock must also work on a full disk, and `/run` is in memory. An agent in a container and an agent on
//! the host exclude each other because the container mounts the host's directory, so both lock the same inode.
//!
//! The kernel holds the lock while the file is open, so the lock ends with the process, even after a kill (I10). The
//! file itself is never deleted: an agent that deletes it could delete the file of another agent. Its content is only
//! for the error message of a second agent and for `kubegc status`.
//!
//! There is no automatic second location: two agents that chose differently would both collect. Where `/run/kubegc`
//! cannot be written, the error says to set `state.lock`.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::database::fault::dir_of;
use super::database::file::Identity;

/// The most bytes to read from the text of another agent.
const HOLDER: u64 = 1024;
/// The prefix of the line about the store in the lock file.
const STORE: &str = "store: ";
/// The prefix of the line with the path of the store in the lock file.
const STATE: &str = "state: ";

/// The lock of this node's agent. Dropping it releases the lock.
#[derive(Debug)]
pub struct Lock {
    file: File,
    what: String,
    state: Option<PathBuf>,
}

/// Why the lock was not acquired.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another agent holds the lock.
    #[error("another kubegc{} holds {}; one agent collects on a node", holder_text(holder), path.display())]
    Held {
        path: PathBuf,
        /// The text in the file, as `pid 123, run`; empty if there is none.
        holder: String,
    },
    /// The directory of the lock cannot be created.
    #[error("cannot create the lock directory {}: {cause}", dir.display())]
    Dir { dir: PathBuf, cause: io::Error },
    /// The lock file cannot be opened.
    #[error("cannot open the lock {}: {cause}", path.display())]
    Open { path: PathBuf, cause: io::Error },
    /// The file system does not support locks.
    #[error("cannot lock {}: {cause}", path.display())]
    Take { path: PathBuf, cause: io::Error },
}

// === impl Lock ===

impl Lock {
    /// Acquires the lock, or returns who holds it. Never waits. `what` describes this agent to other agents, as `run`
    /// or `collect`.
    ///
    /// Creates the directory (mode 0700) if it does not exist.
    ///
    /// # Errors
    /// Another agent holds it, or the file cannot be created, opened or locked.
    pub fn take(path: &Path, what: &str) -> Result<Self, LockError> {
        make_dir(dir_of(path))?;
        let file = loop {
            let file = locked(path)?;
            // The directory may have been removed and created again in between. Then no other agent would find this
            // lock.
            if Identity::of(path) == Identity::of_file(&file) {
                break file;
            }
        };
        let mut lock = Self { file, what: what.to_owned(), state: None };
        lock.report(None);
        Ok(lock)
    }

    /// Writes into the lock file which store this agent uses, so that `kubegc plan` reads the same one.
    pub fn names_store(&mut self, path: &Path) {
        self.state = std::path::absolute(path).ok();
        self.report(None);
    }

    /// Returns the store of the agent that holds a lock; `None` = unknown, or the lock is free.
    pub fn store_of_holder(path: &Path) -> Option<PathBuf> {
        let text = held_text(path)?;
        text.lines().find_map(|line| line.strip_prefix(STATE)).map(PathBuf::from)
    }

    /// Writes into the lock file who holds it and why its store is in memory. `kubegc status` reads it here because it
    /// cannot read this from the store.
    pub fn report(&mut self, fault: Option<&str>) {
        // On a full disk the text cannot be written. The lock works without it.
        let _ = sign(&mut self.file, &self.what, self.state.as_deref(), fault);
    }

    /// Returns why the store of the agent that holds a lock is in memory; `None` = it is not, or the lock is free.
    pub fn fault(path: &Path) -> Option<String> {
        let text = held_text(path)?;
        text.lines().find_map(|line| line.strip_prefix(STORE)).map(str::to_owned)
    }

    /// Returns why it cannot be seen who holds a lock: only root may look into the directory of one. `None` = it can.
    pub fn is_hidden(path: &Path) -> Option<std::io::Error> {
        let hidden = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
        File::open(path).err().filter(hidden)
    }

    /// Returns who holds a lock, as `pid 123, run`, without touching it; `None` = it is free, or its text cannot be
    /// read.
    ///
    /// Reads the kernel's list of locks. Trying the lock instead would block an agent that starts at that moment. Only
    /// the inode is compared, because some file systems show a different device in that list than elsewhere.
    pub fn holder(path: &Path) -> Option<String> {
        held_text(path).map(|text| first_line(&text))
    }
}

/// Returns the text in a lock file that a process holds.
fn held_text(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let is_held = locks.lines().any(|line| is_lock_of(line, &inode));
    is_held.then(|| text(&file))
}

/// Returns whether a line of `/proc/locks`, as `1: FLOCK  ADVISORY  WRITE 123 08:01:4711 0 EOF`, is a held lock on a
/// file.
fn is_lock_of(line: &str, inode: &str) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    fields.next() == Some("FLOCK") && fields.nth(3).and_then(|file| file.rsplit(':').next()) == Some(inode)
}

fn make_dir(dir: &Path) -> Result<(), LockError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|cause| LockError::Dir { dir: dir.to_owned(), cause })
}

fn locked(path: &Path) -> Result<File, LockError> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = opened.map_err(|cause| LockError::Open { path: path.to_owned(), cause })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(LockError::Held { path: path.to_owned(), holder: first_line(&text(&file)) })
        }
        Err(TryLockError::Error(cause)) => Err(LockError::Take { path: path.to_owned(), cause }),
    }
}

/// Writes who holds the lock, and replaces the text of the previous holder.
fn sign(file: &mut File, what: &str, state: Option<&Path>, fault: Option<&str>) -> io::Result<()> {
    let state = state.map_or_else(String::new, |state| format!("{STATE}{}\n", state.display()));
    let store = fault.map_or_else(String::new, |fault| format!("{STORE}{}\n", fault.replace('\n', " ")));
    let text = format!("pid {}, {what}\n{state}{store}", std::process::id());
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

fn text(file: &File) -> String {
    let mut text = String::new();
    // The text may be unreadable, or empty between truncation and writing. It is optional.
    let _ = file.take(HOLDER).read_to_string(&mut text);
    text
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn holder_text(holder: &str) -> String {
    if holder.is_empty() { String::new() } else { format!(" ({holder})") }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::record::tests::place;

    fn lock_path() -> (tempfile::TempDir, PathBuf) {
        let (dir, store) = place();
        (dir, store.with_file_name("kubegc.lock"))
    }

    #[test]
    fn the_second_agent_learns_which_one_is_the_first() {
        let (_dir, path) = lock_path();
        let _first = Lock::take(&path, "run").unwrap();
        let error = Lock::take(&path, "collect").unwrap_err();
        let expected = format!(
            "another kubegc (pid {}, run) holds {}; one agent collects on a node",
            std::process::id(),
            path.display()
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            format!("pid {}, run\n", std::process::id()),
            "it wrote nothing"
        );
    }

    #[test]
    fn the_holder_of_a_lock_is_reported() {
        let (_dir, path) = lock_path();
        assert_eq!(Lock::holder(&path), None, "there is no file yet");
        let lock = Lock::take(&path, "run").unwrap();
        assert_eq!(Lock::holder(&path), Some(format!("pid {}, run", std::process::id())));
        drop(lock);
        assert_eq!(Lock::holder(&path), None, "the file stays, the lock does not");
    }

    #[test]
    fn a_lock_reports_the_store_fault_while_it_lasts() {
        let (_dir, path) = lock_path();
        let mut lock = Lock::take(&path, "run").unwrap();
        assert_eq!(Lock::fault(&path), None);
        lock.report(Some("cannot use\nthe store"));
        assert_eq!(Lock::fault(&path).as_deref(), Some("cannot use the store"));
        assert_eq!(Lock::holder(&path), Some(format!("pid {}, run", std::process::id())));
        lock.report(None);
        assert_eq!(Lock::fault(&path), None);
        lock.report(Some("cannot use the store"));
        drop(lock);
        assert_eq!(Lock::fault(&path), None, "it is not held");
    }

    #[test]
    fn a_lock_names_the_store_of_its_holder() {
        let (_dir, path) = lock_path();
        let mut lock = Lock::take(&path, "run").unwrap();
        assert_eq!(Lock::store_of_holder(&path), None);
        lock.names_store(Path::new("/state/kubegc.db"));
        lock.report(Some("full"));
        assert_eq!(Lock::store_of_holder(&path), Some("/state/kubegc.db".into()));
        assert_eq!(Lock::fault(&path).as_deref(), Some("full"));
        drop(lock);
        assert_eq!(Lock::store_of_holder(&path), None, "it is not held");
    }

    #[test]
    fn a_dropped_lock_is_free_for_the_next_holder() {
        let (_dir, path) = lock_path();
        drop(Lock::take(&path, "a run with a long name").unwrap());
        let _second = Lock::take(&path, "collect").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("pid {}, collect\n", std::process::id()));
    }

    #[test]
    fn a_holder_that_says_nothing_is_a_holder() {
        let (_dir, path) = lock_path();
        make_dir(path.parent().unwrap()).unwrap();
        let file = File::create(&path).unwrap();
        file.lock().unwrap();
        let error = Lock::take(&path, "run").unwrap_err();
        assert!(error.to_string().starts_with("another kubegc holds /"), "{error}");
    }

    /// Starts another process that acquires the lock as soon as it is free, and keeps it.
    #[expect(clippy::disallowed_methods, reason = "the lock is one between processes")]
    fn other_process(path: &Path) -> Child {
        let other = Command::new("flock").args(["--no-fork", "--exclusive"]).arg(path).args(["sleep", "600"]).spawn();
        other.expect("this test needs flock, from util-linux")
    }

    /// Repeats `done` until it returns true, for a minute at most.
    #[expect(clippy::disallowed_methods, reason = "bounds a wait for another process")]
    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_mins(1), "waited a minute for: {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_lock_goes_with_the_process_that_is_killed() {
        let (_dir, path) = lock_path();
        let first = Lock::take(&path, "run").unwrap();
        let mut other = other_process(&path);
        drop(first);
        until("the other process takes the lock", || {
            matches!(Lock::take(&path, "collect"), Err(LockError::Held { .. }))
        });
        other.kill().unwrap();
        other.wait().unwrap();
        Lock::take(&path, "collect").unwrap();
        assert!(path.exists(), "the file stays");
    }
}
