//! The use of file systems over time, for charts.

use jiff::Timestamp;
use rusqlite::{Row, Transaction};
use serde::Serialize;

use super::database::copy::StoreReader;
use super::database::rows::{count, integer, moment, nanos};
use super::store_error::StoreError;
use crate::model::FileSystem;

/// What a file system held when a pass over images began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsageSample {
    /// The time of the pass.
    pub at: Timestamp,
    pub file_system: FileSystem,
}

// === impl StoreReader ===

impl StoreReader {
    /// Returns the samples from `since` on, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn usage(&self, since: Timestamp) -> Result<Vec<UsageSample>, StoreError> {
        self.read("the usage", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT at, mountpoint, capacity_bytes, available_bytes, inodes, inodes_free FROM usage
                 WHERE at >= ?1 ORDER BY at, mountpoint",
            )?;
            statement.query_map([nanos(since)], sample)?.collect()
        })
    }
}

/// Adds the use of file systems to a file.
pub(super) fn insert_usage(
    transaction: &Transaction<'_>,
    at: Timestamp,
    file_systems: &[FileSystem],
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO usage (at, mountpoint, capacity_bytes, available_bytes, inodes, inodes_free)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for of in file_systems {
        insert.execute((
            nanos(at),
            of.mountpoint.to_string_lossy(),
            integer(of.capacity_bytes),
            integer(of.available_bytes),
            of.inodes.map(integer),
            of.inodes_free.map(integer),
        ))?;
    }
    Ok(())
}

fn sample(row: &Row<'_>) -> rusqlite::Result<UsageSample> {
    let optional = |column| row.get::<_, Option<i64>>(column).map(|value| value.map(count));
    let file_system = FileSystem {
        mountpoint: row.get::<_, String>(1)?.into(),
        capacity_bytes: count(row.get(2)?),
        available_bytes: count(row.get(3)?),
        inodes: optional(4)?,
        inodes_free: optional(5)?,
        fsid: None,
        free_bytes: None,
    };
    Ok(UsageSample { at: moment(row.get(0)?), file_system })
}
