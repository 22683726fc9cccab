//! Tests with a file that cannot be used: the store continues in memory, and loses nothing when the file can be used again.

use super::*;
use crate::record::StoreFault;

/// Makes one run that records a removal of each id.
fn run_of(store: &TestStore, seconds: i64, ids: &[&str]) {
    store.store.recall(at(seconds), no_jump(at(0)));
    let mut after = store.memory();
    let id = format!("sha256:run-{seconds}").into();
    let image = ImageMemory { id, first_seen: Some(at(seconds)), last_used: None, last_used_by: None };
    after.images = after.images.iter().cloned().chain([image]).collect();
    Arc::make_mut(&mut after.images).sort_by(|a, b| a.id.cmp(&b.id));
    store.learn(&after);
    let run = store.begin_run(at(seconds), Scope::All);
    record(store, &run, ids.iter().map(|id| (*id).to_owned()));
    let summary = summary(Counts { removed: ids.len(), ..Counts::default() });
    store.finish_run(&run, at(seconds + 1), &summary, None);
}

fn images(memory: &Memory) -> Vec<&str> {
    memory.images.iter().map(|image| image.id.as_str()).collect()
}

/// Returns each run as its start, its number of removals and its error.
fn runs(store: &TestStore) -> Vec<(i64, u64, Option<String>)> {
    let runs = store.runs(100).into_iter().rev();
    runs.map(|run| (run.started_at.as_second() - at(0).as_second(), run.removed, run.error)).collect()
}

/// Removes all injected faults.
fn heal(store: &TestStore) {
    store.store.mirror().faults = crate::record::faults::Faults::default();
}

