//! Faults that a test injects into the operations of a store. They are in the feature `sim`, so that they do not ship.
//!
//! An injected fault is an SQLite error, created where SQLite would return it. It therefore takes the same path as a
//! real one. Faults belong to the file: they do not affect a store in memory.

use rusqlite::{Error, ffi};

use super::database::mirror::{MEMORY, OPEN, lock};
use super::database::rows::Row;
use super::state_store::Store;

/// The names of the kinds of rows.
const ROWS: [&str; 6] = [
    "the beginning of a run",
    "a removal",
    "the end of a run",
    "a sample of the usage",
    "a repeated pull",
    "the trace of images",
];

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
    fn inject(&mut self, what: Option<&'static str>, fault: StoreFault, times: usize) {
        self.0.push(Injected { what, fault, times });
    }

    /// Fails if a fault is injected into this operation.
    pub(super) fn fail_if_injected(&mut self, what: &'static str) -> rusqlite::Result<()> {
        let applies = |injected: &&mut Injected| injected.times > 0 && injected.what.is_none_or(|name| name == what);
        let Some(injected) = self.0.iter_mut().find(applies) else { return Ok(()) };
        injected.times -= 1;
        Err(injected.fault.error())
    }

    /// Fails if a fault is injected into the writing of such a row.
    pub(super) fn fail_if_injected_at(&mut self, row: &Row) -> rusqlite::Result<()> {
        let [begin, removal, end, usage, pull, trace] = ROWS;
        self.fail_if_injected(match row {
            Row::Begin(_) => begin,
            Row::Removal { .. } => removal,
            Row::End { .. } => end,
            Row::Usage { .. } => usage,
            Row::PulledAgain { .. } => pull,
            Row::Trace { .. } => trace,
        })
    }
}

// === impl Store ===

impl Store {
    /// The names of all operations on the file, for [`Self::inject`].
    #[doc(hidden)]
    pub const OPERATIONS: &[&str] = &{
        let [begin, removal, end, usage, pull, trace] = ROWS;
        [OPEN, MEMORY, begin, removal, end, usage, pull, trace]
    };

    /// Makes an operation on the file fail this many times; `None` = every operation.
    #[doc(hidden)]
    pub fn inject(&self, what: Option<&'static str>, fault: StoreFault, times: usize) {
        self.mirror.iter().for_each(|mirror| lock(mirror).faults.inject(what, fault, times));
    }
}
