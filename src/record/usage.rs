//! The use of file systems over time, for charts.

use jiff::Timestamp;
use rusqlite::Row;
use serde::Serialize;

use super::error::StoreError;
use super::sql_types::{count, integer, moment, nanos};
use super::store::Store;
use crate::model::FileSystem;

/// What a file system held when a pass over images began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsageSample {
    /// The time of the pass.
    pub at: Timestamp,
    /// The file system.
    pub file_system: FileSystem,
}

// === impl Store ===

impl Store {
    /// Records the use of file systems. They are pruned with the history.
    ///
    /// # Errors
    /// None in practice: if the file cannot be written, the store continues in memory.
    pub fn record_usage(&mut self, at: Timestamp, file_systems: &[FileSystem]) -> Result<(), StoreError> {
        self.write("a sample of the usage", |transaction| {
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
        })
    }

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

fn sample(row: &Row<'_>) -> rusqlite::Result<UsageSample> {
    let optional = |column| row.get::<_, Option<i64>>(column).map(|value| value.map(count));
    let file_system = FileSystem {
        mountpoint: row.get::<_, String>(1)?.into(),
        capacity_bytes: count(row.get(2)?),
        available_bytes: count(row.get(3)?),
        inodes: optional(4)?,
        inodes_free: optional(5)?,
        fsid: None,
    };
    Ok(UsageSample { at: moment(row.get(0)?), file_system })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn disk(mountpoint: &str, available_bytes: u64) -> FileSystem {
        let inodes = Some(1000);
        FileSystem {
            mountpoint: mountpoint.into(),
            capacity_bytes: 100,
            available_bytes,
            inodes,
            inodes_free: Some(7),
            fsid: None,
        }
    }

    #[test]
    fn samples_are_returned_as_recorded_oldest_first_and_pruned_with_the_history() {
        let mut store = Store::in_memory().unwrap();
        store.record_usage(at(300), &[disk("/images", 20), FileSystem { inodes: None, ..disk("/logs", 70) }]).unwrap();
        store.record_usage(at(0), &[disk("/images", 10)]).unwrap();
        let all = store.usage(at(0)).unwrap();
        let seen: Vec<_> = all.iter().map(|it| (it.at, it.file_system.mountpoint.to_str().unwrap())).collect();
        assert_eq!(seen, [(at(0), "/images"), (at(300), "/images"), (at(300), "/logs")]);
        assert_eq!(all[1].file_system, disk("/images", 20));
        assert_eq!(all[2].file_system.inodes, None);
        assert_eq!(store.usage(at(1)).unwrap().len(), 2);
        store.prune(at(400), Duration::from_secs(200), 100).unwrap();
        assert_eq!(store.usage(at(0)).unwrap().len(), 2);
    }
}
