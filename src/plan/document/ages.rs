//! How long to wait until the objects of a plan are old enough to be decided.
//!
//! On a node without history each image is first seen now, and each missing pod is missing since now. `kubegc collect
//! --wait` waits for these ages, and for a runtime that has just started.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::action::Kind;
use super::reason::KeepReason;
use super::{Kept, Plan};
use crate::model::{Memory, Snapshot};

/// Returns the longest time until an object of the plan is old enough; 0 = there is nothing to wait for. `memory` is the
/// one after the snapshot. A created container that may be about to start does not count: its age proves nothing.
pub fn wait_for_ages(snapshot: &Snapshot, memory: &Memory, plan: &Plan) -> Duration {
    plan.kept.iter().map(|kept| wait_for(snapshot, memory, kept)).max().unwrap_or_default()
}

fn wait_for(snapshot: &Snapshot, memory: &Memory, kept: &Kept) -> Duration {
    let now = snapshot.taken_at;
    let (needed_seconds, since) = match &kept.reason {
        KeepReason::PodMissing { absent_since, gone_after_seconds } => (*gone_after_seconds, *absent_since),
        KeepReason::YoungerThanMinAge { min_age_seconds } => (*min_age_seconds, begin(snapshot, memory, kept)),
        KeepReason::YoungSandbox { sandbox_grace_seconds } => (*sandbox_grace_seconds, begin(snapshot, memory, kept)),
        KeepReason::RuntimeJustStarted { settle_seconds } => {
            (*settle_seconds, snapshot.listening_since.as_ref().copied().flatten())
        }
        _ => return Duration::ZERO,
    };
    // An unknown age never comes.
    if since.is_some_and(|since| crate::plan::times::known(since).is_none()) {
        return Duration::ZERO;
    }
    let needed = Duration::from_secs(needed_seconds.max(0).cast_unsigned());
    needed.saturating_sub(crate::plan::times::age(now, since.unwrap_or(now)))
}

/// Returns the time from which the age of an object counts; `None` = from now.
fn begin(snapshot: &Snapshot, memory: &Memory, kept: &Kept) -> Option<Timestamp> {
    match kept.kind {
        Kind::Image => memory.images.iter().find(|image| image.id.as_str() == kept.id)?.first_seen,
        Kind::Container => {
            let containers = snapshot.listed_containers()?;
            Some(containers.iter().find(|container| container.id.as_str() == kept.id)?.created_at)
        }
        Kind::Sandbox => {
            let sandboxes = snapshot.listed_sandboxes()?;
            Some(sandboxes.iter().find(|sandbox| sandbox.id.as_str() == kept.id)?.created_at)
        }
        Kind::LogFile => snapshot.taken_at.checked_sub(SignedDuration::from_secs(kept.age_seconds?)).ok(),
        Kind::LogDir | Kind::LogLink => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::policy::{Policy, Scope};
    use crate::plan::{decide, update_memory};

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
        let policy = Policy::default();
        wait_for_ages(node, &update_memory(node, &policy), &decide(node, &policy, Scope::All))
    }

    #[test]
    fn without_history_the_oldest_needed_age_is_waited_for() {
        assert_eq!(wait(&node(&serde_json::json!({}))), Duration::from_mins(2), "images.min_age");
        let absent = serde_json::json!({ "absent_since": [{ "uid": "u", "since": "2026-11-21T11:59:20Z" }],
            "images": [{ "id": "sha256:1", "first_seen": "2026-11-21T11:00:00Z" }] });
        assert_eq!(wait(&node(&serde_json::json!({ "memory": absent }))), Duration::from_secs(20), "guards.gone_after");
    }

    #[test]
    fn with_history_there_is_nothing_to_wait_for() {
        let known = serde_json::json!({ "absent_since": [{ "uid": "u", "since": "2026-11-21T11:00:00Z" }],
            "images": [{ "id": "sha256:1", "first_seen": "2026-11-21T11:00:00Z" }] });
        assert_eq!(wait(&node(&serde_json::json!({ "memory": known }))), Duration::ZERO);
    }
}
