//! The memory in the file: reads it, and writes its changes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::database::rows::{count, from_json, integer, json, moment, nanos};
use crate::model::{Absence, ContainerId, Failure, ImageMemory, ImageVolumes, Memory};

/// A time that is newer than the stored one by less than this is not written, to save writes to the disk. The decisions
/// that use it count in hours and days.
pub(super) const STAMP: Duration = Duration::from_mins(1);
/// The keys of single facts. `begun_at` is the time at which the memory began, `images_at` the last pass that listed images and containers,
/// `named_images` what the pods of the last complete list name.
const BEGUN_AT: &str = "begun_at";
const IMAGES_AT: &str = "images_at";
const LAST_COUNTS: &str = "last_counts";
const RECENT_COUNTS: &str = "recent_counts";
const BASELINE_LOST: &str = "baseline_lost";
const FALL: &str = "list_fall";
const RUNTIME: &str = "runtime";
const NAMED_IMAGES: &str = "named_images";
const PULLING: &str = "pulling";
const DISKS: &str = "disks";
const LOG_PODS: &str = "log_pods";

/// What the keys begin with of which there is one for each removed image, each repository, and each pod that has only a directory of the kubelet:
/// each change is written alone.
const REMOVED_IMAGE: &str = "removed_image/";
const PULLS: &str = "pulls/";
const ORPHANED: &str = "orphaned/";

/// Returns the memory in a file. Its `agent_started_at` is the time at which it began; `None` = nothing is stored yet.
pub(super) fn read_memory(connection: &Connection) -> rusqlite::Result<Memory> {
    Ok(Memory {
        agent_started_at: fact(connection, BEGUN_AT)?,
        images: images(connection)?,
        images_at: fact(connection, IMAGES_AT)?,
        absent_since: absences(connection)?,
        failures: failures(connection)?.into_iter().collect(),
        last_counts: fact(connection, LAST_COUNTS)?,
        recent_counts: fact(connection, RECENT_COUNTS)?,
        baseline_lost: fact(connection, BASELINE_LOST)?,
        fall: fact(connection, FALL)?,
        runtime: fact(connection, RUNTIME)?,
        named_images: fact(connection, NAMED_IMAGES)?,
        log_pods: fact(connection, LOG_PODS)?.unwrap_or_default(),
        image_volumes: Arc::new(image_volumes(connection)?),
        disks: fact(connection, DISKS)?.unwrap_or_default(),
        removed_images: facts(connection, REMOVED_IMAGE)?,
        orphaned_since: facts(connection, ORPHANED)?,
        pulling_since: fact(connection, PULLING)?.unwrap_or_default(),
        pulls: Arc::new(facts(connection, PULLS)?),
    })
}

/// Writes the changes from `before`, which is in the file, to `after`. A last use that is newer than the stored one by less
/// than a minute is left for a later write.
pub(super) fn write_memory(transaction: &Transaction<'_>, before: &Memory, after: &Memory) -> rusqlite::Result<()> {
    write_images(transaction, &before.images, &after.images)?;
    write_absences(transaction, &before.absent_since, &after.absent_since)?;
    write_failures(transaction, before, after)?;
    write_image_volumes(transaction, &before.image_volumes, &after.image_volumes)?;
    write_facts(transaction, REMOVED_IMAGE, &before.removed_images, &after.removed_images)?;
    write_facts(transaction, ORPHANED, &before.orphaned_since, &after.orphaned_since)?;
    write_facts(transaction, PULLS, &before.pulls, &after.pulls)?;
    write_fact(transaction, BEGUN_AT, before.agent_started_at.as_ref(), after.agent_started_at.as_ref())?;
    write_fact(transaction, IMAGES_AT, before.images_at.as_ref(), after.images_at.as_ref())?;
    write_fact(transaction, LAST_COUNTS, before.last_counts.as_ref(), after.last_counts.as_ref())?;
    write_fact(transaction, RECENT_COUNTS, before.recent_counts.as_ref(), after.recent_counts.as_ref())?;
    write_fact(transaction, BASELINE_LOST, before.baseline_lost.as_ref(), after.baseline_lost.as_ref())?;
    write_fact(transaction, FALL, before.fall.as_ref(), after.fall.as_ref())?;
    write_fact(transaction, RUNTIME, before.runtime.as_ref(), after.runtime.as_ref())?;
    let pods = |memory: &Memory| Some(Arc::clone(&memory.log_pods)).filter(|pods| !pods.is_empty());
    let disks = |memory: &Memory| Some(memory.disks.clone()).filter(|disks| !disks.is_empty());
    let pulling = |memory: &Memory| Some(memory.pulling_since.clone()).filter(|pulling| !pulling.is_empty());
    write_fact(transaction, PULLING, pulling(before).as_ref(), pulling(after).as_ref())?;
    write_fact(transaction, DISKS, disks(before).as_ref(), disks(after).as_ref())?;
    write_fact(transaction, LOG_PODS, pods(before).as_ref(), pods(after).as_ref())?;
    write_fact(transaction, NAMED_IMAGES, before.named_images.as_ref(), after.named_images.as_ref())
}

