//! Errors of the store.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a store operation failed. The message contains the cause; there is no `source()`.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The state directory does not exist and cannot be created.
    #[error("cannot create the state directory {}: {cause}; create it, or set state.path to another place", dir.display())]
    CreateDir { dir: PathBuf, cause: io::Error },
    /// The state directory is not writable: no permission, or a read-only file system.
    #[error("the state directory {} cannot be written: {cause}; make it writable for this user, or set state.path to another place", dir.display())]
    ReadOnly { dir: PathBuf, cause: io::Error },
    /// The file cannot be opened.
    #[error("cannot open the store {}: {cause}", path.display())]
    Access { path: PathBuf, cause: io::Error },
    /// A newer version of kubegc created the store.
    #[error("the store {} has schema version {found}, but this kubegc supports versions up to {known}; run a newer kubegc, or move the file away", path.display())]
    Newer {
        path: PathBuf,
        /// The schema version of the file.
        found: u32,
        /// The newest schema version that this program supports.
        known: u32,
    },
    /// The file is the database of another program.
    #[error("{} is a database of another program; set state.path to another place", path.display())]
    NotOurs { path: PathBuf },
    /// The file is damaged, and this caller may not rename it.
    #[error("the store {} is damaged ({detail}); the next run that collects renames it and creates a new one", path.display())]
    Damaged {
        path: PathBuf,
        /// SQLite's description of the damage.
        detail: String,
    },
    /// The history of deletions cannot be read or written.
    #[error("the history of deletions {} cannot be used: {cause}", path.display())]
    History { path: PathBuf, cause: io::Error },
    /// The disk is full, and the file cannot be read without free space.
    #[error("no space to read the store {} ({detail}); free some space, or set state.path to another place", path.display())]
    NoSpace {
        path: PathBuf,
        /// The error of SQLite or of the system.
        detail: String,
    },
    /// The file is damaged and cannot be renamed.
    #[error("the store {} is damaged and cannot be moved to {}: {cause}", path.display(), to.display())]
    SetAside {
        path: PathBuf,
        /// The new name that was tried.
        to: PathBuf,
        cause: io::Error,
    },
    /// The file cannot be opened or migrated to the current schema.
    #[error("cannot open the store {}: {cause}", path.display())]
    Open { path: PathBuf, cause: rusqlite::Error },
    /// A value cannot be read from the store.
    #[error("cannot read {what} from the store {}: {cause}", path.display())]
    Read { what: &'static str, path: PathBuf, cause: rusqlite::Error },
}

// === impl StoreError ===

impl StoreError {
    pub(super) fn of_history(path: &Path, cause: io::Error) -> Self {
        Self::History { path: path.to_owned(), cause }
    }

    /// Returns whether the file belongs to a newer version or to another program, so that kubegc must not change it.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::NotOurs { .. })
    }
}

/// Returns whether the file is not a database, is damaged, or has tables or values that do not match its version.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    match error {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) => true,
        // SQLite also uses `Unknown` (SQLITE_ERROR) for a faulty statement. Our statements are correct for the tables
        // of this version, so here it means damage.
        error => matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | Unknown)),
    }
}
