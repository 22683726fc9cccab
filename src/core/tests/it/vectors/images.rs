//! Vectors of images: `images.json`, `derived_images.json`.

use std::collections::BTreeSet;
use std::time::Duration;

use kubegc_core::model::{Container, FileSystem, Image, ImageMemory, Memory, Seen, Snapshot};
use kubegc_core::plan::{KeepReason, Policy, Scope, decide, update_memory};
use serde_json::Value;

use super::{at, blank, cases, kubelet, removed, safe, seconds, seen, text, texts};

/// Cases that do not apply to our planner, by name, with the reason.
const NOT_OURS: [(&str, &str); 3] = [
    (
        "sandbox image is exempt by its configured name (1.20)",
        "the profile kubelet has the rules of 1.36, where only a pin protects; profile safe keeps it, shown below",
    ),
    (
        "first detection, records keyed by image id and runtime handler",
        "the feature gate RuntimeClassInImageCriAPI is alpha and off; records are keyed by id",
    ),
    (
        "max age: a failed removal ends the pass before the disk is looked at",
        "a failure does not stop the rest of a pass; the plan itself has the same removals in the same order",
    ),
];

#[test]
fn images_are_removed_as_by_the_kubelet() {
    let mut seen_ops = BTreeSet::new();
    for case in all().iter().filter(|case| !is_not_ours(case)) {
        let op = text(case, "op");
        seen_ops.insert(op.to_owned());
        match op {
            "gc" | "free_space" | "free_old" | "delete_unused" => expect_removed(case),
            "detect" => expect_records(case),
            "validate_policy" => {} // The tests of config/settings check the ranges.
            other => panic!("unknown op {other}"),
        }
    }
    assert_eq!(seen_ops.len(), 6, "{seen_ops:?}");
}

#[test]
fn safe_names_the_guard_that_keeps_an_image() {
    for case in all().iter().filter(|case| !is_not_ours(case) && case["images"].is_array()) {
        safe_differs_by_guard(text(case, "name"), &snapshot(case), &policy(case));
    }
}

#[test]
fn safe_keeps_the_sandbox_image_by_its_configured_name() {
    let case = all().into_iter().find(|case| case["sandbox_image"].is_string()).unwrap();
    let mut snapshot = snapshot(&case);
    snapshot.images = seen(vec![Image {
        id: "sha256:1".into(),
        tags: vec![text(&case, "sandbox_image").into()],
        ..Image::default()
    }]);
    snapshot.sandbox_image = seen(Some(text(&case, "sandbox_image").into()));
    let plan = decide(&snapshot, &safe(&policy(&case)), Scope::Images);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.kept[0].reason, KeepReason::SandboxImage {});
}

#[test]
fn every_skipped_case_exists() {
    let names: BTreeSet<_> = all().iter().map(|case| text(case, "name").to_owned()).collect();
    for (name, reason) in NOT_OURS {
        assert!(names.contains(name), "{name}: {reason}");
    }
}

/// Checks that what `safe` keeps and the kubelet removes is kept by a guard: a reason of its own, or one of the rules
/// that `age_from_first_seen` applies to never-used images.
pub(super) fn safe_differs_by_guard(case: &str, snapshot: &Snapshot, policy: &Policy) {
    let by_kubelet = removed(&decide(snapshot, policy, Scope::Images));
    let plan = decide(snapshot, &safe(policy), Scope::Images);
    let by_us = removed(&plan);
    let reason = |id: &String| &plan.kept.iter().find(|kept| kept.id == *id).unwrap().reason;
    let spared: Vec<_> = by_kubelet.difference(&by_us).collect();
    for id in &spared {
        let named = match reason(id) {
            // It is not old by our count. It may then be a candidate for space, and the target is reached before it.
            KeepReason::YoungerThanMinAge { .. } | KeepReason::WithinMaxAge { .. } | KeepReason::TargetReached {} => {
                !policy.max_age().is_zero()
            }
            KeepReason::BelowThreshold { .. } => is_at_target(snapshot, policy),
            KeepReason::Pinned {} => is_listed_twice(snapshot, id),
            reason => reason.is_guard(),
        };
        assert!(named, "{case}: {id} is kept for {:?}, which is no guard", reason(id));
    }
    let more = by_us.difference(&by_kubelet).count();
    let remembers_longer = !policy.max_age().is_zero();
    assert!(
        more == 0 || !spared.is_empty() || remembers_longer,
        "{case}: safe removes {by_us:?}, the kubelet {by_kubelet:?}"
    );
}