fn images(connection: &Connection) -> rusqlite::Result<Arc<[ImageMemory]>> {
    let mut statement =
        connection.prepare_cached("SELECT id, first_seen, last_used, last_used_by FROM images ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        Ok(ImageMemory {
            id: row.get::<_, String>(0)?.into(),
            first_seen: row.get::<_, Option<i64>>(1)?.map(moment),
            last_used: row.get::<_, Option<i64>>(2)?.map(moment),
            last_used_by: row.get(3)?,
        })
    })?;
    rows.collect()
}

fn absences(connection: &Connection) -> rusqlite::Result<Arc<[Absence]>> {
    let mut statement = connection.prepare_cached("SELECT uid, since FROM absences ORDER BY uid")?;
    let rows = statement
        .query_map([], |row| Ok(Absence { uid: row.get::<_, String>(0)?.into(), since: moment(row.get(1)?) }))?;
    rows.collect()
}

fn failures(connection: &Connection) -> rusqlite::Result<Vec<(String, Failure)>> {
    let mut statement = connection.prepare_cached("SELECT key, count, retry_at, error FROM failures")?;
    let rows = statement.query_map([], |row| {
        let count = u32::try_from(count(row.get(1)?)).unwrap_or(u32::MAX);
        Ok((row.get(0)?, Failure { count, retry_at: moment(row.get(2)?), error: row.get(3)? }))
    })?;
    rows.collect()
}

fn image_volumes(connection: &Connection) -> rusqlite::Result<ImageVolumes> {
    let mut statement = connection.prepare_cached("SELECT container, images FROM image_volumes")?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?.into(), from_json(1, &row.get::<_, String>(1)?)?)))?;
    rows.collect()
}

fn fact<T: DeserializeOwned>(connection: &Connection, key: &str) -> rusqlite::Result<Option<T>> {
    let mut statement = connection.prepare_cached("SELECT value FROM facts WHERE key = ?1")?;
    let text: Option<String> = statement.query_row([key], |row| row.get(0)).optional()?;
    text.map(|text| from_json(0, &text)).transpose()
}

fn write_images(
    transaction: &Transaction<'_>,
    before: &Arc<[ImageMemory]>,
    after: &Arc<[ImageMemory]>,
) -> rusqlite::Result<()> {
    fn by_id(image: &ImageMemory) -> (&str, &ImageMemory) {
        (image.id.as_str(), image)
    }
    if Arc::ptr_eq(before, after) {
        return Ok(());
    }
    let changed = delete_missing(transaction, "images", "id", before.iter().map(by_id), after.iter().map(by_id))?;
    let mut put = transaction.prepare_cached(
        "INSERT INTO images (id, first_seen, last_used, last_used_by) VALUES (?1, ?2, ?3, ?5)
         ON CONFLICT (id) DO UPDATE SET first_seen = excluded.first_seen, last_used = excluded.last_used,
            last_used_by = excluded.last_used_by
         WHERE first_seen IS NOT excluded.first_seen OR (last_used IS NULL) <> (excluded.last_used IS NULL)
            OR excluded.last_used < last_used OR excluded.last_used - last_used >= ?4
            OR last_used_by IS NOT excluded.last_used_by",
    )?;
    let stamp = i64::try_from(STAMP.as_nanos()).unwrap_or(i64::MAX);
    for (id, image) in changed {
        let (first_seen, last_used) = (image.first_seen.map(nanos), image.last_used.map(nanos));
        put.execute((id, first_seen, last_used, stamp, &image.last_used_by))?;
    }
    Ok(())
}

fn write_absences(
    transaction: &Transaction<'_>,
    before: &Arc<[Absence]>,
    after: &Arc<[Absence]>,
) -> rusqlite::Result<()> {
    fn by_uid(absence: &Absence) -> (&str, &Absence) {
        (absence.uid.as_str(), absence)
    }
    if Arc::ptr_eq(before, after) {
        return Ok(());
    }
    let changed = delete_missing(transaction, "absences", "uid", before.iter().map(by_uid), after.iter().map(by_uid))?;
    let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO absences (uid, since) VALUES (?1, ?2)")?;
    for (uid, absence) in changed {
        put.execute((uid, nanos(absence.since)))?;
    }
    Ok(())
}

