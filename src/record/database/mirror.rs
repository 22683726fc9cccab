//! The file as a mirror of what the agent has learned: opens it, writes to it, and opens it again after a fault.
//!
//! The memory goes into the file together with the rows of the history that explain it, in one transaction. So a removal
//! is counted off the baseline of the lists in the transaction that records it, and after a kill the next agent does not
//! take kubegc's own removals for a sharp fall (I10, I12).
//!
//! - A damaged file is set aside, when it is opened or when the rows cannot be written to a file that was just opened.
//! - A file that was removed, replaced or overwritten while it was open is noticed before each write. SQLite would
//!   continue to write to an unlinked file, or use its cache. The history goes into the fresh file, if it is still
//!   readable.
//! - A file of a newer version or of another program is an error at the start, and never changed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, TransactionBehavior};

use super::copy::{CopyMode, checked_copy, copy, transfer};
use super::fault::{Cause, FileFault};
use super::file::{self, Identity, keep_log};
use super::rows::write_rows;
use crate::model::Memory;
use crate::record::faults::Faults;
use crate::record::memory::{read_memory, write_memory};
use crate::record::runs::{RunIds, close_interrupted};
use crate::record::state::StoreState;
use crate::record::store_error::StoreError;

/// The file is opened.
pub(in crate::record) const OPEN: &str = "the file";
/// The memory is written.
pub(in crate::record) const MEMORY: &str = "the memory";

/// The file of a store, and what is known of it.
#[derive(Debug)]
pub(in crate::record) struct Mirror {
    path: PathBuf,
    /// `None` = it could not be opened, or not be used any more.
    file: Option<OpenFile>,
    /// The ids that the runs of this process have in the file.
    runs: RunIds,
    /// The data of a file that was removed or damaged while it was open.
    rescued: Option<Connection>,
    pub faults: Faults,
}

#[derive(Debug)]
struct OpenFile {
    connection: Connection,
    identity: Identity,
    /// The memory that is in the file.
    memory: Arc<Memory>,
}

// === impl Mirror ===

impl Mirror {
    pub fn new(path: &Path) -> Self {
        let (file, runs, rescued, faults) = Default::default();
        Self { path: path.to_owned(), file, runs, rescued, faults }
    }

    /// Opens the file and reads its memory. A file that cannot be written is only read. A file that cannot be read either
    /// is noted in the state.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program.
    pub fn start(&mut self, state: &Mutex<StoreState>) -> Result<(), StoreError> {
        match self.open(state) {
            Ok(()) => Ok(()),
            Err(FileFault::Error(error)) if error.is_foreign() => Err(error),
            Err(fault) => self.read_copy(fault.into(), state),
        }
    }

    /// Writes what the file does not have yet. A fault is noted in the state.
    pub fn catch_up(&mut self, state: &Mutex<StoreState>) {
        if let Err(fault) = self.write_all(state) {
            lock(state).failed(&self.path, fault.into());
        }
    }

    /// Returns the connection to the file, for tests.
    #[cfg(test)]
    pub fn connection(&self) -> &Connection {
        &self.file.as_ref().expect("the file is open").connection
    }

    fn read_copy(&mut self, cause: Cause, state: &Mutex<StoreState>) -> Result<(), StoreError> {
        let is_there = self.path.symlink_metadata().is_ok();
        let mode = if cause.is_full { CopyMode::Exclusive } else { CopyMode::Shared };
        let read = copy(&self.path, mode).and_then(|copy| {
            let read = copy.as_ref().map(read_memory).transpose();
            read.map_err(|error| FileFault::of(&self.path, error))
        });
        match read {
            Ok(memory) => lock(state).adopt(&Arc::new(memory.unwrap_or_default())),
            Err(FileFault::Error(error)) if error.is_foreign() => return Err(error),
            Err(fault) => {
                if is_there {
                    lock(state).lose_memory();
                }
                if let FileFault::Damaged(detail) = fault {
                    let _ = self.set_aside(&detail, state); // tried again with the next write
                }
            }
        }
        lock(state).failed(&self.path, cause);
        Ok(())
    }

