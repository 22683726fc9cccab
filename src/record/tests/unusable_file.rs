//! Tests with a file that cannot be used: the store continues in memory, and loses nothing when it returns to the file.

use super::*;
use crate::record::{StoreFault, StoreNote};

/// Makes one run that records a removal of each id. Returns the notes of the store.
fn run_of(store: &mut Store, seconds: i64, ids: &[&str]) -> Vec<StoreNote> {
    let before = store.memory(at(0)).unwrap();
    let mut after = before.clone();
    let id = format!("sha256:run-{seconds}").into();
    after.images.push(ImageMemory { id, first_seen: Some(at(seconds)), last_used: None, last_used_by: None });
    after.images.sort_by(|a, b| a.id.cmp(&b.id));
    store.learn(&before, &after).unwrap();
    let run = store.begin_run(at(seconds), Scope::All, false).unwrap();
    record(store, run, ids.iter().map(|id| (*id).to_owned()));
    let summary = summary(Counts { removed: ids.len(), ..Counts::default() });
    store.finish_run(run, at(seconds + 1), &summary, None).unwrap();
    store.take_notes()
}

fn images(store: &Store) -> Vec<String> {
    store.memory(at(0)).unwrap().images.into_iter().map(|image| image.id.to_string()).collect()
}

/// Returns each run as its start, its number of removals and its error.
fn runs(store: &Store) -> Vec<(i64, u64, Option<String>)> {
    let runs = store.runs(100).unwrap().into_iter().rev();
    runs.map(|run| (run.started_at.as_second() - at(0).as_second(), run.removed, run.error)).collect()
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
                let mut store = open(&path);
                fill(&mut store);
                store.inject(what, fault, times);
                run_of(&mut store, 60, &["c2"]);
                let last = store.runs(1).unwrap().remove(0);
                assert_eq!((last.started_at, last.removed), (at(60), 1), "{case}");
                assert!(images(&store).contains(&"sha256:run-60".to_owned()), "{case}");
                assert!(recorded(&store).contains(&"c2".to_owned()), "{case}");
            }
        }
    }
}

#[test]
fn after_a_fault_the_next_run_brings_everything_to_the_file() {
    for fault in StoreFault::ALL {
        for what in Store::OPERATIONS.iter().map(|what| Some(*what)).chain([None]) {
            let case = format!("{fault:?} of {what:?}");
            let (_dir, path) = place();
            let mut store = open(&path);
            fill(&mut store);
            store.inject(what, fault, 2);
            run_of(&mut store, 60, &["c2"]);
            run_of(&mut store, 120, &["c3"]);
            run_of(&mut store, 180, &["c4"]);
            drop(store);
            let store = open(&path);
            assert_eq!(recorded(&store), ["c1", "sha256:bb", "c2", "c3", "c4"], "{case}");
            let expected = [(40, 1, None), (60, 1, None), (120, 1, None), (180, 1, None)];
            assert_eq!(runs(&store), expected, "{case}");
            let expected = ["sha256:aa", "sha256:bb", "sha256:run-120", "sha256:run-180", "sha256:run-60"];
            assert_eq!(images(&store), expected, "{case}");
        }
    }
}

#[test]
fn a_write_lock_that_another_program_holds_costs_one_wait_and_no_record() {
    let (_dir, path) = place();
    let mut store = open(&path);
    fill(&mut store);
    let other = lock(&path);
    #[expect(clippy::disallowed_methods, reason = "measures how long the store waits")]
    let begin = std::time::Instant::now();
    let notes = run_of(&mut store, 60, &["c2", "c3", "c4", "c5", "c6", "c7"]);
    assert!(begin.elapsed() < std::time::Duration::from_secs(8), "one wait, not one for each record");
    assert!(matches!(notes[..], [StoreNote::InMemory { .. }]), "{notes:?}");
    assert_eq!(images(&store), ["sha256:aa", "sha256:bb", "sha256:run-60"], "the file could be read");
    assert!(store.is_in_memory() && notes[0].is_in_memory());
    drop(other);
    let notes = run_of(&mut store, 120, &["c8"]);
    assert_eq!(notes, [StoreNote::BackOnDisk { path: path.clone() }]);
    assert!(!store.is_in_memory() && !notes[0].is_in_memory());
    drop(store);
    let store = open(&path);
    assert_eq!(recorded(&store), ["c1", "sha256:bb", "c2", "c3", "c4", "c5", "c6", "c7", "c8"]);
    assert_eq!(runs(&store), [(40, 1, None), (60, 6, None), (120, 1, None)]);
}

