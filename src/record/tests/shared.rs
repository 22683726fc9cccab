//! Tests with a call that is blocked in the file system.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use nix::sys::stat::Mode;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::*;
use crate::record::{SharedStore, StoreError};

/// The limit of a call in these tests.
const LIMIT: Duration = Duration::from_millis(50);
/// The longest wait of a test.
const BOUND: Duration = Duration::from_mins(1);

/// Returns `work` whose first call waits for the release, as on a frozen file system.
fn blocked<T>(
    work: impl Fn(&mut Store) -> Result<T, StoreError> + Send + Sync + 'static,
) -> (mpsc::Sender<()>, impl Fn(&mut Store) -> Result<T, StoreError> + Send + Sync + 'static) {
    let ((release, held), is_first) = (mpsc::channel(), AtomicBool::new(true));
    let held = Mutex::new(held);
    let work = move |store: &mut Store| {
        if is_first.swap(false, Ordering::SeqCst) {
            held.lock().unwrap().recv().unwrap();
        }
        work(store)
    };
    (release, work)
}

fn record_work(run: RunId, id: &'static str) -> impl Fn(&mut Store) -> Result<(), StoreError> + Send + Sync + 'static {
    move |store| store.record(run, at(61), &removed(container(id), None))
}

async fn begin(shared: &SharedStore, seconds: i64) -> RunId {
    shared.call(move |store| store.begin_run(at(seconds), Scope::All, false)).await.unwrap()
}

/// Ends a run, and returns why the store is in memory.
async fn finish(shared: &SharedStore, run: RunId) -> Option<String> {
    let finish = move |store: &mut Store| {
        store.finish_run(run, at(90), &summary(Counts { removed: 1, ..Counts::default() }), None)?;
        Ok(store.take_trouble())
    };
    let notes = shared.call(finish).await.unwrap();
    notes.iter().find(|note| note.is_in_memory()).map(ToString::to_string)
}

/// Makes runs until one of them is in the file.
async fn return_to_file(shared: &SharedStore) {
    let returned = async {
        while finish(shared, begin(shared, 80).await).await.is_some() {
            yield_now().await;
        }
    };
    timeout(BOUND, returned).await.expect("the store returns to its file");
}

#[tokio::test]
async fn a_blocked_call_ends_within_its_limit_and_the_store_goes_on_in_memory_until_the_file_responds() {
    let (_dir, path) = place();
    let mut store = open(&path);
    fill(&mut store);
    let shared = SharedStore::within(LIMIT, store);
    let run = begin(&shared, 60).await;
    let (release, work) = blocked(record_work(run, "c2"));
    timeout(BOUND, shared.call(work)).await.expect("the call ends").unwrap();
    let cause = finish(&shared, run).await.expect("it is in memory");
    assert!(cause.contains("file system did not respond within") && cause.contains("without its history"), "{cause}");

    let run = begin(&shared, 70).await;
    shared.call(record_work(run, "c3")).await.unwrap();
    assert!(finish(&shared, run).await.is_some(), "no other call uses the file while one is blocked");

    release.send(()).unwrap();
    return_to_file(&shared).await;
    shared.close().await;
    let store = open(&path);
    assert_eq!(recorded(&store), ["c1", "sha256:bb", "c2", "c3"], "each is in the history once");
    assert!(store.runs(100_000).unwrap().iter().all(|run| run.error.is_none()), "no run was interrupted");
    assert_eq!(store.memory(at(0)).unwrap().images, memory().images);
}

#[tokio::test]
async fn the_beginning_of_a_run_that_is_blocked_is_the_same_run_in_the_file() {
    let (_dir, path) = place();
    let shared = SharedStore::within(LIMIT, open(&path));
    let (release, work) = blocked(|store: &mut Store| store.begin_run(at(60), Scope::All, false));
    let run = shared.call(work).await.unwrap();
    shared.call(record_work(run, "c1")).await.unwrap();
    finish(&shared, run).await.expect("it is in memory");
    release.send(()).unwrap();
    return_to_file(&shared).await;
    shared.close().await;
    let store = open(&path);
    let runs: Vec<_> = store.runs(100_000).unwrap().into_iter().filter(|run| run.started_at == at(60)).collect();
    assert_eq!((runs.len(), runs[0].removed, runs[0].error.as_deref()), (1, 1, None));
    assert_eq!(recorded(&store), ["c1"]);
}

#[tokio::test]
async fn a_file_that_blocks_when_it_is_opened_costs_one_limit() {
    let (dir, _) = place();
    // Opening a pipe for writing blocks until there is a reader.
    let path = dir.path().join("pipe");
    nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
    let shared = timeout(BOUND, SharedStore::open_within(LIMIT, &path)).await.expect("it is opened").unwrap();
    let run = begin(&shared, 60).await;
    let cause = finish(&shared, run).await.expect("it is in memory");
    assert!(cause.contains("file system did not respond within"), "{cause}");
    // A reader that stays: the blocked thread may open the pipe more than once, and the runtime waits for its end.
    let reader = OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open(&path).unwrap();
    std::mem::forget(reader);
}
