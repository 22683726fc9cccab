//! The store: what earlier passes learned, every run, every removal and its outcome.
//!
//! An agent has its memory in the process, and in one place, see [`StoreState`]. One SQLite file on the node mirrors it
//! and has the history. The file is read once, at the start. It is written after each change, see [`Store`]. Commands read
//! it, see [`StoreReader`]. This module never returns a cursor into the file. It makes no decisions, and the only input it
//! gives to `plan` is [`crate::model::Memory`].
//!
//! **Durability.** Each removal is recorded before the next removal of its pod. A kill -9 at any moment loses at most
//! the records of the actions in progress (I10). The file is in WAL mode with `synchronous = NORMAL`: a commit is one
//! write to the end of the log, without a sync. The kernel's page cache holds what was written before a kill, and it
//! outlives the process. A power cut may lose the last commits, but never damages the file. With a sync for each
//! removal, every removal would have to wait for a disk that is already full.
//!
//! **When the file cannot be used.** A file of a newer version or of another program is an error at the start, and
//! kubegc does not change it. No other fault of the file stops a pass: on a full disk, after an I/O error, while
//! another program holds a lock, or on a read-only file system, the pass continues and the rows of the history wait. The
//! first call that fails is the last one of a pass, so a pass waits for the file once. The next pass tries it again. A call
//! that the file system blocks ends after a limit in the same way. A damaged file is renamed, and the store creates a new
//! one. Until the file has everything, each pass reports the fault: in the log, in `kubegc status` (through the lock's
//! file), in systemd's status and by exit status 1 of `collect`.
//!
//! **One agent per node.** A writer holds a [`Lock`] first. A reader needs none.

mod database;
mod deletions;
pub mod events;
#[cfg(feature = "sim")]
mod faults;
mod history;
mod lock;
mod log;
mod memory;
mod runs;
mod state;
mod state_store;
mod store_error;
#[cfg(test)]
mod tests;
mod trace;
mod usage;

pub use database::copy::{StoreReader, read_within};
pub use deletions::{DeletionEntry, DeletionLog};
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use faults::StoreFault;
pub use history::{HistoryEntry, HistoryFilter};
pub use lock::{Lock, LockError};
pub use log::log_pass;
pub use log::{OUTCOMES, count_and_log_outcome, count_and_log_pulled_again};
pub use runs::{Retention, Run, RunEnd, RunEntry, RunId, RunStart};
pub use state::StoreState;
pub use state_store::{STORE_LIMIT, Store};
pub use store_error::StoreError;
pub use usage::UsageSample;

/// What ships injects no fault.
#[cfg(not(feature = "sim"))]
mod faults {
    use super::database::rows::Row;

    #[derive(Debug, Default)]
    pub(super) struct Faults;

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "those of the tests fail")]
    impl Faults {
        pub(super) fn fail_if_injected(&mut self, _: &'static str) -> rusqlite::Result<()> {
            Ok(())
        }

        pub(super) fn fail_if_injected_at(&mut self, _: &Row) -> rusqlite::Result<()> {
            Ok(())
        }
    }
}
