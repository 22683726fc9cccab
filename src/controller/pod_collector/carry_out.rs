//! Carries out a plan for pods: the recheck of the node, the mark, the deletion.
//!
//! A pod that cannot be marked Failed is not deleted. A held pod, which is deleted and waits for finalizers, is not
//! deleted again (kubernetes#141190). The owner of a finalizer may wait for a final phase, as the Job controller
//! does, so a held pod without one is marked and deleted once more.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::{PodCollector, PodFailure, PodNotice, PodOutcome, PodReport, PodResult, convert};
use crate::controller::settings::WORKERS;
use crate::kubernetes::{ApiResource, Deleted, KubernetesError, WriteTarget};
use crate::model::Uid;
use crate::pod_gc::{NodeAnswer, PodAction, PodKept, PodPlan, PodReason, recheck_node};

enum End {
    Done(PodOutcome),
    /// The pod is kept after a live read of its node, which may have failed with this error.
    Kept(PodKept, Option<String>),
    Failed(PodFailure),
    /// A signal came before it began.
    NotDone,
}

// === impl PodCollector ===

impl PodCollector {
    /// Carries out a plan. After `stop` no action begins, and those that have begun end.
    pub async fn carry_out(&mut self, plan: PodPlan, stop: &CancellationToken) -> PodReport {
        let PodPlan { actions, kept, errors, .. } = plan;
        let mut report = PodReport { kept, errors, ..PodReport::default() };
        let before = std::mem::take(&mut self.failures);
        let ends = actions.into_iter().map(|action| self.act(action, stop));
        let mut ends = stream::iter(ends).buffer_unordered(WORKERS);
        while let Some(end) = ends.next().await {
            self.announce(&end, &before);
            report.add(end);
        }
        drop(ends);
        self.failures =
            report.failures.iter().map(|failure| (failure.action.uid.clone(), failure.cause.clone())).collect();
        report
    }

    fn announce(&self, end: &End, before: &BTreeMap<String, String>) {
        match end {
            End::Done(outcome) => (self.report)(PodNotice::Done(outcome)),
            End::Failed(failure) => {
                let is_new = before.get(&failure.action.uid) != Some(&failure.cause);
                (self.report)(PodNotice::Failed { failure, is_new });
            }
            End::Kept(..) | End::NotDone => {}
        }
    }

    async fn act(&self, action: PodAction, stop: &CancellationToken) -> End {
        if stop.is_cancelled() {
            return End::NotDone;
        }
        if let Some((kept, error)) = self.recheck(&action).await {
            return End::Kept(kept, error);
        }
        match self.remove(&action).await {
            Ok(result) => End::Done(PodOutcome { action, result }),
            Err(error) => End::Failed(PodFailure { action, cause: error.to_string() }),
        }
    }

    /// Reads the node of a pod that is to be deleted because its node is out of service or was deleted. The snapshot may be
    /// minutes old when the turn of the pod comes, and the node may be back.
    async fn recheck(&self, action: &PodAction) -> Option<(PodKept, Option<String>)> {
        let is_of_node = matches!(action.reason, PodReason::OutOfService | PodReason::Orphaned);
        if !is_of_node || !self.settings.policy.recheck_nodes {
            return None;
        }
        let answer = self.read_node(&action.node).await;
        let kept = action.kept(recheck_node(action.reason, &answer)?);
        let NodeAnswer::Unavailable(cause) = answer else { return Some((kept, None)) };
        Some((kept, Some(cause)))
    }

    /// Marks the pod as failed if needed, then deletes it. A pod that cannot be marked is not deleted.
    async fn remove(&self, action: &PodAction) -> Result<PodResult, KubernetesError> {
        let resource = ApiResource::pods();
        let PodAction { namespace, name, uid, .. } = action;
        let target = WriteTarget { resource: &resource, namespace, name, uid: &Uid::new(uid) };
        if let Some(mark) = &action.mark {
            let status = convert::failed_status(mark, (self.clock)());
            let marked = self.calls.patch_status(target, &status).await;
            if let Err(error) = marked {
                return self.not_needed(action, error);
            }
        }
        let any_uid = !self.settings.policy.uid_precondition;
        match self.calls.delete_pod(target, any_uid).await {
            Ok(_) if self.calls.is_dry_run => Ok(PodResult::DryRun),
            Ok(Deleted::Unheld) => Ok(PodResult::Removed),
            Ok(Deleted::Accepted(_)) => Ok(PodResult::Accepted),
            Err(error) => self.not_needed(action, error),
        }
    }

    /// Returns the result if the error means that the pod of the plan is not there any more.
    fn not_needed(&self, action: &PodAction, error: KubernetesError) -> Result<PodResult, KubernetesError> {
        match error {
            error if self.calls.proves_absence(&error, &ApiResource::pods(), &action.name) => {
                Ok(PodResult::AlreadyDeleted)
            }
            error if error.cause.is_conflict() || error.cause.is_of_another_uid() => Ok(PodResult::Refused),
            error => Err(error),
        }
    }
}

// === impl PodReport ===

impl PodReport {
    fn add(&mut self, end: End) {
        match end {
            End::Done(outcome) => self.outcomes.push(outcome),
            End::Failed(failure) => self.failures.push(failure),
            End::NotDone => self.interrupted = true,
            End::Kept(kept, error) => {
                self.kept.push(kept);
                // All pods of a node have the same error.
                self.errors.extend(error.filter(|error| !self.errors.contains(error)));
            }
        }
    }
}
