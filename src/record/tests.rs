//! Tests of the store, and their helpers.

mod as_root;
mod blocked;
mod history;
mod memory;
mod one_shot_runs;
mod opening;
mod outcomes;
mod pulled_again;
mod space;
mod trace;
mod unusable_file;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use super::{HistoryEntry, HistoryFilter, Retention, Run, RunEnd, RunEntry, RunStart, Store, StoreReader};
use crate::model::{
    Absence, BaselineLoss, ContainerState, DiskGrowth, DiskMemory, DiskUse, Failure, FileSystem, ImageMemory,
    ListCounts, ListFall, Memory, NamedImages, Pod, PodRef, RecentCounts, RemovedImage, RepositoryPulls, RuntimeMemory,
    Seen,
};
use crate::plan::{
    Action, Counts, FailureCause, Kind, Measure, Outcome, Refusal, RemoveReason, Report, Scope, Summary, Target,
};

/// The start time of the tests.
const EPOCH: i64 = 1_790_000_000;

/// Returns the time `seconds` after the start time of the tests.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(EPOCH + seconds).unwrap()
}

/// Returns what a look at the clocks finds without a jump, and this start of the agent.
pub(super) fn no_jump(started_at: Timestamp) -> impl FnOnce() -> (SignedDuration, Timestamp) {
    move || (SignedDuration::ZERO, started_at)
}

pub(super) fn container(id: &str) -> Action {
    let (name, state) = ("app".to_owned(), ContainerState::Exited);
    let target = Target::RemoveContainer { id: id.into(), name, state, keeps_logs: false };
    let pod = Some(PodRef { uid: "u1".into(), namespace: "default".to_owned(), name: "web-0".to_owned() });
    Action { pod, age_seconds: Some(90), ..target.remove(RemoveReason::OverMaxPerPodContainer { limit: 1 }) }
}

pub(super) fn image(id: &str) -> Action {
    let tags = vec!["docker.io/library/a:1".to_owned(), "docker.io/library/a:latest".to_owned()];
    let target = Target::RemoveImage { id: id.into(), tags, digests: Vec::new(), estimated_bytes: 7 << 20 };
    target.remove(RemoveReason::Space { high_threshold_percent: 85, used_percent: 91 })
}

/// Returns the summary of a pass with these outcomes.
pub(super) fn summary(counts: Counts) -> Summary {
    Summary { outcomes: [(Kind::Container, counts)].into(), ..Summary::default() }
}

pub(super) fn removed(action: Action, freed_bytes: Option<u64>) -> Report {
    let measure = if freed_bytes.is_some() { Measure::Measured } else { Measure::Unknown };
    Report { action, outcome: Outcome::Removed {}, freed_bytes, measure, proven_by: None, note: None, kept_until: None }
}

pub(super) fn failed(action: Action, error: &str) -> Report {
    Report {
        action,
        outcome: Outcome::Failed { error: error.to_owned(), cause: FailureCause::Runtime },
        freed_bytes: None,
        measure: Measure::Unknown,
        proven_by: None,
        note: None,
        kept_until: None,
    }
}

pub(super) fn refused(action: Action) -> Report {
    Report {
        action,
        outcome: Outcome::Refused { refusal: Refusal::StateChanged },
        freed_bytes: None,
        measure: Measure::Unknown,
        proven_by: None,
        note: None,
        kept_until: None,
    }
}

/// Creates a directory for one test, and returns the path of a store in it.
pub(super) fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("state/kubegc.db");
    (dir, path)
}

/// A history without limits.
pub(super) const ALL: Retention = Retention { max_age: Duration::MAX, max_rows: u64::MAX };
/// The first back-off of a failed action.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// A store, as the tests use it.
#[derive(Debug)]
pub(super) struct TestStore {
    pub store: Store,
    path: PathBuf,
    _dir: Option<TempDir>,
}

// === impl TestStore ===

impl TestStore {
    /// Opens the store at a path.
    pub fn at(path: &Path) -> Self {
        Self { store: Store::open_blocking(path).unwrap(), path: path.to_owned(), _dir: None }
    }

