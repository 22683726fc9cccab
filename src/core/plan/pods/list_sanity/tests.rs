//! Tests when lists are not trusted. Each row is a pass, with the memory after it.

use serde_json::json;

use crate::model::{BaselineLoss, ListCounts, Memory, Seen, Snapshot};
use crate::plan::document::action::Kind;
use crate::plan::document::reason::{KeepReason, RemoveReason};
use crate::plan::policy::guards::{Guards, Profile};
use crate::plan::policy::{Policy, Scope};
use crate::plan::{decide, update_memory};

/// Returns the time of a pass: so many minutes after noon.
fn minute(minute: i64) -> jiff::Timestamp {
    "2026-11-21T12:00:00Z".parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_mins(minute)
}

/// A node at a minute whose runtime lists so many running containers, sandboxes and images. Image 0 is unused, the disk
/// is full, and the pod of a dead container is missing for an hour.
fn node(at: i64, [containers, sandboxes, images]: [usize; 3], memory: Memory) -> Snapshot {
    let made = minute(-600).to_string();
    let used = |n: usize| {
        json!({ "id": format!("c{n}"), "name": "app", "state": "running", "created_at": made,
        "sandbox_id": format!("s{n}"), "pod": { "uid": format!("u{n}") }, "image_id": format!("sha256:{}", n + 1) })
    };
    let sandbox = |n: usize| {
        json!({ "id": format!("s{n}"), "pod": { "uid": format!("u{n}") }, "state": "ready",
        "created_at": made })
    };
    let mut node: Snapshot = serde_json::from_value(json!({
        "taken_at": minute(at),
        "containers": { "seen": (0..containers).map(used).collect::<Vec<_>>() },
        "sandboxes": { "seen": (0..sandboxes).map(sandbox).collect::<Vec<_>>() },
        "images": { "seen": (0..images).map(|n| json!({ "id": format!("sha256:{n}"), "tags": [format!("app:{n}")], "size_bytes": 1 })).collect::<Vec<_>>() },
        "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 1 } },
        "log_dirs": { "seen": [{ "name": "default_web_gone" }] },
        "pods": { "seen": { "source": "test", "complete": true } },
    }))
    .unwrap();
    node.memory = memory;
    node
}

/// A memory that has known all images and the deleted pod for hours.
fn known() -> Memory {
    let images: Vec<_> = (0..50).map(|n| json!({ "id": format!("sha256:{n}"), "first_seen": minute(-600) })).collect();
    let absent = json!([{ "uid": "gone", "since": minute(-60) }]);
    serde_json::from_value(json!({ "images": images, "absent_since": absent })).unwrap()
}

fn policy() -> Policy {
    Policy::default()
}

/// Makes passes at these minutes with lists of these lengths. Returns for each pass whether it removes images, and
/// whether it removes the log directory.
fn passes(rows: &[(i64, [usize; 3])]) -> Vec<(bool, bool)> {
    let mut memory = known();
    let mut decided = Vec::new();
    for (at, lists) in rows {
        let node = node(*at, *lists, memory);
        let plan = decide(&node, &policy(), Scope::All);
        let removes = |kind| plan.actions.iter().any(|action| action.target.kind() == kind);
        decided.push((removes(Kind::Image), removes(Kind::LogDir)));
        memory = update_memory(&node, &policy());
    }
    decided
}

#[test]
fn a_list_fall_keeps_images_and_deleted_pods_temporarily() {
    let (full, few) = ([40, 40, 45], [2, 2, 45]);
    let decided = passes(&[(0, full), (1, few), (2, few), (5, few), (10, few), (11, few), (12, few)]);
    let (yes, no) = ((true, true), (false, false));
    assert_eq!(decided, [yes, no, no, no, no, yes, yes], "trusted ten minutes after the first pass that saw it");
}

