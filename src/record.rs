//! Remembers: what the past tells, every run, every removal and what became of it.
//!
//! One SQLite file on the node holds it, see [`Store`]. Values go in and values come out; nothing that leaves this room
//! is a cursor into the file. The room decides nothing and feeds `plan` nothing but [`crate::model::Memory`].
//!
//! **Losing nothing.** Each removal is a transaction of its own, so that a kill -9 at any moment loses no more than the
//! record of the action in flight (I10). The file is in WAL mode with `synchronous = NORMAL`: a commit is one write to
//! the end of the log and no sync. What was written before a kill lies in the kernel's page cache, which does not die
//! with the process. A power cut may lose the last commits, but never leaves the file damaged; that is a fair price for
//! not making a disk that is full already wait for a sync per removal.
//!
//! **When the file cannot be used.** A file of a newer version or of another program is an error at the start, and is not
//! touched. No other fault of the file stops a pass: on a full disk, after an I/O error, while another program holds a lock,
//! on a read-only file system the store continues in memory, with all that the file knew or, where that cannot be read,
//! empty. The next run returns to the file and adds to it what was learnt. A damaged file is set aside and a fresh one
//! begun. Unknown history means "just now", never "never used", so less is removed and not more.
//!
//! **One agent per node.** Whoever writes holds a [`Lock`] first. Whoever only reads needs none, see
//! [`Store::open_read_only`].

mod error;
pub mod events;
mod fallback;
mod faults;
mod file;
mod history;
mod lock;
mod memory;
mod merge;
mod migrations;
mod outcomes;
mod reason;
mod report;
mod runs;
mod sql_types;
mod store;
#[cfg(test)]
mod tests;

pub use error::{StoreError, StoreNote};
#[doc(hidden)]
pub use faults::StoreFault;
pub use history::{HistoryEntry, HistoryFilter};
pub use lock::{Lock, LockError};
pub use outcomes::after_outcomes;
pub use report::{Tallies, Tally, note};
pub use runs::{RunEntry, RunId};
pub use store::{Opened, Store};
