//! The execution of one plan: its actions in order, each with its recheck, and their reports.

mod halt;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::action_result::{Done, ExecuteError};
use super::layers::LayerSizes;
use super::pace::RemovalTimes;
use super::side_by_side::ReportQueue;
use super::space::Space;
use super::{Executor, LogError, RemovedStats, ReportSink};
use crate::cri::Only;
use crate::model::{Container, ContainerId, PodUid, SandboxId, Seen};
use crate::plan::{Action, Kind, Measure, Outcome, Plan, Refusal, Report, Summary, Target};

/// The execution of one plan.
pub(super) struct Run<'a> {
    pub exec: &'a Executor,
    pub plan: &'a Plan,
    pub stop: &'a CancellationToken,
    pub space: Space,
    state: Mutex<State>,
}

/// What the actions have found and done so far. Locked for as long as it is read or written.
#[derive(Default)]
pub(super) struct State {
    pub noted: Noted,
    /// When each pod was looked up, and whether it still exists (I11).
    pub lookups: BTreeMap<PodUid, (Instant, Seen<bool>)>,
    /// The total time of the lookups without an answer.
    pub lookups_waited: Duration,
    /// The total wait for removals by other clients.
    pub others_awaited: Duration,
    /// The last lists of containers, and when each was made.
    pub listed: BTreeMap<Only, (Instant, Arc<Vec<Container>>)>,
    /// The number of times that the runtime did not answer so far, and when it was counted last, per kind.
    pub unanswered: BTreeMap<Kind, (u32, Option<Instant>)>,
    /// Whether an action in progress had no answer when `stop_wait` ended.
    is_overdue: bool,
    pub layers: LayerSizes,
    /// Whether the images so far of each set were removed, by the position of the set in the plan.
    pub sets: BTreeMap<usize, bool>,
    /// How long the removals of images took.
    pub image_times: RemovalTimes,
    pub summary: Summary,
    /// The removals of this step, which are verified at its end.
    removed: Vec<Report>,
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
        // This module counts the time-outs for each kind of object, so the limit of the reader on unanswered calls is
        // off.
        let exec = &Self { reader: self.reader.limited(u32::MAX), ..self.clone() };
        let (space, state) = (Space::new(&plan.images), Mutex::default());
        let run = Run { exec, plan, stop, space, state };
        let queue = ReportQueue::new(sink);
        run.is_suspended().await; // a plan without actions is suspended too
        run.planned(&queue).await;
        run.reserve(&queue).await;
        let mut summary = std::mem::take(&mut run.state().summary);
        summary.halts.retain(|halt| halt.not_begun > 0);
        summary
    }
}

// === impl Run ===

