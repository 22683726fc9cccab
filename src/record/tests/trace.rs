//! The trace of images: what passes add, and what remains of it.

use serde_json::json;

use super::*;
use crate::model::{Snapshot, Trace, TraceEvent};
use crate::plan::{Policy, update_memory};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Returns a snapshot with these images. Those with a `+` are in use.
fn snapshot(second: i64, images: &str) -> Snapshot {
    let images: Vec<_> = images.split_whitespace().collect();
    let listed: Vec<_> = images
        .iter()
        .map(|name| name.trim_end_matches('+'))
        .map(|id| json!({ "id": id, "tags": [format!("r.example/{id}:1")], "size_bytes": 7 }))
        .collect();
    let used = images.iter().filter_map(|name| name.strip_suffix('+'));
    let container = |id: &str| json!({ "id": id, "name": id, "image_id": id, "state": "running", "created_at": at(0) });
    let disk = json!({ "mountpoint": "/images", "capacity_bytes": 1000, "available_bytes": 900 });
    serde_json::from_value(json!({
        "taken_at": at(second), "images": { "seen": listed },
        "containers": { "seen": used.map(container).collect::<Vec<_>>() }, "sandboxes": { "seen": [] },
        "disks": [{ "holds": ["images"], "file_system": disk }, { "holds": ["logs"], "file_system": { "mountpoint": "/logs" } }],
        "sandbox_image": { "seen": "r.example/pause:1" },
    }))
    .unwrap()
}

impl TestStore {
    /// Records a pass over these images.
    fn pass(&self, second: i64, images: &str) {
        self.pass_over(snapshot(second, images));
    }

    fn pass_over(&self, snapshot: Snapshot) {
        let disks = snapshot.disks.iter().map(|disk| disk.file_system.clone()).collect();
        self.store.change_blocking(|state| {
            let second = snapshot.taken_at;
            state.trace_images(&snapshot);
            state.learn(|memory| update_memory(&Snapshot { memory, ..snapshot }, &Policy::default()));
            state.record_usage(second, disks);
        });
    }

    /// Ends a pass over images so many days after the start.
    fn prune(&self, days: i64) {
        let run = self.begin_run(at(days * DAY), Scope::Images);
        self.finish_run(&run, at(days * DAY), &Summary::default(), None);
    }

    fn trace(&self) -> Trace {
        self.file().trace().unwrap()
    }

    /// Returns the events as `image@second event`.
    fn events(&self) -> Vec<String> {
        let trace = self.trace();
        let text = |event: &TraceEvent| {
            let (id, second) = (trace.images[event.image].id(), event.at.duration_since(at(0)).as_secs());
            format!("{id}@{second} {}", json!(event.event).as_str().unwrap())
        };
        trace.events.iter().map(text).collect()
    }
}

#[test]
fn passes_record_what_changed() {
    let store = TestStore::fresh();
    store.pass(0, "a b+");
    store.pass(60, "a b+");
    store.pass(120, "a+ b");
    store.pass(180, "a+ b c");
    store.pass(240, "a c");
    let expected = [
        "a@0 appeared",
        "b@0 appeared",
        "b@0 used",
        "b@60 last_used",
        "a@120 used",
        "c@180 appeared",
        "a@180 last_used",
        "b@240 removed",
    ];
    assert_eq!(store.events(), expected);
}

#[test]
fn what_kubegc_removed_is_collected() {
    let store = TestStore::fresh();
    store.pass(0, "a b c");
    let run = store.begin_run(at(60), Scope::Images);
    store.record(&run, at(61), &removed(image("a"), Some(1)));
    store.record(&run, at(62), &failed(image("b"), "busy"));
    store.record(&run, at(63), &Report { outcome: Outcome::AlreadyRemoved {}, ..removed(image("c"), None) });
    store.pass(120, "b");
    let expected = ["a@0 appeared", "b@0 appeared", "c@0 appeared", "a@61 collected", "c@63 removed"];
    assert_eq!(store.events(), expected);
}

#[test]
fn the_trace_has_the_removals_of_images_of_the_history() {
    let store = TestStore::fresh();
    store.pass(0, "a b c");
    let run = store.begin_run(at(60), Scope::Images);
    store.record(&run, at(61), &removed(image("a"), Some(5)));
    store.record(&run, at(62), &failed(image("b"), "busy"));
    store.record(&run, at(63), &removed(container("d"), None));
    store.pass(120, "b c");
    store.pass(180, "a b c");
    let removals = store.trace().removals.unwrap();
    let [of] = &*removals else { panic!("{removals:?}") };
    assert_eq!((of.image.as_str(), of.at, of.freed_bytes, of.pulled_again_at), ("a", at(61), Some(5), Some(at(180))));
}

#[test]
fn a_dry_run_collects_nothing() {
    let store = TestStore::fresh();
    store.pass(0, "a");
    let start = RunStart { started_at: at(60), scope: Scope::Images, dry: true, triggered_by: None };
    let run = store.store.change_blocking(|state| state.begin_run(start));
    store.record(&run, at(61), &Report { outcome: Outcome::WouldRemove {}, ..removed(image("a"), None) });
    assert_eq!(store.events(), ["a@0 appeared"]);
}

