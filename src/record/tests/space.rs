//! Tests of a disk that fills up during a run. A limit on the pages of the file simulates the disk.

use super::*;
use crate::record::{StoreFault, StoreNote};

/// Lets the file of a store grow by at most this many pages.
fn leave_pages(store: &Store, pages: i64) {
    let now: i64 = store.state.borrow().connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    store.state.borrow().connection.pragma_update_and_check(None, "max_page_count", now + pages, |_| Ok(())).unwrap();
}

fn many() -> impl Iterator<Item = String> {
    (0..200).map(|number| format!("m{number:03}"))
}

/// Returns a store that moved to memory during a run, and that run.
fn fled(path: &Path) -> (Store, RunId) {
    let mut store = open(path);
    fill(&mut store);
    let run = store.begin_run(at(50), Scope::All, false).unwrap();
    leave_pages(&store, 2);
    record(&mut store, run, many());
    (store, run)
}

#[test]
fn a_full_disk_costs_no_record_and_is_reported_once() {
    let (_dir, path) = place();
    let mut notes = Vec::new();
    let log = logged(|| {
        let (mut store, _) = fled(&path);
        let expected: Vec<_> = ["c1".to_owned(), "sha256:bb".to_owned()].into_iter().chain(many()).collect();
        assert_eq!(recorded(&store), expected);
        assert_eq!(store.memory(at(0)).unwrap(), memory());
        notes = store.take_notes();
        assert_eq!(store.take_notes(), []);
    });
    let [StoreNote::InMemory { path: said, cause, is_empty: false }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((said, cause.as_str()), (&path, "database or disk is full"));
    assert_eq!(notes[0].to_string(), format!("cannot use the store {}: {cause}; continuing in memory", path.display()));
    assert_eq!(
        log.lines().filter(|line| line.contains("cannot use the store; continuing in memory")).count(),
        1,
        "{log}"
    );
}

#[test]
fn learning_flees_from_a_full_disk_too() {
    let (_dir, path) = place();
    let mut store = open(&path);
    leave_pages(&store, 0);
    let images = (0..500).map(|number| ImageMemory {
        id: format!("sha256:{number:064}").into(),
        first_seen: None,
        last_used: None,
        last_used_by: None,
    });
    let full = Memory { images: images.collect(), ..memory() };
    store.learn(&Memory::default(), &full).unwrap();
    assert_eq!(store.memory(at(0)).unwrap(), full);
    assert!(matches!(store.take_notes()[..], [StoreNote::InMemory { .. }]));
}

#[test]
fn the_file_has_what_was_committed_before_the_disk_was_full() {
    let (_dir, path) = place();
    let (store, _) = fled(&path);
    drop(store);
    let kept = recorded(&open(&path));
    assert!(kept.len() > 2 && kept.len() < 202, "{}", kept.len());
    assert_eq!(kept[..3], ["c1", "sha256:bb", "m000"]);
}

#[test]
fn the_next_run_that_finds_space_brings_everything_back_to_the_file() {
    let (_dir, path) = place();
    let (mut store, run) = fled(&path);
    store.take_notes();
    store.inject(Some("the file again"), StoreFault::Full, 1);
    store.finish_run(run, at(51), &summary(Counts { removed: 200, ..Counts::default() }), None).unwrap();
    assert_eq!(store.take_notes(), [], "there is no space yet");
    let run = store.begin_run(at(60), Scope::All, false).unwrap();
    assert_eq!(store.take_notes(), [StoreNote::BackOnDisk { path: path.clone() }]);
    record(&mut store, run, ["last".to_owned()]);

    let (_killed, copy) = killed(&path);
    let store = open(&copy);
    assert_eq!(recorded(&store).len(), 203);
    assert_eq!(recorded(&store).last().map(String::as_str), Some("last"));
    assert_eq!(store.memory(at(0)).unwrap(), memory());
    assert_eq!(store.runs(10).unwrap().iter().map(|run| run.removed).collect::<Vec<_>>(), [1, 200, 1]);
}

#[test]
fn a_dry_run_never_comes_back_to_the_file() {
    let (_dir, path) = place();
    fill(&mut open(&path));
    let before = files(path.parent().unwrap());
    let mut store = Store::open_read_only(&path).unwrap().unwrap();
    store.begin_run(at(60), Scope::All, true).unwrap();
    assert_eq!(store.take_notes(), []);
    assert_eq!(files(path.parent().unwrap()), before);
}

#[test]
fn a_run_that_made_space_is_in_the_file_when_it_ends() {
    let (_dir, path) = place();
    let (mut store, run) = fled(&path);
    store.take_notes();
    store.finish_run(run, at(51), &summary(Counts { removed: 200, ..Counts::default() }), None).unwrap();
    assert_eq!(store.take_notes(), [StoreNote::BackOnDisk { path: path.clone() }]);
    let (_killed, copy) = killed(&path);
    assert_eq!(recorded(&open(&copy)).len(), 202);
}

#[test]
fn a_store_that_may_not_be_written_continues_in_memory() {
    let (_dir, path) = place();
    let mut store = open(&path);
    let run = store.begin_run(at(0), Scope::All, false).unwrap();
    store.state.borrow().connection.pragma_update(None, "query_only", true).unwrap();
    store.record(run, at(1), &removed(container("c1"), None)).unwrap();
    let notes = store.take_notes();
    let [StoreNote::InMemory { cause, .. }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!(cause, "attempt to write a readonly database");
    assert_eq!(recorded(&store), ["c1"]);
}
