//! Tests of the memory in the store.

use super::*;

/// Returns a memory with only image `aa`, last used at `last_used`.
fn used(last_used: Option<Timestamp>) -> Memory {
    Memory {
        agent_started_at: Some(at(0)),
        images: [ImageMemory { id: "sha256:aa".into(), first_seen: Some(at(0)), last_used, last_used_by: None }].into(),
        ..Memory::default()
    }
}

/// Returns what the file has after these memories.
fn learnt(steps: &[Memory]) -> Memory {
    let store = TestStore::fresh();
    for after in steps {
        store.learn(after);
    }
    store.file().memory().unwrap()
}

#[test]
fn an_empty_store_remembers_nothing() {
    assert_eq!(TestStore::fresh().memory(), Memory::default());
    assert_eq!(StoreReader::empty().unwrap().memory().unwrap(), Memory::default());
}

#[test]
fn all_that_was_learnt_comes_back() {
    assert_eq!(learnt(&[memory()]), memory());
}

/// The time alone is written only once a minute.
#[test]
fn a_new_last_image_user_is_written_at_once() {
    let used_by = |name: &str, last_used| {
        let mut memory = used(Some(last_used));
        Arc::make_mut(&mut memory.images)[0].last_used_by = Some(name.to_owned());
        memory
    };
    let after = used_by("shop/web-1/app", at(1));
    assert_eq!(learnt(&[used_by("shop/web-0/app", at(0)), after.clone()]), after);
}

#[test]
fn what_is_no_longer_known_goes() {
    let nothing = Memory { agent_started_at: Some(at(0)), ..Memory::default() };
    assert_eq!(learnt(&[memory(), nothing.clone()]), nothing);
}

#[test]
fn what_changed_is_changed_and_the_rest_stays() {
    let mut after = memory();
    Arc::make_mut(&mut after.images)[1].last_used = Some(at(100));
    Arc::make_mut(&mut after.absent_since)[0].since = at(5);
    after.failures.values_mut().for_each(|failure| failure.count = 3);
    after.last_counts = Some(ListCounts { containers: 8, ..ListCounts::default() });
    assert_eq!(learnt(&[memory(), after.clone()]), after);
}

#[test]
fn times_keep_their_nanoseconds() {
    let exact: Timestamp = "2026-11-21T12:00:00.123456789Z".parse().unwrap();
    assert_eq!(learnt(&[used(Some(exact))]), used(Some(exact)));
}

#[test]
fn times_beyond_the_range_become_its_ends() {
    let Memory { images, .. } = learnt(&[used(Some(Timestamp::MAX))]);
    assert_eq!(images[0].last_used.unwrap().to_string(), "2262-04-11T23:47:16.854775807Z");
    let Memory { images, .. } = learnt(&[used(Some(Timestamp::MIN))]);
    assert_eq!(images[0].last_used.unwrap().to_string(), "1677-09-21T00:12:43.145224192Z");
}

#[test]
fn a_stamp_is_rewritten_once_a_minute() {
    let rows = [
        ("59 s newer: left", Some(at(1000)), Some(at(1059)), Some(at(1000))),
        ("60 s newer: written", Some(at(1000)), Some(at(1060)), Some(at(1060))),
        ("older, as after the clock was set back: written", Some(at(1000)), Some(at(999)), Some(at(999))),
        ("the first use: written", None, Some(at(1)), Some(at(1))),
        ("unknown again: written", Some(at(1)), None, None),
    ];
    for (case, before, after, stored) in rows {
        assert_eq!(learnt(&[used(before), used(after)]), used(stored), "{case}");
    }
}

#[test]
fn frequent_timestamps_are_still_written_every_minute() {
    let steps: Vec<_> = (0..=6).map(|step| used(Some(at(20 * step)))).collect();
    assert_eq!(learnt(&steps), used(Some(at(120))), "compared with what is stored, not with what was learnt last");
}

#[test]
fn the_memory_begins_once() {
    let (_dir, path) = place();
    let store = open(&path);
    store.store.recall(at(8), no_jump(at(7)));
    store.learn(&store.memory());
    drop(store);
    let store = open(&path);
    assert_eq!(
        store.store.recall(at(100), no_jump(at(99))).agent_started_at,
        Some(at(99)),
        "the service counts from its start"
    );
    store.learn(&memory());
    assert_eq!((store.store.begun_at(), file(&path).memory().unwrap().agent_started_at), (Some(at(7)), Some(at(7))));
}