    /// Creates a store in a directory of its own.
    pub fn fresh() -> Self {
        let (dir, path) = place();
        Self { _dir: Some(dir), ..Self::at(&path) }
    }

    pub fn begin_run(&self, started_at: Timestamp, scope: Scope) -> Run {
        let start = RunStart { started_at, scope, dry: false, triggered_by: None };
        self.store.change_blocking(|state| state.begin_run(start))
    }

    pub fn record(&self, run: &Run, at: Timestamp, report: &Report) {
        self.store.change_blocking(|state| state.record(run, at, std::slice::from_ref(report), RETRY_AFTER));
    }

    pub fn finish_run(&self, run: &Run, at: Timestamp, summary: &Summary, error: Option<&str>) {
        self.finish_run_and_keep(run, at, summary, error, ALL);
    }

    pub fn finish_run_and_keep(
        &self,
        run: &Run,
        at: Timestamp,
        summary: &Summary,
        error: Option<&str>,
        keep: Retention,
    ) {
        let end = RunEnd { at, summary: summary.clone(), error: error.map(str::to_owned), keep };
        self.store.change_blocking(|state| state.end_run(run, end));
    }

    pub fn learn(&self, after: &Memory) {
        self.store.change_blocking(|state| state.learn(|_| after.clone()));
    }

    /// Returns the memory of the process.
    pub fn memory(&self) -> Memory {
        self.store.change_blocking(|state| state.memory().clone())
    }

    pub fn history(&self) -> Vec<HistoryEntry> {
        self.file().history(&HistoryFilter::default()).unwrap()
    }

    pub fn runs(&self, limit: usize) -> Vec<RunEntry> {
        self.file().runs(limit).unwrap()
    }

    /// Returns what the file has.
    pub fn file(&self) -> StoreReader {
        file(&self.path)
    }

    /// Returns the ids in the history, oldest first.
    pub fn recorded(&self) -> Vec<String> {
        recorded(&self.file())
    }
}

/// Opens a store, and checks that its file can be used.
pub(super) fn open(path: &Path) -> TestStore {
    let opened = TestStore::at(path);
    assert_eq!(opened.store.fault(), None);
    opened
}

/// Returns what a file has.
pub(super) fn file(path: &Path) -> StoreReader {
    StoreReader::open(path).unwrap().unwrap()
}

/// Returns a memory with a value in every field.
pub(super) fn memory() -> Memory {
    let failure = Failure { count: 2, retry_at: at(120), error: "busy".to_owned() };
    let pod = Pod { uid: "u2".into(), images: vec!["docker.io/library/web:1".to_owned()], ..Pod::default() };
    Memory {
        agent_started_at: Some(at(0)),
        images: [
            ImageMemory {
                id: "sha256:aa".into(),
                first_seen: None,
                last_used: Some(at(30)),
                last_used_by: Some("shop/web-0/app".to_owned()),
            },
            ImageMemory { id: "sha256:bb".into(), first_seen: Some(at(10)), last_used: None, last_used_by: None },
        ]
        .into(),
        images_at: Some(at(30)),
        absent_since: [Absence { uid: "u1".into(), since: at(20) }].into(),
        failures: [("image/sha256:bb".to_owned(), failure)].into(),
        last_counts: Some(ListCounts { containers: 7, sandboxes: 3, images: 2 }),
        recent_counts: Some(RecentCounts {
            since: at(22),
            counts: ListCounts { containers: 6, sandboxes: 3, images: 2 },
        }),
        baseline_lost: Some(BaselineLoss { since: Some(at(24)) }),
        fall: Some(ListFall {
            since: at(25),
            passes: 2,
            counts: ListCounts { containers: 1, sandboxes: 3, images: 2 },
        }),
        runtime: Some(RuntimeMemory {
            listening_since: Some(at(-60)),
            first_seen: at(1),
            sandbox_image: Seen::Seen(Some("registry.k8s.io/pause:3.9".to_owned())),
        }),
        log_pods: Arc::new(vec![Pod { uid: "p2".into(), ..Pod::default() }]),
        named_images: Some(NamedImages { as_of: at(30), pods: Arc::new(vec![pod]) }),
        image_volumes: Arc::new([("c1".into(), vec!["sha256:aa".to_owned()]), ("c2".into(), Vec::new())].into()),
        disks: [("/images".into(), disk_memory())].into(),
        orphaned_since: [("p3".into(), at(27))].into(),
        removed_images: [("sha256:cc".into(), Arc::new(removed_image()))].into(),
        pulling_since: [("docker.io/library/web:2".to_owned(), at(26))].into(),
        pulls: Arc::new([("docker.io/library/web".to_owned(), pulls())].into()),
    }
}

