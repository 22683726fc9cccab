//! Every reason in one table: its word, the setting that decides, and both sentences.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::plan::document::reason::KeepReason;

/// Each reason for a removal, and each variant of its texts.
fn removals() -> Value {
    json!([
        { "reason": "pod_deleted" },
        { "reason": "pod_terminal" },
        { "reason": "pod_terminal", "pressure": true },
        { "reason": "over_max_per_pod_container", "limit": 3 },
        { "reason": "over_total_limit", "limit": 4 },
        { "reason": "over_archive_limit", "limit": "keep 1d" },
        { "reason": "over_archive_limit", "limit": "namespace 512MiB" },
        { "reason": "over_archive_limit", "limit": null },
        { "reason": "over_log_limit", "limit_of": "namespace", "limit_bytes": 2_147_483_648_u64 },
        { "reason": "superseded" },
        { "reason": "dangling" },
        { "reason": "space", "high_threshold_percent": 85, "used_percent": 91 },
        { "reason": "target", "target": "free", "below_bytes": 10_737_418_240_u64, "until_bytes": 21_474_836_480_u64, "value": 8_589_934_592_u64 },
        { "reason": "age", "max_age_seconds": 7200, "unused_seconds": 10800 },
        { "reason": "age", "max_age_seconds": 7200, "unused_seconds": null },
        { "reason": "unused" },
        { "reason": "unused", "pressure": true },
        { "reason": "listed" },
        { "reason": "named" },
        { "reason": "instance_gone" },
        { "reason": "unreferenced" },
        { "reason": "rule", "rule": "old images of builds", "note": "ask platform@" },
        { "reason": "rule", "rule": "ci keeps nothing", "limit": "max_per_pod_container = 0" },
    ])
}

/// Each reason to keep something, and each variant of its texts.
fn keeps() -> Value {
    let at = "2026-11-21T12:00:00Z";
    let mut keeps = json!([
        { "reason": "running" },
        { "reason": "younger_than_min_age", "min_age_seconds": 60 },
        { "reason": "within_max_per_pod_container", "limit": 3 },
        { "reason": "no_limit" },
        { "reason": "ready" },
        { "reason": "has_containers", "containers": 5 },
        { "reason": "newest_sandbox" },
        { "reason": "pod_present", "source": "kube-api" },
        { "reason": "pods_incomplete", "source": "kubelet", "cause": "" },
        { "reason": "pods_incomplete", "source": "kubelet", "cause": "it just started" },
        { "reason": "pods_not_seen", "cause": "refused" },
        { "reason": "target_exists" },
        { "reason": "target_unknown" },
        { "reason": "container_not_exited", "state": "running" },
        { "reason": "in_use", "container": "c1" },
        { "reason": "possibly_in_use", "container": "c1" },
        { "reason": "image_volume", "container": "c2" },
        { "reason": "pinned" },
        { "reason": "below_threshold", "used_percent": 40, "high_threshold_percent": 85 },
        { "reason": "within_max_age", "max_age_seconds": 7200 },
        { "reason": "target_reached" },
        { "reason": "image_gc_off" },
        { "reason": "frees_nothing" },
        { "reason": "beyond_pace", "images": 20, "bytes": 53_687_091_200_u64 },
        { "reason": "used_meanwhile" },
        { "reason": "step_failed" },
        { "reason": "list_incomplete", "list": "containers" },
        { "reason": "possible_image_volume", "container": "c3" },
        { "reason": "image_volumes_unknown", "container": "c4" },
        { "reason": "newest_instance" },
        { "reason": "used_by_other_client", "namespace": "moby", "container": "c5" },
        { "reason": "maybe_running" },
        { "reason": "maybe_starting", "created_grace_seconds": 900 },
        { "reason": "foreign" },
        { "reason": "pod_missing", "absent_since": at, "gone_after_seconds": 120 },
        { "reason": "pod_missing", "absent_since": null, "gone_after_seconds": 120 },
        { "reason": "pod_still_runs" },
        { "reason": "pod_dir_exists" },
        { "reason": "pod_dirs_not_seen", "cause": "permission denied" },
        { "reason": "pod_not_confirmable", "source": "kube-api" },
        { "reason": "young_sandbox", "sandbox_grace_seconds": 300 },
        { "reason": "unrecognized" },
        { "reason": "pod_in_runtime" },
        { "reason": "runtime_not_seen", "cause": "no answer" },
        { "reason": "sandbox_image" },
        { "reason": "keep_pattern", "pattern": "registry.example/*" },
        { "reason": "being_pulled" },
        { "reason": "named_by_pod", "named_by": "default/web-0" },
        { "reason": "named_by_pod", "named_by": "default/web-0", "as_of": at },
        { "reason": "runtime_just_started", "settle_seconds": 30 },
        { "reason": "list_fell", "list": "images", "before": 40, "now": 2, "hold_seconds": 600 },
        { "reason": "baseline_lost", "hold_seconds": 600 },
        { "reason": "backing_off", "retry_at": at, "failures": 2, "error": "device busy" },
    ]);
    // Of one list, the macro would need a higher limit.
    let of_rules = [
        json!({ "reason": "pulled_again", "removed_at": at, "unused_seconds": 172_800 }),
        json!({ "reason": "named_by_workload", "workload": "cronjob/shop/report" }),
        json!({ "reason": "rule", "rule": "base images stay" }),
        json!({ "reason": "rule", "rule": "base images stay", "note": "ask platform@" }),
        json!({ "reason": "rule", "rule": "logs of a day", "limit": "keep_for = 24h" }),
    ];
    // One list of all would be too long for the macro.
    let of_leftovers = [
        json!({ "reason": "within_leftover_max_age", "max_age_seconds": 86400 }),
        json!({ "reason": "not_selected", "leftover": "pod_directory" }),
        json!({ "reason": "foreign_path", "cause": "something is mounted at /p" }),
        json!({ "reason": "shown_only" }),
        json!({ "reason": "no_rule" }),
        json!({ "reason": "protects_image" }),
    ];
    keeps.as_array_mut().unwrap().extend(of_rules.into_iter().chain(of_leftovers));
    keeps
}

