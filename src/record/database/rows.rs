//! The rows of the history: what a pass adds to the file, in order; and the conversions to and from columns: times in nanoseconds since
//! 1970, counts within SQLite's integer range.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Transaction;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;

use crate::model::{FileSystem, ImageId, RemovedImage, TracedImage};
use crate::plan::{Report, Scope};
use crate::record::history::{insert_removal, mark_pulled_again};
use crate::record::runs::{Retention, Run, RunEnd, RunIds, end_run};
use crate::record::trace;
use crate::record::usage::insert_usage;

const DAY: Duration = Duration::from_hours(24);

/// One addition to the history.
#[derive(Debug)]
pub(in crate::record) enum Row {
    Begin(Run),
    /// An action of a run ended.
    Removal {
        run: Run,
        at: Timestamp,
        report: Report,
    },
    End {
        run: Run,
        end: RunEnd,
    },
    /// An image that was removed is in the runtime again.
    PulledAgain {
        id: ImageId,
        image: Arc<RemovedImage>,
    },
    /// What happened to images, and what is known of those that are new.
    Trace {
        images: Vec<TracedImage>,
        events: Vec<trace::Event>,
    },
    /// The use of file systems.
    Usage {
        at: Timestamp,
        file_systems: Vec<FileSystem>,
    },
}

// === impl Row ===

impl Row {
    /// Writes the row. A run that the file does not have yet is added first.
    fn write(&self, transaction: &Transaction<'_>, runs: &mut RunIds) -> rusqlite::Result<()> {
        match self {
            Self::Begin(run) => runs.id(transaction, run).map(drop),
            Self::Removal { run, at, report } => insert_removal(transaction, runs.id(transaction, run)?, *at, report),
            Self::End { run, end } => {
                end_run(transaction, runs.id(transaction, run)?, end)?;
                runs.forget(run);
                Ok(())
            }
            Self::PulledAgain { id, image } => mark_pulled_again(transaction, id, image),
            Self::Trace { images, events } => trace::insert(transaction, images, events),
            Self::Usage { at, file_systems } => insert_usage(transaction, *at, file_systems),
        }
    }
}

/// Writes the rows in order, and deletes what is too old after the last run of them that ended. `before` is called before
/// each row.
pub(super) fn write_rows(
    transaction: &Transaction<'_>,
    rows: &[Arc<Row>],
    runs: &mut RunIds,
    mut before: impl FnMut(&Row) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let (mut last_end, mut has_images) = (None, false);
    for row in rows {
        before(row)?;
        row.write(transaction, runs)?;
        if let Row::End { run, end } = &**row {
            last_end = Some(end);
            has_images |= run.scope != Scope::Containers;
        }
    }
    let Some(end) = last_end else { return Ok(()) };
    if has_images {
        trace::prune(transaction, end.at)?;
    }
    prune(transaction, end.at, end.keep)
}

/// Deletes what is too old or too much. Runs that did nothing are kept for a day, because the service makes one a minute,
/// and the newest of each scope longer. Runs that have not ended are kept.
pub(in crate::record) fn prune(transaction: &Transaction<'_>, now: Timestamp, keep: Retention) -> rusqlite::Result<()> {
    let (before, rows) = (nanos_before(now, keep.max_age), integer(keep.max_rows));
    transaction.execute(
        "DELETE FROM removals WHERE at < ?1
             OR outcome <> 'refused' AND id <= (
                 SELECT id FROM removals WHERE outcome <> 'refused' ORDER BY id DESC LIMIT 1 OFFSET ?2)
             OR outcome = 'refused' AND id <= (
                 SELECT id FROM removals WHERE outcome = 'refused' ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        [before, rows],
    )?;
    transaction.execute(
        "DELETE FROM runs WHERE finished_at IS NOT NULL AND (started_at < ?1
             OR id <= (SELECT id FROM runs ORDER BY id DESC LIMIT 1 OFFSET ?2))",
        [before, rows],
    )?;
    transaction.execute("DELETE FROM usage WHERE at < ?1", [before])?;
    let forget_empty = "DELETE FROM runs WHERE started_at < ?1 AND error IS NULL AND finished_at IS NOT NULL
         AND removed + already_removed + refused + failed = 0 AND id NOT IN (SELECT max(id) FROM runs GROUP BY scope)";
    transaction.execute(forget_empty, [nanos_before(now, DAY)]).map(drop)
}

/// Converts a time to its stored form. Times outside the range 1677 to 2262 become its ends.
pub(in crate::record) fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_nanosecond();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the time `ago` before `at`, in its stored form.
pub(in crate::record) fn nanos_before(at: Timestamp, ago: Duration) -> i64 {
    nanos(at).saturating_sub(i64::try_from(ago.as_nanos()).unwrap_or(i64::MAX))
}

pub(in crate::record) fn moment(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Converts a count or a number of bytes to its stored form.
pub(in crate::record) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a stored count or number of bytes.
pub(in crate::record) fn count(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or(0)
}

/// Converts a value to JSON, for columns that no query selects by.
pub(in crate::record) fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Converts a JSON column to a value.
pub(in crate::record) fn from_json<T: DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
