//! Schedules the passes: three loops in one task.
//!
//! As in the kubelet, passes over containers run every minute and passes over images every five minutes. The first pass
//! of each loop runs at once. An interval counts from the end of a pass. A third loop checks for disk pressure every
//! second; its first check runs after a second.
//!
//! Normally one pass runs at a time. A pass that runs for longer than [`Limits::hold_up`] does not delay the other
//! loops: they run in parallel. Two passes of one loop never overlap. The kubelet's loops overlap too, and every
//! removal is rechecked by id. A failed pass has a back-off, so that no loop spins while the runtime is unavailable.
//!
//! This module does not depend on what a pass does.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Intervals;
use crate::cri::CriOptions;
use crate::model::Backoff;
use crate::serve::Progress;

/// The shortest wait between two passes of one loop, for any setting.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest wait. In practice it never ends, and it can be added to any time without overflow.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);

/// More than the longest wait of a pass for anything but the runtime: a blocked disk or store has some calls ahead, of at
/// most 30 s each.
const OTHER_WAITS: Duration = Duration::from_mins(5);
/// The name of the schedule itself in [`Progress`].
const SCHEDULE: &str = "schedule";

/// The result of a pass, for the schedule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PassResult {
    /// The pass did its work.
    Succeeded,
    /// The pass could not do its work. The next one waits longer.
    Failed,
}

/// The work of one loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Job {
    /// Check for disk pressure, and remove what ends it if a disk has it.
    Pressure,
    /// A pass over containers, sandboxes and logs.
    Containers,
    /// A pass over images.
    Images,
}

/// Limits on how long a pass may delay other work (I13, I14).
#[derive(Clone, Debug)]
pub struct Limits {
    /// A pass that runs for longer does not delay the other loops. Default 30 s.
    pub hold_up: Duration,
    /// How long a shutdown or a reload waits for running passes, counted from the request. Longer than
    /// `ExecuteOptions::stop_wait`, so that the actions in progress are recorded, and less than systemd and Kubernetes
    /// give the process (90 s). Default 75 s.
    pub shutdown: Duration,
    /// A pass that does not move for this time hangs, and so does the schedule if it is late by this time. Longer than
    /// every single wait in a pass. Default 15 min; [`Limits::of`] follows the settings.
    pub stall: Duration,
    /// How long the first pass over images waits. Default 0.
    pub first_images: Duration,
}

struct Timer {
    job: Job,
    /// The first wait is the interval.
    backoff: Backoff,
    due: Instant,
    /// Since when its pass runs; `None` = no pass runs.
    running_since: Option<Instant>,
}

/// Runs `work` for each job when it is due, until `stop`.
///
/// If several jobs are due, disk pressure comes first, and containers come before images: removed containers can make
/// more images unused. `stop` ends a wait at once. It does not interrupt `work`, which must check `stop` itself if it
/// runs long. Work that has not ended after [`Limits::shutdown`] is dropped. `progress` has the loops that hang.
pub async fn run(
    intervals: &Intervals,
    limits: &Limits,
    stop: &CancellationToken,
    progress: &Progress,
    work: impl AsyncFn(Job) -> PassResult,
) {
    let mut timers = timers(intervals, Instant::now(), limits.first_images);
    let (mut passes, work) = (FuturesUnordered::new(), &work);
    while !stop.is_cancelled() {
        let (now, free) = (Instant::now(), free_at(&timers, limits.hold_up));
        if let Some(timer) = timers.iter_mut().find(|timer| timer.is_startable(now) && free <= Some(now)) {
            let job = timer.begin(now);
            passes.push(async move { (job, progress.watch(job.into(), limits.stall, work(job)).await) });
            continue;
        }
        let next = timers.iter().filter(|timer| timer.running_since.is_none()).map(|timer| timer.due).min();
        let next = next.map_or(now + LONGEST, |due| free.map_or(due, |free| due.max(free)));
        progress.expect(SCHEDULE, next + limits.stall);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some((job, passed)) = passes.next() => {
                timers.iter_mut().filter(|timer| timer.job == job).for_each(|timer| timer.ended(passed, Instant::now()));
            }
            () = sleep_until(next) => {}
        }
    }
    progress.forget(SCHEDULE);
    let ended = async { while passes.next().await.is_some() {} };
    if timeout(limits.shutdown, ended).await.is_err() {
        tracing::warn!(seconds = limits.shutdown.as_secs(), "a pass did not end in time; shutting down without it");
    }
}

/// Returns when another pass may begin while others run; `None` = none runs.
fn free_at(timers: &[Timer], hold_up: Duration) -> Option<Instant> {
    timers.iter().filter_map(|timer| timer.running_since).max()?.checked_add(hold_up)
}

/// Creates the loops, in order of priority.
fn timers(intervals: &Intervals, now: Instant, first_images: Duration) -> [Timer; 3] {
    let timer = |job, interval, due| Timer::new(job, interval, intervals.max_backoff, due);
    [
        timer(Job::Pressure, intervals.pressure, now + intervals.pressure.clamp(SHORTEST, LONGEST)),
        timer(Job::Containers, intervals.containers, now),
        timer(Job::Images, intervals.images, now + first_images.min(LONGEST)),
    ]
}

// === impl Limits ===

impl Limits {
    /// Returns the limits for these time-outs of the runtime.
    pub fn of(options: &CriOptions) -> Self {
        let CriOptions { read_timeout, removal_timeout, answer_timeout, patience, .. } = *options;
        let longest = read_timeout.max(removal_timeout).max(answer_timeout).max(patience);
        let stall = longest.saturating_add(OTHER_WAITS);
        Self {
            hold_up: Duration::from_secs(30),
            shutdown: Duration::from_secs(75),
            stall,
            first_images: Duration::ZERO,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(&CriOptions::default())
    }
}

// === impl Timer ===

impl Timer {
    fn new(job: Job, interval: Duration, max_backoff: Duration, due: Instant) -> Self {
        Self { job, backoff: Backoff::new(interval.max(SHORTEST), max_backoff), due, running_since: None }
    }

    fn is_startable(&self, now: Instant) -> bool {
        self.running_since.is_none() && self.due <= now
    }

    fn begin(&mut self, now: Instant) -> Job {
        self.running_since = Some(now);
        self.job
    }

    fn ended(&mut self, passed: PassResult, now: Instant) {
        self.running_since = None;
        match passed {
            PassResult::Succeeded => self.backoff.reset(),
            PassResult::Failed => drop(self.backoff.fail()),
        }
        self.due = now + self.wait();
    }

    /// Returns the interval, doubled for each consecutive failure up to the longest wait. The longest wait never
    /// shortens an interval.
    fn wait(&self) -> Duration {
        self.backoff.wait().min(LONGEST)
    }
}

#[cfg(test)]
mod tests;
