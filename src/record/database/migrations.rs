//! The schema, and the migration of older files.

use rusqlite::{Connection, TransactionBehavior};

/// The steps from an empty file to the current schema. SQLite's `user_version` counts how many of them a file has had.
///
/// Only ever append to this list. Never change, move or remove an entry that was in a release, because existing files
/// already have it: a changed entry does not change those files. To correct a step, add a later step. Times are
/// nanoseconds since 1970 in UTC; `NULL` is the absent value of the same field in the model.
pub(in crate::record) const MIGRATIONS: &[&str] = &[
    // 1: the schema of the first release.
    "CREATE TABLE facts (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
     CREATE TABLE images (
         id TEXT NOT NULL PRIMARY KEY, first_seen INTEGER, last_used INTEGER, last_used_by TEXT
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE image_volumes (container TEXT NOT NULL PRIMARY KEY, images TEXT NOT NULL) STRICT, WITHOUT ROWID;
     CREATE TABLE absences (uid TEXT NOT NULL PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;
     CREATE TABLE failures (
         key TEXT NOT NULL PRIMARY KEY, count INTEGER NOT NULL, retry_at INTEGER NOT NULL, error TEXT NOT NULL
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE runs (
         id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
         started_at INTEGER NOT NULL, finished_at INTEGER, scope TEXT NOT NULL, dry INTEGER NOT NULL,
         removed INTEGER NOT NULL DEFAULT 0, already_removed INTEGER NOT NULL DEFAULT 0,
         refused INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
         freed_bytes INTEGER NOT NULL DEFAULT 0, error TEXT, triggered_by TEXT
     ) STRICT;
     CREATE TABLE removals (
         id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
         run INTEGER NOT NULL, at INTEGER NOT NULL,
         kind TEXT NOT NULL, object TEXT NOT NULL, name TEXT, tags TEXT NOT NULL,
         pod_namespace TEXT, pod_name TEXT, pod_uid TEXT, age_seconds INTEGER,
         reason TEXT NOT NULL, reason_values TEXT NOT NULL,
         outcome TEXT NOT NULL, detail TEXT, estimated_bytes INTEGER, freed_bytes INTEGER, proven_by TEXT
     ) STRICT;
     CREATE INDEX removals_by_time ON removals (at, id);
     CREATE INDEX removals_by_run ON removals (run);
     CREATE TABLE usage (
         at INTEGER NOT NULL, mountpoint TEXT NOT NULL, capacity_bytes INTEGER NOT NULL,
         available_bytes INTEGER NOT NULL, inodes INTEGER, inodes_free INTEGER, PRIMARY KEY (at, mountpoint)
     ) STRICT, WITHOUT ROWID;",
    // 2: a removal has the first pass that had the image again.
    "ALTER TABLE removals ADD COLUMN pulled_again_at INTEGER;
     UPDATE facts SET value = json_object('at', json(value)) WHERE key GLOB 'removed_image/*';",
    // 3: what happened to each image.
    "CREATE TABLE traced_images (
         number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL UNIQUE, tags TEXT NOT NULL, digests TEXT NOT NULL,
         size_bytes INTEGER NOT NULL, pinned INTEGER NOT NULL, disk_bytes INTEGER, last_used_by TEXT
     ) STRICT;
     CREATE TABLE trace (
         at INTEGER NOT NULL, image INTEGER NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (at, image, event)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX trace_by_image ON trace (image, at);",
];

/// The `application_id` of kubegc's files: `kgc` and a zero. kubegc does not change the database of another program.
pub(super) const APPLICATION_ID: i64 = 0x6b67_6300;

/// The schema status of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::record) enum SchemaStatus {
    /// No schema yet, or a kubegc schema that is not newer than the list.
    Usable,
    /// A kubegc schema with more steps than the list.
    Newer(u32),
    /// Tables of another program.
    NotOurs,
}

/// Returns the schema status of a file without changing it.
pub(in crate::record) fn schema_status(connection: &Connection, steps: &[&str]) -> rusqlite::Result<SchemaStatus> {
    let version = version(connection)?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application == APPLICATION_ID, tables) {
        (true, _) if version as usize > steps.len() => SchemaStatus::Newer(version),
        (true, _) | (false, 0) => SchemaStatus::Usable,
        (false, _) => SchemaStatus::NotOurs,
    })
}

/// Migrates a [`SchemaStatus::Usable`] file to the end of the list, in one transaction.
///
/// The transaction is exclusive from its start. If two programs open an old file at the same time, one migrates it and
/// the other finds it migrated.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    if version(connection)? as usize == steps.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let done = version(&transaction)? as usize;
    for step in steps.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", u32::try_from(steps.len()).unwrap_or(u32::MAX))?;
    transaction.commit()
}

/// Returns how many steps a file has had.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn schema(connection: &Connection) -> Vec<String> {
        let mut statement = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn migrating_twice_is_migrating_once() {
        let mut connection = fresh();
        migrate(&mut connection, MIGRATIONS).unwrap();
        connection.execute("INSERT INTO images (id, first_seen, last_used) VALUES ('sha256:aa', 1, 2)", []).unwrap();
        let before = schema(&connection);
        migrate(&mut connection, MIGRATIONS).unwrap();
        assert_eq!(schema(&connection), before);
        assert_eq!(version(&connection).unwrap() as usize, MIGRATIONS.len());
        let images: i64 = connection.query_row("SELECT count(*) FROM images", [], |row| row.get(0)).unwrap();
        assert_eq!(images, 1, "the second time touches no rows");
    }

    #[test]
    fn a_further_step_runs_once_on_existing_data() {
        let mut connection = fresh();
        migrate(&mut connection, MIGRATIONS).unwrap();
        connection.execute("INSERT INTO images (id, first_seen, last_used) VALUES ('sha256:aa', 1, 2)", []).unwrap();
        let mut steps = MIGRATIONS.to_vec();
        steps.push("ALTER TABLE images ADD COLUMN pulls INTEGER NOT NULL DEFAULT 7");
        migrate(&mut connection, &steps).unwrap();
        migrate(&mut connection, &steps).unwrap();
        let row: (i64, i64) = connection
            .query_row("SELECT last_used, pulls FROM images", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(row, (2, 7));
        assert_eq!(
            schema_status(&connection, MIGRATIONS).unwrap(),
            SchemaStatus::Newer(u32::try_from(steps.len()).unwrap()),
            "the program of before sees it"
        );
    }

    #[test]
    fn a_failed_step_rolls_back_the_steps_before_it() {
        let mut connection = fresh();
        let mut steps = MIGRATIONS.to_vec();
        steps.push("CREATE TABLE images (again TEXT)");
        migrate(&mut connection, &steps).unwrap_err();
        assert_eq!(schema(&connection), Vec::<String>::new());
        assert_eq!(version(&connection).unwrap(), 0);
    }

    #[test]
    fn tables_of_another_program_are_not_ours() {
        let connection = fresh();
        assert_eq!(schema_status(&connection, MIGRATIONS).unwrap(), SchemaStatus::Usable, "nothing is there yet");
        connection.execute_batch("CREATE TABLE songs (title TEXT); PRAGMA user_version = 1").unwrap();
        assert_eq!(schema_status(&connection, MIGRATIONS).unwrap(), SchemaStatus::NotOurs);
    }
}
