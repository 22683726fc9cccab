//! Runs: the recorded passes, with their results.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};
use serde::Serialize;

use super::error::StoreError;
use super::sql_types::{count, integer, json, moment, nanos};
use super::store::Store;
use crate::plan::{Scope, Summary};

/// Nanoseconds in a day.
const DAY: i64 = 86_400_000_000_000;

/// The id of a run.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct RunId(pub(super) i64);

/// A run that this process began and has not ended yet.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) id: i64,
    started_at: i64,
    scope: &'static str,
    dry: bool,
}

/// The runs that this process began, as a store in memory needs them.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// Those that have not ended yet.
    pub(super) underway: Vec<Begun>,
    /// The highest id; 0 = none.
    pub(super) last: i64,
}

/// A run in the history.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RunEntry {
    /// The id of the run.
    pub id: RunId,
    /// The time of its snapshot.
    pub started_at: Timestamp,
    /// When it ended; `null` = it is still running.
    pub finished_at: Option<Timestamp>,
    /// The steps of the run: `containers`, `images` or `all`.
    pub scope: String,
    /// The disk pressure for which it removed everything unused, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// Whether it was a dry run.
    pub dry: bool,
    /// Objects that it removed.
    pub removed: u64,
    /// Objects that were already removed.
    pub already_gone: u64,
    /// Objects that the recheck kept.
    pub refused: u64,
    /// Objects that could not be removed.
    pub failed: u64,
    /// Reclaimed bytes, where measured.
    pub freed_bytes: u64,
    /// Why the run failed; `interrupted` if the agent was killed during the run.
    pub error: Option<String>,
}

// === impl RunId ===

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Store ===

impl Store {
    /// Begins a run. Several may be under way at the same time. A store that moved to memory returns to its file here,
    /// if the file can be used again.
    ///
    /// # Errors
    /// None in practice: if the file cannot be written, the store continues in memory.
    pub fn begin_run(&mut self, started_at: Timestamp, scope: Scope, dry: bool) -> Result<RunId, StoreError> {
        self.verify_file();
        self.return_to_disk();
        let (started_at, scope) = (nanos(started_at), scope.as_str());
        let id = self.write("the beginning of a run", |transaction| {
            transaction
                .execute("INSERT INTO runs (started_at, scope, dry) VALUES (?1, ?2, ?3)", (started_at, scope, dry))?;
            Ok(transaction.last_insert_rowid())
        })?;
        self.next_may_return();
        let runs = &mut self.state.get_mut().runs;
        runs.underway.push(Begun { id, started_at, scope, dry });
        runs.last = runs.last.max(id);
        Ok(RunId(id))
    }

    /// Records why a run removes everything unused.
    ///
    /// # Errors
    /// None in practice: if the file cannot be written, the store continues in memory.
    pub fn set_trigger(&mut self, run: RunId, triggered_by: &str) -> Result<(), StoreError> {
        self.write("what made a run", |transaction| {
            transaction.execute("UPDATE runs SET triggered_by = ?2 WHERE id = ?1", (run.0, triggered_by)).map(drop)
        })
    }

    /// Ends a run. `error` is the reason if the run failed.
    ///
    /// Runs without any action are kept for a day: the service makes one a minute.
    ///
    /// # Errors
    /// None in practice: if the file cannot be written, the store continues in memory.
    pub fn finish_run(
        &mut self,
        run: RunId,
        finished_at: Timestamp,
        summary: &Summary,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        let (total, freed_bytes) = (summary.total(), summary.total_measured_bytes());
        self.write("the end of a run", |transaction| {
            transaction.execute(
                "UPDATE runs SET finished_at = ?2, removed = ?3, already_gone = ?4, refused = ?5, failed = ?6,
                     freed_bytes = ?7, error = ?8 WHERE id = ?1",
                (
                    run.0,
                    nanos(finished_at),
                    integer(total.removed as u64),
                    integer(total.already_gone as u64),
                    integer(total.refused as u64),
                    integer(total.failed as u64),
                    integer(freed_bytes),
                    error,
                ),
            )?;
            forget_empty(transaction, run)
        })?;
        self.state.get_mut().runs.underway.retain(|begun| begun.id != run.0);
        self.return_if_full();
        Ok(())
    }