/// The file has the last use with an accuracy of a minute.
#[test]
fn a_restart_does_not_lose_the_end_of_a_use() {
    let store = TestStore::fresh();
    store.pass(0, "a+");
    store.pass(50, "a+");
    let TestStore { store, path, _dir: dir } = store;
    drop(store);
    let store = TestStore { _dir: dir, ..open(&path) };
    store.pass(110, "a");
    assert_eq!(store.events(), ["a@0 appeared", "a@0 used", "a@0 last_used"]);
}

/// A version without a trace had the times of images, but not the last pass.
#[test]
fn the_memory_of_a_version_before_becomes_the_begin_of_the_trace() {
    let store = TestStore::fresh();
    let past =
        |id: &str, last_used| ImageMemory { id: id.into(), first_seen: Some(at(-9)), last_used, last_used_by: None };
    let images = [past("a", Some(at(-5))), past("b", None), past("c", Some(at(-4)))].into();
    store.learn(&Memory { images, ..Memory::default() });
    assert_eq!(store.events(), Vec::<String>::new());
    store.pass(0, "a b c+");
    let expected = ["a@-9 appeared", "b@-9 appeared", "c@-9 appeared", "a@-5 last_used", "c@0 used"];
    assert_eq!(store.events(), expected);
}

#[test]
fn an_unavailable_list_changes_nothing() {
    let store = TestStore::fresh();
    store.pass(0, "a+");
    store.pass_over(Snapshot { images: Seen::NotSeen("no answer".to_owned()), ..snapshot(60, "") });
    store.pass_over(Snapshot { containers: Seen::NotSeen("no answer".to_owned()), ..snapshot(120, "a") });
    store.pass(180, "a+");
    assert_eq!(store.events(), ["a@0 appeared", "a@0 used"]);
}

#[test]
fn an_image_has_its_names_its_size_and_its_user() {
    let store = TestStore::fresh();
    let mut first = snapshot(0, "a+ pause b");
    let Seen::Seen(images) = &mut first.images else { unreachable!() };
    images[2].tags = (0..20).map(|n| format!("r.example/b:{n}")).chain(["x".repeat(600)]).collect();
    images[2].tags.swap(0, 20);
    store.pass_over(first);
    let trace = store.trace();
    let [a, pause, b] = &*trace.images else { panic!("{trace:?}") };
    assert_eq!((&*a.image.tags, a.image.size_bytes, a.image.pinned), (&["r.example/a:1".to_owned()][..], 7, false));
    assert_eq!(a.last_used_by.as_deref(), Some("a"));
    assert!(pause.image.pinned, "the sandbox image");
    assert_eq!(b.image.tags.len(), 8, "a name that is too long is left out");
    assert!(b.image.tags.iter().all(|tag| tag.len() < 20));
    assert_eq!(trace.disk.iter().map(|sample| sample.file_system.capacity_bytes).collect::<Vec<_>>(), [1000]);
}

#[test]
fn the_store_of_the_runtime_corrects_the_size() {
    let store = TestStore::fresh();
    store.pass(0, "a b");
    let layer = |bytes: u64| json!({ "kind": "layer", "name": format!("l{bytes}"), "bytes": bytes });
    let holder = |id: &str, refs: [usize; 2]| json!({ "kind": "image", "namespace": "k8s.io", "name": format!("r.example/{id}:1"), "refs": refs });
    let runtime = json!({
        "parts": [layer(100), layer(30), layer(10)],
        "holders": [holder("a", [0, 1]), holder("b", [0, 2])],
    });
    let known = Snapshot { store: Seen::Seen(serde_json::from_value(runtime).unwrap()), ..snapshot(60, "a b") };
    store.pass_over(known);
    let sizes = |trace: Trace| trace.images.iter().map(|image| image.disk_bytes.unwrap()).collect::<Vec<_>>();
    assert_eq!(sizes(store.trace()), [80, 60], "the common layer counts in halves");
    store.pass(120, "a");
    store.pass(180, "a b");
    assert_eq!(sizes(store.trace()), [80, 60], "a pass without the store forgets no size");
}

#[test]
fn after_30_days_the_state_of_what_is_there_remains() {
    let store = TestStore::fresh();
    store.pass(0, "a+ b+ gone");
    store.pass(HOUR, "a b+");
    store.pass(2 * HOUR, "a+ b+");
    store.pass(3 * HOUR, "a b+");
    store.pass(5 * DAY, "a b");
    store.prune(30);
    let kept = ["a@0 appeared", "b@0 appeared", "b@0 used", "a@7200 used", "a@7200 last_used", "b@10800 last_used"];
    let before = store.events();
    assert_eq!(before.len(), 10, "{before:?}");
    store.prune(31);
    assert_eq!(store.events(), kept);
    assert_eq!(store.trace().images.len(), 2, "the image that is gone is forgotten");
    store.prune(31);
    assert_eq!(store.events(), kept);
}

/// An image that was removed and pulled again has its state since then.
#[test]
fn what_was_before_a_removal_is_forgotten() {
    let store = TestStore::fresh();
    store.pass(0, "a+");
    store.pass(60, "");
    store.pass(120, "a");
    store.prune(31);
    assert_eq!(store.events(), ["a@120 appeared"]);
}
