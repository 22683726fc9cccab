//! The order of the instances of one container, and of the sandboxes of one pod.
//!
//! The kubelet orders by creation time alone. A runtime may not know that time: containerd with an empty status file lists a
//! container that runs as UNKNOWN and created in 1970, and a clock may have gone back. So with the guard
//! `keep_newest_instance` the attempt number orders, which the kubelet counts up, and where a known creation time
//! disagrees about the newest, both are kept.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use jiff::Timestamp;

use super::Guards;

/// The beginning of 2001. No container is older, so an earlier time is unknown, and not a great age.
const FIRST_KNOWN_SECOND: i64 = 978_307_200;

/// Sorts instances, oldest first.
pub(super) type Order<'a> = (u32, Timestamp, &'a str);

/// Returns the creation time of an object if the runtime knows it: one before 2001 is unknown.
pub fn known(at: Timestamp) -> Option<Timestamp> {
    Some(at).filter(|at| at.as_second() >= FIRST_KNOWN_SECOND)
}

/// Returns where an instance is among those of its container or pod.
pub(super) fn order<'a>(guards: &Guards, attempt: u32, created_at: Timestamp, id: &'a str) -> Order<'a> {
    (if guards.keep_newest_instance { attempt } else { 0 }, created_at, id)
}

/// Returns the positions of the newest instance of each key by attempt and, if its creation time is known, of the newest one by
/// that time.
pub(super) fn newest<'a, K: Copy + Eq + Hash>(
    instances: impl Iterator<Item = (K, Order<'a>)> + Clone,
) -> HashSet<usize> {
    let by_time = newest_by(instances.clone().map(|(key, (_, created_at, id))| (key, (0, created_at, id))));
    let mut positions = HashSet::new();
    for (key, ((_, created_at, _), position)) in newest_by(instances) {
        positions.insert(position);
        let latest =
            by_time.get(&key).filter(|((_, latest, _), _)| known(created_at).is_some() && *latest > created_at);
        positions.extend(latest.map(|(_, position)| *position));
    }
    positions
}

fn newest_by<'a, K: Eq + Hash>(instances: impl Iterator<Item = (K, Order<'a>)>) -> HashMap<K, (Order<'a>, usize)> {
    let mut newest = HashMap::new();
    for (position, (key, order)) in instances.enumerate() {
        let found = newest.entry(key).or_insert((order, position));
        *found = (*found).max((order, position));
    }
    newest
}
