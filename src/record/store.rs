//! The store: one connection to the file or to memory.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::{StoreError, StoreNote};
use super::fallback::{Cause, Fallback};
use super::faults::{Faults, StoreFault};
use super::file::{self, Identity, Trouble};
use super::runs::{Runs, close_interrupted};

/// The data that the agent keeps between passes, in one SQLite file or, if the file cannot be used, in memory.
#[derive(Debug)]
pub struct Store {
    pub(super) path: PathBuf,
    /// A read can also find that the file cannot be used, and move the store to memory.
    pub(super) state: RefCell<State>,
}

/// The part that changes when a store moves between its file and memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) connection: Connection,
    pub(super) place: Place,
    pub(super) notes: Vec<StoreNote>,
    pub(super) faults: Faults,
    pub(super) runs: Runs,
}

/// A store, and notes from opening it.
#[derive(Debug)]
pub struct Opened {
    /// The store, ready for use.
    pub store: Store,
    /// How the store handled faults. Already logged.
    pub notes: Vec<StoreNote>,
}

/// Where the store writes to.
#[derive(Debug)]
pub(super) enum Place {
    /// The file.
    Disk(Identity),
    /// Memory, because the file cannot be used. The store returns to the file as soon as possible.
    Fallback(Fallback),
    /// A copy in memory that is dropped at the end: for a dry run, or for a store without a file.
    Copy,
}

/// The operations on the file, by their names in errors: those of [`Store::read`] and [`Store::write`], then the two
/// that move a store to memory and back.
const OPERATIONS: &[&str] = &[
    "the beginning of the memory",
    "the memory",
    "interrupted runs",
    "the beginning of a run",
    "what made a run",
    "a removal",
    "the end of a run",
    "the history's end",
    "the runs",
    "the history",
    "a sample of the usage",
    "the usage",
    "runs from memory",
    COPY,
    REOPEN,
];
/// The copy of the file when a store moves to memory.
pub(super) const COPY: &str = "a copy of the file";
/// The attempt to return to the file.
pub(super) const REOPEN: &str = "the file again";

// === impl Store ===

impl Store {
    /// The names of all operations on the file, for [`Self::inject`].
    #[doc(hidden)]
    pub const OPERATIONS: &[&str] = OPERATIONS;

    /// Opens the store for writing. The caller holds the [`super::Lock`].
    ///
    /// Creates the directory (mode 0700) and the file (0600) if they do not exist. Renames a damaged file. If the file
    /// cannot be used, the store works in memory, with the data of the file that can be read. The notes report both.
    /// Ends the runs of earlier processes that were killed.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program.
    pub fn open(path: &Path) -> Result<Opened, StoreError> {
        let mut notes = Vec::new();
        let (connection, place) = match file::open_or_begin(path, &mut notes) {
            Ok(connection) => (connection, Place::Disk(Identity::of(path))),
            Err(trouble) => {
                let (connection, fallback) = Fallback::open(path, trouble, &mut notes)?;
                notes.push(fallback.note(path));
                (connection, Place::Fallback(fallback))
            }
        };
        notes.iter().for_each(log);
        let mut store = Self::new(path, connection, place);
        store.write("interrupted runs", |transaction| close_interrupted(transaction, &[]))?;
        notes.append(&mut store.take_notes());
        Ok(Opened { store, notes })
    }

    /// Reads the store for a dry run or for the history, also while an agent writes to it.
    ///
    /// Returns a copy in memory. Writes to it are not saved, and the directory does not change. `None` = there is no
    /// store yet.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program, is damaged, or cannot be read.
    pub fn open_read_only(path: &Path) -> Result<Option<Self>, StoreError> {
        match file::copy(path, file::CopyMode::Shared) {
            Ok(copy) => Ok(copy.map(|connection| Self::new(path, connection, Place::Copy))),
            Err(trouble) => Err(trouble.into_error(path)),
        }
    }

