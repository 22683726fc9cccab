//! Tests of a disk that fills up during a run. A limit on the pages of the file simulates the disk.

use super::*;
use crate::record::StoreFault;

/// Lets the file of a store grow by at most this many pages.
fn leave_pages(store: &TestStore, pages: i64) {
    let mirror = store.store.mirror();
    let now: i64 = mirror.connection().pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    mirror.connection().pragma_update_and_check(None, "max_page_count", now + pages, |_| Ok(())).unwrap();
}

fn many() -> impl Iterator<Item = String> {
    (0..200).map(|number| format!("m{number:03}"))
}

/// Returns a store whose disk filled up during a run, and that run.
fn full(path: &Path) -> (TestStore, Run) {
    let store = open(path);
    fill(&store);
    let run = store.begin_run(at(50), Scope::All);
    leave_pages(&store, 2);
    record(&store, &run, many());
    (store, run)
}

#[test]
fn a_full_disk_loses_no_record() {
    let (_dir, path) = place();
    let log = logged(|| {
        let (store, run) = full(&path);
        let expected =
            format!("cannot use the store {}: database or disk is full; continuing in memory", path.display());
        assert_eq!(store.store.fault(), Some(expected));
        assert_eq!(store.memory(), memory());
        store.finish_run(&run, at(51), &summary(Counts { removed: 200, ..Counts::default() }), None);
        leave_pages(&store, 1000);
        store.begin_run(at(60), Scope::All);
        let expected: Vec<_> = ["c1".to_owned(), "sha256:bb".to_owned()].into_iter().chain(many()).collect();
        assert_eq!(store.recorded(), expected);
        assert_eq!(store.store.fault(), None);
    });
    for text in ["cannot use the store; continuing in memory", "the store is written to disk again"] {
        assert_eq!(log.lines().filter(|line| line.contains(text)).count(), 1, "{log}");
    }
}

#[test]
fn a_memory_too_large_for_the_disk_waits() {
    let (_dir, path) = place();
    let store = open(&path);
    leave_pages(&store, 0);
    let images = (0..500).map(|number| ImageMemory {
        id: format!("sha256:{number:064}").into(),
        first_seen: None,
        last_used: None,
        last_used_by: None,
    });
    let large = Memory { images: images.collect(), ..memory() };
    store.learn(&large);
    assert_eq!(store.memory(), large);
    assert!(store.store.fault().is_some());
    leave_pages(&store, 1000);
    store.begin_run(at(60), Scope::All);
    assert_eq!(store.file().memory().unwrap(), large);
}

#[test]
fn the_file_has_records_committed_before_the_full_disk() {
    let (_dir, path) = place();
    let (store, _) = full(&path);
    drop(store);
    let kept = open(&path).recorded();
    assert!(kept.len() > 2 && kept.len() < 202, "{}", kept.len());
    assert_eq!(kept[..3], ["c1", "sha256:bb", "m000"]);
}

#[test]
fn the_next_run_with_free_space_writes_everything_back() {
    let (_dir, path) = place();
    let (store, run) = full(&path);
    leave_pages(&store, 1000);
    store.store.inject(None, StoreFault::Full, 1);
    store.finish_run(&run, at(51), &summary(Counts { removed: 200, ..Counts::default() }), None);
    assert!(store.store.fault().is_some(), "there is no space yet");
    let run = store.begin_run(at(60), Scope::All);
    assert_eq!(store.store.fault(), None);
    record(&store, &run, ["last".to_owned()]);

    let (_killed, copy) = killed(&path);
    let store = open(&copy);
    assert_eq!(store.recorded().len(), 203);
    assert_eq!(store.recorded().last().map(String::as_str), Some("last"));
    assert_eq!(store.memory(), memory());
    assert_eq!(store.runs(10).iter().map(|run| run.removed).collect::<Vec<_>>(), [1, 200, 1]);
}

#[test]
fn a_run_that_frees_space_ends_in_the_file() {
    let (_dir, path) = place();
    let (store, run) = full(&path);
    leave_pages(&store, 1000);
    store.finish_run(&run, at(51), &summary(Counts { removed: 200, ..Counts::default() }), None);
    assert_eq!(store.store.fault(), None);
    let (_killed, copy) = killed(&path);
    assert_eq!(open(&copy).recorded().len(), 202);
}

#[test]
fn a_store_without_a_file_keeps_no_history() {
    let store = Store::without_file(memory());
    let start = RunStart { started_at: at(60), scope: Scope::All, dry: true, triggered_by: None };
    let run = store.change_blocking(|state| state.begin_run(start));
    store.change_blocking(|state| state.record(&run, at(61), &[failed(container("c1"), "busy")], RETRY_AFTER));
    assert_eq!(store.fault(), None);
    assert!(store.recall(at(62), no_jump(at(0))).failures.contains_key("container/c1"), "the memory goes on");
}

#[test]
fn an_unwritable_store_continues_in_memory() {
    let (_dir, path) = place();
    let store = open(&path);
    let run = store.begin_run(at(0), Scope::All);
    store.store.mirror().connection().pragma_update(None, "query_only", true).unwrap();
    store.record(&run, at(1), &removed(container("c1"), None));
    let fault = store.store.fault().unwrap();
    assert!(fault.contains(": attempt to write a readonly database; "), "{fault}");
    store.store.mirror().connection().pragma_update(None, "query_only", false).unwrap();
    store.begin_run(at(60), Scope::All);
    assert_eq!(store.recorded(), ["c1"]);
}

/// The dropped rows are among those that are written meanwhile, so none of the later ones counts as written.
#[test]
fn rows_dropped_during_a_write_cost_no_later_row() {
    let (_dir, path) = place();
    let store = open(&path);
    store.store.inject(None, StoreFault::Io, usize::MAX);
    let run = store.begin_run(at(0), Scope::All);
    record(&store, &run, (0..9).map(|number| format!("m{number}")));
    let written = store.store.change_blocking(|state| state.unwritten());
    record(&store, &run, (9..10_005).map(|number| format!("m{number}")));
    let left = store.store.change_blocking(|state| {
        state.written(&path, &written);
        state.unwritten().rows.len()
    });
    assert_eq!(left, 9996);
}

/// The beginning of the run is among what is dropped, so the run is added with its end.
#[test]
fn a_file_down_for_days_gets_newest_rows() {
    let (_dir, path) = place();
    let log = logged(|| {
        let store = open(&path);
        store.store.inject(None, StoreFault::Io, 1);
        let run = store.begin_run(at(0), Scope::All);
        record(&store, &run, (0..10_005).map(|number| format!("m{number}")));
        store.finish_run(&run, at(51), &summary(Counts { removed: 10_005, ..Counts::default() }), None);
        store.begin_run(at(60), Scope::All);
        let recorded = store.recorded();
        assert_eq!((recorded.len(), recorded[0].as_str()), (9998, "m7"));
        assert_eq!(store.runs(10).iter().map(|run| run.removed).collect::<Vec<_>>(), [0, 10_005]);
    });
    assert!(log.contains("dropping the oldest rows of the history") && log.contains("dropped_rows=8"), "{log}");
}