#[test]
fn a_store_that_is_locked_when_it_is_opened_learns_in_memory_and_keeps_what_the_file_knew() {
    let (_dir, path) = place();
    fill(&mut open(&path));
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let opened = Store::open(&path).unwrap();
    assert!(matches!(opened.notes[..], [StoreNote::InMemory { .. }]), "{:?}", opened.notes);
    let mut store = opened.store;
    run_of(&mut store, 60, &["c2"]);
    drop(other);
    run_of(&mut store, 120, &["c3"]);
    drop(store);
    let store = open(&path);
    assert_eq!(recorded(&store), ["c1", "sha256:bb", "c2", "c3"]);
    let found = store.memory(at(0)).unwrap();
    assert_eq!(found.images[..2], memory().images, "what the file knew is not replaced by less");
    assert_eq!(found.images.len(), 4);
    assert_eq!(store.begun_at().unwrap(), Some(at(0)));
    assert_eq!(found.last_counts, memory().last_counts);
    assert_eq!(found.baseline_lost, None, "the file has it");
}

#[test]
fn a_file_that_is_overwritten_while_the_store_is_open_is_set_aside_by_the_next_run() {
    let (_dir, path) = place();
    let mut store = open(&path);
    fill(&mut store);
    std::fs::write(&path, vec![7; 50_000]).unwrap();
    let notes = run_of(&mut store, 60, &["c2"]);
    let [StoreNote::InMemory { .. }, StoreNote::SetAside { to, .. }, StoreNote::BackOnDisk { .. }] = &notes[..] else {
        panic!("{notes:?}")
    };
    assert_eq!(std::fs::read(to).unwrap(), vec![7; 50_000], "the damaged file is kept");
    assert_eq!(run_of(&mut store, 120, &["c3"]), []);
    drop(store);
    let kept = recorded(&open(&path));
    assert!(kept.ends_with(&["c2".to_owned(), "c3".to_owned()]), "{kept:?}");
    assert!(open(&path).memory(at(0)).unwrap().baseline_lost.is_some());
}

#[test]
fn a_file_that_is_removed_while_the_store_is_open_is_written_again_by_the_next_run() {
    let (_dir, path) = place();
    let mut store = open(&path);
    fill(&mut store);
    for name in files(path.parent().unwrap()).into_keys() {
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        std::fs::remove_file(path.with_file_name(name)).unwrap();
    }
    run_of(&mut store, 60, &["c2"]);
    drop(store);
    assert_eq!(recorded(&open(&path)), ["c1", "sha256:bb", "c2"]);
}

