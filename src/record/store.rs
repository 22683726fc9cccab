//! The store: one connection, and where it leads.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::{StoreError, StoreNote};
use super::file::{self, Beside, Trouble};

/// What the agent remembers, in one SQLite file or, where that cannot be, in memory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    pub(super) connection: Connection,
    place: Place,
    notes: Vec<StoreNote>,
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// To the file.
    Disk,
    /// To memory, because the disk is full; back to the file with the first run that finds space.
    Refuge,
    /// To memory, and with it away: a dry run, or no file was wanted.
    Memory,
}

// === impl Store ===

impl Store {
    /// Opens the store for writing. The caller holds the [`super::Lock`].
    ///
    /// Makes the directory (mode 0700) and the file (0600) where there is none. Sets a damaged file aside, and goes on in
    /// memory where the disk is full; both are in the notes.
    ///
    /// # Errors
    /// A newer version's file, another program's file, a directory that cannot be made or written.
    pub fn open(path: &Path) -> Result<Opened, StoreError> {
        let mut notes = Vec::new();
        let mut opened = file::open(path);
        if let Err(Trouble::Damaged(detail)) = opened {
            let to = file::set_aside(path)?;
            notes.push(StoreNote::SetAside { path: path.to_owned(), to, detail });
            opened = file::open(path);
        }
        let store = match opened {
            Ok(connection) => Self::new(path, connection, Place::Disk),
            Err(Trouble::Full(cause)) => {
                let memory = refuge(path, &mut notes)?;
                notes.push(StoreNote::InMemory { path: path.to_owned(), cause });
                Self::new(path, memory, Place::Refuge)
            }
            Err(trouble) => return Err(trouble.into_error(path)),
        };
        notes.iter().for_each(log);
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
        match file::copy(path, Beside::Anybody) {
            Ok(copy) => Ok(copy.map(|connection| Self::new(path, connection, Place::Memory))),
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
            Ok(connection) => Ok(Self::new(&path, connection, Place::Memory)),
            Err(cause) => Err(StoreError::Open { path, cause }),
        }
    }

    /// What the store did about trouble since the last call. Already logged.
    pub fn take_notes(&mut self) -> Vec<StoreNote> {
        std::mem::take(&mut self.notes)
    }

    fn new(path: &Path, connection: Connection, place: Place) -> Self {
        Self { path: path.to_owned(), connection, place, notes: Vec::new() }
    }

    /// Reads with `work`; `what` says in an error what it was.
    pub(super) fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|cause| StoreError::Read { what, path: self.path.clone(), cause })
    }

    /// Does `work` in one transaction. Where the file finds no space for it, everything moves to memory, and it is done
    /// there: it may be called twice.
    pub(super) fn write<T>(
        &mut self,
        what: &'static str,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = match commit(&mut self.connection, &work) {
            Err(error) if self.place == Place::Disk && file::is_full(&self.path, &error) => {
                self.flee(&error).and_then(|()| commit(&mut self.connection, &work))
            }
            done => done,
        };
        done.map_err(|cause| StoreError::Write { what, path: self.path.clone(), cause })
    }

    /// Moves to memory, with all that the file knows.
    fn flee(&mut self, cause: &rusqlite::Error) -> rusqlite::Result<()> {
        let mut memory = Connection::open_in_memory()?;
        file::transfer(&self.connection, &mut memory)?;
        self.connection = memory;
        self.place = Place::Refuge;
        self.tell(StoreNote::InMemory { path: self.path.clone(), cause: cause.to_string() });
        Ok(())
    }

    /// Moves back to the file, if there is space again; else stays where it is. Whoever holds the lock is the only one
    /// who writes, so the file knows nothing that the memory does not.
    pub(super) fn return_to_disk(&mut self) {
        if self.place != Place::Refuge {
            return;
        }
        let Ok(mut connection) = file::open(&self.path) else { return };
        if file::transfer(&self.connection, &mut connection).is_ok() {
            self.connection = connection;
            self.place = Place::Disk;
            self.tell(StoreNote::BackOnDisk { path: self.path.clone() });
        }
    }

    fn tell(&mut self, note: StoreNote) {
        log(&note);
        self.notes.push(note);
    }
}

// === impl Trouble ===

impl Trouble {
    fn into_error(self, path: &Path) -> StoreError {
        match self {
            Self::Error(error) => error,
            Self::Damaged(detail) => StoreError::Damaged { path: path.to_owned(), detail },
            Self::Full(detail) => StoreError::NoSpace { path: path.to_owned(), detail },
        }
    }
}

/// A store in memory with all that the file on the full disk knows.
fn refuge(path: &Path, notes: &mut Vec<StoreNote>) -> Result<Connection, StoreError> {
    match file::copy(path, Beside::Nobody) {
        Ok(Some(copy)) => return Ok(copy),
        Ok(None) => {}
        Err(Trouble::Damaged(detail)) => {
            let to = file::set_aside(path)?;
            notes.push(StoreNote::SetAside { path: path.to_owned(), to, detail });
        }
        Err(trouble) => return Err(trouble.into_error(path)),
    }
    file::in_memory().map_err(|cause| StoreError::Open { path: path.to_owned(), cause })
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
        StoreNote::InMemory { path, cause } => {
            tracing::warn!(path = %path.display(), cause, "no space for the store; going on in memory");
        }
        StoreNote::BackOnDisk { path } => tracing::info!(path = %path.display(), "the store is on disk again"),
    }
}
