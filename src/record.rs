//! The store: what earlier passes learned, every run, every removal and its outcome.
//!
//! All of it is in one SQLite file on the node, see [`Store`]. Callers pass values in and receive values. This module
//! never returns a cursor into the file. It makes no decisions, and the only input it gives to `plan` is
//! [`crate::model::Memory`].
//!
//! **Durability.** Each removal is its own transaction. A kill -9 at any moment loses at most the record of the action
//! in flight (I10). The file is in WAL mode with `synchronous = NORMAL`: a commit is one write to the end of the log,
//! without a sync. The kernel's page cache holds what was written before a kill, and it outlives the process. A power
//! cut may lose the last commits, but never damages the file. With a sync for each removal, every removal would have to
//! wait for a disk that is already full.
//!
//! **When the file cannot be used.** A file of a newer version or of another program is an error at the start, and
//! kubegc does not change it. No other fault of the file stops a pass: on a full disk, after an I/O error, while
//! another program holds a lock, or on a read-only file system, the store continues in memory. It has a copy of the
//! file's data there or, if the file cannot be read, it is empty. The next run returns to the file and adds what was
//! learned meanwhile. A call that the file system blocks ends after a limit in the same way, see [`SharedStore`]. A
//! damaged file is renamed, and the store creates a new one. Unknown history means "just now", never "never used", so
//! kubegc removes less, not more.
//!
//! **One agent per node.** A writer holds a [`Lock`] first. A reader needs none, see [`Store::open_read_only`].

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
mod outcome_log;
mod outcomes;
mod pass;
mod pass_log;
mod reason;
mod runs;
mod shared;
mod sql_types;
mod store;
#[cfg(test)]
mod tests;
mod usage;

pub use error::{StoreError, StoreNote};
#[doc(hidden)]
pub use faults::StoreFault;
pub use history::{HistoryEntry, HistoryFilter};
pub use lock::{Lock, LockError};
pub use outcome_log::{OUTCOMES, count_and_log_outcome};
pub use outcomes::after_outcomes;
pub use pass::Pass;
pub use pass_log::{PassEnd, count_no_pass, count_pass, log_pass};
pub use runs::{RunEntry, RunId};
pub use shared::{STORE_LIMIT, SharedStore, read_within};
pub use store::{Opened, Store};
pub use usage::UsageSample;
