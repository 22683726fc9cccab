//! Why the file of the store could not be opened: no space, damage, or another fault.

use std::io::{self, Write};
use std::path::Path;

use rusqlite::ErrorCode;

use super::dir_of;
use crate::record::error::{StoreError, is_damage};

/// Why a file could not be opened.
#[derive(Debug)]
pub(in crate::record) enum Trouble {
    /// There is no free space to open it; the cause.
    Full(String),
    /// The file is damaged; SQLite's description.
    Damaged(String),
    /// A fault that needs an administrator.
    Error(StoreError),
}

// === impl Trouble ===

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Error(error)
    }
}

/// Returns whether a write failed because the disk is full.
///
/// SQLite has an error code for a failed write, but not for a file beside the store that could not be created or
/// extended. In that case the function tries to write to the directory.
pub(in crate::record) fn is_full(path: &Path, error: &rusqlite::Error) -> bool {
    matches!(classify_code(path, error), Some(Trouble::Full(_)))
}

pub(super) fn classify(path: &Path, error: rusqlite::Error) -> Trouble {
    if is_damage(&error) {
        return Trouble::Damaged(error.to_string());
    }
    classify_code(path, &error).unwrap_or_else(|| StoreError::Open { path: path.to_owned(), cause: error }.into())
}

fn classify_code(path: &Path, error: &rusqlite::Error) -> Option<Trouble> {
    match error.sqlite_error_code()? {
        ErrorCode::DiskFull => Some(Trouble::Full(error.to_string())),
        ErrorCode::CannotOpen | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly => {
            probe(dir_of(path)).err().and_then(|cause| of_dir(path, cause))
        }
        _ => None,
    }
}

/// Tries to write one page to the directory, in a temporary file.
fn probe(dir: &Path) -> io::Result<()> {
    tempfile::tempfile_in(dir)?.write_all(&[0; 4096])
}

pub(super) fn of_io(path: &Path, cause: io::Error) -> Trouble {
    let kind = cause.kind();
    if is_full_kind(kind) || is_read_only_kind(kind) {
        return of_dir(path, cause).unwrap_or_else(|| Trouble::Full(kind.to_string()));
    }
    StoreError::Access { path: path.to_owned(), cause }.into()
}

fn of_dir(path: &Path, cause: io::Error) -> Option<Trouble> {
    match cause.kind() {
        kind if is_full_kind(kind) => Some(Trouble::Full(cause.to_string())),
        kind if is_read_only_kind(kind) => Some(StoreError::ReadOnly { dir: dir_of(path).to_owned(), cause }.into()),
        _ => None,
    }
}

pub(super) fn is_full_kind(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_read_only_kind(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

pub(in crate::record) fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(kind: io::ErrorKind) -> Trouble {
        of_io(Path::new("/state/kubegc.db"), kind.into())
    }

    #[test]
    fn no_space_is_distinguished_from_no_permission() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(matches!(trouble(kind), Trouble::Full(_)), "{kind}");
        }
        for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
            let Trouble::Error(error) = trouble(kind) else { panic!("{kind}") };
            let text = format!(
                "the state directory /state cannot be written: {kind}; \
                 make it writable for this user, or set state.path to another place"
            );
            assert_eq!(error.to_string(), text);
        }
        let other = trouble(io::ErrorKind::IsADirectory);
        assert!(matches!(other, Trouble::Error(StoreError::Access { .. })), "{other:?}");
    }
}
