//! How long to wait until the objects of a plan are old enough to be decided.
//!
//! On a node without history each image is first seen now, and each missing pod is missing since now. `kubegc collect
//! --wait` waits for these ages, and for a runtime that has just started.

use std::time::Duration;

use jiff::SignedDuration;

use super::action::Kind;
use super::reason::KeepReason;
use super::{Kept, Plan};
use crate::model::Snapshot;
use crate::plan::times;

/// Returns the longest time until an object of the plan is old enough; 0 = there is nothing to wait for. A created container that
/// may be about to start does not count: its age proves nothing.
pub fn wait_for_ages(snapshot: &Snapshot, plan: &Plan) -> Duration {
    plan.kept.iter().map(|kept| wait_for(snapshot, kept)).max().unwrap_or_default()
}

fn wait_for(snapshot: &Snapshot, kept: &Kept) -> Duration {
    let now = snapshot.taken_at;
    let (needed_seconds, since) = match &kept.reason {
        KeepReason::PodMissing { absent_since, gone_after_seconds } => (*gone_after_seconds, *absent_since),
        KeepReason::YoungerThanMinAge { min_age_seconds: needed_seconds }
        | KeepReason::YoungSandbox { sandbox_grace_seconds: needed_seconds } => {
            // An age that the runtime does not know never comes. Other objects without an age are new.
            if kept.age_seconds.is_none() && matches!(kept.kind, Kind::Container | Kind::Sandbox) {
                return Duration::ZERO;
            }
            let since = kept.age_seconds.and_then(|age| now.checked_sub(SignedDuration::from_secs(age)).ok());
            (*needed_seconds, since)
        }
        KeepReason::RuntimeJustStarted { settle_seconds } => {
            (*settle_seconds, snapshot.listening_since.as_ref().copied().flatten())
        }
        _ => return Duration::ZERO,
    };
    // Nor does one from a time before 2001.
    if since.is_some_and(|since| times::known(since).is_none()) {
        return Duration::ZERO;
    }
    let needed = Duration::from_secs(needed_seconds.max(0).cast_unsigned());
    needed.saturating_sub(times::age(now, since.unwrap_or(now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::policy::{Policy, Scope};
    use crate::plan::{AgeFrom, decide};

    /// A node with an image, and a container and a log directory of a missing pod.
    fn node(more: &serde_json::Value) -> Snapshot {
        let mut node = serde_json::json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "containers": { "seen": [{ "id": "c", "pod": { "uid": "u", "namespace": "n", "name": "p" }, "name": "app",
                "state": "exited", "created_at": "2026-11-21T10:00:00Z" }] },
            "sandboxes": { "seen": [] }, "log_dirs": { "seen": [] }, "log_links": { "seen": [] }, "pod_dirs": { "seen": [] },
            "images": { "seen": [{ "id": "sha256:1", "size_bytes": 500 }] },
            "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 100 } },
            "listening_since": { "seen": "2026-11-01T00:00:00Z" },
            "pods": { "seen": { "source": "test", "complete": true, "pods": [] } },
        });
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(node).unwrap()
    }

    fn wait(node: &Snapshot) -> Duration {
        wait_for_ages(node, &decide(node, &Policy::default(), Scope::All))
    }

    #[test]
    fn without_history_the_oldest_needed_age_is_waited_for() {
        assert_eq!(wait(&node(&serde_json::json!({}))), Duration::from_mins(2), "images.min_age");
        let absent = serde_json::json!({ "absent_since": [{ "uid": "u", "since": "2026-11-21T11:59:20Z" }],
            "images": [{ "id": "sha256:1", "first_seen": "2026-11-21T11:00:00Z" }] });
        assert_eq!(wait(&node(&serde_json::json!({ "memory": absent }))), Duration::from_secs(20), "guards.gone_after");
    }

    #[test]
    fn an_age_counts_from_where_the_policy_counts_it() {
        let ended = serde_json::json!({ "id": "c", "pod": { "uid": "u", "namespace": "n", "name": "p" }, "name": "app",
            "state": "exited", "created_at": "2026-11-21T10:00:00Z", "finished_at": "2026-11-21T11:59:00Z" });
        let node = node(&serde_json::json!({ "containers": { "seen": [ended] }, "images": { "seen": [] } }));
        let mut policy = Policy::default();
        (policy.containers.min_age, policy.containers.age_from) = (Duration::from_mins(3), AgeFrom::Finished);
        assert_eq!(wait_for_ages(&node, &decide(&node, &policy, Scope::All)), Duration::from_mins(2));
    }

    #[test]
    fn with_history_there_is_nothing_to_wait_for() {
        let known = serde_json::json!({ "absent_since": [{ "uid": "u", "since": "2026-11-21T11:00:00Z" }],
            "images": [{ "id": "sha256:1", "first_seen": "2026-11-21T11:00:00Z" }] });
        assert_eq!(wait(&node(&serde_json::json!({ "memory": known }))), Duration::ZERO);
    }
}
