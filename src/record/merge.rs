//! Merges what a store learned in memory into its file.
//!
//! The lock keeps other agents away from the file, but the file may still have changed: it was restored or replaced, or
//! the store in memory began empty because the file could not be read. Therefore the file is not replaced. The new data
//! in memory is added to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params_from_iter};

use super::error::StoreError;
use super::fallback::Since;
use super::file;
use super::history::forget_refusal;
use super::runs::close_interrupted;
use super::store::Store;
use crate::model::{Absence, ImageMemory, Memory};

/// The column names of a row, and a value for each.
struct Row {
    names: Vec<String>,
    values: Vec<Value>,
}

/// Adds to `file` the data of `memory` that `file` did not have when it was copied.
///
/// # Errors
/// The file cannot be read or written. Then no row of the history is in it.
pub(super) fn into_file(memory: &mut Store, file: &mut Store, since: Option<Since>) -> Result<(), StoreError> {
    if let Some(begun_at) = memory.begun_at()? {
        let (known, learnt) = (file.memory(begun_at)?, memory.memory(begun_at)?);
        let merged = match since {
            // The copy had all data of the file, and has learned more since.
            Some(_) => learnt,
            None => merged(&known, learnt, &removed_images(memory)?),
        };
        file.learn(&known, &merged)?;
    }
    let state = memory.state.get_mut();
    let underway: BTreeSet<_> = state.runs.underway.iter().map(|run| run.id).collect();
    let ours: Vec<_> = underway.iter().copied().collect();
    file.write("runs from memory", |transaction| {
        let since = if is_empty(transaction)? { Since::default() } else { since.unwrap_or_default() };
        let numbers = add_runs(&state.connection, transaction, since, &underway)?;
        add_removals(&state.connection, transaction, since, &numbers)?;
        add_usage(&state.connection, transaction)?;
        close_interrupted(transaction, &ours).map(drop)
    })
}

/// Merges `learnt` with the memory of a file that could not be read when `learnt` began. Entries that only one side has
/// are kept, and the earlier beginning counts. A pod counts as missing only for an unbroken series of passes, so the
/// later `since` is the certain one.
fn merged(known: &Memory, learnt: Memory, removed: &BTreeSet<String>) -> Memory {
    let mut images: HashMap<_, _> = known.images.iter().map(|image| (image.id.clone(), image.clone())).collect();
    images.retain(|id, _| !removed.contains(id.as_str()));
    for image in learnt.images {
        let merged = match images.remove(&image.id) {
            Some(known) => merged_image(known, &image),
            None => image,
        };
        images.insert(merged.id.clone(), merged);
    }
    let absences: HashMap<_, _> = known.absent_since.iter().map(|absence| (&absence.uid, absence.since)).collect();
    let since = |absence: Absence| {
        let known = absences.get(&absence.uid).copied().unwrap_or(absence.since);
        Absence { since: absence.since.max(known), ..absence }
    };
    let mut failures = known.failures.clone();
    failures.extend(learnt.failures);
    Memory {
        images: images.into_values().collect(),
        absent_since: learnt.absent_since.into_iter().map(since).collect(),
        failures,
        last_counts: known.last_counts.into_iter().chain(learnt.last_counts).reduce(|a, b| a.zip(b, u64::max)),
        baseline_lost: learnt.baseline_lost.filter(|_| known.last_counts.is_none()),
        ..learnt
    }
}

fn merged_image(known: ImageMemory, learnt: &ImageMemory) -> ImageMemory {
    ImageMemory {
        // `None` = before all memory, so it is the earliest.
        first_seen: known.first_seen.min(learnt.first_seen),
        last_used: known.last_used.max(learnt.last_used),
        last_used_by: if learnt.last_used > known.last_used { learnt.last_used_by.clone() } else { known.last_used_by },
        ..known
    }
}

/// Returns the images that were removed while the store was in memory. An image that is pulled again is a new one.
fn removed_images(memory: &Store) -> Result<BTreeSet<String>, StoreError> {
    memory.read("the history", |connection| {
        let sql = "SELECT object FROM removals WHERE kind = 'image' AND outcome IN ('removed', 'already_gone')";
        let mut statement = connection.prepare(sql)?;
        statement.query_map([], |row| row.get(0))?.collect()
    })
}

/// Returns whether a file has no history, as a new file.
fn is_empty(file: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM runs) AND NOT EXISTS (SELECT 1 FROM removals)";
    file.query_row(sql, [], |row| row.get(0))
}

