//! Faults that a test injects into the operations of a store.
//!
//! An injected fault is an error of SQLite, made in the place where SQLite would return it. So it takes the same path as a
//! real one. Faults belong to the file: a store that works in memory does not meet them.

use rusqlite::{Error, ffi};

/// A fault of the store's file, as SQLite reports it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoreFault {
    /// The device cannot be read or written (EIO).
    Io,
    /// The disk is full.
    Full,
    /// Another connection holds the lock.
    Locked,
    /// The file is damaged.
    Damaged,
    /// The file system is read-only.
    ReadOnly,
}

/// The faults that a store will still meet.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Injected>);

/// One fault, and the operation that it strikes.
#[derive(Debug)]
struct Injected {
    /// `None` = every operation.
    what: Option<&'static str>,
    fault: StoreFault,
    times: usize,
}

// === impl StoreFault ===

impl StoreFault {
    /// Every fault.
    pub const ALL: [Self; 5] = [Self::Io, Self::Full, Self::Locked, Self::Damaged, Self::ReadOnly];

    /// The code and the words of SQLite.
    fn error(self) -> Error {
        let (code, text) = match self {
            Self::Io => (ffi::SQLITE_IOERR, "disk I/O error"),
            Self::Full => (ffi::SQLITE_FULL, "database or disk is full"),
            Self::Locked => (ffi::SQLITE_BUSY, "database is locked"),
            Self::Damaged => (ffi::SQLITE_CORRUPT, "database disk image is malformed"),
            Self::ReadOnly => (ffi::SQLITE_READONLY, "attempt to write a readonly database"),
        };
        Error::SqliteFailure(ffi::Error::new(code), Some(text.to_owned()))
    }
}

// === impl Faults ===

impl Faults {
    pub(super) fn inject(&mut self, what: Option<&'static str>, fault: StoreFault, times: usize) {
        self.0.push(Injected { what, fault, times });
    }

    /// Fails if a fault strikes this operation.
    pub(super) fn strike(&mut self, what: &'static str) -> rusqlite::Result<()> {
        let strikes = |injected: &&mut Injected| injected.times > 0 && injected.what.is_none_or(|name| name == what);
        let Some(injected) = self.0.iter_mut().find(strikes) else { return Ok(()) };
        injected.times -= 1;
        Err(injected.fault.error())
    }
}
