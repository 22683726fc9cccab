//! The file of a store as a command reads it: a copy in memory, while an agent may write to the file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::copy::{CopyMode, copy};
use super::file::in_memory;
use crate::host_path::BoundedCalls;
use crate::model::Memory;
use crate::record::memory::read_memory;
use crate::record::store_error::StoreError;

/// What a file has: the memory and the history.
#[derive(Debug)]
pub struct StoreReader {
    path: PathBuf,
    connection: Connection,
}

// === impl StoreReader ===

impl StoreReader {
    /// Reads the file. It and its directory do not change. `None` = there is no store yet.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program, is damaged, or cannot be read.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let copy = copy(path, CopyMode::Shared).map_err(|fault| fault.into_error(path))?;
        Ok(copy.map(|connection| Self { path: path.to_owned(), connection }))
    }

    /// Reads nothing, for a node without a store.
    ///
    /// # Errors
    /// None in practice: SQLite is out of memory.
    pub fn empty() -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        match in_memory() {
            Ok(connection) => Ok(Self { path, connection }),
            Err(cause) => Err(StoreError::Open { path, cause }),
        }
    }

    /// Returns what earlier passes learned. `agent_started_at` is the beginning of this memory; `None` = no pass has stored
    /// anything yet. A one-shot run counts from it, the service from its own start.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn memory(&self) -> Result<Memory, StoreError> {
        self.read("the memory", read_memory)
    }

    /// Reads with `work`; `what` names the data in errors.
    pub(in crate::record) fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|cause| StoreError::Read { what, path: self.path.clone(), cause })
    }
}

/// Runs `read` in a blocking thread, for one look at a store.
///
/// # Errors
/// Those of `read`, or [`StoreError::Access`] if the file system of `path` does not respond within the limit.
pub async fn read_within<T: Send + 'static>(
    limit: Duration,
    path: &Path,
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let blocked = |error| StoreError::Access { path: path.to_owned(), cause: io::Error::other(error) };
    BoundedCalls::new(limit).run(path, read).await.map_err(blocked)?
}
