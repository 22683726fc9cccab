//! The trace: what happened to each image, for replays under other settings.
//!
//! A pass adds what changed between two memories, so an event costs some 40 bytes in the file and nothing in the process. The
//! oldest are deleted after [`LONGEST`], or when there are more than [`MOST`]. Of an image that is still there, the last event of
//! each kind remains, from which a replay knows its state at the start.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Transaction};

use super::database::copy::StoreReader;
use super::database::rows::{count, from_json, integer, json, moment, nanos, nanos_before};
use super::history::{HistoryEntry, HistoryFilter};
use super::memory::STAMP;
use super::store_error::StoreError;
use crate::model::{
    DiskSample, DiskUse, Image, ImageEvent, ImageId, ImageMemory, ImageRemoval, Memory, Snapshot, Trace, TraceEvent,
    TracedImage,
};
use crate::plan::{Kind, Outcome, Report, Target};
use crate::store::{SnapshotIndex, StoreIndex};

/// For how long events are kept.
const LONGEST: Duration = Duration::from_hours(30 * 24);
/// The most events that are kept: some 16 MiB.
const MOST: u64 = 400_000;

/// What happened to an image, and the container that uses it, if one does.
#[derive(Debug)]
pub(super) struct Event {
    pub id: ImageId,
    pub at: Timestamp,
    pub what: ImageEvent,
    pub user: Option<String>,
}

/// Returns the images of a snapshot that the trace does not have with this size: those that are new to the memory, or all of them
/// when the store of the runtime is known.
pub(super) fn images(snapshot: &Snapshot, memory: &Memory) -> Vec<TracedImage> {
    let listed = snapshot.images.as_ref().into_iter().flatten();
    let index = SnapshotIndex::new(snapshot);
    let shares = index.get().map(StoreIndex::shares).unwrap_or_default();
    let known: HashSet<_> = known(memory).iter().map(|image| &image.id).collect();
    let sandbox_image = snapshot.sandbox_image();
    let is_sandbox_image =
        |image: &Image| sandbox_image.as_ref().copied().flatten().is_some_and(|name| image.is_named(name));
    let of = |image: &Image| {
        let share = shares.get(&image.id).copied();
        let is_new = !known.contains(&image.id);
        let pinned = image.pinned || is_sandbox_image(image);
        (is_new || share.is_some()).then(|| TracedImage::of(image, pinned, share))
    };
    listed.filter_map(of).collect()
}

/// Returns what a pass found, from the memory before and after it.
pub(super) fn events(before: &Memory, after: &Memory) -> Vec<Event> {
    let Some(now) = after.images_at.filter(|at| Some(*at) != before.images_at) else { return Vec::new() };
    let mut past: HashMap<_, _> = known(before).iter().map(|image| (&image.id, image)).collect();
    let mut events = Vec::new();
    for image in &*after.images {
        let event = |at, what, user| Event { id: image.id.clone(), at, what, user };
        let past = past.remove(&image.id);
        if past.is_none() {
            events.push(event(image.first_seen.unwrap_or(now), ImageEvent::Appeared, None));
        }
        let was_used = past.is_some_and(|past| may_be_used(past, before));
        let is_used = image.last_used == Some(now);
        let last_used = past.unwrap_or(image).last_used;
        if is_used && !was_used {
            events.push(event(now, ImageEvent::Used, image.last_used_by.clone()));
        } else if let Some(at) = last_used.filter(|_| !is_used && (was_used || past.is_none())) {
            events.push(event(at, ImageEvent::LastUsed, image.last_used_by.clone()));
        }
    }
    events.extend(past.into_keys().map(|id| Event { id: id.clone(), at: now, what: ImageEvent::Removed, user: None }));
    events
}

/// Returns the images of a memory whose uses are known: none of a memory that an earlier version wrote.
fn known(memory: &Memory) -> &[ImageMemory] {
    if memory.images_at.is_some() { &memory.images } else { &[] }
}

/// Returns whether an image may have been in use at the last pass. The trace may then have its last use twice, which changes nothing.
fn may_be_used(image: &ImageMemory, memory: &Memory) -> bool {
    let last = image.last_used.zip(memory.images_at);
    // The last use in the file may be older than that in the process by this.
    last.is_some_and(|(used, pass)| Duration::try_from(pass.duration_since(used)).unwrap_or_default() < STAMP)
}

/// Returns what an outcome did to an image.
pub(super) fn event_of(report: &Report, at: Timestamp) -> Option<Event> {
    let Target::RemoveImage { id, .. } = &report.action.target else { return None };
    let what = match report.outcome {
        Outcome::Removed {} => ImageEvent::Collected,
        Outcome::AlreadyRemoved {} => ImageEvent::Removed,
        _ => return None,
    };
    Some(Event { id: id.clone(), at, what, user: None })
}