#[test]
fn time_alone_does_not_make_a_fall_trusted() {
    let (full, few) = ([40, 40, 45], [2, 2, 45]);
    assert_eq!(
        passes(&[(0, full), (1, few), (61, few), (121, few)])[1..],
        [(false, false), (false, false), (true, true)]
    );
}

#[test]
fn any_list_that_falls_protects_all() {
    let full = [40, 40, 45];
    for few in [[2, 40, 45], [40, 2, 45], [40, 40, 5]] {
        assert_eq!(passes(&[(0, full), (1, few)])[1], (false, false), "{few:?}");
    }
    assert_eq!(passes(&[(0, full), (1, [20, 20, 23])])[1], (true, true), "half is no sharp fall");
}

#[test]
fn a_list_that_recovers_is_trusted_at_once() {
    let (full, few) = ([40, 40, 45], [2, 2, 45]);
    assert_eq!(
        passes(&[(0, full), (1, few), (2, full), (3, few), (11, few), (12, few), (13, few)])[2..],
        [(true, true), (false, false), (false, false), (false, false), (true, true)]
    );
}

#[test]
fn a_further_fall_must_hold_again() {
    let decided =
        passes(&[(0, [40, 40, 45]), (1, [10, 10, 45]), (2, [10, 10, 45]), (10, [1, 1, 45]), (12, [1, 1, 45])]);
    assert_eq!(decided[1..], [(false, false); 4]);
}

#[test]
fn small_lists_fall_like_large_ones() {
    let rows = [(9, 0, true), (1, 0, true), (9, 4, true), (9, 5, false), (3, 1, true), (2, 1, false)];
    for (before, now, in_doubt) in rows {
        let decided = passes(&[(0, [before, before, 45]), (1, [now, before, 45])])[1];
        assert_eq!(decided, (!in_doubt, !in_doubt), "{before} to {now}");
    }
}

/// Of a limit above 50 %.
#[test]
fn few_missing_objects_are_no_sharp_fall_unless_less_than_half_is_left() {
    let rows = [(9, 6, true), (9, 7, false), (4, 2, false), (3, 1, true), (10, 8, false), (9, 9, false)];
    for (before, now, is_fall) in rows {
        assert_eq!(super::is_sharp(before, now, 80), is_fall, "{before} to {now}");
    }
}

#[test]
fn a_fall_in_small_steps_is_held() {
    let rows: Vec<_> = (0..7).map(|pass| (pass, [40 - 5 * usize::try_from(pass).unwrap(); 3])).collect();
    let decided = passes(&rows);
    assert_eq!(decided[..5], [(true, true); 5], "20 of 40 are no sharp fall");
    assert_eq!(decided[5..], [(false, false); 2], "15 of 40 are");
}

#[test]
fn a_list_that_grew_is_compared_with_its_greatest_length() {
    let (few, full) = ([10, 10, 45], [40, 40, 45]);
    let decided = passes(&[(0, few), (5, full), (11, full), (12, [12, 12, 45])]);
    assert_eq!(decided, [(true, true), (true, true), (true, true), (false, false)]);
}

#[test]
fn a_slow_decline_is_no_fall() {
    let rows: Vec<_> = (0..6).map(|pass| (pass * 15, [40 - 5 * usize::try_from(pass).unwrap(); 3])).collect();
    assert_eq!(passes(&rows), [(true, true); 6]);
}

#[test]
fn a_part_that_comes_back_keeps_the_baseline() {
    let (full, few, more) = ([40, 40, 45], [2, 2, 45], [25, 25, 45]);
    assert_eq!(
        passes(&[(0, full), (1, few), (2, more), (3, [12, 12, 45])])[1..],
        [(false, false), (true, true), (false, false)]
    );
}