impl Run<'_> {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn planned(&self, queue: &ReportQueue<'_, impl ReportSink>) {
        for actions in self.plan.actions.chunk_by(|one, next| one.target.kind() == next.target.kind()) {
            if let Some(first) = actions.first()
                && self.may_begin(first.target.kind()).await
            {
                self.begin_or_end_step(first, queue).await;
            }
            self.side_by_side(actions, queue).await;
        }
        self.end_step(queue).await;
    }

    /// Begins a step of removals before the first container or sandbox, and ends it before any other kind of object.
    async fn begin_or_end_step(&self, action: &Action, queue: &ReportQueue<'_, impl ReportSink>) {
        if !matches!(action.target.kind(), Kind::Container | Kind::Sandbox) {
            return self.end_step(queue).await;
        }
        // No action is in progress between two kinds.
        let mut layers = std::mem::take(&mut self.state().layers);
        layers.begin(self.exec).await;
        self.state().layers = layers;
    }

    async fn end_step(&self, queue: &ReportQueue<'_, impl ReportSink>) {
        let mut layers = std::mem::take(&mut self.state().layers);
        if let Some((kind, bytes, measure)) = layers.end(self.exec, self.stop).await {
            self.state().summary.add_step(kind, bytes, measure);
        }
        self.verify(queue).await;
    }

    /// Lists what the runtime reported as removed in a step. What is listed all the same was not removed, and gets another report. If a
    /// list is unavailable, or a shutdown ends the wait for it, the next pass has it.
    async fn verify(&self, queue: &ReportQueue<'_, impl ReportSink>) {
        let removed = std::mem::take(&mut self.state().removed);
        if removed.is_empty() || self.exec.remover.is_dry() || self.stop.is_cancelled() {
            return;
        }
        let reader = &self.exec.reader;
        let lists = Box::pin(async { tokio::try_join!(reader.containers(Only::All), reader.sandboxes(Only::All)) });
        let Some(Ok((containers, sandboxes))) = self.stop.run_until_cancelled(lists).await else { return };
        let ids = containers.iter().map(|one| one.id.as_str()).chain(sandboxes.iter().map(|one| one.id.as_str()));
        let listed: HashSet<_> = ids.collect();
        for report in removed.into_iter().filter(|report| listed.contains(&*report.action.target.id())) {
            let error = ExecuteError::StillListed { id: report.action.target.id() };
            let outcome = Done::failed(&error).outcome;
            let failed = Report { outcome, freed_bytes: None, measure: Measure::Unknown, ..report };
            self.state().summary.was_not_removed(&failed);
            queue.write(failed).await;
        }
    }

    /// Removes fallback candidates while the measured free space is below its target (I9). A dry run skips this: it
    /// frees no space, so it would report all of them, while a real pass would stop earlier.
    async fn reserve(&self, queue: &ReportQueue<'_, impl ReportSink>) {
        let is_overdue = self.state().is_overdue;
        if !self.exec.remover.is_dry() && !is_overdue {
            for action in &self.plan.images.reserve {
                self.pause_before(Kind::Image).await;
                let _entered = self.exec.gate.enter().await;
                if !self.space.is_still_short(self.exec, self.stop).await || !self.may_begin(Kind::Image).await {
                    break;
                }
                queue.write(self.act(action).await).await;
            }
            // What the pace leaves to later passes is not missing.
            if self.plan.images.beyond_pace == 0 {
                let shortfall = self.space.shortfall(self.exec).await.unwrap_or_default();
                self.state().summary.shortfall_bytes = shortfall;
            }
        }
        self.state().summary.is_stopped = self.stop.is_cancelled();
    }

    pub(super) async fn act(&self, action: &Action) -> Report {
        let (stop, wait, begun) = (self.stop, self.exec.options.stop_wait, Instant::now());
        let result = tokio::select! {
            biased;
            result = self.recheck_and_remove(action) => result,
            () = async { stop.cancelled().await; tokio::time::sleep(wait).await } => Err(ExecuteError::Shutdown { seconds: wait.as_secs() }),
        };
        let done = result.unwrap_or_else(|error| self.failed(action, begun, &error));
        let Done { outcome, freed_bytes, measure, note, kept_until } = done;
        let proven_by = self.proven_by(action);
        let report = Report { action: action.clone(), outcome, freed_bytes, measure, proven_by, note, kept_until };
        let mut state = self.state();
        if action.target.kind() == Kind::Image && report.outcome.is_removal() {
            state.image_times.add(begun.elapsed());
        }
        state.layers.count(&report);
        state.summary.add(&report);
        if report.outcome == (Outcome::Removed {}) && matches!(action.target.kind(), Kind::Container | Kind::Sandbox) {
            state.removed.push(report.clone());
        }
        report
    }

    fn failed(&self, action: &Action, begun: Instant, error: &ExecuteError) -> Done {
        self.state().is_overdue |= matches!(error, ExecuteError::Shutdown { .. });
        self.note_hang(action.target.kind(), begun, error);
        match error {
            ExecuteError::CallRuntime(error) if error.is_removal_in_progress() => {
                Done::refused(Refusal::RemovalInProgress)
            }
            error => Done::failed(error),
        }
    }

    async fn recheck_and_remove(&self, action: &Action) -> Result<Done, ExecuteError> {
        if self.exec.remover.is_in_progress(&action.target.id()) {
            return Ok(Done::refused(Refusal::RemovalInProgress));
        }
        // The live lookup comes first, so that no wait for it lies between the recheck of the object and its removal.
        if let Some(refused) = self.pod_against(action).await {
            return Ok(refused);
        }
        match &action.target {
            Target::RemoveContainer { id, name, state, .. } => self.container(action, id, name, *state).await,
            Target::RemoveSandbox { id } => self.sandbox(id).await,
            Target::RemoveLogDir { path } => self.log_dir(action, path).await,
            Target::RemoveLogFile { path } => self.log_file(action, path).await,
            Target::RemoveLogLink { path } => self.log_link(path).await,
            Target::RemoveLeftover { leftover, path } => self.leftover(action, *leftover, path).await,
            Target::DeleteUndoLease { lease } => self.undo_lease(action, lease).await,
            Target::CollectUnreferenced { .. } => self.unreferenced().await,
            Target::RemoveImage { id, tags, .. } => self.image(action, id, tags).await,
        }
    }

    /// Returns the result of a removal of files, of which none may have been left.
    pub fn removed_files(&self, result: Result<RemovedStats, LogError>) -> Result<Done, ExecuteError> {
        match result {
            Ok(RemovedStats { entries: 0, .. }) if !self.exec.remover.is_dry() => Ok(Done::already_removed()),
            Ok(removed) => Ok(self.removed(Some(removed.bytes))),
            Err(error) => Done::refused_if_foreign(error),
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
