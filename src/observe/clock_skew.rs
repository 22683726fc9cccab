//! The times of a snapshot, as ages count from them.
//!
//! Sources show times of the wall clock, which may have been set since. A time from before a jump forward is moved by it
//! ([`super::clock_jumps`]). An object with a time that lies in the future would be too young for every rule until the clock reaches that
//! time, and newer than all that comes: its age is counted instead from the first pass in which this agent saw it, by a monotonic clock.
//! Those keep their order among each other. Every time by whose age an object may be removed goes through [`FirstSights::settle`] once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::clock_jumps::ClockJumps;
use crate::model::{Seen, Snapshot};

/// Times that the wall clock does not show, for each part of a snapshot that is read at its own time.
#[derive(Debug, Default)]
pub struct ClockSkew {
    objects: FirstSights,
    ends: FirstSights,
    archived_logs: FirstSights,
    leftover_logs: FirstSights,
    leftovers: FirstSights,
    /// The last monotonic time that was converted to a wall-clock time, and that time.
    dated: Mutex<Option<(Instant, Timestamp)>>,
}

/// When this agent first saw each object whose time lies in the future, by the object's name.
#[derive(Debug, Default)]
struct FirstSights(Mutex<HashMap<String, Instant>>);

/// What names an object: the parts of a name, and a number.
type Name<'a> = ([&'a str; 3], u32);

// === impl ClockSkew ===

impl ClockSkew {
    /// Settles the times of containers, sandboxes and log directories, and that of the runtime's start.
    pub fn settle_objects(&self, snapshot: &mut Snapshot, jumps: &ClockJumps) {
        let containers = of(&mut snapshot.containers).map(|one| (([one.id.as_str(), "", ""], 0), &mut one.created_at));
        let sandboxes = of(&mut snapshot.sandboxes).map(|one| (([one.id.as_str(), "", ""], 0), &mut one.created_at));
        self.objects.settle(containers.chain(sandboxes), jumps, snapshot.taken_at);
        for at in of(&mut snapshot.log_dirs).filter_map(|dir| dir.modified_at.as_mut()) {
            *at = jumps.moved(*at);
        }
        if let Seen::Seen(Some(since)) = &mut snapshot.listening_since {
            *since = jumps.moved(*since);
        }
    }

    /// Settles when containers exited, as their statuses say it.
    pub fn settle_ends(&self, snapshot: &mut Snapshot, jumps: &ClockJumps) {
        let ends = of(&mut snapshot.containers)
            .filter_map(|one| Some((([one.id.as_str(), "", ""], 0), one.finished_at.as_mut()?)));
        self.ends.settle(ends, jumps, snapshot.taken_at);
    }

    /// Settles since when the archive alone has log files.
    pub fn settle_archived_logs(&self, snapshot: &mut Snapshot, jumps: &ClockJumps) {
        let lost = of(&mut snapshot.archived_logs)
            .filter_map(|log| Some((([log.pod.uid.as_str(), &log.container, &log.name], 0), log.lost_at.as_mut()?)));
        self.archived_logs.settle(lost, jumps, snapshot.taken_at);
    }

    /// Settles when the logs of instances were written last that the runtime lists no more.
    pub fn settle_leftover_logs(&self, snapshot: &mut Snapshot, jumps: &ClockJumps) {
        let written = of(&mut snapshot.leftover_logs).filter_map(|log| {
            Some((([log.pod.uid.as_str(), &log.container, ""], log.attempt), log.modified_at.as_mut()?))
        });
        self.leftover_logs.settle(written, jumps, snapshot.taken_at);
    }