fn samples<T: serde::de::DeserializeOwned>(all: Value) -> Vec<T> {
    serde_json::from_value(all).expect("each sample is a reason")
}

/// The words that the schema of a reason allows.
fn words<T: schemars::JsonSchema>() -> BTreeSet<String> {
    let schema = schemars::schema_for!(T).to_value();
    let variants = schema["oneOf"].as_array().expect("a reason is one of several");
    variants.iter().filter_map(|one| Some(one["properties"]["reason"]["const"].as_str()?.to_owned())).collect()
}

fn line(kind: &str, Explanation { phrase, detail, rule, setting, change, is_guard, .. }: Explanation) -> String {
    let (setting, detail) = (setting.unwrap_or("-"), detail.unwrap_or_default());
    let guard = if is_guard { ", guard" } else { "" };
    format!("{kind} [{setting}{guard}]\n  {phrase} | {detail}\n  {rule}; changes when {change}\n")
}

#[test]
fn every_reason_has_its_sentences() {
    let removed: String =
        samples::<RemoveReason>(removals()).iter().map(|one| line(one.kind(), one.explain())).collect();
    let kept: String = samples::<KeepReason>(keeps()).iter().map(|one| line(one.kind(), one.explain())).collect();
    insta::assert_snapshot!("removals", removed);
    insta::assert_snapshot!("keeps", kept);
}

#[test]
fn an_image_that_is_kept_counts_by_its_reason() {
    let of = |category| {
        let keeps = samples::<KeepReason>(keeps());
        let of = keeps.iter().filter(|one| one.explain().category == category).map(KeepReason::kind);
        of.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(Category::ImagesInUse), "image_volume in_use possibly_in_use used_by_other_client");
    let removable =
        "below_threshold beyond_pace frees_nothing image_gc_off target_reached within_max_age younger_than_min_age";
    assert_eq!(of(Category::ImagesRemovable), removable);
}

#[test]
fn reason_words_are_those_of_the_documents() {
    let is_sample = |(word, kind): (&Value, &'static str)| {
        assert_eq!(word["reason"], kind);
        kind.to_owned()
    };
    let (removals, keeps) = (removals(), keeps());
    let kinds = samples::<RemoveReason>(removals.clone());
    let removed = removals.as_array().unwrap().iter().zip(kinds.iter().map(RemoveReason::kind)).map(is_sample);
    assert_eq!(removed.collect::<BTreeSet<_>>(), words::<RemoveReason>());
    let kinds = samples::<KeepReason>(keeps.clone());
    let kept = keeps.as_array().unwrap().iter().zip(kinds.iter().map(KeepReason::kind)).map(is_sample);
    assert_eq!(kept.collect::<BTreeSet<_>>(), words::<KeepReason>());
}

#[test]
fn guards_only_keep_more_than_the_kubelet() {
    let guards: Vec<_> =
        samples::<KeepReason>(keeps()).iter().filter(|one| one.is_guard()).map(KeepReason::kind).collect();
    let first = guards.first().copied();
    assert_eq!((first, guards.len()), (Some("newest_instance"), 26), "{guards:?}");
}

#[test]
fn only_removals_for_space_end_when_there_is_enough() {
    let of = |is: fn(&RemoveReason) -> bool| {
        let removals = samples::<RemoveReason>(removals());
        removals.iter().filter(|one| is(one)).map(RemoveReason::kind).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(RemoveReason::is_for_space), "space target unused");
    assert_eq!(of(RemoveReason::can_be_undone), "age age unused listed named rule rule");
}

#[test]
fn a_reason_that_ends_by_itself_has_its_seconds() {
    let taken_at = "2026-11-21T12:00:00Z".parse().unwrap();
    let seconds = |reason: Value, age_seconds: Option<i64>| {
        let kept = json!({ "kind": "sandbox", "id": "s", "reason": "pinned", "age_seconds": age_seconds });
        let kept = Kept { reason: serde_json::from_value(reason).unwrap(), ..serde_json::from_value(kept).unwrap() };
        kept.seconds_to_go(taken_at)
    };
    let missing = json!({ "reason": "pod_missing", "absent_since": "2026-11-21T11:59:00Z", "gone_after_seconds": 90 });
    let unknown = json!({ "reason": "pod_missing", "absent_since": null, "gone_after_seconds": 90 });
    let failed = |retry_at| json!({ "reason": "backing_off", "retry_at": retry_at, "failures": 2, "error": "busy" });
    let of_age = |reason: &str, setting: &str| {
        let reason = json!({ "reason": reason, setting: 90 });
        [Some(30), Some(90), None].map(|age| seconds(reason.clone(), age))
    };
    assert_eq!(of_age("younger_than_min_age", "min_age_seconds"), [Some(60), None, Some(90)]);
    assert_eq!(of_age("maybe_starting", "created_grace_seconds"), [Some(60), None, None]);
    assert_eq!(of_age("young_sandbox", "sandbox_grace_seconds"), [Some(60), None, None]);
    assert_eq!([missing, unknown].map(|reason| seconds(reason, None)), [Some(30), Some(90)]);
    assert_eq!(seconds(failed("2026-11-21T12:00:07Z"), None), Some(7));
    assert_eq!(seconds(failed("2026-11-21T11:00:00Z"), None), None, "the next pass retries");
    assert_eq!(seconds(json!({ "reason": "pinned" }), Some(9)), None);
}
