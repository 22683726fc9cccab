//! The execution of one plan: its actions in order, each with its recheck, and their reports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::action_result::{Done, ExecuteError};
use super::layers::LayerSizes;
use super::space::Space;
use super::{Executor, ReportSink};
use crate::model::{ContainerId, PodUid, SandboxId, Seen};
use crate::plan::{Action, Kind, Measure, Outcome, Plan, Refusal, Report, Summary, Target};

/// The execution of one plan.
pub(super) struct Run<'a> {
    pub exec: &'a Executor,
    pub plan: &'a Plan,
    pub stop: &'a CancellationToken,
    pub noted: Noted,
    /// Whether each pod that was looked up still exists (I11).
    pub lookups: BTreeMap<PodUid, Seen<bool>>,
    /// The total time of the lookups without an answer.
    pub lookups_waited: Duration,
    pub space: Space,
    /// The number of calls without an answer so far, per kind.
    pub unanswered: BTreeMap<Kind, u32>,
    /// Whether the action in progress had no answer when `stop_wait` ended.
    is_overdue: bool,
    pub layers: LayerSizes,
    pub summary: Summary,
}

/// Objects that a dry run would have removed so far. Later rechecks treat them as removed. Empty unless this is a dry
/// run.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub containers: BTreeSet<ContainerId>,
    pub sandboxes: BTreeSet<SandboxId>,
}

// === impl Executor ===

impl Executor {
    /// Carries out a plan, and reports to `sink`. Actions that do not begin, because of a shutdown or because the runtime
    /// hangs, are counted in the summary and not reported.
    pub async fn carry_out(&self, plan: &Plan, stop: &CancellationToken, sink: &mut impl ReportSink) -> Summary {
        let space = Space::new(plan.images.stop_at_available_bytes);
        // This module counts the time-outs for each kind of object, so the limit of the reader on unanswered calls is
        // off.
        let exec = &Self { reader: self.reader.limited(u32::MAX), ..self.clone() };
        let (noted, lookups, lookups_waited, unanswered, is_overdue, layers, summary) = Default::default();
        let mut run =
            Run { exec, plan, stop, noted, lookups, lookups_waited, space, unanswered, is_overdue, layers, summary };
        run.planned(sink).await;
        run.reserve(sink).await;
        run.summary.halts.retain(|halt| halt.not_begun > 0);
        run.summary
    }
}

// === impl Run ===

impl Run<'_> {
    async fn planned(&mut self, sink: &mut impl ReportSink) {
        for action in &self.plan.actions {
            let kind = action.target.kind();
            if self.may_begin(kind).await {
                self.begin_or_end_step(action).await;
                self.act(action, sink).await;
            } else {
                self.not_begun(kind);
            }
        }
        self.end_step().await;
    }

    /// Begins a step of removals before the first container or sandbox, and ends it before any other kind of object.
    async fn begin_or_end_step(&mut self, action: &Action) {
        match action.target.kind() {
            Kind::Container | Kind::Sandbox => self.layers.begin(self.exec).await,
            _ => self.end_step().await,
        }
    }

    async fn end_step(&mut self) {
        if let Some((kind, bytes, measure)) = self.layers.end(self.exec, self.stop).await {
            self.summary.add_step(kind, bytes, measure);
        }
    }

    /// Removes fallback candidates while the measured free space is below its target (I9). A dry run skips this: it
    /// frees no space, so it would report all of them, while a real pass would stop earlier.
    async fn reserve(&mut self, sink: &mut impl ReportSink) {
        if !self.exec.remover.is_dry() && !self.is_overdue {
            for action in &self.plan.images.reserve {
                if !self.space.is_still_short(self.exec, self.stop).await || !self.may_begin(Kind::Image).await {
                    break;
                }
                self.act(action, sink).await;
            }
            self.summary.shortfall_bytes = self.space.shortfall(self.exec).await.unwrap_or_default();
        }
        self.summary.is_stopped = self.stop.is_cancelled();
    }

    async fn act(&mut self, action: &Action, sink: &mut impl ReportSink) {
        let (stop, wait) = (self.stop, self.exec.options.stop_wait);
        let result = tokio::select! {
            biased;
            result = self.recheck_and_remove(action) => result,
            () = async { stop.cancelled().await; tokio::time::sleep(wait).await } => Err(ExecuteError::Shutdown { seconds: wait.as_secs() }),
        };
        let done = result.unwrap_or_else(|error| self.failed(action, &error));
        let Done { outcome, freed_bytes, measure, note } = done;
        let proven_by = self.proven_by(action);
        let report = Report { action: action.clone(), outcome, freed_bytes, measure, proven_by, note };
        self.layers.count(&report);
        self.summary.add(&report);
        sink.take(report).await;
    }

    fn failed(&mut self, action: &Action, error: &ExecuteError) -> Done {
        self.is_overdue |= matches!(error, ExecuteError::Shutdown { .. });
        self.note_hang(action.target.kind(), error);
        match error {
            ExecuteError::AskRuntime(error) if error.is_removal_in_progress() => {
                Done::refused(Refusal::RemovalInProgress)
            }
            error => Done::failed(error),
        }
    }

    async fn recheck_and_remove(&mut self, action: &Action) -> Result<Done, ExecuteError> {
        if self.exec.remover.is_in_progress(&action.target.id()) {
            return Ok(Done::refused(Refusal::RemovalInProgress));
        }
        // The live lookup comes first, so that no wait for it lies between the recheck of the object and its removal.
        if let Some(refused) = self.pod_against(action).await {
            return Ok(refused);
        }
        match &action.target {
            Target::RemoveContainer { id, name, state } => self.container(action, id, name, *state).await,
            Target::RemoveSandbox { id } => self.sandbox(id).await,
            Target::RemoveLogDir { path } => self.log_dir(path).await,
            Target::RemoveLogLink { path } => self.log_link(path).await,
            Target::RemoveImage { id, tags, .. } => self.image(action, id, tags).await,
        }
    }

    /// Returns the result of a successful action, with the measured bytes.
    pub fn removed(&self, freed_bytes: Option<u64>) -> Done {
        if self.exec.remover.is_dry() {
            return Done::of(Outcome::WouldRemove {});
        }
        let measure = if freed_bytes.is_some() { Measure::Measured } else { Measure::Unknown };
        Done { freed_bytes, measure, ..Done::of(Outcome::Removed {}) }
    }
}
