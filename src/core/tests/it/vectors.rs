//! The behavior of the kubelet as data (`tests/data/vectors/README.md`). Every case runs under profile `kubelet` with
//! the kubelet's result, and under `safe`, where a guard must be the reason of each difference.

mod containers;
mod images;
mod logs;
mod random;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubegc_core::model::{Absence, Memory, Phase, Pod, PodList, Seen, Snapshot};
use kubegc_core::plan::{Guards, KeepReason, Plan, Policy, Profile, Scope, Target, decide};
use serde_json::Value;

/// Returns the kubelet's rules.
fn kubelet() -> Policy {
    Policy { profile: Profile::Kubelet, guards: Guards::of(Profile::Kubelet), ..Policy::default() }
}

/// Returns the same policy with all guards.
fn safe(policy: &Policy) -> Policy {
    Policy { profile: Profile::Safe, guards: Guards::default(), ..policy.clone() }
}

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// Returns the time so many seconds from now.
fn at(seconds: f64) -> Timestamp {
    let nanoseconds = (seconds * 1e9).round() as i128;
    now().checked_add(SignedDuration::from_nanos_i128(nanoseconds)).unwrap_or(Timestamp::MIN)
}

fn cases(file: &str) -> Vec<Value> {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/vectors").join(file))
            .unwrap();
    match file.contains(".jsonl") {
        true => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        false => serde_json::from_str(&text).unwrap(),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn texts(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap_or_default())
}

/// Returns a node with every observation unavailable.
fn blank() -> Snapshot {
    serde_json::from_value(serde_json::json!({ "taken_at": now() })).unwrap()
}

/// Returns the pods that the kubelet still has. Deleted pods are in no list.
fn pod_list<'a>(ready: bool, pods: impl Iterator<Item = (&'a str, &'a str)>) -> PodList {
    let pods = pods.filter(|(_, state)| *state != "deleted").map(|(uid, state)| Pod {
        uid: uid.into(),
        phase: if state == "terminated" { Phase::Succeeded } else { Phase::Running },
        ..Pod::default()
    });
    PodList { source: "kubelet".into(), complete: ready, pods: pods.collect(), ..PodList::default() }
}

/// Returns the memory of a node on which every missing pod is missing for an hour.
fn long_absent(snapshot: &Snapshot, uids: impl Iterator<Item = String>) -> Memory {
    let absent_since = uids.map(|uid| Absence { uid: uid.into(), since: at(-3600.0) }).collect();
    Memory { absent_since, ..snapshot.memory.clone() }
}

fn removed(plan: &Plan) -> BTreeSet<String> {
    plan.actions.iter().map(|action| name(&action.target)).collect()
}

/// Returns the name of an object in the vectors: its ID, or the entry name of a log.
fn name(target: &Target) -> String {
    match target {
        Target::RemoveLogDir { path } => path.file_name().unwrap().to_str().unwrap().to_owned(),
        target => target.id(),
    }
}

/// Makes a plan under `safe`. For each object that the kubelet would remove and `safe` keeps, `named` checks whether a
/// guard is the reason. `safe` must remove nothing that the kubelet does not remove.
fn safe_keeps_more(
    case: &str,
    snapshot: &Snapshot,
    kubelet: &Policy,
    named: impl Fn(&Plan, &str, &KeepReason) -> bool,
) {
    let by_kubelet = removed(&decide(snapshot, kubelet, Scope::All));
    let plan = decide(snapshot, &safe(kubelet), Scope::All);
    let by_us = removed(&plan);
    assert!(by_us.is_subset(&by_kubelet), "{case}: safe removes {by_us:?}, the kubelet {by_kubelet:?}");
    for id in by_kubelet.difference(&by_us) {
        let kept = plan.kept.iter().find(|kept| kept.id == *id || kept.id.ends_with(&format!("/{id}")));
        let reason = &kept.unwrap_or_else(|| panic!("{case}: {id} is neither removed nor kept")).reason;
        assert!(named(&plan, id, reason), "{case}: {id} is kept for {reason:?}, which is no guard");
    }
}

/// Says whether the reason is a guard.
fn is_guard(_: &Plan, _: &str, reason: &KeepReason) -> bool {
    reason.is_guard()
}

fn seen<T>(value: T) -> Seen<T> {
    Seen::Seen(value)
}