/// Opens another connection that holds the write lock until it is dropped.
fn lock(path: &Path) -> rusqlite::Connection {
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

#[test]
fn no_fault_of_any_operation_stops_a_run() {
    for fault in StoreFault::ALL {
        for what in Store::OPERATIONS.iter().map(|what| Some(*what)).chain([None]) {
            for times in [1, usize::MAX] {
                let case = format!("{fault:?} of {what:?}, {times} times");
                let (_dir, path) = place();
                let store = open(&path);
                fill(&store);
                store.store.inject(what, fault, times);
                run_of(&store, 60, &["c2"]);
                assert!(images(&store.memory()).contains(&"sha256:run-60"), "{case}");
                heal(&store);
                store.begin_run(at(120), Scope::All);
                let last = store.runs(2).remove(1);
                assert_eq!((last.started_at, last.removed), (at(60), 1), "{case}");
                assert!(store.recorded().contains(&"c2".to_owned()), "{case}");
            }
        }
    }
}

#[test]
fn the_next_run_after_a_fault_writes_everything_back() {
    for fault in StoreFault::ALL {
        for what in Store::OPERATIONS.iter().map(|what| Some(*what)).chain([None]) {
            let case = format!("{fault:?} of {what:?}");
            let (_dir, path) = place();
            let store = open(&path);
            fill(&store);
            store.store.inject(what, fault, 2);
            run_of(&store, 60, &["c2"]);
            run_of(&store, 120, &["c3"]);
            run_of(&store, 180, &["c4"]);
            drop(store);
            let store = open(&path);
            assert_eq!(store.recorded(), ["c1", "sha256:bb", "c2", "c3", "c4"], "{case}");
            let expected = [(40, 1, None), (60, 1, None), (120, 1, None), (180, 1, None)];
            assert_eq!(runs(&store), expected, "{case}");
            let expected = ["sha256:aa", "sha256:bb", "sha256:run-120", "sha256:run-180", "sha256:run-60"];
            assert_eq!(images(&store.memory()), expected, "{case}");
        }
    }
}

#[test]
fn another_programs_write_lock_costs_only_one_wait() {
    let (_dir, path) = place();
    let store = open(&path);
    fill(&store);
    let other = lock(&path);
    #[expect(clippy::disallowed_methods, reason = "measures how long the store waits")]
    let begin = std::time::Instant::now();
    run_of(&store, 60, &["c2", "c3", "c4", "c5", "c6", "c7"]);
    assert!(begin.elapsed() < Duration::from_secs(8), "one wait, not one for each record");
    let expected = format!("cannot use the store {}: database is locked; continuing in memory", path.display());
    assert_eq!(store.store.fault(), Some(expected));
    assert_eq!(images(&store.memory()), ["sha256:aa", "sha256:bb", "sha256:run-60"], "the file could be read");
    drop(other);
    run_of(&store, 120, &["c8"]);
    assert_eq!(store.store.fault(), None);
    drop(store);
    let store = open(&path);
    assert_eq!(store.recorded(), ["c1", "sha256:bb", "c2", "c3", "c4", "c5", "c6", "c7", "c8"]);
    assert_eq!(runs(&store), [(40, 1, None), (60, 6, None), (120, 1, None)]);
}

#[test]
fn a_store_locked_on_open_keeps_the_files_data() {
    let (_dir, path) = place();
    fill(&open(&path));
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let store = TestStore::at(&path);
    let fault = store.store.fault().unwrap();
    assert!(fault.ends_with("database is locked; continuing in memory, without its history"), "{fault}");
    assert_eq!(store.memory().baseline_lost, Some(BaselineLoss::default()));
    // The first pass lists the images, and a later one an image that the file has too.
    store.store.recall(at(60), no_jump(at(50)));
    let image = |id: &str, seconds| ImageMemory {
        id: id.into(),
        first_seen: Some(at(seconds)),
        last_used: None,
        last_used_by: None,
    };
    let mut used = image("sha256:aa", 60);
    (used.last_used, used.last_used_by) = (memory().images[0].last_used, Some("shop/at-the-same-time/app".to_owned()));
    let mut listed = Memory { images: [used].into(), ..store.memory() };
    listed.absent_since = [Absence { uid: "u1".into(), since: at(60) }].into();
    store.learn(&listed);
    listed.images = [image("sha256:aa", 60), image("sha256:bb", 90)].into();
    store.learn(&listed);
    drop(other);
    run_of(&store, 120, &["c3"]);
    drop(store);
    let store = open(&path);
    assert_eq!(store.recorded(), ["c1", "sha256:bb", "c3"]);
    let found = store.memory();
    assert_eq!(found.images[0], memory().images[0], "what the file knew is not replaced by less");
    assert_eq!(found.images[1], image("sha256:bb", 90), "it was pulled again meanwhile");
    assert_eq!(found.absent_since, listed.absent_since, "the pod may have existed in between");
    assert_eq!(found.failures, memory().failures);
    assert_eq!(store.store.begun_at(), Some(at(0)));
    assert_eq!(found.last_counts, memory().last_counts);
    assert_eq!(found.baseline_lost, memory().baseline_lost, "the file has it");
}

#[test]
fn a_file_overwritten_while_open_is_set_aside() {
    let (_dir, path) = place();
    let store = open(&path);
    fill(&store);
    std::fs::write(&path, vec![7; 50_000]).unwrap();
    let log = logged(|| run_of(&store, 60, &["c2"]));
    let expected = ["cannot use the store", "the store was damaged", "the store is written to disk again"];
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(log.lines().zip(expected).all(|(line, text)| line.contains(text)), "{log}");
    let aside = path.with_extension("db.corrupt-1");
    assert_eq!(std::fs::read(aside).unwrap(), vec![7; 50_000], "the damaged file is kept");
    assert_eq!(logged(|| run_of(&store, 120, &["c3"])), "");
    drop(store);
    let store = open(&path);
    assert!(store.recorded().ends_with(&["c2".to_owned(), "c3".to_owned()]), "{:?}", store.recorded());
    let expected = (memory().last_counts, memory().baseline_lost);
    assert_eq!((store.memory().last_counts, store.memory().baseline_lost), expected, "the process knows the baseline");
}

#[test]
fn a_file_removed_while_open_is_written_again() {
    let (_dir, path) = place();
    let store = open(&path);
    fill(&store);
    for name in files(path.parent().unwrap()).into_keys() {
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        std::fs::remove_file(path.with_file_name(name)).unwrap();
    }
    run_of(&store, 60, &["c2"]);
    drop(store);
    assert_eq!(open(&path).recorded(), ["c1", "sha256:bb", "c2"]);
}

#[test]
fn another_programs_replacement_file_is_never_overwritten() {
    let (_dir, path) = place();
    let store = open(&path);
    fill(&store);
    let other = path.with_file_name("songs.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    let songs = std::fs::read(&other).unwrap();
    for suffix in ["db-wal", "db-shm"] {
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        let _ = std::fs::remove_file(path.with_extension(suffix));
    }
    std::fs::rename(&other, &path).unwrap();
    for seconds in [60, 120] {
        run_of(&store, seconds, &["c2"]);
        let fault = store.store.fault().unwrap();
        assert!(fault.contains("is a database of another program"), "{fault}");
    }
    drop(store);
    assert!(std::fs::read(&path).unwrap() == songs);
}

#[test]
fn what_was_written_to_the_file_meanwhile_stays() {
    let (_dir, path) = place();
    let store = open(&path);
    fill(&store);
    store.store.inject(None, StoreFault::Io, usize::MAX);
    run_of(&store, 60, &["c2"]);
    heal(&store);
    run_of(&open(&path), 70, &["theirs"]);
    run_of(&store, 120, &["c3"]);
    drop(store);
    let store = open(&path);
    assert_eq!(store.recorded(), ["c1", "sha256:bb", "theirs", "c2", "c3"]);
    assert_eq!(runs(&store), [(40, 1, None), (70, 1, None), (60, 1, None), (120, 1, None)]);
    let expected = ["sha256:aa", "sha256:bb", "sha256:run-120", "sha256:run-60", "sha256:run-70"];
    assert_eq!(images(&store.memory()), expected);
}

#[test]
fn a_refusal_recorded_in_memory_replaces_the_files_one() {
    let (_dir, path) = place();
    let store = open(&path);
    for (seconds, times) in [(0, 0), (60, 1), (120, 0)] {
        store.store.inject(None, StoreFault::Io, times);
        let run = store.begin_run(at(seconds), Scope::All);
        store.record(&run, at(seconds + 1), &refused(container("c1")));
        store.finish_run(&run, at(seconds + 2), &summary(Counts { refused: 1, ..Counts::default() }), None);
    }
    let history = store.history();
    assert_eq!(history.iter().map(|entry| entry.at).collect::<Vec<_>>(), [at(121)]);
}

#[test]
fn a_new_run_ends_no_run_of_its_process() {
    let (_dir, path) = place();
    let store = open(&path);
    let images = store.begin_run(at(0), Scope::Images);
    let containers = store.begin_run(at(10), Scope::Containers);
    let unfinished = || store.runs(9).iter().filter(|run| run.finished_at.is_none()).count();
    assert_eq!(unfinished(), 2);
    let total = summary(Counts { removed: 1, ..Counts::default() });
    store.finish_run(&containers, at(11), &total, None);
    store.finish_run(&images, at(12), &total, None);
    assert!(store.runs(9).iter().all(|run| run.error.is_none()));
}

#[test]
fn a_file_fault_does_not_lose_runs_in_progress() {
    for times in [1, usize::MAX] {
        for fault in [StoreFault::Io, StoreFault::Damaged] {
            let (_dir, path) = place();
            let store = open(&path);
            let images = store.begin_run(at(0), Scope::Images);
            record(&store, &images, ["i1".to_owned()]);
            store.store.inject(None, fault, times);
            let containers = store.begin_run(at(10), Scope::Containers);
            record(&store, &images, ["i2".to_owned()]);
            record(&store, &containers, ["c1".to_owned()]);
            heal(&store);
            let next = store.begin_run(at(20), Scope::All);
            record(&store, &images, ["i3".to_owned()]);
            for (run, removed) in [(containers, 1), (images, 3), (next, 1)] {
                store.finish_run(&run, at(30), &summary(Counts { removed, ..Counts::default() }), None);
            }
            drop(store);
            let store = open(&path);
            assert_eq!(store.recorded(), ["i1", "i2", "c1", "i3"], "{times}");
            assert_eq!(runs(&store), [(0, 3, None), (10, 1, None), (20, 1, None)], "{times}");
            let (history, images) = (store.history(), store.runs(9)[2].id);
            let of_images = history.iter().filter(|entry| entry.id.starts_with('i'));
            assert!(of_images.clone().all(|entry| entry.run == images) && of_images.count() == 3, "{history:#?}");
        }
    }
}
