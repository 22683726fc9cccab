//! The brake: pauses deletions of many objects at once whose owners were never seen alive. A restore from a backup or a
//! replication writes such objects, because the uids of their owners have changed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::{OwnerGuards, ResourceId};

/// Counts such deletions for each resource. A resource that was paused stays paused.
#[derive(Debug, Default)]
pub struct Brake {
    resources: HashMap<ResourceId, Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    deletions: VecDeque<Timestamp>,
    is_paused: bool,
}

/// The answer to one deletion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BrakeAnswer {
    /// The object may be deleted. The deletion is counted.
    Permitted,
    /// This deletion exceeds the limit: from now on the resource is paused.
    PausedNow,
    /// The resource is paused.
    Paused,
}

// === impl Brake ===

impl Brake {
    /// Asks for the deletion of an object. `total` returns the number of objects of its resource; it is asked only when
    /// the count alone does not permit the deletion.
    pub fn ask(
        &mut self,
        resource: ResourceId,
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
        counted.forget_before(now, guards.brake_window);
        let deletions = counted.deletions.len() as u64;
        // Objects that were deleted in the window were part of the resource.
        let share = || (total() as u64 + deletions) / 100 * guards.brake_percent;
        if deletions < guards.brake_count || deletions < share() {
            counted.deletions.push_back(now);
            return BrakeAnswer::Permitted;
        }
        counted.is_paused = true;
        BrakeAnswer::PausedNow
    }

    /// Lists the resources that are paused.
    pub fn paused(&self) -> impl Iterator<Item = ResourceId> {
        self.resources.iter().filter(|(_, counted)| counted.is_paused).map(|(resource, _)| *resource)
    }
}

// === impl Counted ===

impl Counted {
    fn forget_before(&mut self, now: Timestamp, window: Duration) {
        let is_old = |at: &Timestamp| now.duration_since(*at).unsigned_abs() > window;
        while self.deletions.front().is_some_and(is_old) {
            self.deletions.pop_front();
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

    /// Returns how many deletions of objects at one moment are permitted.
    fn permitted(brake: &mut Brake, now: Timestamp, total: usize) -> usize {
        (0..1000).take_while(|_| brake.ask(MAPS, now, &guards(), || total) == BrakeAnswer::Permitted).count()
    }

    #[test]
    fn more_than_the_count_pauses_the_resource_for_good_and_no_other_one() {
        let mut brake = Brake::default();
        assert_eq!(permitted(&mut brake, at(0), 10), 3);
        assert_eq!(brake.ask(MAPS, at(10_000), &guards(), || 10), BrakeAnswer::Paused);
        assert_eq!(brake.ask(ResourceId(2), at(0), &guards(), || 10), BrakeAnswer::Permitted);
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
            assert_eq!(brake.ask(MAPS, at(minute * 240), &guards(), || 10), BrakeAnswer::Permitted, "{minute}");
        }
    }

    #[test]
    fn without_a_limit_nothing_pauses() {
        let mut brake = Brake::default();
        for _ in 0..1000 {
            assert_eq!(brake.ask(MAPS, at(0), &OwnerGuards::none(), || 10), BrakeAnswer::Permitted);
        }
    }
}