#[test]
fn what_another_program_put_in_the_place_of_the_file_is_never_overwritten() {
    let (_dir, path) = place();
    let mut store = open(&path);
    fill(&mut store);
    store.inject(None, StoreFault::Io, 1);
    run_of(&mut store, 60, &["c2"]);
    let other = path.with_file_name("songs.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    let songs = std::fs::read(&other).unwrap();
    for suffix in ["db-wal", "db-shm"] {
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        let _ = std::fs::remove_file(path.with_extension(suffix));
    }
    std::fs::rename(&other, &path).unwrap();
    run_of(&mut store, 120, &["c3"]);
    assert!(recorded(&store).ends_with(&["c2".to_owned(), "c3".to_owned()]));
    drop(store);
    assert!(std::fs::read(&path).unwrap() == songs);
}

#[test]
fn what_was_written_to_the_file_meanwhile_stays() {
    let (_dir, path) = place();
    let mut store = open(&path);
    fill(&mut store);
    store.inject(None, StoreFault::Io, usize::MAX);
    run_of(&mut store, 60, &["c2"]);
    store.heal();
    let mut another = open(&path);
    run_of(&mut another, 70, &["theirs"]);
    drop(another);
    run_of(&mut store, 120, &["c3"]);
    drop(store);
    let store = open(&path);
    assert_eq!(recorded(&store), ["c1", "sha256:bb", "theirs", "c2", "c3"]);
    assert_eq!(runs(&store), [(40, 1, None), (70, 1, None), (60, 1, None), (120, 1, None)]);
    let expected = ["sha256:aa", "sha256:bb", "sha256:run-120", "sha256:run-60", "sha256:run-70"];
    assert_eq!(images(&store), expected);
}

#[test]
fn a_refusal_that_was_recorded_in_memory_takes_the_place_of_the_one_in_the_file() {
    let (_dir, path) = place();
    let mut store = open(&path);
    for (seconds, times) in [(0, 0), (60, 2), (120, 0)] {
        store.inject(None, StoreFault::Io, times);
        let run = store.begin_run(at(seconds), Scope::All, false).unwrap();
        store.record(run, at(seconds + 1), &refused(container("c1"))).unwrap();
        store.finish_run(run, at(seconds + 2), &summary(Counts { refused: 1, ..Counts::default() }), None).unwrap();
    }
    drop(store);
    let history = open(&path).history(&HistoryFilter::default()).unwrap();
    assert_eq!(history.iter().map(|entry| entry.at).collect::<Vec<_>>(), [at(121)]);
}

#[test]
fn a_run_that_begins_does_not_end_another_run_of_the_same_process() {
    let (_dir, path) = place();
    let mut store = open(&path);
    let images = store.begin_run(at(0), Scope::Images, false).unwrap();
    let containers = store.begin_run(at(10), Scope::Containers, false).unwrap();
    let unfinished = |store: &Store| store.runs(9).unwrap().iter().filter(|run| run.finished_at.is_none()).count();
    assert_eq!(unfinished(&store), 2);
    let total = summary(Counts { removed: 1, ..Counts::default() });
    store.finish_run(containers, at(11), &total, None).unwrap();
    store.finish_run(images, at(12), &total, None).unwrap();
    assert!(store.runs(9).unwrap().iter().all(|run| run.error.is_none()));
}

#[test]
fn runs_that_are_under_way_when_the_file_fails_end_in_the_file() {
    for times in [1, usize::MAX] {
        let (_dir, path) = place();
        let mut store = open(&path);
        let images = store.begin_run(at(0), Scope::Images, false).unwrap();
        record(&mut store, images, ["i1".to_owned()]);
        store.inject(None, StoreFault::Io, times);
        let containers = store.begin_run(at(10), Scope::Containers, false).unwrap();
        record(&mut store, images, ["i2".to_owned()]);
        record(&mut store, containers, ["c1".to_owned()]);
        store.heal();
        let next = store.begin_run(at(20), Scope::All, false).unwrap();
        record(&mut store, images, ["i3".to_owned()]);
        for (run, removed) in [(containers, 1), (images, 3), (next, 1)] {
            store.finish_run(run, at(30), &summary(Counts { removed, ..Counts::default() }), None).unwrap();
        }
        drop(store);
        let store = open(&path);
        assert_eq!(recorded(&store), ["i1", "i2", "c1", "i3"], "{times}");
        assert_eq!(runs(&store), [(0, 3, None), (10, 1, None), (20, 1, None)], "{times}");
        let history = store.history(&HistoryFilter::default()).unwrap();
        let of_images = history.iter().filter(|entry| entry.id.starts_with('i'));
        assert!(of_images.clone().all(|entry| entry.run == images) && of_images.count() == 3, "{history:#?}");
    }
}