    /// Settles when leftovers were written last.
    pub fn settle_leftovers(&self, snapshot: &mut Snapshot, jumps: &ClockJumps) {
        let written = of(&mut snapshot.leftovers)
            .filter_map(|one| Some((([&*one.at.path, "", ""], 0), one.modified_at.as_mut()?)));
        self.leftovers.settle(written, jumps, snapshot.taken_at);
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

// === impl FirstSights ===

impl FirstSights {
    /// Changes times of a source to those that ages count from. They are all that a snapshot has of one part.
    fn settle<'a>(
        &self,
        times: impl Iterator<Item = (Name<'a>, &'a mut Timestamp)>,
        jumps: &ClockJumps,
        now: Timestamp,
    ) {
        let mut known = lock(&self.0);
        let (seen_now, mut futures) = (Instant::now(), Vec::new());
        for ((parts, number), at) in times {
            *at = jumps.moved(*at);
            if *at > now {
                let name = format!("{} {number}", parts.join(" "));
                let first_seen = known.get(&name).copied().unwrap_or(seen_now);
                futures.push((first_seen, *at, name, at));
            }
        }
        *known = futures.iter().map(|(first_seen, _, name, _)| (name.clone(), *first_seen)).collect();
        futures.sort_by_key(|(first_seen, shown, ..)| (*first_seen, *shown));
        let mut latest = now;
        for (first_seen, _, _, at) in futures.into_iter().rev() {
            latest = before(now, first_seen.elapsed()).min(before(latest, Duration::from_nanos(1)));
            *at = latest;
        }
    }
}

fn of<T>(part: &mut Seen<Vec<T>>) -> std::slice::IterMut<'_, T> {
    match part {
        Seen::Seen(objects) => objects.iter_mut(),
        _ => [].iter_mut(),
    }
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
        let (skew, still) = (ClockSkew::default(), ClockJumps::default());
        let year_ahead = ["2027-11-21T12:00:00Z", "2026-11-21T11:59:00Z"];
        let mut first = node(&year_ahead, "2027-01-01T00:00:00Z");
        skew.settle_objects(&mut first, &still);
        assert_eq!(ages(&first), [0, 60, 0]);
        tokio::time::advance(Duration::from_secs(90)).await;
        let mut second = node(&year_ahead, "2027-01-01T00:00:00Z");
        skew.settle_objects(&mut second, &still);
        assert_eq!(ages(&second), [90, 60, 90], "the wall clock did not move");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_from_the_future_keep_their_order() {
        let skew = ClockSkew::default();
        let mut node =
            node(&["2027-01-03T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"], "2026-01-01T00:00:00Z");
        skew.settle_objects(&mut node, &ClockJumps::default());
        let mut containers = node.containers.as_ref().unwrap().clone();
        containers.sort_by_key(|container| container.created_at);
        let ids: Vec<_> = containers.iter().map(|container| container.id.as_str()).collect();
        assert_eq!(ids, ["c1", "c2", "c0"]);
        assert!(containers.iter().all(|container| container.created_at < node.taken_at));
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_objects_are_removed_from_memory() {
        let (skew, still) = (ClockSkew::default(), ClockJumps::default());
        skew.settle_objects(&mut node(&["2027-01-01T00:00:00Z"], "2027-01-01T00:00:00Z"), &still);
        skew.settle_objects(&mut node(&[], "2026-01-01T00:00:00Z"), &still);
        assert_eq!(lock(&skew.objects.0).len(), 0);
    }

    type Settle = fn(&ClockSkew, &mut Snapshot, &ClockJumps);

    /// Returns how many seconds ago the time of each part is that may be removed by its age, if its source says `at` and it is `now`.
    fn ages_of_parts(skew: &ClockSkew, jumps: &ClockJumps, at: &str, now: &str) -> Vec<i64> {
        let pod = json!({ "uid": "u1", "namespace": "shop", "name": "web" });
        let mut node: Snapshot = serde_json::from_value(json!({
            "taken_at": now,
            "containers": { "seen": [{ "id": "c0", "state": "exited", "created_at": at, "finished_at": at }] },
            "sandboxes": { "seen": [] },
            "archived_logs": { "seen": [{ "pod": pod, "container": "app", "name": "0.log", "size_bytes": 1, "lost_at": at }] },
            "leftover_logs": { "seen": [{ "pod": pod, "container": "app", "modified_at": at }] },
            "leftovers": { "seen": [{ "kind": "checkpoint", "path": "/c.tar", "bytes": 1, "inodes": 1, "modified_at": at }] },
        }))
        .unwrap();
        let parts: [Settle; 5] = [
            ClockSkew::settle_objects,
            ClockSkew::settle_ends,
            ClockSkew::settle_archived_logs,
            ClockSkew::settle_leftover_logs,
            ClockSkew::settle_leftovers,
        ];
        for settle in &parts {
            settle(skew, &mut node, jumps);
        }
        let container = &node.containers.as_ref().unwrap()[0];
        let times = [
            Some(container.created_at),
            container.finished_at,
            node.archived_logs.as_ref().unwrap()[0].lost_at,
            node.leftover_logs.as_ref().unwrap()[0].modified_at,
            node.leftovers.as_ref().unwrap()[0].modified_at,
        ];
        times.iter().map(|at| node.taken_at.duration_since(at.unwrap()).as_secs()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_eight_days_ahead_makes_no_part_older_and_set_back_no_part_stays() {
        let (skew, jumps) = (ClockSkew::default(), ClockJumps::default());
        let reading = |wall: &str, seconds| {
            let monotonic = Duration::from_secs(seconds);
            jumps.compare(crate::observe::ClockReading { wall: wall.parse().unwrap(), monotonic });
        };
        let (before, ahead) = ("2026-11-21T12:00:00Z", "2026-11-29T12:00:05Z");
        reading(before, 0);
        reading(ahead, 5);
        assert_eq!(ages_of_parts(&skew, &jumps, before, ahead), [5; 5]);
        // What was made while the clock stood in the future, after it was set back.
        let back = "2026-11-21T12:00:10Z";
        reading(back, 10);
        assert_eq!(ages_of_parts(&skew, &jumps, ahead, back), [0; 5]);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(ages_of_parts(&skew, &jumps, ahead, back), [90; 5], "it counts from its first sight");
    }
}
