//! Why the file of the store cannot be used: no space, damage, or another fault.

use std::io::{self, Write};
use std::path::Path;

use rusqlite::ErrorCode;

use crate::record::store_error::{StoreError, is_damage};

/// Why the file cannot be used.
#[derive(Debug)]
pub(in crate::record) enum FileFault {
    /// There is no free space; the cause.
    Full(String),
    /// The file is damaged; SQLite's description.
    Damaged(String),
    /// Another error of SQLite.
    Sqlite(rusqlite::Error),
    /// A fault that needs an administrator.
    Error(StoreError),
}

/// Why the file cannot be used, as shown to users.
#[derive(Debug)]
pub(in crate::record) struct Cause {
    /// The error, without the path.
    pub text: String,
    /// Whether the disk is full, so that a pass may end the fault.
    pub is_full: bool,
}

// === impl FileFault ===

impl From<StoreError> for FileFault {
    fn from(error: StoreError) -> Self {
        Self::Error(error)
    }
}

impl FileFault {
    /// Classifies an error of SQLite.
    ///
    /// SQLite has an error code for a failed write, but not for a file beside the store that could not be created or
    /// extended. In that case the function tries to write to the directory.
    pub(super) fn of(path: &Path, error: rusqlite::Error) -> Self {
        if is_damage(&error) {
            return Self::Damaged(error.to_string());
        }
        let known = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Some(Self::Full(error.to_string())),
            Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly) => {
                probe(dir_of(path)).err().and_then(|cause| of_dir(path, cause))
            }
            _ => None,
        };
        known.unwrap_or(Self::Sqlite(error))
    }

    /// Classifies an error of the system.
    pub(super) fn of_io(path: &Path, cause: io::Error) -> Self {
        let kind = cause.kind();
        if is_full_kind(kind) || is_read_only_kind(kind) {
            return of_dir(path, cause).unwrap_or_else(|| Self::Full(kind.to_string()));
        }
        StoreError::Access { path: path.to_owned(), cause }.into()
    }

    /// Returns the error for a command that only reads.
    pub(in crate::record) fn into_error(self, path: &Path) -> StoreError {
        match self {
            Self::Error(error) => error,
            Self::Damaged(detail) => StoreError::Damaged { path: path.to_owned(), detail },
            Self::Full(detail) => StoreError::NoSpace { path: path.to_owned(), detail },
            Self::Sqlite(cause) => StoreError::Open { path: path.to_owned(), cause },
        }
    }
}

impl From<FileFault> for Cause {
    fn from(fault: FileFault) -> Self {
        let is_full = matches!(fault, FileFault::Full(_));
        let text = match fault {
            FileFault::Full(detail) | FileFault::Damaged(detail) => detail,
            FileFault::Sqlite(error) => error.to_string(),
            FileFault::Error(error) => error.to_string(),
        };
        Self { text, is_full }
    }
}

/// Returns the directory of a file.
pub(in crate::record) fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Tries to write one page to the directory, in a temporary file.
fn probe(dir: &Path) -> io::Result<()> {
    tempfile::tempfile_in(dir)?.write_all(&[0; 4096])
}

fn of_dir(path: &Path, cause: io::Error) -> Option<FileFault> {
    match cause.kind() {
        kind if is_full_kind(kind) => Some(FileFault::Full(cause.to_string())),
        kind if is_read_only_kind(kind) => Some(StoreError::ReadOnly { dir: dir_of(path).to_owned(), cause }.into()),
        _ => None,
    }
}

/// Returns whether an error of the system says that there is no space.
pub(super) fn is_full_kind(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_read_only_kind(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: io::ErrorKind) -> FileFault {
        FileFault::of_io(Path::new("/state/kubegc.db"), kind.into())
    }

    #[test]
    fn no_space_is_distinguished_from_no_permission() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(matches!(fault(kind), FileFault::Full(_)), "{kind}");
        }
        for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
            let FileFault::Error(error) = fault(kind) else { panic!("{kind}") };
            let text = format!(
                "the state directory /state cannot be written: {kind}; \
                 make it writable for this user, or set state.path to another place"
            );
            assert_eq!(error.to_string(), text);
        }
        let other = fault(io::ErrorKind::IsADirectory);
        assert!(matches!(other, FileFault::Error(StoreError::Access { .. })), "{other:?}");
    }
}
