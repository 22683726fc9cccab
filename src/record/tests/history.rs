//! Tests of runs, removals and pruning.

use super::*;
use crate::record::HistoryEntry;
use crate::record::log::log_outcome;

fn store() -> TestStore {
    let store = TestStore::fresh();
    fill(&store);
    store
}

/// Deletes what is too old or too much from the file of a store. Returns the number of removals deleted.
fn prune(store: &TestStore, now: Timestamp, max_age: Duration, max_rows: u64) -> usize {
    let before = store.history().len();
    let mut file = rusqlite::Connection::open(&store.path).unwrap();
    let transaction = file.transaction().unwrap();
    crate::record::database::rows::prune(&transaction, now, Retention { max_age, max_rows }).unwrap();
    transaction.commit().unwrap();
    before - store.history().len()
}

fn ids(entries: &[HistoryEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

#[test]
fn a_removal_is_recorded_with_reason_and_bytes() {
    let entries = serde_json::to_value(store().history()).unwrap();
    let expected = serde_json::json!([
        {
            "run": 1, "at": at(42).to_string(), "kind": "image", "id": "sha256:bb", "name": "docker.io/library/a:1",
            "tags": ["docker.io/library/a:1", "docker.io/library/a:latest"],
            "reason": "space", "high_threshold_percent": 85, "used_percent": 91,
            "outcome": "failed", "detail": "busy", "estimated_bytes": 7 << 20, "freed_bytes": null,
        },
        {
            "run": 1, "at": at(41).to_string(), "kind": "container", "id": "c1", "name": "app",
            "pod": {"uid": "u1", "namespace": "default", "name": "web-0"}, "age_seconds": 90,
            "reason": "over_max_per_pod_container", "limit": 1, "outcome": "removed", "freed_bytes": 4096,
            "proven_by": "kube-api",
        },
    ]);
    assert_eq!(entries, expected);
}

#[test]
fn a_refusal_and_an_already_removed_object_are_recorded() {
    let store = TestStore::fresh();
    let run = store.begin_run(at(0), Scope::Containers);
    let gone = Report { outcome: Outcome::AlreadyRemoved {}, ..removed(container("c2"), None) };
    let not_needed = Report { outcome: Outcome::NotNeeded {}, ..removed(image("sha256:cc"), None) };
    for report in [refused(container("c1")), gone, not_needed] {
        store.record(&run, at(1), &report);
    }
    let entries = store.history();
    let seen: Vec<_> = entries.iter().map(|e| (e.id.as_str(), e.outcome.as_str(), e.detail.as_deref())).collect();
    assert_eq!(seen, [("c2", "already_removed", None), ("c1", "refused", Some("its state changed"))]);
}

#[test]
fn the_note_of_an_outcome_is_recorded_and_logged() {
    let store = TestStore::fresh();
    let run = store.begin_run(at(0), Scope::Containers);
    let noted = |report| Report { note: Some("a link was kept".to_owned()), ..report };
    let reports = [noted(removed(container("c1"), None)), noted(refused(container("c2")))];
    for report in &reports {
        store.record(&run, at(1), report);
    }
    let details: Vec<_> = store.history().into_iter().map(|e| e.detail).collect();
    let expected = ["its state changed: a link was kept", "a link was kept"];
    assert_eq!(details, expected.map(|text| Some(text.to_owned())));
    let log = logged(|| log_outcome(&reports[0]));
    assert!(log.contains(r#"note="a link was kept""#), "{log}");
}

#[test]
fn sizes_beyond_the_range_become_its_end() {
    let store = TestStore::fresh();
    let run = store.begin_run(at(0), Scope::Images);
    store.record(&run, at(1), &removed(image("sha256:aa"), Some(u64::MAX)));
    let entries = store.history();
    assert_eq!(entries[0].freed_bytes, Some(i64::MAX as u64));
}

#[test]
fn history_is_filtered_by_count_time_kind_and_text() {
    let store = store();
    let query = |filter: HistoryFilter| {
        store.file().history(&filter).unwrap().into_iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    let text = |text: &str| HistoryFilter { text: Some(text.to_owned()), ..HistoryFilter::default() };
    let none = HistoryFilter::default;
    let rows: [(&str, HistoryFilter, &[&str]); 14] = [
        ("everything, newest first", none(), &["sha256:bb", "c1"]),
        ("the newest", HistoryFilter { limit: Some(1), ..none() }, &["sha256:bb"]),
        ("none", HistoryFilter { limit: Some(0), ..none() }, &[]),
        ("from a moment on", HistoryFilter { since: Some(at(42)), ..none() }, &["sha256:bb"]),
        ("from the moment after", HistoryFilter { since: Some(at(43)), ..none() }, &[]),
        ("one kind", HistoryFilter { kind: Some(Kind::Container), ..none() }, &["c1"]),
        ("one namespace", HistoryFilter { namespace: Some("default".into()), ..none() }, &["c1"]),
        ("another namespace", HistoryFilter { namespace: Some("fault".into()), ..none() }, &[]),
        ("by id", text("sha256:b"), &["sha256:bb"]),
        ("by a tag that is not the first", text("a:latest"), &["sha256:bb"]),
        ("by the pod, in another case", text("Default/WEB-0"), &["c1"]),
        ("by the pod's uid", text("u1"), &["c1"]),
        ("by what is no pattern", text("%"), &[]),
        (
            "by everything at once",
            HistoryFilter { kind: Some(Kind::Image), limit: Some(5), since: Some(at(0)), ..text("bb") },
            &["sha256:bb"],
        ),
    ];
    for (case, filter, expected) in rows {
        assert_eq!(query(filter), expected, "{case}");
    }
}

#[test]
fn a_run_says_what_it_came_to() {
    let runs = serde_json::to_value(store().runs(10)).unwrap();
    let expected = serde_json::json!([{
        "id": 1, "started_at": at(40).to_string(), "finished_at": at(43).to_string(), "scope": "all", "dry": false,
        "removed": 1, "already_removed": 0, "refused": 0, "failed": 1, "freed_bytes": 4096, "error": null,
        "triggered_by": "/ is 3 % free, pressure.free_percent = 5",
    }]);
    assert_eq!(runs, expected);
}

#[test]
fn a_run_is_found_by_its_number() {
    let (_dir, path) = place();
    fill(&open(&path));
    let store = file(&path);
    let found = |number| store.run(number).unwrap().map(|run| (run.id.0, run.removed));
    assert_eq!((found(1), found(2)), (Some((1, 1)), None));
}

#[test]
fn a_past_removal_has_the_words_of_its_rule() {
    let mut entry = store().history().remove(0);
    assert_eq!(entry.phrase(), "disk usage 91% >= 85%");
    "of_tomorrow".clone_into(&mut entry.reason);
    assert_eq!(entry.phrase(), "of tomorrow");
}

#[test]
fn a_run_that_could_not_work_says_why() {
    let store = TestStore::fresh();
    let start = RunStart { started_at: at(0), scope: Scope::Images, dry: true, triggered_by: None };
    let run = store.store.change_blocking(|state| state.begin_run(start));
    store.finish_run(&run, at(1), &Summary::default(), Some("the runtime is away"));
    let runs = store.runs(1);
    assert_eq!(
        (runs[0].error.as_deref(), runs[0].scope.as_str(), runs[0].dry),
        (Some("the runtime is away"), "images", true)
    );
}

#[test]
fn runs_with_nothing_to_do_stay_for_a_day() {
    let store = store();
    for (second, scope, error) in [
        (100, Scope::Containers, None),
        (101, Scope::Images, None),
        (102, Scope::Containers, Some("the runtime is away")),
        (103, Scope::Containers, None),
        (104, Scope::Containers, None),
        (104 + 86_400, Scope::Containers, None),
    ] {
        let run = store.begin_run(at(second), scope);
        store.finish_run(&run, at(second), &Summary::default(), error);
    }
    let seconds: Vec<_> = store.runs(10).iter().map(|r| r.started_at.as_second() - at(0).as_second()).collect();
    assert_eq!(seconds, [104 + 86_400, 104, 102, 101, 40], "and the newest of each scope");
}

#[test]
fn the_next_run_closes_a_killed_run() {
    let (_dir, path) = place();
    let store = open(&path);
    let run = store.begin_run(at(0), Scope::All);
    store.record(&run, at(1), &removed(container("c1"), Some(5)));
    store.record(&run, at(2), &failed(container("c2"), "busy"));

    let (_killed, path) = killed(&path);
    let store = open(&path);
    assert_eq!(store.recorded(), ["c1", "c2"], "each removal was committed when it was recorded");
    store.begin_run(at(60), Scope::All);
    let runs = store.runs(10);
    let old = &runs[1];
    assert_eq!((old.finished_at, old.error.as_deref()), (Some(at(2)), Some("interrupted")));
    assert_eq!((old.removed, old.failed, old.freed_bytes), (1, 1, 5));
    assert_eq!((runs[0].finished_at, runs[0].error.as_deref()), (None, None), "the one that began now goes on");
}

#[test]
fn a_killed_transaction_leaves_no_trace() {
    let (_dir, path) = place();
    let store = open(&path);
    fill(&store);
    let mut other = rusqlite::Connection::open(&path).unwrap();
    let transaction = other.transaction().unwrap();
    transaction.execute("DELETE FROM removals", []).unwrap();
    transaction.execute_batch("PRAGMA cache_spill = 1").unwrap();
    let (_killed, copy) = killed(&path);
    assert_eq!(open(&copy).recorded(), ["c1", "sha256:bb"]);
}

#[test]
fn old_and_excess_entries_are_pruned_and_newest_kept() {
    let store = TestStore::fresh();
    for number in 0..10 {
        let run = store.begin_run(at(number), Scope::All);
        store.record(&run, at(number), &removed(container(&format!("c{number}")), None));
        let total = summary(Counts { removed: 1, ..Counts::default() });
        store.finish_run(&run, at(number), &total, None);
    }
    let day = Duration::from_hours(24);
    assert_eq!(prune(&store, at(9), day, 10), 0, "ten are allowed, and none is older than a day");
    assert_eq!(prune(&store, at(9), Duration::from_secs(8), 10), 1, "c0 is 9 s old, c1 just 8 s");
    assert_eq!(store.recorded().first().map(String::as_str), Some("c1"));
    assert_eq!(prune(&store, at(9), day, 3), 6);
    assert_eq!(store.recorded(), ["c7", "c8", "c9"]);
    assert_eq!(store.runs(100).len(), 3, "the runs go with their removals");
    assert_eq!(prune(&store, at(9), day, 0), 3);
}

#[test]
fn consecutive_refusals_of_an_object_are_one_entry() {
    let store = TestStore::fresh();
    let run = store.begin_run(at(0), Scope::All);
    for second in 1..=5 {
        store.record(&run, at(second), &refused(container("c1")));
        store.record(&run, at(second), &refused(container("c2")));
    }
    store.record(&run, at(6), &failed(container("c1"), "busy"));
    store.record(&run, at(7), &refused(container("c1")));
    let entries = store.history();
    let seen: Vec<_> = entries.iter().map(|entry| (entry.id.as_str(), entry.outcome.as_str(), entry.at)).collect();
    let expected =
        [("c1", "refused", at(7)), ("c1", "failed", at(6)), ("c2", "refused", at(5)), ("c1", "refused", at(5))];
    assert_eq!(seen, expected);
}

#[test]
fn refusals_do_not_push_removals_out_of_the_history() {
    let store = TestStore::fresh();
    let run = store.begin_run(at(0), Scope::All);
    record(&store, &run, (0..3).map(|number| format!("c{number}")));
    for number in 0..100 {
        store.record(&run, at(50), &refused(container(&format!("r{number}"))));
    }
    prune(&store, at(60), Duration::from_hours(24), 3);
    assert_eq!(store.recorded(), ["c0", "c1", "c2", "r97", "r98", "r99"]);
}

#[test]
fn a_run_that_goes_on_is_not_pruned() {
    let store = TestStore::fresh();
    store.begin_run(at(0), Scope::All);
    prune(&store, at(1_000_000), Duration::ZERO, 0);
    assert_eq!(store.runs(10).len(), 1);
}

#[test]
fn an_outcome_is_logged_and_counted_in_one_place() {
    let mut summary = Summary::default();
    let gone = Report { outcome: Outcome::AlreadyRemoved {}, ..removed(image("sha256:cc"), None) };
    let reports =
        [removed(container("c1"), Some(4096)), failed(image("sha256:bb"), "busy"), refused(container("c2")), gone];
    let log = logged(|| reports.iter().for_each(log_outcome));
    for report in &reports {
        summary.add(report);
    }
    summary.add_step(Kind::Container, 4096, Measure::Measured);
    let expected = r#"
 INFO removed kind="container" id="c1" name="app" pod=default/web-0 reason="over_max_per_pod_container" values="limit=1" age_seconds=90 freed_bytes=4096 measure="measured"
 WARN could not be removed kind="image" id="sha256:bb" name="docker.io/library/a:1" reason="space" values="high_threshold_percent=85 used_percent=91" error="busy"
DEBUG kept on recheck kind="container" id="c2" name="app" pod=default/web-0 reason="over_max_per_pod_container" values="limit=1" age_seconds=90 refusal=its state changed
DEBUG already removed kind="image" id="sha256:cc" name="docker.io/library/a:1" reason="space" values="high_threshold_percent=85 used_percent=91"
"#;
    assert_eq!(log, expected.trim_start_matches('\n'));
    let containers = Counts { removed: 1, refused: 1, ..Counts::default() };
    let images = Counts { failed: 1, already_removed: 1, ..Counts::default() };
    assert_eq!((summary.of(Kind::Container), summary.of(Kind::Image)), (containers, images));
    assert_eq!(summary.outcomes.keys().collect::<Vec<_>>(), [&Kind::Container, &Kind::Image]);
    let total = Counts { removed: 1, refused: 1, failed: 1, already_removed: 1, ..Counts::default() };
    assert_eq!((summary.total(), summary.total_measured_bytes()), (total, 4096));
    assert_eq!(summary.of(Kind::LogDir), Counts::default());
}

#[test]
fn each_entry_of_the_same_moment_keeps_its_order() {
    let store = TestStore::fresh();
    let run = store.begin_run(at(0), Scope::All);
    record(&store, &run, (0..20).map(|number| format!("c{number:02}")));
    let entries = store.file().history(&HistoryFilter { limit: Some(3), ..HistoryFilter::default() }).unwrap();
    assert_eq!(ids(&entries), ["c19", "c18", "c17"]);
}

#[test]
fn samples_are_returned_oldest_first_and_pruned_with_history() {
    let store = TestStore::fresh();
    let disk =
        |mountpoint: &str, available_bytes| FileSystem { mountpoint: mountpoint.into(), available_bytes, ..disk() };
    let record = |seconds, disks| store.store.change_blocking(|state| state.record_usage(at(seconds), disks));
    record(300, vec![disk("/images", 20), FileSystem { inodes: None, ..disk("/logs", 70) }]);
    record(0, vec![disk("/images", 10)]);
    let all = store.file().usage(at(0)).unwrap();
    let seen: Vec<_> = all.iter().map(|it| (it.at, it.file_system.mountpoint.to_str().unwrap())).collect();
    assert_eq!(seen, [(at(0), "/images"), (at(300), "/images"), (at(300), "/logs")]);
    assert_eq!(all[1].file_system, disk("/images", 20));
    assert_eq!(all[2].file_system.inodes, None);
    assert_eq!(store.file().usage(at(1)).unwrap().len(), 2);
    prune(&store, at(400), Duration::from_secs(200), 100);
    assert_eq!(store.file().usage(at(0)).unwrap().len(), 2);
}
