//! The brake: pauses deletions of many objects at once whose owners were never seen alive. A restore from a backup or a
//! replication writes such objects, because the uids of their owners have changed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::{OwnerGuards, ResourceId};
use crate::model::Uid;

/// The time in which deletions count. A restore writes its objects within minutes, and their deletions follow at once.
const WINDOW: Duration = Duration::from_mins(10);
/// Of a large resource a twentieth may be deleted in that time.
const LARGE_SHARE: u64 = 20;

/// Counts such deletions for each resource. A resource that was paused stays paused.
#[derive(Debug, Default)]
pub struct Brake {
    resources: HashMap<ResourceId, Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    /// The objects that were deleted, and when: each counts once.
    deleted: VecDeque<(Timestamp, Uid)>,
    uids: HashSet<Uid>,
    /// The objects whose deletion has no answer yet.
    in_flight: HashSet<Uid>,
    is_paused: bool,
}

/// The answer to one deletion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BrakeAnswer {
    /// The object may be deleted. The end of the deletion is to be recorded.
    Permitted,
    /// The limit is reached if the deletions in flight succeed: repeat the request later.
    Wait,
    /// This deletion exceeds the limit: from now on the resource is paused.
    PausedNow,
    Paused,
}

// === impl Brake ===

impl Brake {
    /// Requests the deletion of an object. `total` returns the number of objects of its resource; it is called only when
    /// the count alone does not permit the deletion.
    pub fn permits(
        &mut self,
        (resource, uid): (ResourceId, &Uid),
        now: Timestamp,
        guards: &OwnerGuards,
        total: impl FnOnce() -> usize,
    ) -> BrakeAnswer {
        if guards.brake_count == 0 {
            return BrakeAnswer::Permitted;
        }
        let counted = self.resources.entry(resource).or_default();
        if counted.is_paused {
            return BrakeAnswer::Paused;
        }
        counted.forget_before(now, WINDOW);
        let is_known = counted.uids.contains(uid) || counted.in_flight.contains(uid);
        let deleted = counted.deleted.len() as u64;
        let begun = deleted + counted.in_flight.len() as u64;
        let limit = match guards.brake_count {
            count if begun < count => count,
            // Objects that were deleted in the window were part of the resource.
            count => count.max((total() as u64 + deleted) / LARGE_SHARE),
        };
        if !is_known && deleted >= limit {
            counted.is_paused = true;
            return BrakeAnswer::PausedNow;
        }
        if !is_known && begun >= limit {
            return BrakeAnswer::Wait;
        }
        counted.in_flight.insert(uid.clone());
        BrakeAnswer::Permitted
    }

    /// Records the end of a deletion that was permitted. Only one that succeeded counts.
    pub fn ended(&mut self, (resource, uid): (ResourceId, &Uid), now: Timestamp, is_deleted: bool) {
        let Some(counted) = self.resources.get_mut(&resource) else { return };
        let was_in_flight = counted.in_flight.remove(uid);
        if was_in_flight && is_deleted && counted.uids.insert(uid.clone()) {
            counted.deleted.push_back((now, uid.clone()));
        }
    }

    pub fn paused(&self) -> impl Iterator<Item = ResourceId> {
        self.resources.iter().filter(|(_, counted)| counted.is_paused).map(|(resource, _)| *resource)
    }
}

// === impl Counted ===

impl Counted {
    fn forget_before(&mut self, now: Timestamp, window: Duration) {
        let is_old = |(at, _): &mut (Timestamp, Uid)| now.duration_since(*at).unsigned_abs() > window;
        while let Some((_, uid)) = self.deleted.pop_front_if(is_old) {
            self.uids.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: ResourceId = ResourceId(1);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn guards() -> OwnerGuards {
        OwnerGuards { brake_count: 3, ..OwnerGuards::default() }
    }

    fn uid(number: usize) -> Uid {
        Uid::new(&number.to_string())
    }

    impl Brake {
        /// Requests the deletion of an object of `resource`, which succeeds if it is permitted.
        fn delete(&mut self, resource: ResourceId, number: usize, now: Timestamp, total: usize) -> BrakeAnswer {
            let object = (resource, &uid(number));
            let answer = self.permits(object, now, &guards(), || total);
            if answer == BrakeAnswer::Permitted {
                self.ended(object, now, true);
            }
            answer
        }
    }

    /// Returns how many deletions of objects at one moment are permitted.
    fn permitted(brake: &mut Brake, now: Timestamp, total: usize) -> usize {
        (0..1000).take_while(|number| brake.delete(MAPS, *number, now, total) == BrakeAnswer::Permitted).count()
    }

    #[test]
    fn too_many_deletions_pause_only_that_resource() {
        let mut brake = Brake::default();
        assert_eq!(permitted(&mut brake, at(0), 10), 3);
        assert_eq!(brake.delete(MAPS, 9, at(10_000), 10), BrakeAnswer::Paused);
        assert_eq!(brake.delete(ResourceId(2), 9, at(0), 10), BrakeAnswer::Permitted);
        assert_eq!(brake.paused().collect::<Vec<_>>(), [MAPS]);
    }

    #[test]
    fn the_percentage_counts_if_it_is_more() {
        assert_eq!(permitted(&mut Brake::default(), at(0), 200), 10);
    }

    #[test]
    fn deletions_before_the_window_do_not_count() {
        let mut brake = Brake::default();
        for minute in 0..60 {
            let now = at(i64::try_from(minute).unwrap() * 240);
            assert_eq!(brake.delete(MAPS, minute, now, 10), BrakeAnswer::Permitted, "{minute}");
        }
    }

    #[test]
    fn attempts_that_fail_do_not_count() {
        let mut brake = Brake::default();
        for number in 0..1000 {
            let object = (MAPS, &uid(number));
            assert_eq!(brake.permits(object, at(0), &guards(), || 10), BrakeAnswer::Permitted, "{number}");
            brake.ended(object, at(0), false);
        }
        assert_eq!(permitted(&mut brake, at(0), 10), 3);
    }

    #[test]
    fn an_object_counts_once() {
        let mut brake = Brake::default();
        for _ in 0..1000 {
            assert_eq!(brake.delete(MAPS, 0, at(0), 10), BrakeAnswer::Permitted);
        }
        assert_eq!(brake.delete(MAPS, 1, at(0), 10), BrakeAnswer::Permitted);
    }

    #[test]
    fn deletions_in_flight_never_exceed_the_limit() {
        let mut brake = Brake::default();
        let permits = |brake: &mut Brake, number| brake.permits((MAPS, &uid(number)), at(0), &guards(), || 10);
        for number in 0..3 {
            assert_eq!(permits(&mut brake, number), BrakeAnswer::Permitted);
        }
        assert_eq!(permits(&mut brake, 3), BrakeAnswer::Wait);
        assert_eq!(permits(&mut brake, 2), BrakeAnswer::Permitted, "it is in flight, so it counts once");
        brake.ended((MAPS, &uid(0)), at(0), false);
        assert_eq!(permits(&mut brake, 3), BrakeAnswer::Permitted);
        assert_eq!(brake.paused().count(), 0, "nothing was deleted");
    }

    #[test]
    fn without_a_limit_nothing_pauses() {
        let mut brake = Brake::default();
        for number in 0..1000 {
            let answer = brake.permits((MAPS, &uid(number)), at(0), &OwnerGuards::none(), || 10);
            assert_eq!(answer, BrakeAnswer::Permitted);
        }
    }
}
