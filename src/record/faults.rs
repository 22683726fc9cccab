//! Faults that a test injects into the operations of a store.
//!
//! An injected fault is an SQLite error, created where SQLite would return it. It therefore takes the same path as a
//! real one. Faults belong to the file: they do not affect a store in memory.

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

/// The injected faults that have not occurred yet.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Injected>);

/// One fault, and the operation that it affects.
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

    /// Returns the error with SQLite's code and text.
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

    /// Fails if a fault is injected into this operation.
    pub(super) fn fail_if_injected(&mut self, what: &'static str) -> rusqlite::Result<()> {
        let applies = |injected: &&mut Injected| injected.times > 0 && injected.what.is_none_or(|name| name == what);
        let Some(injected) = self.0.iter_mut().find(applies) else { return Ok(()) };
        injected.times -= 1;
        Err(injected.fault.error())
    }
}