    fn write_all(&mut self, state: &Mutex<StoreState>) -> Result<(), FileFault> {
        self.verify(state);
        let was_open = self.file.is_some();
        if !was_open {
            self.open(state)?;
        }
        let mut done = self.write(state);
        // The data of a damaged file may be whole, and may be what is damaged.
        for is_rescued in [true, false] {
            let Err(FileFault::Damaged(detail)) = &done else { break };
            self.abandon(is_rescued);
            if was_open {
                break; // the next pass opens and checks it
            }
            self.set_aside(&detail.clone(), state)?;
            self.open(state)?;
            done = self.write(state);
        }
        done
    }

    /// Stops using a file that is no longer at its path.
    fn verify(&mut self, state: &Mutex<StoreState>) {
        let difference = self.file.as_ref().and_then(|file| file.identity.difference(&self.path));
        if let Some((text, _)) = difference {
            lock(state).failed(&self.path, Cause { text: text.to_owned(), is_full: false });
            self.abandon(true);
        }
    }

    /// Stops using the file. By default SQLite would write its log into the damaged file, or into the one that took its
    /// place, and delete the log. Both are evidence.
    fn abandon(&mut self, is_rescued: bool) {
        let Some(file) = self.file.take() else { return };
        let _ = keep_log(&file.connection, true);
        self.rescued = if is_rescued { checked_copy(&self.path, &file.connection) } else { None };
    }

    fn open(&mut self, state: &Mutex<StoreState>) -> Result<(), FileFault> {
        let opened = match self.open_once() {
            Err(FileFault::Damaged(detail)) => {
                self.set_aside(&detail, state)?;
                self.open_once()?
            }
            opened => opened?,
        };
        lock(state).adopt(&opened.memory);
        self.file = Some(opened);
        Ok(())
    }

    fn open_once(&mut self) -> Result<OpenFile, FileFault> {
        let path = self.path.clone();
        let fault = |error| FileFault::of(&path, error);
        self.faults.fail_if_injected(OPEN).map_err(fault)?;
        let mut connection = file::open(&path)?;
        let memory = self.read(&mut connection).map_err(|error| {
            let _ = keep_log(&connection, true);
            fault(error)
        })?;
        Ok(OpenFile { connection, identity: Identity::of(&path), memory: Arc::new(memory) })
    }

    /// Returns the memory in a file, after the runs of a process that was killed are ended in it.
    fn read(&mut self, connection: &mut Connection) -> rusqlite::Result<Memory> {
        if let Some(rescued) = self.rescued.take()
            && is_empty(connection)?
            && let Err(error) = transfer(&rescued, connection)
        {
            // The next attempt needs it: no file has these rows.
            self.rescued = Some(rescued);
            return Err(error);
        }
        self.runs.keep_known(connection)?;
        close_interrupted(connection, &self.runs)?;
        read_memory(connection)
    }

    fn set_aside(&mut self, detail: &str, state: &Mutex<StoreState>) -> Result<(), FileFault> {
        let to = file::set_aside(&self.path)?;
        tracing::warn!(path = %self.path.display(), set_aside = %to.display(), detail, "the store was damaged; created a new one");
        lock(state).lose_memory();
        Ok(())
    }

    fn write(&mut self, state: &Mutex<StoreState>) -> Result<(), FileFault> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let (unwritten, mut runs, faults) = (lock(state).unwritten(), self.runs.clone(), &mut self.faults);
        let mut work = || {
            // A transaction that began with a read could find the lock taken later, and fail.
            let transaction = file.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if unwritten.memory != file.memory {
                faults.fail_if_injected(MEMORY)?;
                write_memory(&transaction, &file.memory, &unwritten.memory)?;
            }
            write_rows(&transaction, &unwritten.rows, &mut runs, |row| faults.fail_if_injected_at(row))?;
            transaction.commit()
        };
        work().map_err(|error| FileFault::of(&self.path, error))?;
        // Between passes its cache of pages is of no use; the system has them too.
        file.connection.execute_batch("PRAGMA shrink_memory").ok();
        file.memory = Arc::clone(&unwritten.memory);
        self.runs = runs;
        lock(state).written(&self.path, &unwritten);
        Ok(())
    }
}

/// Locks a mutex. What a thread that panicked left is used: each change of it is complete.
pub(in crate::record) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a file has no history, as a new file.
fn is_empty(file: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM runs) AND NOT EXISTS (SELECT 1 FROM removals)";
    file.query_row(sql, [], |row| row.get(0))
}
