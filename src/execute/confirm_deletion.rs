//! Deletion confirmation (I11): a live lookup of a pod, past every cache, right before the first removal of an object
//! that belonged to it.
//!
//! Each pod is looked up at most once a minute in a pass, and only if `guards.gone_after` is on. A lookup without an answer
//! proves nothing (I2). If the source hangs, the lookups of the pass end, because the duration of a pass must not grow
//! with the number of pods (I14).
//!
//! The lookup comes before the recheck: a remote answer takes time, and nothing should come between the recheck of an
//! object and its removal. A lookup without an answer is a refusal, not a failure, so the next pass tries again
//! without a back-off.

use std::time::Duration;

use tokio::time::Instant;

use super::action_result::Done;
use super::execution::{Run, State};
use crate::model::{PodRef, Seen, pod_uid_of_dir};
use crate::plan::{Action, Refusal, RemoveReason, Target};

/// The longest total time of lookups without an answer in one pass.
const MOST_WAITED: Duration = Duration::from_secs(30);
/// How long an answer holds. One removal may take minutes, and a static pod comes again with its uid.
const HOLDS: Duration = Duration::from_mins(1);

// === impl Run ===

impl Run<'_> {
    /// Returns why an object of a deleted pod is kept. `None` = the action may proceed.
    pub(super) async fn pod_against(&self, action: &Action) -> Option<Done> {
        if !self.exec.options.confirms_deletions || action.reason != (RemoveReason::PodDeleted {}) {
            return None;
        }
        match self.still_exists(&pod_of(action)).await.result() {
            Ok(false) => None,
            Ok(true) => Some(Done::refused(Refusal::PodPresent)),
            Err(cause) => Some(Done { note: Some(cause.to_owned()), ..Done::refused(Refusal::PodNotProven) }),
        }
    }

    /// Returns the pod source that proved the pod of an action deleted, if that is the reason of the action.
    pub(super) fn proven_by(&self, action: &Action) -> Option<String> {
        let source = self.plan.pods.as_ref().map(|pods| pods.source.clone())?;
        (action.reason == RemoveReason::PodDeleted {}).then_some(source)
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        let known = self.state().known(pod);
        if let Some(answer) = known {
            return answer;
        }
        let begun = Instant::now();
        let answer = self.exec.pods.still_exists(pod).await;
        let mut state = self.state();
        if !answer.is_seen() {
            state.lookups_waited += begun.elapsed();
        }
        state.lookups.insert(pod.uid.clone(), (Instant::now(), answer.clone()));
        answer
    }
}

// === impl State ===

impl State {
    /// Returns the answer about a pod, if there is one or no more lookups are made.
    fn known(&self, pod: &PodRef) -> Option<Seen<bool>> {
        let seconds = self.lookups_waited.as_secs();
        let waited_too_long = (self.lookups_waited >= MOST_WAITED)
            .then(|| format!("not looked up: earlier lookups of this pass took {seconds} s without an answer"));
        let known = self.lookups.get(&pod.uid).filter(|(at, _)| at.elapsed() < HOLDS);
        known.map(|(_, answer)| answer.clone()).or(waited_too_long.map(Seen::NotSeen))
    }
}

/// Returns the pod that the object of an action belonged to. Some log directory names contain only the uid. The source
/// decides whether the uid is enough for a lookup.
fn pod_of(action: &Action) -> PodRef {
    match (&action.pod, &action.target) {
        (Some(pod), _) => pod.clone(),
        (None, Target::RemoveLogDir { path }) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            PodRef { uid: pod_uid_of_dir(&name), ..PodRef::default() }
        }
        (None, _) => PodRef::default(),
    }
}
