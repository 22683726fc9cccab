//! A plan that somebody read and approved, held against the node as it is now.
//!
//! Such a plan may be older than the facts but not than the rules: what a fact or a guard keeps by now is refused. What
//! only a limit or a threshold keeps goes, for that was decided when the plan was made. What is not there any more is
//! found out by the recheck. What goes by now because its pod is gone goes for that, as the plan of this moment says it:
//! then the pod is asked for (I11), whatever the file says of it.

use std::collections::HashMap;

use crate::execute::{Measure, Outcome, Refusal, Report};
use crate::plan::{Action, KeepReason, Plan, RemoveReason, key};

/// A saved plan without what changed since.
pub struct Checked {
    /// What is still to be done.
    pub plan: Plan,
    /// What is not, with the reason in the note.
    pub refused: Vec<Report>,
}

/// Takes out of `saved` what `fresh`, a plan of this moment, keeps for a fact or a guard.
pub fn check(mut saved: Plan, fresh: &Plan) -> Checked {
    let kept: HashMap<_, _> = fresh.kept.iter().map(|kept| (key(kept.kind, &kept.id), &kept.reason)).collect();
    let changed = |action: &Action| kept.get(&action.key()).copied().filter(|reason| forbids(reason, &action.reason));
    let mut refused = Vec::new();
    saved.actions.retain(|action| match changed(action) {
        Some(reason) => {
            refused.push(refusal(action, reason));
            false
        }
        None => true,
    });
    saved.images.reserve.retain(|action| changed(action).is_none());
    saved.pods = fresh.pods.clone();
    let gone = fresh.actions.iter().filter(|action| action.reason == RemoveReason::PodGone {});
    let gone: HashMap<_, _> = gone.map(|action| (action.key(), action)).collect();
    for action in &mut saved.actions {
        if let Some(fresh) = gone.get(&action.key()) {
            (action.reason, action.pod) = (fresh.reason.clone(), fresh.pod.clone());
        }
    }
    Checked { plan: saved, refused }
}

/// Says whether a reason to keep is a fact or a guard, rather than a limit that the saved plan has settled already.
fn forbids(keep: &KeepReason, remove: &RemoveReason) -> bool {
    match keep {
        KeepReason::YoungerThanMinAge { .. }
        | KeepReason::WithinUnitLimit { .. }
        | KeepReason::NoLimit {}
        | KeepReason::BelowThreshold { .. }
        | KeepReason::WithinMaxAge { .. }
        | KeepReason::TargetReached {}
        | KeepReason::ImageGcOff {} => *remove == RemoveReason::PodGone {},
        _ => true,
    }
}

fn refusal(action: &Action, reason: &KeepReason) -> Report {
    let outcome = Outcome::Refused { refusal: Refusal::StateChanged };
    Report {
        action: action.clone(),
        outcome,
        freed_bytes: None,
        measure: Measure::Unknown,
        proven_by: None,
        note: Some(reason.explain().rule),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PodRef, Snapshot};
    use crate::plan::{Policy, Scope, decide};

    /// A dead container with a newer one, and what the pods' list says.
    fn plan(state: &str, high: u64) -> Plan {
        let pod = serde_json::json!({ "uid": "u" });
        let at = ["2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"];
        let snapshot: Snapshot = serde_json::from_value(serde_json::json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "containers": { "seen": [
                { "id": "old", "pod": pod, "name": "app", "state": state, "created_at": at[0] },
                { "id": "mid", "pod": pod, "name": "app", "state": "exited", "created_at": at[0] },
                { "id": "new", "pod": pod, "name": "app", "state": "exited", "created_at": at[1] },
            ] },
            "images": { "seen": [{ "id": "sha256:1", "size_bytes": 500 }] },
            "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 100 } },
            "memory": { "images": [{ "id": "sha256:1", "first_seen": at[0] }] },
        }))
        .expect("a snapshot");
        let mut policy = Policy::default();
        policy.images.high_threshold_percent = high;
        decide(&snapshot, &policy, Scope::All)
    }

    fn ids(plan: &Plan) -> Vec<String> {
        plan.actions.iter().map(|action| action.target.id()).collect()
    }

    #[test]
    fn a_saved_plan_goes_on_where_nothing_changed() {
        let checked = check(plan("exited", 85), &plan("exited", 85));
        assert_eq!(ids(&checked.plan), ["mid", "old", "sha256:1"]);
        assert_eq!(checked.refused, []);
    }

    #[test]
    fn what_runs_by_now_is_refused_and_says_why() {
        let checked = check(plan("exited", 85), &plan("running", 85));
        assert_eq!(ids(&checked.plan), ["mid", "sha256:1"]);
        assert_eq!(checked.refused.len(), 1);
        assert_eq!(checked.refused[0].note.as_deref(), Some("it runs"));
    }

    #[test]
    fn what_goes_by_now_because_its_pod_is_gone_goes_for_that_and_by_its_own_pods_name() {
        let fresh = {
            let mut fresh = plan("exited", 85);
            fresh.actions[1].reason = RemoveReason::PodGone {};
            fresh
        };
        let mut saved = plan("exited", 85);
        saved.actions[1].pod = Some(PodRef { uid: "another".into(), ..PodRef::default() });
        let checked = check(saved, &fresh);
        assert_eq!(checked.plan.actions[1], fresh.actions[1]);
        assert_eq!(checked.plan.actions[0].reason, RemoveReason::OverUnitLimit { limit: 1 });
    }

    #[test]
    fn a_threshold_that_is_set_otherwise_by_now_does_not_undo_the_plan() {
        let checked = check(plan("exited", 85), &plan("exited", 95));
        assert_eq!(ids(&checked.plan), ["mid", "old", "sha256:1"]);
    }
}
