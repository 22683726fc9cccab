//! Jumps of the wall clock, found by comparison with a clock that only passes.
//!
//! A clock that jumps forward makes everything old at once. So times from before such a jump are moved by its length: then the time
//! since them is what passed without the jump (I15). A jump back needs nothing of the kind: it makes nothing older, and times that
//! then lie in the future are corrected by [`super::clock_skew`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Clocks may drift apart by this much between two times, and by a tenth of the time between them: a clock that is adjusted slowly
/// does not jump.
const TOLERANCE: Duration = Duration::from_secs(2);
/// The most jumps that are remembered. The oldest ones are joined.
const MOST: usize = 16;

/// A reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    pub wall: Timestamp,
    /// The time of a monotonic clock, since any start.
    pub monotonic: Duration,
}

/// The jumps forward of this process.
#[derive(Debug, Default)]
pub struct ClockJumps(Mutex<Jumps>);

#[derive(Debug, Default)]
struct Jumps {
    last: Option<ClockReading>,
    /// In their order.
    forward: Vec<Jump>,
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    /// The wall clock after it.
    at: Timestamp,
    by: SignedDuration,
}

// === impl ClockJumps ===

impl ClockJumps {
    /// Compares the clocks with those of the last call. Returns how far the wall clock jumped forward in between.
    pub fn compare(&self, now: ClockReading) -> SignedDuration {
        let mut jumps = self.lock();
        let by = jumps.last.replace(now).map(|last| jump(last, now)).unwrap_or_default();
        if by.is_positive() {
            tracing::warn!(seconds = by.as_secs(), "the clock jumped forward; ages are counted without the jump");
            jumps.forward(Jump { at: now.wall, by });
            return by;
        }
        if by.is_negative() {
            tracing::warn!(seconds = by.as_secs(), "the clock jumped back");
            jumps.back(now.wall, by);
        }
        SignedDuration::ZERO
    }

    /// Moves a time from before jumps forward by their lengths. A time that a runtime does not know, which is zero, stays so.
    pub fn moved(&self, at: Timestamp) -> Timestamp {
        if at == Timestamp::UNIX_EPOCH {
            return at;
        }
        let later = |at: Timestamp, jump: &Jump| if at < jump.at { plus(at, jump.by) } else { at };
        self.lock().forward.iter().fold(at, later)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Jumps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Jumps ===

impl Jumps {
    fn forward(&mut self, jump: Jump) {
        self.forward.push(jump);
        if self.forward.len() > MOST {
            let oldest = self.forward.remove(0);
            // A time from before both is moved by both; one from between them by too much, which makes it younger.
            self.forward.iter_mut().take(1).for_each(|next| next.by = next.by.saturating_add(oldest.by));
        }
    }

    /// A jump back undoes jumps forward whose times lie in the future now, as far as it goes.
    fn back(&mut self, now: Timestamp, mut by: SignedDuration) {
        while let Some(last) = self.forward.last_mut().filter(|last| last.at > now && by.is_negative()) {
            (last.at, by) = (now, last.by.saturating_add(by));
            if by.is_positive() {
                last.by = by;
                return;
            }
            self.forward.pop();
        }
    }
}

/// Returns by how much more than the monotonic clock the wall clock went; zero if it is tolerable.
fn jump(last: ClockReading, now: ClockReading) -> SignedDuration {
    let passed = now.monotonic.saturating_sub(last.monotonic);
    let by = now.wall.duration_since(last.wall).saturating_sub(SignedDuration::try_from(passed).unwrap_or_default());
    if by.unsigned_abs() <= TOLERANCE + passed / 10 { SignedDuration::ZERO } else { by }
}

fn plus(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// Looks at clocks at these times in seconds, and returns how old a thing is then that was made in second 0.
    fn age(times: &[(i64, u64)]) -> i64 {
        let jumps = ClockJumps::default();
        jumps.compare(ClockReading { wall: wall(0), monotonic: Duration::ZERO });
        for (second, monotonic) in times {
            jumps.compare(ClockReading { wall: wall(*second), monotonic: Duration::from_secs(*monotonic) });
        }
        wall(times.last().unwrap().0).duration_since(jumps.moved(wall(0))).as_secs()
    }

    #[test]
    fn a_thing_ages_as_the_monotonic_clock_passes() {
        const DAYS: i64 = 8 * 86_400;
        for (row, times, expected) in [
            ("no jump", [(60, 60), (120, 120)].as_slice(), 120),
            ("a clock that is adjusted slowly", &[(66, 60), (132, 120)], 132),
            ("a jump forward", &[(DAYS, 60), (DAYS + 60, 120)], 120),
            ("two of them", &[(DAYS, 60), (3 * DAYS, 120), (3 * DAYS + 60, 180)], 180),
            ("forward, and back as far", &[(DAYS, 60), (120, 120)], 120),
            ("forward, and back in part", &[(DAYS, 60), (DAYS - 3600, 120), (DAYS - 3540, 180)], 180),
            ("two forward, and back beyond one", &[(DAYS, 60), (2 * DAYS, 120), (DAYS - 3600, 180)], 180),
        ] {
            assert_eq!(age(times), expected, "{row}");
        }
        assert!(age(&[(-3600, 60), (-3540, 120)]) < 0, "a jump back makes it a thing of the future");
    }

    #[test]
    fn what_is_made_after_a_jump_is_not_moved() {
        let jumps = ClockJumps::default();
        jumps.compare(ClockReading { wall: wall(0), monotonic: Duration::ZERO });
        let by = jumps.compare(ClockReading { wall: wall(3600), monotonic: Duration::from_mins(1) });
        assert_eq!(by, SignedDuration::from_secs(3540));
        assert_eq!(jumps.moved(wall(3601)), wall(3601));
    }

    /// A clock that jumps at each comparison, as one that two programs set.
    #[test]
    fn many_jumps_are_joined_and_make_nothing_older() {
        let times: Vec<_> = (1..100).map(|hour: u16| (i64::from(hour) * 3600, u64::from(hour) * 60)).collect();
        assert_eq!(age(&times), 99 * 60);
    }
}
