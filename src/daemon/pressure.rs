//! Checks for disk pressure, and limits the passes that respond to it.
//!
//! A check is a few `statvfs` calls, so it can run every second. A pass lists everything. If other data fills a
//! disk, removals do not end the pressure. Then a back-off delays the next pass: at first by the interval of passes
//! over containers, doubling up to the longest wait. The checks continue.
//!
//! Disk pressure starts two passes. The first removes what terminated pods left. Then the image disk is measured
//! again, and only if it is below the threshold does the second remove unused images: images on a disk of their own
//! free nothing on another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::time::Instant;

use crate::config::Intervals;
use crate::cri::RuntimeReader;
use crate::model::{Backoff, FileSystem};
use crate::observe::Disks;
use crate::plan::{Pressure, PressurePolicy};

/// Checks the disks for pressure.
pub struct PressureMonitor {
    reader: RuntimeReader,
    disks: Arc<dyn Disks>,
    /// Directories on the disk of the node: pod logs, and the kubelet's directory of pods.
    node: Vec<PathBuf>,
    /// The mountpoint of the images, as the runtime reported it.
    images: Option<PathBuf>,
}

/// The back-off of passes that respond to disk pressure.
#[derive(Debug)]
pub struct PressureBackoff {
    backoff: Backoff,
    not_before: Option<Instant>,
}

// === impl PressureMonitor ===

impl PressureMonitor {
    /// Creates a monitor for the disk of the images of the runtime behind `reader`, and for the disks that hold the
    /// directories `node`.
    pub fn new(reader: RuntimeReader, disks: Arc<dyn Disks>, node: Vec<PathBuf>) -> Self {
        Self { reader, disks, node, images: None }
    }

    /// Returns the disk pressure, if any disk has it. A disk that cannot be measured is skipped, because the passes
    /// report that error.
    pub async fn check(&mut self, policy: &PressurePolicy) -> Option<Pressure> {
        if let Some(pressure) = self.check_images(policy).await {
            return Some(pressure);
        }
        for path in self.node.iter().filter(|_| !policy.is_off()) {
            if let Some(pressure) = self.judge(path, policy).await {
                return Some(pressure);
            }
        }
        None
    }

    /// Returns the disk pressure of the image disk only. It may be the same disk as the others.
    pub async fn check_images(&mut self, policy: &PressurePolicy) -> Option<Pressure> {
        if policy.is_off() {
            return None;
        }
        policy.judge(&self.image_disk().await?)
    }

    /// Measures the image disk; `None` = it cannot be measured.
    pub async fn image_disk(&mut self) -> Option<FileSystem> {
        if self.images.is_none() {
            self.images = self.reader.image_filesystem().await.ok().flatten();
        }
        self.disks.measure(self.images.as_ref()?).await.ok()
    }

    async fn judge(&self, path: &Path, policy: &PressurePolicy) -> Option<Pressure> {
        let disk = self.disks.measure(path).await.ok()?;
        policy.judge(&disk)
    }
}

// === impl PressureBackoff ===

impl PressureBackoff {
    /// Creates a back-off. The first wait after a pass that removed nothing is the interval of passes over containers.
    pub fn new(intervals: &Intervals) -> Self {
        Self { backoff: Backoff::new(intervals.containers, intervals.max_backoff), not_before: None }
    }