    /// Creates an empty store without a file, for a node without history.
    ///
    /// # Errors
    /// None in practice: SQLite is out of memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        match file::in_memory() {
            Ok(connection) => Ok(Self::new(&path, connection, Place::Copy)),
            Err(cause) => Err(StoreError::Open { path, cause }),
        }
    }

    /// Returns the notes since the last call. Already logged.
    pub fn take_notes(&mut self) -> Vec<StoreNote> {
        std::mem::take(&mut self.state.get_mut().notes)
    }

    /// Returns the notes since the last call, and why the store does not write to the file, for as long as that is so.
    pub fn take_trouble(&mut self) -> Vec<StoreNote> {
        let mut notes = self.take_notes();
        if let Place::Fallback(fallback) = &self.state.get_mut().place {
            let note = fallback.note(&self.path);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// Makes an operation on the file fail this many times; `None` = every operation. For tests.
    #[doc(hidden)]
    pub fn inject(&mut self, what: Option<&'static str>, fault: StoreFault, times: usize) {
        self.state.get_mut().faults.inject(what, fault, times);
    }

    /// Removes all injected faults. For tests.
    #[doc(hidden)]
    pub fn heal(&mut self) {
        self.state.get_mut().faults = Faults::default();
    }

    pub(super) fn new(path: &Path, connection: Connection, place: Place) -> Self {
        let (notes, faults, runs) = Default::default();
        let state = State { connection, place, notes, faults, runs };
        Self { path: path.to_owned(), state: RefCell::new(state) }
    }

    /// Returns the runs that this process began.
    pub(super) fn runs_begun(&mut self) -> Runs {
        self.state.get_mut().runs.clone()
    }

    /// Reads with `work`; `what` names the operation in errors. If the file cannot be read, the store moves to memory
    /// and calls `work` there, so `work` may be called more than once.
    pub(super) fn read<T>(
        &self,
        what: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.attempt(what, |connection| work(connection));
        done.map_err(|cause| StoreError::Read { what, path: self.path.clone(), cause })
    }

    /// Calls `work` in one transaction. If the file cannot be written, the store moves to memory and calls `work`
    /// there, so `work` may be called more than once.
    pub(super) fn write<T>(
        &mut self,
        what: &'static str,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.attempt(what, |connection| commit(connection, &work));
        done.map_err(|cause| StoreError::Write { what, path: self.path.clone(), cause })
    }

    /// Calls `work` on the file, or in memory if the file fails. If the copy has the same fault as the file, an empty
    /// store replaces it: unknown history means "just now", so kubegc removes less, and no pass fails because of the
    /// store.
    fn attempt<T>(
        &self,
        what: &'static str,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        debug_assert!(OPERATIONS.contains(&what), "{what} is missing in the list of operations");
        let state = &mut *self.state.borrow_mut();
        if !matches!(state.place, Place::Disk(_)) {
            return work(&mut state.connection);
        }
        let error = match state.faults.strike(what).and_then(|()| work(&mut state.connection)) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        state.fall_back(&self.path, Cause::of(&self.path, &error))?;
        let done = work(&mut state.connection).or_else(|_| {
            state.begin_empty()?;
            work(&mut state.connection)
        });
        state.note_fallback(&self.path);
        done
    }
}

// === impl State ===

impl State {
    /// Logs a note, and keeps it for [`Store::take_notes`].
    pub(super) fn note(&mut self, note: StoreNote) {
        log(&note);
        self.notes.push(note);
    }

    pub(super) fn note_fallback(&mut self, path: &Path) {
        if let Place::Fallback(fallback) = &self.place {
            self.note(fallback.note(path));
        }
    }
}

// === impl Trouble ===

impl Trouble {
    pub(super) fn into_error(self, path: &Path) -> StoreError {
        match self {
            Self::Error(error) => error,
            Self::Damaged(detail) => StoreError::Damaged { path: path.to_owned(), detail },
            Self::Full(detail) => StoreError::NoSpace { path: path.to_owned(), detail },
        }
    }
}

/// Every transaction takes the write lock at its start. A transaction that began with a read could find the lock taken
/// later, and fail.
fn commit<T>(
    connection: &mut Connection,
    work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

fn log(note: &StoreNote) {
    match note {
        StoreNote::SetAside { path, to, detail } => {
            tracing::warn!(path = %path.display(), set_aside = %to.display(), detail, "the store was damaged; a fresh one was begun");
        }
        StoreNote::InMemory { path, cause, is_empty } => {
            tracing::error!(path = %path.display(), cause, is_empty, "cannot use the store; continuing in memory");
        }
        StoreNote::BackOnDisk { path } => tracing::info!(path = %path.display(), "the store is on disk again"),
    }
}
