//! The last word on a pod that is to be gone (I11): whoever knows the pods is asked anew, past every cache, right before
//! the first removal of what belonged to it.
//!
//! Asked once a pod and pass, and only where a guard wants proof. An answer that does not come proves nothing (I2). A
//! source that hangs ends the lookups of the pass, whose time must not grow with the number of pods (I14).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::action_result::Done;
use super::{Refusal, Remover, Run};
use crate::model::{PodRef, PodUid, Seen};
use crate::plan::{Action, RemoveReason, Target, pod_uid_of_dir};

/// The longest time that lookups without an answer may take in one pass, all together.
const MOST_WAITED: Duration = Duration::from_secs(30);

/// What was answered in this pass: whether the pod still exists.
#[derive(Debug, Default)]
pub(super) struct Answers {
    of_pods: BTreeMap<PodUid, Seen<bool>>,
    /// The time of the lookups without an answer.
    waited: Duration,
}

// === impl Run ===

impl<H: Remover> Run<'_, H> {
    /// Why something stays that was to go because its pod is gone; `None` = nothing is against it.
    pub(super) async fn pod_against(&mut self, action: &Action) -> Option<Done> {
        if !self.exec.options.asks_for_pods || action.reason != (RemoveReason::PodGone {}) {
            return None;
        }
        match self.still_exists(&pod_of(action)).await {
            Seen::Seen(false) => None,
            Seen::Seen(true) => Some(Done::refused(Refusal::PodPresent)),
            Seen::NotSeen(cause) => Some(Done { note: Some(cause), ..Done::refused(Refusal::PodNotProven) }),
        }
    }

    async fn still_exists(&mut self, pod: &PodRef) -> Seen<bool> {
        if let Some(answer) = self.pods_asked.of_pods.get(&pod.uid) {
            return answer.clone();
        }
        if self.pods_asked.waited >= MOST_WAITED {
            let seconds = self.pods_asked.waited.as_secs();
            return Seen::NotSeen(format!(
                "not looked up: earlier lookups of this pass took {seconds} s without an answer"
            ));
        }
        let begun = Instant::now();
        let answer = self.exec.pods.still_exists(pod).await;
        if let Seen::NotSeen(_) = answer {
            self.pods_asked.waited += begun.elapsed();
        }
        self.pods_asked.of_pods.insert(pod.uid.clone(), answer.clone());
        answer
    }
}

impl<H> Run<'_, H> {
    /// Who said that the pod of an action is gone, where it goes for that.
    pub(super) fn proven_by(&self, action: &Action) -> Option<String> {
        let source = self.plan.pods.as_ref().map(|pods| pods.source.clone())?;
        (action.reason == RemoveReason::PodGone {}).then_some(source)
    }
}

/// The pod that an action's object belonged to. Of one whose name tells no more there is only the uid, and it is for the
/// source to say whether that is enough to ask for it.
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