    /// Returns the run with a number; `None` = there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn run(&self, number: i64) -> Result<Option<RunEntry>, StoreError> {
        self.read("the runs", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, started_at, finished_at, scope, dry, removed, already_gone, refused, failed, freed_bytes,
                     error, triggered_by FROM runs WHERE id = ?1",
            )?;
            statement.query_row([number], entry).optional()
        })
    }

    /// Returns when each run since then began, and the bytes that it measured as a whole and not for single objects, if any:
    /// those of containers and sandboxes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn step_bytes(&self, since: Timestamp) -> Result<Vec<(Timestamp, u64)>, StoreError> {
        self.read("the runs", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT started_at, freed_bytes - (SELECT coalesce(sum(freed_bytes), 0) FROM removals WHERE run = runs.id)
                     AS bytes FROM runs WHERE started_at >= ?1 AND bytes > 0",
            )?;
            let rows = statement.query_map([nanos(since)], |row| Ok((moment(row.get(0)?), count(row.get(1)?))))?;
            rows.collect()
        })
    }

    /// Returns the newest runs, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn runs(&self, limit: usize) -> Result<Vec<RunEntry>, StoreError> {
        self.read("the runs", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, started_at, finished_at, scope, dry, removed, already_gone, refused, failed, freed_bytes,
                     error, triggered_by FROM runs ORDER BY id DESC LIMIT ?1",
            )?;
            let rows = statement.query_map([integer(limit as u64)], entry)?;
            rows.collect()
        })
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<RunEntry> {
    Ok(RunEntry {
        id: RunId(row.get(0)?),
        started_at: moment(row.get(1)?),
        finished_at: row.get::<_, Option<i64>>(2)?.map(moment),
        scope: row.get(3)?,
        dry: row.get(4)?,
        removed: count(row.get(5)?),
        already_gone: count(row.get(6)?),
        refused: count(row.get(7)?),
        failed: count(row.get(8)?),
        freed_bytes: count(row.get(9)?),
        error: row.get(10)?,
        triggered_by: row.get(11)?,
    })
}

// === impl Begun ===

impl Begun {
    /// Inserts the run with its id.
    pub(super) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let values = (self.id, self.started_at, self.scope, self.dry);
        connection.execute("INSERT INTO runs (id, started_at, scope, dry) VALUES (?1, ?2, ?3, ?4)", values).map(drop)
    }
}

/// Ends the runs of an earlier process that was killed, with counts from their removals. `ours` are the runs that this
/// process has under way.
pub(super) fn close_interrupted(transaction: &Transaction<'_>, ours: &[i64]) -> rusqlite::Result<usize> {
    transaction.execute(
        "UPDATE runs SET error = 'interrupted',
             finished_at = (SELECT coalesce(max(at), started_at) FROM removals WHERE run = runs.id),
             removed = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'removed'),
             already_gone = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'already_gone'),
             refused = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'refused'),
             failed = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'failed'),
             freed_bytes = (SELECT coalesce(sum(freed_bytes), 0) FROM removals WHERE run = runs.id)
         WHERE finished_at IS NULL AND id NOT IN (SELECT value FROM json_each(?1))",
        [json(&ours)?],
    )
}

/// Deletes the runs that ended without an error, did nothing, and began more than a day before this one, except the
/// newest of each scope.
fn forget_empty(transaction: &Transaction<'_>, run: RunId) -> rusqlite::Result<()> {
    let mut forget = transaction.prepare_cached(
        "DELETE FROM runs WHERE id < ?1 AND started_at < (SELECT started_at FROM runs WHERE id = ?1) - ?2 AND error IS NULL
             AND id NOT IN (SELECT max(id) FROM runs GROUP BY scope)
             AND finished_at IS NOT NULL AND removed + already_gone + refused + failed = 0",
    )?;
    forget.execute([run.0, DAY]).map(drop)
}