/// Adds or updates the runs. Returns the new ids of the runs whose id belongs to another run in the file.
fn add_runs(
    memory: &Connection,
    file: &Transaction<'_>,
    since: Since,
    underway: &BTreeSet<i64>,
) -> rusqlite::Result<BTreeMap<i64, i64>> {
    let mut numbers = BTreeMap::new();
    for mut row in rows(memory, "SELECT * FROM runs WHERE id >= ?1 ORDER BY id", since.run)? {
        let id = row.integer("id");
        let sql = "SELECT count(*), coalesce(sum(started_at = ?2), 0) FROM runs WHERE id = ?1";
        let found = file.query_row(sql, [id, row.integer("started_at")], |row| Ok((row.get(0)?, row.get(1)?)))?;
        match found {
            (0_i64, _) => row.insert(file, "runs")?,
            (_, 1_i64) => row.update(file, "runs")?,
            // The caller of this run already uses the id, so it cannot change. The merge is tried again when the run
            // has ended.
            _ if underway.contains(&id) => return Err(file::busy()),
            _ => {
                row.set("id", Value::Null);
                row.insert(file, "runs")?;
                numbers.insert(id, file.last_insert_rowid());
            }
        }
    }
    Ok(numbers)
}

fn add_removals(
    memory: &Connection,
    file: &Transaction<'_>,
    since: Since,
    numbers: &BTreeMap<i64, i64>,
) -> rusqlite::Result<()> {
    for mut row in rows(memory, "SELECT * FROM removals WHERE id > ?1 ORDER BY id", since.removal)? {
        let run = row.integer("run");
        row.set("id", Value::Null);
        row.set("run", numbers.get(&run).copied().unwrap_or(run).into());
        if is_known(file, &row)? {
            continue;
        }
        if row.text("outcome") == "refused" {
            forget_refusal(file, row.text("kind"), row.text("object"))?;
        }
        row.insert(file, "removals")?;
    }
    Ok(())
}

fn add_usage(memory: &Connection, file: &Transaction<'_>) -> rusqlite::Result<()> {
    let newest: i64 = file.query_row("SELECT coalesce(max(at), 0) FROM usage", [], |row| row.get(0))?;
    for row in rows(memory, "SELECT * FROM usage WHERE at > ?1", newest)? {
        row.insert(file, "usage")?;
    }
    Ok(())
}

/// Returns whether the file has a removal already: a call that was blocked may have written it in the end.
fn is_known(file: &Connection, row: &Row) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM removals WHERE run = ?1 AND at = ?2 AND kind = ?3 AND object = ?4)";
    let values = (row.integer("run"), row.integer("at"), row.text("kind"), row.text("object"));
    file.prepare_cached(sql)?.query_row(values, |row| row.get(0))
}

fn rows(connection: &Connection, sql: &str, from: i64) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare(sql)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let values = |row: &rusqlite::Row<'_>| (0..names.len()).map(|column| row.get(column)).collect();
    let rows = statement.query_map([from], values)?;
    rows.map(|values| Ok(Row { names: names.clone(), values: values? })).collect()
}

// === impl Row ===

impl Row {
    fn integer(&self, name: &str) -> i64 {
        let named = self.names.iter().zip(&self.values).find(|(found, _)| *found == name);
        match named {
            Some((_, Value::Integer(integer))) => *integer,
            _ => 0,
        }
    }

    fn text(&self, name: &str) -> &str {
        let named = self.names.iter().zip(&self.values).find(|(found, _)| *found == name);
        match named {
            Some((_, Value::Text(text))) => text,
            _ => "",
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        let named = self.names.iter().zip(&mut self.values).find(|(found, _)| *found == name);
        if let Some((_, old)) = named {
            *old = value;
        }
    }

    fn insert(&self, file: &Connection, table: &str) -> rusqlite::Result<()> {
        let places: Vec<_> = (1..=self.names.len()).map(|number| format!("?{number}")).collect();
        let (names, places) = (self.names.join(", "), places.join(", "));
        let mut insert = file.prepare_cached(&format!("INSERT INTO {table} ({names}) VALUES ({places})"))?;
        insert.execute(params_from_iter(&self.values)).map(drop)
    }

    /// Writes all values that are not NULL to the row with the same id.
    fn update(&self, file: &Connection, table: &str) -> rusqlite::Result<()> {
        let numbered = self.names.iter().zip(1..);
        let columns: Vec<_> = numbered.map(|(name, number)| format!("{name} = coalesce(?{number}, {name})")).collect();
        let id = self.names.iter().position(|name| name == "id").map_or(0, |at| at + 1);
        let sql = format!("UPDATE {table} SET {} WHERE id = ?{id}", columns.join(", "));
        file.prepare_cached(&sql)?.execute(params_from_iter(&self.values)).map(drop)
    }
}
