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
//! **When the file is in trouble.** A file from a newer version, a foreign one and a directory that cannot be written are
//! errors that say what to do. A full disk is not: the agent is needed most then, so the store goes on in memory, with
//! all that the file knew, and returns to the file with the first run that finds space. A damaged file is set aside and
//! a fresh one begun; unknown history means "just now", never "never used", so nothing goes too early for that.
//!
//! **One agent per node.** Whoever writes holds a [`Lock`] first. Whoever only reads needs none, see
//! [`Store::open_read_only`].

mod columns;
mod error;
pub mod events;
mod file;
mod history;
mod lock;
mod memory;
mod migrations;
mod outcomes;
mod reason;
mod report;
mod runs;
mod store;
#[cfg(test)]
mod tests;

pub use error::{StoreError, StoreNote};
pub use history::{HistoryEntry, HistoryFilter};
pub use lock::{Lock, LockError};
pub use outcomes::after_outcomes;
pub use report::{Tallies, Tally, note};
pub use runs::{RunEntry, RunId};
pub use store::{Opened, Store};
