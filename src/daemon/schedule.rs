//! When passes run: three loops on one thread of control.
//!
//! Containers every minute and images every five, as the kubelet does it. The first of each runs at once, and a period
//! counts from the end of a run, so that a slow runtime is not asked twice at a time. Between them every ten seconds a look
//! whether a disk is short, the first after ten. One loop waits for all, all its state is its locals, and while a pass runs
//! nothing else does: passes never overlap. A pass that failed waits longer,
//! so that nothing spins while the runtime is away.
//!
//! What a pass does is not known here.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::config::Intervals;
use crate::execute::Stop;

/// The shortest wait between two passes of one loop, whatever is set.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest, which is as good as never and can be added to any moment.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);

/// How a pass went, as far as the schedule cares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Passed {
    /// It did its work.
    Well,
    /// It could not do its work: the next one waits longer.
    Badly,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Job {
    /// Look whether a disk is short, and if so make room.
    Pressure,
    /// A pass over containers, sandboxes and logs.
    Containers,
    /// A pass over images.
    Images,
}

/// One of the loops.
#[derive(Debug)]
struct Turn {
    job: Job,
    interval: Duration,
    max_backoff: Duration,
    due: Instant,
    failures: u32,
}

/// Runs `work` for each job in turn, until `stop`.
///
/// Where several are due, a disk that may be short comes first, and containers before images: what they leave decides
/// which images are unused. Work is never cut off; what runs long asks `stop` itself. While waiting, `stop` is obeyed at
/// once.
pub async fn run(intervals: &Intervals, stop: &Stop, mut work: impl AsyncFnMut(Job) -> Passed) {
    let mut turns = turns(intervals, Instant::now());
    loop {
        let next = turns.iter().map(|turn| turn.due).min().unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            () = stop.wait() => return,
            () = sleep_until(next) => {}
        }
        let now = Instant::now();
        if let Some(turn) = turns.iter_mut().find(|turn| turn.due <= now) {
            let passed = work(turn.job).await;
            turn.ended(passed, Instant::now());
        }
    }
}

/// The loops, the more pressing first.
fn turns(intervals: &Intervals, now: Instant) -> [Turn; 3] {
    let turn = |job, interval, due| Turn::new(job, interval, intervals.max_backoff, due);
    [
        turn(Job::Pressure, intervals.pressure, now + intervals.pressure.clamp(SHORTEST, LONGEST)),
        turn(Job::Containers, intervals.containers, now),
        turn(Job::Images, intervals.images, now),
    ]
}

// === impl Turn ===

impl Turn {
    fn new(job: Job, interval: Duration, max_backoff: Duration, due: Instant) -> Self {
        Self { job, interval: interval.max(SHORTEST), max_backoff, due, failures: 0 }
    }

    fn ended(&mut self, passed: Passed, now: Instant) {
        self.failures = match passed {
            Passed::Well => 0,
            Passed::Badly => self.failures.saturating_add(1),
        };
        self.due = now + self.wait();
    }

