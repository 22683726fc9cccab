//! Tests limits of time and number, to the second and the object, and the texts of the parts of a plan.

use serde_json::{Value, json};

use super::*;
use crate::model::PodList;

const NOW: &str = "2026-11-21T12:00:00Z";

/// A node with one dead container of a pod that exists, `age` seconds old, and with this memory.
fn node(state: &str, age: i64, memory: &Value) -> Snapshot {
    let created = NOW.parse::<Timestamp>().unwrap() - SignedDuration::from_secs(age);
    serde_json::from_value(json!({
        "taken_at": NOW,
        "containers": { "seen": [
            { "id": "old", "pod": { "uid": "u" }, "name": "app", "state": state, "created_at": created },
            { "id": "new", "pod": { "uid": "u" }, "name": "app", "state": "exited", "created_at": NOW },
        ] },
        "pods": { "seen": { "source": "test", "complete": true, "pods": [{ "uid": "u" }] } },
        "memory": memory,
    }))
    .unwrap()
}

/// Returns the decision on the older container: `removed`, or the name of the reason to keep it.
fn old_one(node: &Snapshot, policy: &Policy) -> &'static str {
    let plan = decide(node, policy, Scope::Containers);
    if plan.actions.iter().any(|action| action.target.id() == "old") {
        return "removed";
    }
    plan.kept.iter().find(|kept| kept.id == "old").map_or("not in the plan", |kept| kept.reason.kind())
}

/// A policy that removes all but the newest container.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.containers.max_per_pod_container = Some(1);
    policy
}

#[test]
fn a_removal_that_failed_waits_until_its_time_has_come() {
    let failed = |retry_at: &str| json!({ "failures": { "container/old": { "count": 1, "retry_at": retry_at, "error": "busy" } } });
    let fate = |retry_at, policy: &Policy| old_one(&node("exited", 3600, &failed(retry_at)), policy);
    assert_eq!(fate("2026-11-21T12:00:01Z", &policy()), "backing_off");
    assert_eq!(fate(NOW, &policy()), "removed");
    assert_eq!(fate("2026-11-21T11:59:59Z", &policy()), "removed");
    let mut at_once = policy();
    at_once.guards.retry_after = Duration::ZERO;
    assert_eq!(fate("2026-11-21T12:00:01Z", &at_once), "removed");
}

#[test]
fn a_created_container_is_about_to_start_for_exactly_its_grace() {
    let grace = i64::try_from(policy().guards.created_grace.as_secs()).unwrap();
    let fate = |age| old_one(&node("created", age, &json!({})), &policy());
    assert_eq!((fate(grace - 1), fate(grace)), ("maybe_starting", "removed"));
}

#[test]
fn no_limit_keeps_every_instance() {
    let fate = |limit| {
        let mut policy = policy();
        policy.containers.max_per_pod_container = limit;
        old_one(&node("exited", 3600, &json!({})), &policy)
    };
    assert_eq!([None, Some(0), Some(1), Some(2)].map(fate), ["no_limit", "removed", "removed", "within_unit_limit"]);
}

#[test]
fn a_plan_says_what_it_knows_of_pods() {
    let list: PodList = serde_json::from_value(json!({
        "source": "kubelet", "complete": true, "pods": [{ "uid": "a" }, { "uid": "b" }],
        "sources": [{ "name": "kubelet", "pods": 2 }],
    }))
    .unwrap();
    let known = PodKnowledge::from(&list);
    assert_eq!((known.source.as_str(), known.complete, known.pods, known.sources), ("kubelet", true, 2, list.sources));
}

#[test]
fn targets_have_the_names_that_people_know() {
    let target = |json: Value| -> Target { serde_json::from_value(json).unwrap() };
    let container = target(json!({ "action": "remove_container", "id": "c", "name": "app", "state": "exited" }));
    let image = json!({ "action": "remove_image", "id": "sha256:1", "tags": ["web:1", "web:2"], "size_bytes": 1 });
    let sandbox = target(json!({ "action": "remove_sandbox", "id": "s" }));
    assert_eq!([container, target(image), sandbox].each_ref().map(Target::name), [Some("app"), Some("web:1"), None]);
    let words = ["container", "sandbox", "log_dir", "log_link", "image"];
    assert_eq!(Kind::ALL.map(Kind::as_str), words);
    assert_eq!(json!(Kind::ALL), json!(words));
}

#[test]
fn an_error_of_what_was_not_seen_is_reported_from_one_of_what_was() {
    let unknown = |others| PlanError::ImageVolumesUnknown {
        container: "c".into(),
        pod: None,
        cause: "no answer".to_owned(),
        others,
    };
    let blind = PlanError::NotSeen { source: "pods".to_owned(), cause: "refused".to_owned() };
    let full = PlanError::FreeDiskSpaceFailed { target_bytes: 3, estimated_bytes: 2, used_percent: 99 };
    assert_eq!([&blind, &unknown(0), &full].map(PlanError::is_unobserved), [true, true, false]);
    assert!(!unknown(0).to_string().contains("more") && unknown(1).to_string().contains("and of 1 more"));
}
