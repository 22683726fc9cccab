//! Corrects times that lie in the future: a clock was set back after they were made.
//!
//! An object with such a time would be too young for every rule until the clock reaches that time. Its age is counted
//! instead from the first pass in which this agent saw it, by a monotonic clock. Only times after `taken_at` are
//! changed, and they keep their order among each other.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::clock_jumps::ClockJumps;
use crate::model::{Seen, Snapshot};

/// Times that the wall clock does not show.
#[derive(Debug, Default)]
pub struct ClockSkew {
    /// When this agent first saw each object whose time lies in the future, by the object's id.
    first_seen: Mutex<HashMap<String, Instant>>,
    /// The last monotonic time that was converted to a wall-clock time, and that time.
    dated: Mutex<Option<(Instant, Timestamp)>>,
}

/// An object of the snapshot whose time lies in the future.
struct Future<'a> {
    id: String,
    created_at: &'a mut Timestamp,
}

// === impl ClockSkew ===

impl ClockSkew {
    /// Moves the times of objects from before a jump of the clock, so that a jump makes none of them older.
    pub fn after_jumps(snapshot: &mut Snapshot, jumps: &ClockJumps) {
        let change = |at: &mut Timestamp| *at = jumps.moved(*at);
        if let Seen::Seen(containers) = &mut snapshot.containers {
            for container in containers {
                change(&mut container.created_at);
                container.finished_at.iter_mut().for_each(change);
            }
        }
        if let Seen::Seen(sandboxes) = &mut snapshot.sandboxes {
            for sandbox in sandboxes {
                change(&mut sandbox.created_at);
            }
        }
        if let Seen::Seen(since) = &mut snapshot.listening_since {
            since.iter_mut().for_each(change);
        }
    }

    /// Moves creation times after `taken_at` back to the time at which this agent first saw the container or sandbox.
    pub fn correct(&self, snapshot: &mut Snapshot) {
        let now = snapshot.taken_at;
        let mut known = lock(&self.first_seen);
        let mut objects = futures(snapshot);
        known.retain(|id, _| objects.iter().any(|object| object.id == *id));
        let seen_now = Instant::now();
        let first_seen = |object: &Future| known.get(&object.id).copied().unwrap_or(seen_now);
        objects.sort_by_key(|object| (first_seen(object), *object.created_at));
        let mut latest = now;
        for object in objects.into_iter().rev() {
            let first_seen = *known.entry(object.id).or_insert(seen_now);
            latest = before(now, first_seen.elapsed()).min(before(latest, Duration::from_nanos(1)));
            *object.created_at = latest;
        }
    }

    /// Returns the wall-clock time of a monotonic time. It is the same at each call, even if the clock is set in
    /// between.
    pub fn date(&self, moment: Instant, now: Timestamp) -> Timestamp {
        let mut dated = lock(&self.dated);
        match *dated {
            Some((known, at)) if known == moment => at,
            _ => dated.insert((moment, before(now, moment.elapsed()))).1,
        }
    }
}

fn futures(snapshot: &mut Snapshot) -> Vec<Future<'_>> {
    let now = snapshot.taken_at;
    let mut objects = Vec::new();
    if let Seen::Seen(containers) = &mut snapshot.containers {
        let containers = containers.iter_mut().filter(|container| container.created_at > now);
        objects.extend(containers.map(|one| Future { id: one.id.to_string(), created_at: &mut one.created_at }));
    }
    if let Seen::Seen(sandboxes) = &mut snapshot.sandboxes {
        let sandboxes = sandboxes.iter_mut().filter(|sandbox| sandbox.created_at > now);
        objects.extend(sandboxes.map(|one| Future { id: one.id.to_string(), created_at: &mut one.created_at }));
    }
    objects
}

fn before(at: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    at.checked_sub(time).unwrap_or(Timestamp::MIN)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a node at noon with containers and a sandbox created at these times.
    fn node(containers: &[&str], sandbox: &str) -> Snapshot {
        let containers: Vec<_> = containers
            .iter()
            .enumerate()
            .map(|(n, at)| json!({ "id": format!("c{n}"), "state": "exited", "created_at": at }))
            .collect();
        serde_json::from_value(json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "containers": { "seen": containers },
            "sandboxes": { "seen": [{ "id": "s0", "state": "not_ready", "created_at": sandbox }] },
        }))
        .unwrap()
    }

    /// Returns the ages of the containers and of the sandbox in whole seconds.
    fn ages(snapshot: &Snapshot) -> Vec<i64> {
        let containers = snapshot.containers.as_ref().unwrap().iter().map(|container| container.created_at);
        let all = containers.chain(snapshot.sandboxes.as_ref().unwrap().iter().map(|sandbox| sandbox.created_at));
        all.map(|at| snapshot.taken_at.duration_since(at).as_secs()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_object_ages_from_its_first_observation() {
        let skew = ClockSkew::default();
        let year_ahead = ["2027-11-21T12:00:00Z", "2026-11-21T11:59:00Z"];
        let mut first = node(&year_ahead, "2027-01-01T00:00:00Z");
        skew.correct(&mut first);
        assert_eq!(ages(&first), [0, 60, 0]);
        tokio::time::advance(Duration::from_secs(90)).await;
        let mut second = node(&year_ahead, "2027-01-01T00:00:00Z");
        skew.correct(&mut second);
        assert_eq!(ages(&second), [90, 60, 90], "the wall clock did not move");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_from_the_future_keep_their_order() {
        let skew = ClockSkew::default();
        let mut node =
            node(&["2027-01-03T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"], "2026-01-01T00:00:00Z");
        skew.correct(&mut node);
        let mut containers = node.containers.as_ref().unwrap().clone();
        containers.sort_by_key(|container| container.created_at);
        let ids: Vec<_> = containers.iter().map(|container| container.id.as_str()).collect();
        assert_eq!(ids, ["c1", "c2", "c0"]);
        assert!(containers.iter().all(|container| container.created_at < node.taken_at));
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_objects_are_removed_from_memory() {
        let skew = ClockSkew::default();
        skew.correct(&mut node(&["2027-01-01T00:00:00Z"], "2027-01-01T00:00:00Z"));
        skew.correct(&mut node(&[], "2026-01-01T00:00:00Z"));
        assert_eq!(lock(&skew.first_seen).len(), 0);
    }
}