/// Says whether rounding reached the high threshold although the low threshold is reached too.
fn is_at_target(snapshot: &Snapshot, policy: &Policy) -> bool {
    let Seen::Seen(disk) = &snapshot.image_filesystem else { return false };
    let wanted = u128::from(disk.capacity_bytes) * u128::from(100 - policy.images.low_threshold_percent) / 100;
    u128::from(disk.available_bytes) >= wanted
}

fn is_listed_twice(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.images.as_ref().unwrap().iter().filter(|image| image.id.as_str() == id).count() > 1
}

trait MaxAge {
    fn max_age(&self) -> Duration;
}

impl MaxAge for Policy {
    fn max_age(&self) -> Duration {
        self.images.max_age
    }
}

fn all() -> Vec<Value> {
    [cases("images.json"), cases("derived_images.json")].concat()
}

fn is_not_ours(case: &Value) -> bool {
    NOT_OURS.iter().any(|(name, _)| *name == text(case, "name"))
}

fn expect_removed(case: &Value) {
    let plan = decide(&snapshot(case), &policy(case), Scope::Images);
    let failing = texts(&case["fail_remove"]);
    let gone: BTreeSet<_> = with_replacement(case, removed(&plan)).difference(&failing).cloned().collect();
    assert_eq!(gone, texts(&case["expect_removed"]), "{}", text(case, "name"));
    let is_error = !plan.errors.is_empty() || !failing.is_empty();
    if text(case, "op") == "gc" && !(is_error && case["versions"] == serde_json::json!(["1.20.2"])) {
        assert_eq!(is_error, case["expect_error"] == true, "{}: {:?}", text(case, "name"), plan.errors);
    }
}

/// Adds the replacement of a failed removal. A failed removal reclaims nothing, so the kubelet continues with the next
/// image in the same pass. kubegc measures, and continues with the reserve. Without that guard the sizes are added up
/// beforehand, so this function adds the next image.
fn with_replacement(case: &Value, mut removed: BTreeSet<String>) -> BTreeSet<String> {
    let failing = texts(&case["fail_remove"]);
    if !failing.is_disjoint(&removed) {
        let rest = decide(&without(snapshot(case), &failing), &policy(case), Scope::Images);
        removed.extend(super::removed(&rest));
    }
    removed
}

fn without(mut snapshot: Snapshot, ids: &BTreeSet<String>) -> Snapshot {
    snapshot.images = snapshot.images.map(|mut images| {
        images.retain(|image| !ids.contains(image.id.as_str()));
        images
    });
    snapshot
}