    /// Returns whether a pass may begin.
    pub fn allows(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|moment| now >= moment)
    }

    /// Records the end of a pass that removed this number of objects. 0 starts or doubles the wait.
    pub fn ended(&mut self, removed: usize, now: Instant) {
        if removed > 0 {
            self.backoff.reset();
            self.not_before = None;
            return;
        }
        self.not_before = now.checked_add(self.backoff.fail());
    }

    /// Resets the length of the next wait, because no disk is under pressure. A wait in progress continues: a disk
    /// right at the threshold can be under pressure at every other check.
    pub fn relieved(&mut self) {
        self.backoff.reset();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use async_trait::async_trait;
    use tokio::time::{sleep, timeout};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::cri::CriOptions;
    use crate::daemon::schedule::{self, Job, Limits, PassResult};
    use crate::model::FileSystem;
    use crate::observe::ObserveError;
    use crate::serve::Progress;
    use crate::sim::{Defect, Fault, Node, Rpc, Sim, Times, WrongFact};

    /// Returns the start times, in seconds, of the passes that respond to disk pressure. `short` defines whether a disk
    /// is under pressure at a time, and `removes` how many objects a pass removes. Each pass takes one second. Ordinary
    /// passes never run.
    async fn answers(until: u64, short: impl Fn(u64) -> bool, removes: impl Fn(u64) -> usize) -> Vec<u64> {
        let (never, second) = (Duration::from_hours(1000), Duration::from_secs(1));
        let minute = Duration::from_mins(1);
        let intervals = Intervals { containers: minute, images: never, pressure: 10 * second, max_backoff: 5 * minute };
        let stop = CancellationToken::new();
        let (start, passes) = (Instant::now(), RefCell::new(Vec::new()));
        let (backoff, busy) = (RefCell::new(PressureBackoff::new(&intervals)), Cell::new(false));
        let limits = Limits { hold_up: never, shutdown: never, stall: never, ..Limits::default() };
        let progress = Progress::default();
        let schedule = schedule::run(&intervals, &limits, &stop, &progress, async |job| {
            assert!(!busy.replace(true), "two at a time");
            let at = start.elapsed().as_secs();
            if job == Job::Pressure && !short(at) {
                backoff.borrow_mut().relieved();
            } else if job == Job::Pressure && backoff.borrow().allows(Instant::now()) {
                passes.borrow_mut().push(at);
                sleep(second).await;
                backoff.borrow_mut().ended(removes(at), Instant::now());
            }
            busy.set(false);
            PassResult::Succeeded
        });
        let end = async {
            sleep(Duration::from_secs(until)).await;
            stop.cancel();
        };
        timeout(never, async { tokio::join!(schedule, end) }).await.unwrap();
        passes.into_inner()
    }

    /// A separate disk for each directory, with this free percentage.
    struct Free(fn(&Path) -> u64);

    #[async_trait]
    impl Disks for Free {
        async fn measure(&self, path: &Path) -> Result<FileSystem, ObserveError> {
            let (mountpoint, available_bytes) = (path.to_owned(), (self.0)(path));
            let disk = FileSystem { mountpoint, capacity_bytes: 100, available_bytes, ..FileSystem::default() };
            Ok(disk)
        }
    }

    /// Returns the pressure of all disks, and whether the image disk is under pressure.
    async fn short(free: fn(&Path) -> u64) -> (Option<String>, bool) {
        let sim = Sim::start(Node::new().image_mountpoint("/images")).unwrap();
        let reader = RuntimeReader::new(&sim.endpoint(), &sim.endpoint(), CriOptions::default());
        let policy = PressurePolicy { free_percent: 10, ..PressurePolicy::default() };
        let mut monitor = PressureMonitor::new(reader, Arc::new(Free(free)), vec!["/logs".into(), "/kubelet".into()]);
        assert_eq!(monitor.check(&PressurePolicy::default()).await, None, "off");
        assert_eq!(sim.calls().len(), 0, "off: no call");
        let all = monitor.check(&policy).await.map(|pressure| pressure.to_string());
        (all, monitor.check_images(&policy).await.is_some())
    }

    #[tokio::test]
    async fn the_image_log_and_kubelet_disks_are_measured() {
        let is = |path: &'static str| Some(format!("{path} is 9 % free, pressure.free_percent = 10"));
        assert_eq!(short(|_| 10).await, (None, false));
        assert_eq!(short(|_| 9).await, (is("/images"), true));
        assert_eq!(short(|path| if path.ends_with("images") { 10 } else { 9 }).await, (is("/logs"), false));
        assert_eq!(short(|path| if path.ends_with("kubelet") { 9 } else { 10 }).await, (is("/kubelet"), false));
    }

    /// The monitor remembers the mountpoint.
    #[tokio::test]
    async fn a_relative_or_empty_mountpoint_is_not_remembered() {
        for wrong in [WrongFact::EmptyPath, WrongFact::RelativePath] {
            let sim = Sim::start(Node::new().image_mountpoint("/images")).unwrap();
            sim.fault(Rpc::ImageFsInfo, Fault::Answer(Defect::Wrong(wrong)), Times::N(1));
            let reader = RuntimeReader::new(&sim.endpoint(), &sim.endpoint(), CriOptions::default());
            let policy = PressurePolicy { free_percent: 10, ..PressurePolicy::default() };
            let absolute = |path: &Path| if path.is_absolute() { 9 } else { 100 };
            let mut monitor = PressureMonitor::new(reader, Arc::new(Free(absolute)), Vec::new());
            assert_eq!(monitor.check_images(&policy).await, None, "{wrong:?}");
            let pressure = monitor.check_images(&policy).await.map(|pressure| pressure.to_string());
            assert_eq!(pressure.as_deref(), Some("/images is 9 % free, pressure.free_percent = 10"), "{wrong:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_has_room_is_answered_with_nothing() {
        assert_eq!(answers(3600, |_| false, |_| 1).await, Vec::<u64>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn disk_pressure_starts_a_pass_at_the_next_check() {
        assert_eq!(answers(200, |at| (35..45).contains(&at), |_| 1).await, [40]);
    }

    #[tokio::test(start_paused = true)]
    async fn passes_follow_each_other_while_they_remove_something() {
        assert_eq!(answers(50, |_| true, |_| 1).await, [10, 21, 32, 43]);
    }

    #[tokio::test(start_paused = true)]
    async fn pressure_passes_that_reclaim_nothing_back_off() {
        let passes = answers(1500, |_| true, |_| 0).await;
        let waits: Vec<_> = passes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // The waits are one, two and four minutes, then the longest wait, each until the next check.
        assert_eq!(waits, [61, 121, 241, 301, 301, 301]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_around_the_threshold_does_not_repeat_passes() {
        let passes = answers(300, |at| at / 10 % 2 == 1, |_| 0).await;
        assert!(passes.windows(2).all(|pair| pair[1] - pair[0] >= 60), "{passes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn something_that_can_be_removed_again_ends_the_waiting() {
        let passes = answers(250, |_| true, |at| usize::from(at >= 71)).await;
        assert_eq!(passes[..4], [10, 71, 82, 93]);
    }
}
