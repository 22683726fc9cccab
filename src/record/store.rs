//! The store: one connection, and where it leads.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::{StoreError, StoreNote};
use super::fallback::{Cause, Fallback};
use super::faults::{Faults, StoreFault};
use super::file::{self, Identity, Trouble};
use super::runs::{Begun, close_interrupted};

/// What the agent remembers, in one SQLite file or, where the file cannot be used, in memory.
#[derive(Debug)]
pub struct Store {
    pub(super) path: PathBuf,
    /// A read, too, can find that the file cannot be used and move the store to memory.
    pub(super) state: RefCell<State>,
}

/// What changes when a store moves between its file and memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) connection: Connection,
    pub(super) place: Place,
    pub(super) notes: Vec<StoreNote>,
    pub(super) faults: Faults,
    /// The runs that this process began and did not end yet.
    pub(super) underway: Vec<Begun>,
    /// The highest id of a run that this process began; 0 = none.
    pub(super) last_run: i64,
}

/// A store, and what had to be done to open it.
#[derive(Debug)]
pub struct Opened {
    /// The store, ready for use.
    pub store: Store,
    /// What had to be done. Already logged.
    pub notes: Vec<StoreNote>,
}

/// Where what is written goes.
#[derive(Debug)]
pub(super) enum Place {
    /// To the file.
    Disk(Identity),
    /// To memory, because the file cannot be used; back to the file as soon as it can.
    Fallback(Fallback),
    /// To a copy in memory that is dropped at the end: a dry run, or no file was wanted.
    Copy,
}

/// The operations on the file, by the names that errors give them: those of [`Store::read`] and [`Store::write`], then
/// the two that move a store to memory and back.
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
    "runs from memory",
    COPY,
    REOPEN,
];
/// The copy of the file that is made when a store moves to memory.
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
    /// Makes the directory (mode 0700) and the file (0600) where there is none. Sets a damaged file aside. Where the file
    /// cannot be used, the store works in memory, with what the file knew as far as that can be read. Both are in the notes.
    /// Ends the runs of earlier processes that were killed.
    ///
    /// # Errors
    /// A newer version's file, another program's file.
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

    /// Reads the store for a dry run or for a look at the history, beside whoever is at work on it.
    ///
    /// What comes back is a copy in memory: what is written to it goes nowhere, and the directory stays as it is. `None` =
    /// there is no store yet.
    ///
    /// # Errors
    /// A newer version's file, another program's, a damaged one, one that may not be read.
    pub fn open_read_only(path: &Path) -> Result<Option<Self>, StoreError> {
        match file::copy(path, file::CopyMode::Shared) {
            Ok(copy) => Ok(copy.map(|connection| Self::new(path, connection, Place::Copy))),
            Err(trouble) => Err(trouble.into_error(path)),
        }
    }

    /// An empty store without a file, for a node that has no past.
    ///
    /// # Errors
    /// None in practice: SQLite has no memory left.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        match file::in_memory() {
            Ok(connection) => Ok(Self::new(&path, connection, Place::Copy)),
            Err(cause) => Err(StoreError::Open { path, cause }),
        }
    }

    /// What the store did about trouble since the last call. Already logged.
    pub fn take_notes(&mut self) -> Vec<StoreNote> {
        std::mem::take(&mut self.state.get_mut().notes)
    }

    /// The same, and why nothing is written to the file for as long as that lasts.
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

    /// Lets an operation on the file fail so many times; `None` = every operation. For tests.
    #[doc(hidden)]
    pub fn inject(&mut self, what: Option<&'static str>, fault: StoreFault, times: usize) {
        self.state.get_mut().faults.inject(what, fault, times);
    }

    /// Takes back all faults that were injected. For tests.
    #[doc(hidden)]
    pub fn heal(&mut self) {
        self.state.get_mut().faults = Faults::default();
    }

    pub(super) fn new(path: &Path, connection: Connection, place: Place) -> Self {
        let state = State {
            connection,
            place,
            notes: Vec::new(),
            faults: Faults::default(),
            underway: Vec::new(),
            last_run: 0,
        };
        Self { path: path.to_owned(), state: RefCell::new(state) }
    }

    /// Reads with `work`; `what` says in an error what it was. Where the file cannot be read, the store moves to memory,
    /// and `work` is done there: it may be called more than once.
    pub(super) fn read<T>(
        &self,
        what: &'static str,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.attempt(what, |connection| work(connection));
        done.map_err(|cause| StoreError::Read { what, path: self.path.clone(), cause })
    }

    /// Does `work` in one transaction. Where the file cannot be written, the store moves to memory, and `work` is done
    /// there: it may be called more than once.
    pub(super) fn write<T>(
        &mut self,
        what: &'static str,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.attempt(what, |connection| commit(connection, &work));
        done.map_err(|cause| StoreError::Write { what, path: self.path.clone(), cause })
    }

    /// Does `work` on the file, or in memory if the file fails. A copy that has the same fault as the file is replaced by
    /// an empty store: unknown history means "just now", so less is removed, and no pass ends for want of a store.
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
    /// Logs what the store did about trouble, and keeps it for [`Store::take_notes`].
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

/// Every transaction takes the writer's place at once: one that began by reading could find it taken later, and fail.
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