/// Runs the detection steps. "zero" and "now" are the times of the steps, because a pass has one clock.
fn expect_records(case: &Value) {
    let mut memory = Memory::default();
    let mut moments = Vec::new();
    for (step, from) in case["steps"].as_array().unwrap().iter().enumerate() {
        let taken_at = at(step as f64);
        moments.push(taken_at);
        let images = from["images"]
            .as_array()
            .unwrap()
            .iter()
            .map(|image| Image { id: image[0].as_str().unwrap().into(), ..Image::default() });
        let containers = from["used"].as_array().unwrap().iter().map(|id| user_of(id.as_str().unwrap()));
        let (images, containers) = (seen(images.collect()), seen(containers.collect()));
        memory = update_memory(&Snapshot { taken_at, images, containers, memory, ..blank() }, &kubelet());
        if let Some(count) = from["expect_record_count"].as_u64() {
            assert_eq!(memory.images.len() as u64, count, "{}", text(case, "name"));
        }
        for (id, expected) in from["expect_records"].as_object().into_iter().flatten() {
            let record = memory.images.iter().find(|image| image.id.as_str() == id).unwrap();
            let moment = |word: &str| match word {
                "never" => None,
                "now" if from["detect_time"] == "zero" => Some(moments[0]),
                "zero+1s" => Some(moments[1]),
                "zero" | "as after step 0" => Some(moments[0]),
                // Used in every step so far.
                "now" => Some(taken_at),
                other => panic!("moment {other}"),
            };
            assert_eq!(record.first_seen, moment(text(expected, "first_detected")), "{}: {id}", text(case, "name"));
            let used_in_this_step = texts(&from["used"]).contains(id);
            let last_used = if used_in_this_step { Some(taken_at) } else { moment(text(expected, "last_used")) };
            assert_eq!(record.last_used, last_used, "{}: {id}", text(case, "name"));
        }
    }
}

fn policy(case: &Value) -> Policy {
    let mut policy = kubelet();
    let from = &case["policy"];
    policy.images.high_threshold_percent = from["high_threshold_percent"].as_u64().unwrap();
    policy.images.low_threshold_percent = from["low_threshold_percent"].as_u64().unwrap();
    policy.images.min_age = seconds(&from["min_age_s"]);
    policy.images.max_age = seconds(&from["max_age_s"]);
    policy.images.all_unused = text(case, "op") == "delete_unused";
    if text(case, "op") == "free_space" {
        policy.images.high_threshold_percent = 0;
        policy.images.low_threshold_percent = 0;
    }
    policy
}

fn snapshot(case: &Value) -> Snapshot {
    let list = || case["images"].as_array().into_iter().flatten();
    let image = |from: &Value| Image {
        id: text(from, "id").into(),
        size_bytes: from["size"].as_u64().unwrap(),
        pinned: from["pinned"] == true,
        ..Image::default()
    };
    let past = |from: &Value| ImageMemory {
        id: text(from, "id").into(),
        first_seen: from["first_detected_s"].as_f64().map(at),
        last_used: from["last_used_s"].as_f64().map(at),
        last_used_by: None,
    };
    let used = list().filter(|image| image["in_use"] == true).map(|image| user_of(text(image, "id")));
    let memory = Memory {
        agent_started_at: case["began_gc_s"].as_f64().map(at),
        images: list().map(past).collect(),
        ..Memory::default()
    };
    Snapshot {
        images: seen(list().map(image).collect()),
        containers: seen(used.collect()),
        image_filesystem: file_system(case),
        memory,
        ..blank()
    }
}

/// Returns the disk of the case. If a case requires a number of bytes, the disk lacks exactly these.
fn file_system(case: &Value) -> Seen<FileSystem> {
    if let Some(error) = case["fs"]["error"].as_str() {
        return Seen::NotSeen(error.to_owned());
    }
    let bytes = |key: &str| case["fs"][key].as_u64().unwrap_or_default();
    let (capacity_bytes, available_bytes) = match case["bytes_to_free"].as_u64() {
        Some(bytes) => (bytes, 0),
        None if case["fs"].is_null() => (1000, 1000),
        None => (bytes("capacity"), bytes("available")),
    };
    seen(FileSystem { capacity_bytes, available_bytes, ..FileSystem::default() })
}

/// Returns a running container that uses only this image.
pub(super) fn user_of(image: &str) -> Container {
    serde_json::from_value(serde_json::json!({
        "id": format!("user-of-{image}"), "pod": { "uid": "user" }, "name": image, "state": "running",
        "created_at": at(-3600.0), "image_id": image,
    }))
    .unwrap()
}
