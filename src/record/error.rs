//! What can go wrong with the store, and what was done about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the store could not do its work. The message says all of it: what lies beneath is in the text, not behind it.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The directory of the store does not exist and could not be made.
    #[error("cannot create the state directory {}: {cause}; create it, or set state.path to another place", dir.display())]
    CreateDir {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The directory of the store cannot be written: no permission, or a read-only file system.
    #[error("the state directory {} cannot be written: {cause}; make it writable for this user, or set state.path to another place", dir.display())]
    ReadOnly {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file cannot be opened at all.
    #[error("cannot open the store {}: {cause}", path.display())]
    Access {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A newer version made the store.
    #[error("the store {} has schema version {found}, and this kubegc knows versions up to {known}; run the newer kubegc, or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// Another program's database lies there.
    #[error("{} is a database, but not of kubegc; set state.path to another place", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged, and whoever asked may not set it aside.
    #[error("the store {} is damaged ({detail}); the next collecting run sets it aside and begins a fresh one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        detail: String,
    },
    /// The disk is full, and not even reading went without space on it.
    #[error("no space to read the store {} ({detail}); make some, or set state.path to another place", path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// What SQLite or the system said.
        detail: String,
    },
    /// The file is damaged and could not be set aside.
    #[error("the store {} is damaged and cannot be moved to {}: {cause}", path.display(), to.display())]
    SetAside {
        /// The file.
        path: PathBuf,
        /// The name that it was to get.
        to: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file could not be opened or brought to this version's schema.
    #[error("cannot open the store {}: {cause}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        cause: rusqlite::Error,
    },
    /// Something could not be read from the store.
    #[error("cannot read {what} from the store {}: {cause}", path.display())]
    Read {
        /// What.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        cause: rusqlite::Error,
    },
    /// Something could not be written to the store.
    #[error("cannot write {what} to the store {}: {cause}", path.display())]
    Write {
        /// What.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        cause: rusqlite::Error,
    },
}

/// What the store did about a trouble that need not stop anybody.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreNote {
    /// The file was damaged; it has another name now, and a fresh one was begun.
    SetAside {
        /// The store.
        path: PathBuf,
        /// The damaged file's new name.
        to: PathBuf,
        /// What was wrong.
        detail: String,
    },
    /// The file cannot be used: what is learnt from here on is kept in memory only.
    InMemory {
        /// The store.
        path: PathBuf,
        /// What SQLite or the system said.
        cause: String,
        /// The file could not even be read, so nothing is known of the past.
        is_empty: bool,
    },
    /// The file can be used again: all that was kept in memory is in it.
    BackOnDisk {
        /// The store.
        path: PathBuf,
    },
}

// === impl StoreError ===

impl StoreError {
    /// Says whether the file belongs to a newer version or to another program, so that it must not be touched.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::NotOurs { .. })
    }

    /// Says whether the file itself is damaged, so that opening it anew would set it aside.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::SetAside { .. } => true,
            Self::Open { cause, .. } | Self::Read { cause, .. } | Self::Write { cause, .. } => is_damage(cause),
            _ => false,
        }
    }
}

/// Says whether the file is no database, a broken one, or one whose tables or values are not those that its version has.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    match error {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) => true,
        // SQLite's code for what is wrong with a statement, and ours are right for the tables of this version.
        error => matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | Unknown)),
    }
}

// === impl StoreNote ===

impl StoreNote {
    /// Says whether nothing is written to the file from here on.
    pub fn is_in_memory(&self) -> bool {
        matches!(self, Self::InMemory { .. })
    }
}

impl std::fmt::Display for StoreNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SetAside { path, to, detail } => write!(
                f,
                "the store {} was damaged ({detail}); it is now {}, and a fresh one was begun",
                path.display(),
                to.display()
            ),
            Self::InMemory { path, cause, is_empty } => {
                let past = if *is_empty { ", without its history" } else { "" };
                write!(f, "cannot use the store {}: {cause}; continuing in memory{past}", path.display())
            }
            Self::BackOnDisk { path } => write!(f, "the store {} is on disk again", path.display()),
        }
    }
}
