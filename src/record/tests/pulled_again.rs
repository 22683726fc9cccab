//! Images that are pulled again after their removal: the history, and that this ends.

use serde_json::json;

use super::*;
use crate::model::Snapshot;
use crate::plan::{Policy, decide, update_memory};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// A store of a node, on which an image may be, and what its pulls and removals were.
struct TestNode {
    store: TestStore,
    policy: Policy,
    /// When the image is pulled again after a removal, and whether it is on the node.
    away_seconds: i64,
    back_at: Option<i64>,
    pulled_at: i64,
}

impl TestNode {
    /// A node whose store has no file.
    fn new(max_age: i64, away_seconds: i64) -> Self {
        let store = Store::without_file(Memory::default());
        Self::with(TestStore { store, path: PathBuf::new(), _dir: None }, max_age, away_seconds)
    }

    fn with(store: TestStore, max_age: i64, away_seconds: i64) -> Self {
        let mut policy = Policy::default();
        policy.images.max_age = Duration::from_secs(u64::try_from(max_age).unwrap());
        Self { store, policy, away_seconds, back_at: Some(0), pulled_at: 0 }
    }

    /// Runs a pass. Returns for how many seconds the image was on the node if it was removed.
    fn pass(&mut self, second: i64) -> Option<i64> {
        if self.back_at.is_some_and(|at| at <= second) {
            (self.back_at, self.pulled_at) = (None, second);
        }
        let image = json!({ "id": "sha256:aa", "digests": ["r.example/a@sha256:01"], "size_bytes": 9 });
        let other = json!({ "id": "sha256:pause", "pinned": true });
        let images = if self.back_at.is_none() { json!([image, other]) } else { json!([other]) };
        let mut snapshot: Snapshot = serde_json::from_value(json!({
            "taken_at": at(second), "images": { "seen": images }, "containers": { "seen": [] },
            "sandboxes": { "seen": [] }, "pods": { "seen": { "source": "test", "complete": true } },
            "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 900 } },
        }))
        .unwrap();
        snapshot.memory = self.store.memory();
        let plan = decide(&snapshot, &self.policy, Scope::Images);
        let policy = &self.policy;
        self.store
            .store
            .change_blocking(|state| state.learn(|memory| update_memory(&Snapshot { memory, ..snapshot }, policy)));
        let action = plan.actions.into_iter().next()?;
        let run = self.store.begin_run(at(second), Scope::Images);
        self.store.record(&run, at(second), &removed(action, Some(9)));
        self.back_at = Some(second + self.away_seconds);
        Some(second - self.pulled_at)
    }

    /// Runs a pass each hour, and returns for how many hours the image was on the node before each removal.
    fn hours_before_removals(&mut self, days: i64) -> Vec<i64> {
        (0..days * 24).filter_map(|hour| self.pass(hour * HOUR)).map(|seconds| seconds / HOUR).collect()
    }
}

/// Without the rule the image would be removed and pulled every day (kubernetes#132403).
#[test]
fn flapping_stops() {
    let hours = TestNode::new(DAY, 2 * HOUR).hours_before_removals(150);
    assert_eq!(hours, [25, 49, 97, 193, 385, 721, 721, 721], "twice as long each time, at most 30 days");
}

#[test]
fn an_image_that_stays_away_for_long_is_removed_after_the_maximum_age() {
    let hours = TestNode::new(DAY, 25 * HOUR).hours_before_removals(20);
    assert_eq!(hours, [25; 10]);
}

#[test]
fn without_guards_the_maximum_age_alone_decides() {
    let mut node = TestNode::new(DAY, 2 * HOUR);
    node.policy.guards.keep_pulled_again = false;
    assert_eq!(node.hours_before_removals(10), [25; 8]);
}

/// The first pass that has the image again notes it, once, and a restart forgets nothing.
#[test]
fn the_history_has_the_first_sight_of_an_image_that_was_pulled_again() {
    let mut node = TestNode::with(TestStore::fresh(), DAY, 2 * HOUR);
    for second in [0, 25 * HOUR, 26 * HOUR] {
        node.pass(second);
    }
    let again = |node: &TestNode| {
        let filter = HistoryFilter { pulled_again: true, ..HistoryFilter::default() };
        node.store.file().history(&filter).unwrap()
    };
    assert_eq!(again(&node), []);
    let TestNode { store: TestStore { store, path, _dir: dir }, .. } = node;
    drop(store);
    let mut node = TestNode::with(TestStore { _dir: dir, ..open(&path) }, DAY, 0);
    node.back_at = Some(27 * HOUR);
    node.pass(27 * HOUR);
    node.pass(28 * HOUR);
    let entries = again(&node);
    let seen: Vec<_> = entries.iter().map(|entry| (&*entry.id, entry.at, entry.pulled_again_at)).collect();
    assert_eq!(seen, [("sha256:aa", at(25 * HOUR), Some(at(27 * HOUR)))]);
    assert_eq!(json!(entries[0])["pulled_again_at"], json!(at(27 * HOUR)));
}

#[test]
fn an_image_that_was_pulled_again_is_reported_once() {
    let store = TestStore::fresh();
    let mut before = memory();
    Arc::make_mut(before.removed_images.get_mut(&"sha256:cc".into()).unwrap()).pulled_again_at = None;
    let learn = |memory: &Memory| store.store.change_blocking(|state| state.learn(|_| memory.clone()));
    assert_eq!(learn(&before), []);
    assert_eq!(learn(&memory()), [("sha256:cc".into(), Arc::new(removed_image()))]);
    assert_eq!(learn(&memory()), []);
}