fn removed_image() -> RemovedImage {
    RemovedImage {
        at: at(28),
        reason: "rule".to_owned(),
        rule: Some("old builds".to_owned()),
        bytes: 7,
        digests: vec!["sha256:01".to_owned()],
        unused_seconds: 60,
        pulled_again_at: Some(at(29)),
        ..RemovedImage::default()
    }
}

fn pulls() -> RepositoryPulls {
    RepositoryPulls { pulls: 3, seconds: Some(40), last: at(26) }
}

fn disk_memory() -> DiskMemory {
    let growth = vec![DiskGrowth { since: at(0), seconds: 300, bytes: -5 }];
    DiskMemory { holds: vec![DiskUse::Images], at: at(30), used_bytes: 90, reclaimed_bytes: 7, growth }
}

/// Returns a file system.
pub(super) fn disk() -> FileSystem {
    FileSystem {
        mountpoint: "/images".into(),
        capacity_bytes: 1 << 30,
        available_bytes: 1 << 20,
        inodes: Some(9),
        inodes_free: Some(7),
        fsid: None,
        free_bytes: None,
    }
}

/// Fills a store with a memory, a sample of the usage, and one finished run with two removals.
pub(super) fn fill(test: &TestStore) {
    test.learn(&memory());
    test.store.change_blocking(|state| state.record_usage(at(0), vec![disk()]));
    let triggered_by = Some("/ is 3 % free, pressure.free_percent = 5".to_owned());
    let start = RunStart { started_at: at(40), scope: Scope::All, dry: false, triggered_by };
    let run = test.store.change_blocking(|state| state.begin_run(start));
    let proven_by = Some("kube-api".to_owned());
    test.record(&run, at(41), &Report { proven_by, ..removed(container("c1"), Some(4096)) });
    test.record(&run, at(42), &failed(image("sha256:bb"), "busy"));
    let mut summary = summary(Counts { removed: 1, failed: 1, ..Counts::default() });
    summary.add_step(Kind::Container, 4096, Measure::Measured);
    test.finish_run(&run, at(43), &summary, None);
    // The removals were subtracted from the baseline; a later pass listed the same numbers again.
    test.learn(&memory());
}

/// Records a removal of each id in a run: of a log directory, which does not change the memory.
pub(super) fn record(store: &TestStore, run: &Run, ids: impl IntoIterator<Item = String>) {
    for id in ids {
        let action = Action { target: Target::RemoveLogDir { path: id.into() }, ..container("c1") };
        store.record(run, at(50), &removed(action, None));
    }
}

/// Returns the ids in the history, oldest first.
pub(super) fn recorded(file: &StoreReader) -> Vec<String> {
    let entries = file.history(&HistoryFilter::default()).unwrap();
    entries.into_iter().map(|entry| entry.id).rev().collect()
}

/// Returns every file of a directory with its length and a hash of its content.
pub(super) fn files(dir: &Path) -> BTreeMap<String, (usize, u64)> {
    let sum = |bytes: Vec<u8>| {
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        (bytes.len(), hasher.finish())
    };
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), sum(std::fs::read(e.path()).unwrap()))).collect()
}

/// Copies a store as a kill -9 leaves it: with everything written so far. The index of the log is not copied, because
/// the next process cannot use it.
pub(super) fn killed(path: &Path) -> (TempDir, PathBuf) {
    let (dir, copy) = place();
    std::fs::create_dir(copy.parent().unwrap()).unwrap();
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
    (dir, copy)
}

/// Returns everything that is logged while `work` runs, one event per line.
pub(super) fn logged(work: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().map_or(Ok(0), |mut lines| lines.write(text))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}