    /// The interval, doubled for each failure in a row up to the longest wait, which never shortens an interval.
    fn wait(&self) -> Duration {
        let doubled = self.interval.saturating_mul(2_u32.saturating_pow(self.failures));
        doubled.min(self.max_backoff).max(self.interval).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::execute::stop as stopper;

    const C: Job = Job::Containers;
    const I: Job = Job::Images;
    const P: Job = Job::Pressure;

    fn intervals(containers: u64, images: u64, max_backoff: u64) -> Intervals {
        let [containers, images, max_backoff] = [containers, images, max_backoff].map(Duration::from_secs);
        Intervals { containers, images, pressure: LONGEST, max_backoff }
    }

    /// Bounds a schedule that does not stop.
    async fn in_time<T>(schedule: impl Future<Output = T>) -> T {
        timeout(Duration::from_hours(48), schedule).await.expect("did not stop for two days")
    }

    /// Runs the schedule until it began so many passes; each takes and ends as `pass` says. Returns when each began, in
    /// seconds from the start.
    async fn passes(
        intervals: Intervals,
        count: usize,
        mut pass: impl FnMut(Job, usize) -> (u64, Passed),
    ) -> Vec<(u64, Job)> {
        let (stopper, stop) = stopper();
        let start = Instant::now();
        let begun = RefCell::new(Vec::new());
        let running = RefCell::new(false);
        let schedule = run(&intervals, &stop, async |scope| {
            assert!(!running.replace(true), "two passes at a time");
            begun.borrow_mut().push((start.elapsed().as_secs(), scope));
            let number = begun.borrow().len();
            if number == count {
                stopper.stop();
            }
            let (seconds, passed) = pass(scope, number);
            sleep(Duration::from_secs(seconds)).await;
            running.replace(false);
            passed
        });
        in_time(schedule).await;
        begun.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn both_run_at_once_containers_first_and_then_each_at_its_interval() {
        let begun = passes(intervals(60, 300, 900), 9, |_, _| (0, Passed::Well)).await;
        let expected = [(0, C), (0, I), (60, C), (120, C), (180, C), (240, C), (300, C), (300, I), (360, C)];
        assert_eq!(begun, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_at_the_disks_come_between_and_before_passes() {
        let intervals = Intervals { pressure: Duration::from_secs(20), ..intervals(60, 300, 900) };
        let begun = passes(intervals, 8, |_, _| (0, Passed::Well)).await;
        assert_eq!(begun, [(0, C), (0, I), (20, P), (40, P), (60, P), (60, C), (80, P), (100, P)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_period_counts_from_the_end_of_a_run() {
        let begun =
            passes(intervals(60, 1000, 1000), 4, |scope, _| (if scope == C { 45 } else { 0 }, Passed::Well)).await;
        assert_eq!(begun, [(0, C), (45, I), (105, C), (210, C)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_takes_longer_than_the_others_interval_delays_it_and_loses_none() {
        let begun =
            passes(intervals(60, 300, 900), 6, |scope, _| (if scope == I { 200 } else { 0 }, Passed::Well)).await;
        assert_eq!(begun, [(0, C), (0, I), (200, C), (260, C), (320, C), (380, C)]);
    }

    #[tokio::test(start_paused = true)]
    async fn containers_that_take_longer_than_their_interval_leave_images_their_turn() {
        let begun = passes(intervals(1, 30, 900), 6, |scope, _| (if scope == C { 50 } else { 0 }, Passed::Well)).await;
        assert_eq!(begun, [(0, C), (50, I), (51, C), (101, I), (102, C), (152, I)]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_twice_as_long_each_up_to_the_longest_wait() {
        let begun = passes(intervals(60, 100_000, 900), 9, |scope, number| {
            (0, if scope == I || number == 8 { Passed::Well } else { Passed::Badly })
        })
        .await;
        let waits: Vec<_> = begun.iter().filter(|(_, scope)| *scope == C).map(|(at, _)| *at).collect();
        let waits: Vec<_> = waits.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits, [120, 240, 480, 900, 900, 900, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_loops_failures_do_not_slow_the_other() {
        let begun =
            passes(intervals(60, 60, 900), 8, |scope, _| (0, if scope == I { Passed::Badly } else { Passed::Well }))
                .await;
        assert_eq!(begun, [(0, C), (0, I), (60, C), (120, C), (120, I), (180, C), (240, C), (300, C)]);
    }

    #[test]
    fn a_wait_is_never_shorter_than_the_interval_nor_than_a_second() {
        let turn = |interval, max_backoff, failures| {
            let [interval, max_backoff] = [interval, max_backoff].map(Duration::from_secs);
            Turn { failures, ..Turn::new(C, interval, max_backoff, Instant::now()) }.wait().as_secs()
        };
        assert_eq!(turn(3600, 900, 0), 3600);
        assert_eq!(turn(3600, 900, 5), 3600, "the longest wait is shorter than the interval");
        assert_eq!(turn(0, 900, 0), 1, "nothing spins");
        assert_eq!(turn(0, 900, 3), 8);
        assert_eq!(turn(u64::MAX, u64::MAX, u32::MAX), LONGEST.as_secs(), "nothing overflows");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_a_wait_at_once() {
        let (stopper, stop) = stopper();
        let start = Instant::now();
        let begun = RefCell::new(0);
        let intervals = intervals(60, 300, 900);
        let schedule = run(&intervals, &stop, async |_| {
            *begun.borrow_mut() += 1;
            Passed::Well
        });
        let pull = async {
            sleep(Duration::from_secs(10)).await;
            stopper.stop();
        };
        in_time(async { tokio::join!(schedule, pull) }).await;
        assert_eq!((start.elapsed().as_secs(), begun.into_inner()), (10, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_in_a_pass_lets_it_end_and_begins_no_other() {
        let begun = passes(intervals(60, 300, 900), 1, |_, _| (30, Passed::Well)).await;
        assert_eq!(begun, [(0, C)], "images were due, too");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_stopped_already_begins_nothing() {
        let (stopper, stop) = stopper();
        stopper.stop();
        in_time(run(&intervals(60, 300, 900), &stop, async |_| panic!("a pass began"))).await;
    }
}
