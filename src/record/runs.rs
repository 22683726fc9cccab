//! Runs: the recorded passes, with their results.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};
use serde::Serialize;

use super::database::copy::StoreReader;
use super::database::rows::{count, integer, json, moment, nanos};
use super::store_error::StoreError;
use crate::plan::{Scope, Summary};

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct RunId(pub(super) i64);

/// What is known of a run when it begins.
#[derive(Clone, Debug)]
pub struct RunStart {
    /// The time of its snapshot.
    pub started_at: Timestamp,
    /// The steps of the run.
    pub scope: Scope,
    /// Whether it is a dry run.
    pub dry: bool,
    /// The disk pressure that it is to end, if any.
    pub triggered_by: Option<String>,
}

#[derive(Clone, Debug)]
pub struct RunEnd {
    pub at: Timestamp,
    /// The counts of its outcomes.
    pub summary: Summary,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What remains of the history after it.
    pub keep: Retention,
}

/// How much of the history is kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The age after which removals, runs and samples of the usage are deleted.
    pub max_age: Duration,
    /// The number of removals, and of runs, of which the oldest are deleted. Refusals are counted separately, so that they
    /// do not displace removals.
    pub max_rows: u64,
}

/// A run of this process. Its id in the file is not known before the file has it, and a fresh file may give another.
#[derive(Clone, Debug)]
pub struct Run {
    number: u64,
    start: Arc<RunStart>,
}

/// The ids in the file of the runs that this process has in progress, by their numbers, each with its start.
#[derive(Clone, Debug, Default)]
pub(super) struct RunIds(BTreeMap<u64, (RunId, i64)>);

/// A run in the history.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RunEntry {
    pub id: RunId,
    /// The time of its snapshot.
    pub started_at: Timestamp,
    /// When it ended; `null` = it is still running.
    pub finished_at: Option<Timestamp>,
    /// The steps of the run: `containers`, `images` or `all`.
    pub scope: String,
    /// The disk pressure that it was to end, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// Whether it was a dry run.
    pub dry: bool,
    /// Objects that it removed.
    pub removed: u64,
    /// Objects that were already removed.
    pub already_removed: u64,
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

// === impl Run ===

impl Run {
    /// Begins the run with this number in the process.
    pub(super) fn new(number: u64, start: RunStart) -> Self {
        Self { number, start: Arc::new(start) }
    }
}

impl Deref for Run {
    type Target = RunStart;

    fn deref(&self) -> &RunStart {
        &self.start
    }
}

// === impl RunIds ===

impl RunIds {
    /// Returns the id of a run in the file. Adds the run to the file if it is not there.
    pub(super) fn id(&mut self, transaction: &Transaction<'_>, run: &Run) -> rusqlite::Result<RunId> {
        if let Some((id, _)) = self.0.get(&run.number) {
            return Ok(*id);
        }
        let RunStart { started_at, scope, dry, triggered_by } = &*run.start;
        let started_at = nanos(*started_at);
        transaction.execute(
            "INSERT INTO runs (started_at, scope, dry, triggered_by) VALUES (?1, ?2, ?3, ?4)",
            (started_at, scope.as_str(), dry, triggered_by),
        )?;
        let id = RunId(transaction.last_insert_rowid());
        self.0.insert(run.number, (id, started_at));
        Ok(id)
    }

    pub(super) fn forget(&mut self, run: &Run) {
        self.0.remove(&run.number);
    }

    /// Forgets the runs that a file does not have. It may be another file than the one that gave the ids.
    pub(super) fn keep_known(&mut self, file: &Connection) -> rusqlite::Result<()> {
        let mut is_known = file.prepare("SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND started_at = ?2)")?;
        let mut known = BTreeMap::new();
        for (number, (id, started_at)) in &self.0 {
            if is_known.query_row([id.0, *started_at], |row| row.get(0))? {
                known.insert(*number, (*id, *started_at));
            }
        }
        self.0 = known;
        Ok(())
    }
}

// === impl StoreReader ===

impl StoreReader {
    /// Returns the run with a number; `None` = there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn run(&self, number: i64) -> Result<Option<RunEntry>, StoreError> {
        self.read("the runs", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, started_at, finished_at, scope, dry, removed, already_removed, refused, failed, freed_bytes,
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
                "SELECT id, started_at, finished_at, scope, dry, removed, already_removed, refused, failed, freed_bytes,
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
        already_removed: count(row.get(6)?),
        refused: count(row.get(7)?),
        failed: count(row.get(8)?),
        freed_bytes: count(row.get(9)?),
        error: row.get(10)?,
        triggered_by: row.get(11)?,
    })
}

/// Ends a run in a file.
pub(super) fn end_run(transaction: &Transaction<'_>, id: RunId, end: &RunEnd) -> rusqlite::Result<()> {
    let (total, freed_bytes) = (end.summary.total(), end.summary.total_measured_bytes());
    transaction.execute(
        "UPDATE runs SET finished_at = ?2, removed = ?3, already_removed = ?4, refused = ?5, failed = ?6,
             freed_bytes = ?7, error = ?8 WHERE id = ?1",
        (
            id.0,
            nanos(end.at),
            integer(total.removed as u64),
            integer(total.already_removed as u64),
            integer(total.refused as u64),
            integer(total.failed as u64),
            integer(freed_bytes),
            &end.error,
        ),
    )?;
    Ok(())
}

/// Ends the runs of an earlier process that was killed, with counts from their removals. `ours` are the runs that this
/// process has in progress. A file without such runs is not written, so a write lock of another program does no harm.
pub(super) fn close_interrupted(file: &Connection, ours: &RunIds) -> rusqlite::Result<()> {
    const INTERRUPTED: &str = "finished_at IS NULL AND id NOT IN (SELECT value FROM json_each(?1))";
    let ours = json(&ours.0.values().map(|(id, _)| id).collect::<Vec<_>>())?;
    let sql = format!("SELECT EXISTS (SELECT 1 FROM runs WHERE {INTERRUPTED})");
    if !file.query_row(&sql, [&ours], |row| row.get(0))? {
        return Ok(());
    }
    let sql = format!(
        "UPDATE runs SET error = 'interrupted',
             finished_at = (SELECT coalesce(max(at), started_at) FROM removals WHERE run = runs.id),
             removed = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'removed'),
             already_removed = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'already_removed'),
             refused = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'refused'),
             failed = (SELECT count(*) FROM removals WHERE run = runs.id AND outcome = 'failed'),
             freed_bytes = (SELECT coalesce(sum(freed_bytes), 0) FROM removals WHERE run = runs.id)
         WHERE {INTERRUPTED}"
    );
    file.execute(&sql, [&ours]).map(drop)
}