fn write_failures(transaction: &Transaction<'_>, before: &Memory, after: &Memory) -> rusqlite::Result<()> {
    fn by_key<'a>((key, failure): (&'a String, &'a Failure)) -> (&'a str, &'a Failure) {
        (key.as_str(), failure)
    }
    let (before, after) = (before.failures.iter().map(by_key), after.failures.iter().map(by_key));
    let changed = delete_missing(transaction, "failures", "key", before, after)?;
    let mut put = transaction
        .prepare_cached("INSERT OR REPLACE INTO failures (key, count, retry_at, error) VALUES (?1, ?2, ?3, ?4)")?;
    for (key, failure) in changed {
        put.execute((key, integer(failure.count.into()), nanos(failure.retry_at), &failure.error))?;
    }
    Ok(())
}

fn write_image_volumes(
    transaction: &Transaction<'_>,
    before: &Arc<ImageVolumes>,
    after: &Arc<ImageVolumes>,
) -> rusqlite::Result<()> {
    fn by_id<'a>((id, images): (&'a ContainerId, &'a Vec<String>)) -> (&'a str, &'a Vec<String>) {
        (id.as_str(), images)
    }
    if Arc::ptr_eq(before, after) {
        return Ok(());
    }
    let (before, after) = (before.iter().map(by_id), after.iter().map(by_id));
    let changed = delete_missing(transaction, "image_volumes", "container", before, after)?;
    let mut put =
        transaction.prepare_cached("INSERT OR REPLACE INTO image_volumes (container, images) VALUES (?1, ?2)")?;
    for (container, images) in changed {
        put.execute((container, json(images)?))?;
    }
    Ok(())
}

/// Returns the facts whose keys begin like this, by the rest of the key.
fn facts<K: From<String> + Ord, V: DeserializeOwned>(
    connection: &Connection,
    prefix: &str,
) -> rusqlite::Result<BTreeMap<K, V>> {
    let mut statement =
        connection.prepare_cached("SELECT substr(key, ?2), value FROM facts WHERE key GLOB ?1 || '*'")?;
    let start = integer(prefix.len() as u64 + 1);
    let rows = statement.query_map((prefix, start), |row| {
        Ok((row.get::<_, String>(0)?.into(), from_json(1, &row.get::<_, String>(1)?)?))
    })?;
    rows.collect()
}

fn write_facts<K: Display + PartialEq, V: Serialize + PartialEq>(
    transaction: &Transaction<'_>,
    prefix: &str,
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
) -> rusqlite::Result<()> {
    fn by_key<'a, V>((key, value): &'a (String, &'a V)) -> (&'a str, &'a V) {
        (key, value)
    }
    if before == after {
        return Ok(());
    }
    let (before, after) = (with_prefix(prefix, before), with_prefix(prefix, after));
    let changed = delete_missing(transaction, "facts", "key", before.iter().map(by_key), after.iter().map(by_key))?;
    changed.into_iter().try_for_each(|(key, value)| write_fact(transaction, key, None, Some(value)))
}

fn with_prefix<'a, K: Display, V>(prefix: &str, facts: &'a BTreeMap<K, V>) -> Vec<(String, &'a V)> {
    facts.iter().map(|(key, value)| (format!("{prefix}{key}"), value)).collect()
}

/// Deletes the rows whose keys are no longer there. Returns the entries that are new or changed.
fn delete_missing<'a, T: PartialEq>(
    transaction: &Transaction<'_>,
    table: &str,
    key: &str,
    before: impl Iterator<Item = (&'a str, &'a T)> + Clone,
    after: impl Iterator<Item = (&'a str, &'a T)> + Clone,
) -> rusqlite::Result<Vec<(&'a str, &'a T)>> {
    // Most outcomes change the counts alone, and each outcome is written.
    if before.clone().eq(after.clone()) {
        return Ok(Vec::new());
    }
    let mut before: HashMap<_, _> = before.collect();
    let changed = after.filter(|(key, value)| before.remove(key) != Some(*value)).collect();
    let mut delete = transaction.prepare_cached(&format!("DELETE FROM {table} WHERE {key} = ?1"))?;
    for missing in before.into_keys() {
        delete.execute([missing])?;
    }
    Ok(changed)
}

fn write_fact<T: Serialize + PartialEq>(
    transaction: &Transaction<'_>,
    key: &str,
    before: Option<&T>,
    after: Option<&T>,
) -> rusqlite::Result<()> {
    match after {
        after if after == before => Ok(()),
        Some(value) => {
            let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO facts (key, value) VALUES (?1, ?2)")?;
            put.execute((key, json(value)?)).map(drop)
        }
        None => transaction.prepare_cached("DELETE FROM facts WHERE key = ?1")?.execute([key]).map(drop),
    }
}
