//! Tests with a call that is blocked in the file system, and of the end of a store.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, mpsc};

use nix::sys::stat::Mode;
use tokio::time::timeout;

use super::*;
use crate::record::StoreFault;

/// The limit of a call in these tests.
const LIMIT: Duration = Duration::from_millis(50);
/// The longest wait of a test.
const BOUND: Duration = Duration::from_mins(1);

/// Blocks the next call of a store until the release is sent.
fn block(store: &Arc<Store>) -> mpsc::Sender<()> {
    let ((release, held), (locked, is_locked)) = (mpsc::channel(), mpsc::channel());
    let store = Arc::clone(store);
    std::thread::spawn(move || {
        let _mirror = store.mirror();
        locked.send(()).unwrap();
        held.recv().unwrap();
    });
    is_locked.recv().unwrap();
    release
}

async fn begin(store: &Store, seconds: i64) -> Run {
    let start = RunStart { started_at: at(seconds), scope: Scope::All, dry: false, triggered_by: None };
    store.change(|state| state.begin_run(start)).await
}

async fn record_one(store: &Store, run: &Run, id: &str) {
    let report = removed(container(id), None);
    timeout(BOUND, store.change(|state| state.record(run, at(61), &[report], RETRY_AFTER)))
        .await
        .expect("the call ends");
}

/// Ends a run, and returns why it is not in the file.
async fn finish(store: &Store, run: &Run) -> Option<String> {
    let summary = summary(Counts { removed: 1, ..Counts::default() });
    store.change(|state| state.end_run(run, RunEnd { at: at(90), summary, error: None, keep: ALL })).await;
    store.fault()
}

/// Makes runs until one of them is in the file.
async fn return_to_file(store: &Store) {
    let returned = async {
        while finish(store, &begin(store, 80).await).await.is_some() {
            tokio::time::sleep(LIMIT / 10).await;
        }
    };
    timeout(BOUND, returned).await.expect("the store returns to its file");
}

#[tokio::test]
async fn a_blocked_call_ends_within_its_time_limit() {
    let (_dir, path) = place();
    fill(&open(&path));
    let store = Arc::new(Store::open(&path).await.unwrap().with_limit(LIMIT));
    let run = begin(&store, 60).await;
    let release = block(&store);
    record_one(&store, &run, "c2").await;
    let cause = finish(&store, &run).await.expect("it is in memory");
    assert!(cause.contains("file system did not respond within"), "{cause}");

    let run = begin(&store, 70).await;
    record_one(&store, &run, "c3").await;
    assert!(finish(&store, &run).await.is_some(), "no other call uses the file while one is blocked");
    assert_eq!(recorded(&file(&path)), ["c1", "sha256:bb"]);

    release.send(()).unwrap();
    return_to_file(&store).await;
    assert_eq!(Arc::into_inner(store).unwrap().with_limit(BOUND).close().await, None);
    let store = file(&path);
    assert_eq!(recorded(&store), ["c1", "sha256:bb", "c2", "c3"], "each is in the history once");
    let runs = store.runs(100_000).unwrap();
    assert!(
        runs.iter().all(|run| run.error.is_none() && run.finished_at.is_some()),
        "no run was interrupted: {runs:?}"
    );
    assert_eq!(store.memory().unwrap().images, memory().images);
}

#[tokio::test]
async fn a_run_with_a_blocked_start_is_recorded_once() {
    let (_dir, path) = place();
    let store = Arc::new(Store::open(&path).await.unwrap().with_limit(LIMIT));
    let release = block(&store);
    let run = begin(&store, 60).await;
    record_one(&store, &run, "c1").await;
    finish(&store, &run).await.expect("it is in memory");
    release.send(()).unwrap();
    return_to_file(&store).await;
    assert_eq!(Arc::into_inner(store).unwrap().with_limit(BOUND).close().await, None);
    let store = file(&path);
    let runs: Vec<_> = store.runs(100_000).unwrap().into_iter().filter(|run| run.started_at == at(60)).collect();
    assert_eq!((runs.len(), runs[0].removed, runs[0].error.as_deref()), (1, 1, None));
    assert_eq!(recorded(&store), ["c1"]);
}

#[tokio::test]
async fn a_file_that_blocks_on_open_costs_one_limit() {
    let (dir, _) = place();
    // Opening a pipe for writing blocks until there is a reader.
    let path = dir.path().join("pipe");
    nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
    let store = timeout(BOUND, Store::open_within(LIMIT, &path)).await.expect("it is opened").unwrap();
    let run = begin(&store, 60).await;
    let cause = finish(&store, &run).await.expect("it is in memory");
    assert!(cause.contains("file system did not respond within") && cause.contains("without its history"), "{cause}");
    assert!(store.change(|state| state.memory().baseline_lost).await.is_some());
    // A reader that stays: the blocked thread may open the pipe more than once, and the runtime waits for its end.
    let reader = OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open(&path).unwrap();
    std::mem::forget(reader);
}

#[tokio::test]
async fn what_waits_is_written_when_the_store_closes() {
    let (_dir, path) = place();
    let store = Store::open(&path).await.unwrap();
    store.inject(None, StoreFault::Locked, 1);
    let run = begin(&store, 60).await;
    record_one(&store, &run, "c1").await;
    assert!(finish(&store, &run).await.is_some(), "the next pass would try the file again");
    assert_eq!(store.close().await, None);
    assert_eq!(recorded(&file(&path)), ["c1"]);
}