/// Writes images and events to a file.
pub(super) fn insert(transaction: &Transaction<'_>, images: &[TracedImage], events: &[Event]) -> rusqlite::Result<()> {
    let mut image = transaction.prepare_cached(
        "INSERT INTO traced_images (id, tags, digests, size_bytes, pinned, disk_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (id) DO UPDATE SET tags = excluded.tags, digests = excluded.digests,
             size_bytes = excluded.size_bytes, pinned = excluded.pinned,
             disk_bytes = coalesce(excluded.disk_bytes, disk_bytes)
         WHERE (tags, digests, size_bytes, pinned, disk_bytes) IS NOT (excluded.tags, excluded.digests,
             excluded.size_bytes, excluded.pinned, coalesce(excluded.disk_bytes, disk_bytes))",
    )?;
    for TracedImage { image: of, disk_bytes, .. } in images {
        let (tags, digests, disk_bytes) = (json(&of.tags)?, json(&of.digests)?, disk_bytes.map(integer));
        image.execute((of.id.as_str(), tags, digests, integer(of.size_bytes), of.pinned, disk_bytes))?;
    }
    let mut event = transaction.prepare_cached(
        "INSERT OR IGNORE INTO trace (at, image, event) SELECT ?2, number, ?3 FROM traced_images WHERE id = ?1",
    )?;
    let mut user = transaction.prepare_cached("UPDATE traced_images SET last_used_by = ?2 WHERE id = ?1")?;
    for Event { id, at, what, user: by } in events {
        event.execute((id.as_str(), nanos(*at), *what as u8))?;
        if let Some(by) = by {
            user.execute((id.as_str(), by))?;
        }
    }
    Ok(())
}

/// Deletes events that are too old or too many. What a replay needs of the images that are still there remains.
pub(super) fn prune(transaction: &Transaction<'_>, now: Timestamp) -> rusqlite::Result<()> {
    let beyond = "SELECT at FROM trace ORDER BY at DESC LIMIT 1 OFFSET ?1";
    let beyond: Option<i64> = transaction.query_row(beyond, [integer(MOST)], |row| row.get(0)).optional()?;
    let before = beyond.unwrap_or(i64::MIN).max(nanos_before(now, LONGEST));
    let deleted = transaction.execute(
        "DELETE FROM trace WHERE at < ?1 AND EXISTS (SELECT 1 FROM trace AS later
             WHERE later.image = trace.image AND later.at < ?1 AND later.at >= trace.at
             AND (later.event >= ?2 OR later.event = trace.event AND later.at > trace.at))",
        [before, ImageEvent::Removed as i64],
    )?;
    if deleted > 0 {
        transaction.execute("DELETE FROM traced_images WHERE number NOT IN (SELECT image FROM trace)", [])?;
    }
    Ok(())
}

// === impl StoreReader ===

impl StoreReader {
    /// Returns the trace.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn trace(&self) -> Result<Trace, StoreError> {
        let memory = self.memory()?;
        let disk = memory.disks.iter().find(|(_, disk)| disk.holds.contains(&DiskUse::Images)).map(|(path, _)| path);
        let samples =
            self.usage(Timestamp::MIN)?.into_iter().filter(|sample| Some(&sample.file_system.mountpoint) == disk);
        let disk = samples.map(|sample| DiskSample { at: sample.at, file_system: sample.file_system }).collect();
        let removals = Some(self.image_removals()?);
        self.read("the trace", |connection| {
            let (images, positions) = traced_images(connection)?;
            Ok(Trace { images, events: traced_events(connection, &positions)?, disk, removals, agent: None })
        })
    }

    fn image_removals(&self) -> Result<Vec<ImageRemoval>, StoreError> {
        let images = self.history(&HistoryFilter { kind: Some(Kind::Image), ..HistoryFilter::default() })?;
        let removed = images.into_iter().filter(|entry| entry.outcome == "removed");
        let removal = |HistoryEntry { at, id, freed_bytes, estimated_bytes, pulled_again_at, .. }| ImageRemoval {
            at,
            image: id.into(),
            freed_bytes,
            estimated_bytes,
            pulled_again_at,
        };
        Ok(removed.map(removal).collect())
    }
}

/// Returns the images, and the position of each by its number.
fn traced_images(connection: &Connection) -> rusqlite::Result<(Vec<TracedImage>, HashMap<i64, usize>)> {
    let mut statement = connection.prepare_cached(
        "SELECT number, id, tags, digests, size_bytes, pinned, last_used_by, disk_bytes FROM traced_images",
    )?;
    let rows = statement.query_map([], |row| {
        let (tags, digests) = (row.get::<_, String>(2)?, row.get::<_, String>(3)?);
        let image = Image {
            id: row.get::<_, String>(1)?.into(),
            tags: from_json(2, &tags)?,
            digests: from_json(3, &digests)?,
            size_bytes: count(row.get(4)?),
            pinned: row.get(5)?,
        };
        let disk_bytes = row.get::<_, Option<i64>>(7)?.map(count);
        Ok((row.get(0)?, TracedImage { image, disk_bytes, last_used_by: row.get(6)? }))
    })?;
    let (mut images, mut positions) = (Vec::new(), HashMap::new());
    for row in rows {
        let (number, image) = row?;
        positions.insert(number, images.len());
        images.push(image);
    }
    Ok((images, positions))
}

/// Returns the events. One of a kind that a later version added is left out.
fn traced_events(connection: &Connection, positions: &HashMap<i64, usize>) -> rusqlite::Result<Vec<TraceEvent>> {
    let mut statement = connection.prepare_cached("SELECT at, image, event FROM trace ORDER BY at, event, image")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let event = |row: rusqlite::Result<(i64, i64, u8)>| {
        let (at, image, event) = match row {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        let (image, event) = positions.get(&image).copied().zip(ImageEvent::from_repr(event))?;
        Some(Ok(TraceEvent { at: moment(at), image, event }))
    };
    rows.filter_map(event).collect()
}