#[test]
fn learning_is_all_or_nothing() {
    let (_dir, path) = place();
    let store = open(&path);
    store.learn(&memory());
    let other = rusqlite::Connection::open(&path).unwrap();
    let broken = "CREATE TRIGGER broken BEFORE DELETE ON failures BEGIN SELECT raise(FAIL, 'no'); END";
    other.execute_batch(broken).unwrap();
    store.learn(&Memory::default());
    assert!(store.store.fault().is_some());
    let images: i64 = other.query_row("SELECT count(*) FROM images", [], |row| row.get(0)).unwrap();
    assert_eq!(images, 2, "the images came before the failures, and were to go");
}

#[test]
fn future_times_are_corrected_on_read_and_in_store() {
    let (_dir, path) = place();
    let store = open(&path);
    let year = 365 * 24 * 60 * 60;
    let mut ahead = memory();
    Arc::make_mut(&mut ahead.images)[0].last_used = Some(at(year));
    Arc::make_mut(&mut ahead.images)[1].first_seen = Some(at(year));
    Arc::make_mut(&mut ahead.absent_since)[0].since = at(year);
    ahead.failures.values_mut().for_each(|failure| failure.retry_at = at(year));
    ahead.fall.as_mut().unwrap().since = at(year);
    ahead.runtime.as_mut().unwrap().first_seen = at(year);
    ahead.named_images.as_mut().unwrap().as_of = at(year);
    store.learn(&ahead);

    let now = at(1000);
    let read = store.store.recall(now, no_jump(at(0)));
    assert_eq!((read.images[0].last_used, read.images[1].first_seen), (Some(now), Some(now)));
    assert_eq!(read.absent_since[0].since, now);
    assert_eq!(read.failures["image/sha256:bb"].retry_at, at(1000 + 3600), "no wait is longer than an hour");
    assert_eq!(read.fall.unwrap().since, now);
    assert_eq!(read.runtime.as_ref().unwrap().first_seen, now);
    assert_eq!(read.named_images.as_ref().unwrap().as_of, now);

    store.learn(&store.memory());
    drop(store);
    let store = open(&path);
    assert_eq!(store.memory(), read, "the store holds the corrected times");
    assert_eq!(store.store.recall(at(2000), no_jump(at(0))), read, "and they stay while the clock goes on");
}

#[test]
fn times_of_the_past_are_read_as_they_are() {
    let store = TestStore::fresh();
    store.learn(&memory());
    assert_eq!(store.store.recall(at(121), no_jump(at(0))), memory());
}

#[test]
fn a_recorded_removal_lowers_the_baseline_at_once() {
    let (_dir, path) = place();
    let store = open(&path);
    store.learn(&memory());
    let run = store.begin_run(at(40), Scope::All);
    for report in [removed(container("c1"), None), removed(image("sha256:aa"), None), failed(container("c2"), "busy")] {
        store.record(&run, at(41), &report);
    }
    let (_copy, killed) = killed(&path);
    let after = open(&killed).memory();
    assert_eq!(after.last_counts, Some(ListCounts { containers: 5, sandboxes: 3, images: 1 }), "c2 may be removed");
    assert_eq!(after.recent_counts.unwrap().counts, ListCounts { containers: 4, sandboxes: 3, images: 1 });
    assert_eq!(after.fall.unwrap().counts, ListCounts { containers: 0, sandboxes: 3, images: 1 });
    assert_eq!(after.failures["container/c2"].error, "busy", "its back-off is there, too");
    assert!(!after.images.iter().any(|image| image.id.as_str() == "sha256:aa"), "a further pull is a new image");
}

/// Passes overlap: the one over images begins and ends while a removal of the other one takes long.
#[test]
fn what_overlapping_passes_learn_adds_up() {
    let store = TestStore::fresh();
    store.learn(&memory());
    let run = store.begin_run(at(40), Scope::Containers);
    store.record(&run, at(41), &removed(container("c1"), None));
    let named = |memory: Memory| Memory { absent_since: [].into(), ..memory };
    store.store.change_blocking(|state| state.learn(named));
    store.record(&run, at(42), &removed(container("c2"), None));
    let expected = ([].into(), 5);
    let after = store.file().memory().unwrap();
    assert_eq!((after.absent_since, after.last_counts.unwrap().containers), expected);
}

/// All but the times of the history, which people read.
#[test]
fn a_jump_of_the_clock_moves_every_time_that_ages_count_from() {
    let times = |memory: Memory| {
        let text = serde_json::to_string(&memory).unwrap();
        text.split('"').filter_map(|part| part.parse::<Timestamp>().ok()).collect::<Vec<_>>()
    };
    let (before, after) = (times(memory()), times(memory().after_jump(SignedDuration::from_secs(5))));
    let stay = before.iter().zip(&after).filter(|(before, after)| before == after).map(|(before, _)| *before);
    assert_eq!(stay.collect::<Vec<_>>(), [at(28), at(29), at(26)], "the removal of an image, and pulls");
}
