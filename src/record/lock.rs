//! One agent per node: a lock on one file of the node, by default `/run/kubegc/kubegc.lock` (`state.lock`).
//!
//! The file does not lie beside the store. Two agents with different state directories are two agents on one node, and the
//! lock must be taken on a full disk: `/run` is in memory. A container excludes an agent of the host because it has the
//! host's directory mounted, so that both lock one inode.
//!
//! The kernel holds the lock for as long as the file is open, so it goes with the process, however that ends (I10). The
//! file itself stays: one that removed it could remove another's. What stands in it is only for the message of whoever
//! comes second.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::file::{self, Identity};

/// The most that is read of what another agent wrote about itself.
const HOLDER: u64 = 1024;
/// What begins the line about the store in the lock's file.
const STORE: &str = "store: ";

/// The right to be this node's agent, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    what: String,
}

/// Why there is no lock.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another agent is at work.
    #[error("another kubegc{} holds {}; one agent collects on a node", holder_text(holder), path.display())]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// What it says of itself, as `pid 123, run`; empty where it says nothing.
        holder: String,
    },
    /// The directory of the lock cannot be created.
    #[error("cannot create the lock directory {}: {cause}", dir.display())]
    Dir {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The lock's file cannot be opened.
    #[error("cannot open the lock {}: {cause}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file system cannot lock.
    #[error("cannot lock {}: {cause}", path.display())]
    Take {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

// === impl Lock ===

impl Lock {
    /// Takes the lock or says who has it; never waits. `what` tells the other what this agent is, as `run` or `collect`.
    ///
    /// Makes the directory (mode 0700) where there is none.
    ///
    /// # Errors
    /// Another agent holds it, or the file cannot be made, opened or locked.
    pub fn take(path: &Path, what: &str) -> Result<Self, LockError> {
        make_dir(file::dir_of(path))?;
        let file = loop {
            let file = locked(path)?;
            // Its directory may have been removed and made again in between: then no other agent would find this lock.
            if Identity::of(path) == Identity::of_file(&file) {
                break file;
            }
        };
        let mut lock = Self { file, what: what.to_owned() };
        lock.report(None);
        Ok(lock)
    }

    /// Writes into the lock's file who holds it and why its store works in memory, for `kubegc status`: the store itself
    /// cannot be read for that.
    pub fn report(&mut self, trouble: Option<&str>) {
        // On a full disk the text cannot be written; the lock is as good without it.
        let _ = sign(&mut self.file, &self.what, trouble);
    }

    /// Why the store of the agent that holds a lock works in memory; `None` = it does not, or the lock is free.
    pub fn trouble(path: &Path) -> Option<String> {
        let text = held_text(path)?;
        text.lines().find_map(|line| line.strip_prefix(STORE)).map(str::to_owned)
    }

    /// Who holds a lock, as `pid 123, run`, without touching it; `None` = it is free, or its text cannot be read.
    ///
    /// The kernel's list of locks is asked: to try the lock would keep an agent out that starts at that moment. Only the
    /// inode counts, because some file systems tell the list another device than everybody else.
    pub fn holder(path: &Path) -> Option<String> {
        held_text(path).map(|text| first_line(&text))
    }
}

/// What stands in a lock's file that somebody holds.
fn held_text(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let is_held = locks.lines().any(|line| is_lock_of(line, &inode));
    is_held.then(|| text(&file))
}

/// Says whether a line of `/proc/locks`, as `1: FLOCK  ADVISORY  WRITE 123 08:01:4711 0 EOF`, is a held lock on a file.
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

/// Writes who holds the lock, in place of what the one before wrote.
fn sign(file: &mut File, what: &str, trouble: Option<&str>) -> io::Result<()> {
    let store = trouble.map_or_else(String::new, |trouble| format!("{STORE}{}\n", trouble.replace('\n', " ")));
    let text = format!("pid {}, {what}\n{store}", std::process::id());
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

fn text(file: &File) -> String {
    let mut text = String::new();
    // Whoever cannot read it, or reads it in the moment between truncation and writing, does without.
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
    fn the_second_agent_is_told_who_the_first_is() {
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
    fn who_holds_a_lock_is_told_to_whoever_asks() {
        let (_dir, path) = lock_path();
        assert_eq!(Lock::holder(&path), None, "there is no file yet");
        let lock = Lock::take(&path, "run").unwrap();
        assert_eq!(Lock::holder(&path), Some(format!("pid {}, run", std::process::id())));
        drop(lock);
        assert_eq!(Lock::holder(&path), None, "the file stays, the lock does not");
    }

    #[test]
    fn a_lock_says_what_is_wrong_with_the_store_for_as_long_as_it_is() {
        let (_dir, path) = lock_path();
        let mut lock = Lock::take(&path, "run").unwrap();
        assert_eq!(Lock::trouble(&path), None);
        lock.report(Some("cannot use\nthe store"));
        assert_eq!(Lock::trouble(&path).as_deref(), Some("cannot use the store"));
        assert_eq!(Lock::holder(&path), Some(format!("pid {}, run", std::process::id())));
        lock.report(None);
        assert_eq!(Lock::trouble(&path), None);
        lock.report(Some("cannot use the store"));
        drop(lock);
        assert_eq!(Lock::trouble(&path), None, "nobody holds it");
    }

    #[test]
    fn a_lock_that_is_dropped_is_free_for_the_next_who_signs_it() {
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

    /// Another process that takes the lock as soon as it is free, and keeps it.
    #[expect(clippy::disallowed_methods, reason = "the lock is one between processes")]
    fn other_process(path: &Path) -> Child {
        let other = Command::new("flock").args(["--no-fork", "--exclusive"]).arg(path).args(["sleep", "600"]).spawn();
        other.expect("this test needs flock, from util-linux")
    }

    /// Asks until `done` says so, for a minute at most.
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