#[test]
fn a_lost_baseline_holds_images_and_deleted_pods() {
    let lost = Memory { baseline_lost: Some(BaselineLoss::default()), ..known() };
    let decided = |after: i64| {
        let first = update_memory(&node(0, [2, 2, 45], lost.clone()), &policy());
        let later = node(after, [2, 2, 45], first);
        decide(&later, &policy(), Scope::All).actions.len()
    };
    let first = decide(&node(0, [2, 2, 45], lost.clone()), &policy(), Scope::All);
    assert_eq!(first.actions, []);
    let images = first.kept.iter().filter(|kept| kept.kind == Kind::Image && kept.id == "sha256:0");
    let reasons: Vec<_> = images.map(|kept| kept.reason.clone()).collect();
    assert_eq!(reasons, [KeepReason::BaselineLost { hold_seconds: 600 }]);
    assert_eq!(decided(9), 0);
    assert!(decided(10) > 0);
}

#[test]
fn all_passes_share_a_baseline_that_survives_restarts() {
    let before = update_memory(&node(0, [40, 40, 45], known()), &policy());
    let after = update_memory(&node(1, [2, 2, 45], before.clone()), &policy());
    assert_eq!(after.last_counts, Some(ListCounts { containers: 40, sandboxes: 40, images: 45 }));
    let written = serde_json::to_string(&after).unwrap();
    let images = decide(&node(2, [2, 2, 45], serde_json::from_str(&written).unwrap()), &policy(), Scope::Images);
    assert_eq!(images.actions, []);
    let fell = KeepReason::ListFell { list: "containers".into(), before: 40, now: 2, hold_seconds: 600 };
    assert_eq!(images.kept.iter().filter(|kept| kept.reason == fell).count(), 43, "{:?}", images.kept);
}

#[test]
fn an_unavailable_list_does_not_become_the_baseline() {
    let before = update_memory(&node(0, [40, 40, 45], known()), &policy());
    let mut without_containers = node(1, [40, 40, 45], before.clone());
    without_containers.containers = Seen::NotSeen("no answer".to_owned());
    let after = update_memory(&without_containers, &policy());
    assert_eq!((after.last_counts, after.fall), (before.last_counts, None));
}

#[test]
fn without_the_guard_no_fall_is_in_doubt() {
    let kubelet = Policy { guards: Guards::of(Profile::Kubelet), ..policy() };
    let before = update_memory(&node(0, [40, 40, 45], known()), &kubelet);
    let plan = decide(&node(1, [2, 2, 45], before), &kubelet, Scope::Images);
    assert!(!plan.actions.is_empty());
}

/// A node whose runtime created its socket at a minute, in passes at other minutes.
fn settles(socket: i64, at: &[i64]) -> Vec<bool> {
    let mut memory = known();
    let mut removes = Vec::new();
    for at in at {
        let mut node = node(*at, [5, 5, 9], memory.until(minute(*at)));
        node.listening_since = Seen::Seen(Some(minute(socket)));
        let plan = decide(&node, &policy(), Scope::All);
        removes.push(plan.actions.iter().any(|action| matches!(action.reason, RemoveReason::PodDeleted {})));
        memory = update_memory(&node, &policy());
    }
    removes
}

#[test]
fn a_runtime_settles_by_socket_or_first_seen_time() {
    assert_eq!(settles(-5, &[0]), [true], "old");
    assert_eq!(settles(0, &[0, 1]), [false, true], "made now");
    assert_eq!(settles(525_600, &[0, 1, 2]), [false, true, true], "made a year ahead");
    assert_eq!(settles(525_600, &[0, -60, -59]), [false, false, true], "and the clock is set back in between");
}

#[test]
fn a_runtime_whose_start_is_not_known_proves_nothing() {
    let mut node = node(0, [5, 5, 9], known());
    node.listening_since = Seen::NotSeen("permission denied".to_owned());
    let plan = decide(&node, &policy(), Scope::All);
    assert_eq!(plan.actions, []);
    let cause = |kept: &&crate::plan::document::Kept| matches!(kept.reason, KeepReason::RuntimeNotSeen { .. });
    assert!(plan.kept.iter().any(|kept| kept.kind == Kind::Image && cause(&kept)), "{:?}", plan.kept);
}
