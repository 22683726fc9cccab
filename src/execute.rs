//! Carries out a plan. This is the only module that removes objects. It does not choose them.
//!
//! Actions run in the order of the plan. Each object is rechecked by its id right before its removal, because a plan is
//! some seconds old or was read from a file. If the object changed in a way that forbids its removal, the action is
//! refused (I1, I6, I7, I11). An object that no longer exists counts as success. A failed action is reported and does
//! not stop the other actions, unless the runtime hangs ([`crate::plan::Halt`]). A shutdown request takes effect between
//! actions. The actions in progress end and are reported within `stop_wait`.
//!
//! A dry run uses the same code with a remover that has no effect.

mod action_result;
mod confirm_deletion;
mod containers;
mod halt;
mod images;
mod layers;
mod log_entries;
mod logs;
mod remover;
mod sandboxes;
mod side_by_side;
mod space;
#[cfg(test)]
mod tests;

pub use logs::{LogError, LogFile, LogRoots, RemovedStats};
pub use remover::Remover;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cri::RuntimeReader;
use crate::model::{ContainerId, SandboxId};
use crate::observe::{Disks, ImageNames, PodSource};
use crate::plan::{Action, Kind, Measure, Outcome, Plan, Refusal, Report, Summary, Target};
use action_result::{Done, ExecuteError};
use layers::LayerSizes;
use side_by_side::Outlet;
use space::Space;

/// Carries out plans on one node.
#[derive(Clone)]
pub struct Executor {
    /// Reads the current state of an object for the recheck right before its removal.
    pub reader: RuntimeReader,
    /// Removes objects, or nothing in a dry run.
    pub remover: Remover,
    /// The pod source, for live lookups and for the images that pods name.
    pub pods: Arc<dyn PodSource>,
    /// Measures the file systems of the images and of the writable layers.
    pub disks: Arc<dyn Disks>,
    /// Caches the image ids to which the runtime resolves image names.
    pub image_names: Arc<ImageNames>,
    /// The log roots.
    pub roots: LogRoots,
    /// Options of the execution.
    pub options: ExecuteOptions,
}

/// Options for carrying out a plan.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExecuteOptions {
    /// The kubelet's `pods` directory, as a path on the host. A pod that has a directory there exists, and its logs are
    /// kept (I11). `None` = no check, as with `guards.gone_after` 0. Default `None`.
    pub kubelet_pods: Option<PathBuf>,
    /// Whether a live lookup must confirm that a pod is deleted before anything is removed for that reason (I11). Off
    /// with `guards.gone_after` 0. Default on.
    pub asks_for_pods: bool,
    /// Whether the recheck keeps an image that a pod names by then (I6). Off if `guards.keep_pod_images` is off.
    /// Default on.
    pub keeps_pod_images: bool,
    /// Grace period between the stop signal and the kill, for a container in state unknown. Default 2 s, the minimum of
    /// the kubelet.
    pub stop_grace: Duration,
    /// How long to wait for free space before a fallback candidate is removed. Some runtimes answer a removal first and
    /// delete the data later. The measurement after containers waits up to four times as long for the space of their
    /// writable layers. Default 1 s; 0 = no wait.
    pub space_settle: Duration,
    /// How long the action in progress may continue after a shutdown request. After that, kubegc no longer waits for
    /// the runtime's answer to the removal. Default 1 min, less than systemd and Kubernetes give the process (90 s).
    pub stop_wait: Duration,
}

/// Receives each report as soon as its action ends. The next action of its pod begins after it, so that a kill loses no
/// more than the records of the actions in progress (I10).
pub trait ReportSink {
    /// Takes reports, in the order in which the actions ended.
    fn take(&mut self, reports: Vec<Report>) -> impl Future<Output = ()> + Send;
}

/// The execution of one plan.
struct Run<'a> {
    exec: &'a Executor,
    plan: &'a Plan,
    stop: &'a CancellationToken,
    space: Space,
    state: Mutex<State>,
}

/// What the actions have found and done so far. Locked for as long as it is read or written.
#[derive(Default)]
struct State {
    noted: Noted,
    lookups: confirm_deletion::Answers,
    unanswered: halt::Unanswered,
    /// Whether an action in progress had no answer when `stop_wait` ended.
    is_overdue: bool,
    layers: LayerSizes,
    summary: Summary,
}

/// Objects that a dry run would have removed so far. Later rechecks treat them as removed. Empty unless this is a dry
/// run.
#[derive(Debug, Default)]
struct Noted {
    containers: BTreeSet<ContainerId>,
    sandboxes: BTreeSet<SandboxId>,
}

// === impl ReportSink ===

impl<F: FnMut(Report)> ReportSink for F {
    fn take(&mut self, reports: Vec<Report>) -> impl Future<Output = ()> + Send {
        reports.into_iter().for_each(self);
        std::future::ready(())
    }
}

// === impl Executor ===

impl Executor {
    /// Carries out a plan, and reports to `sink`. Actions that do not begin, because of a shutdown or because the runtime
    /// hangs, are counted in the summary and not reported.
    pub async fn carry_out(&self, plan: &Plan, stop: &CancellationToken, sink: &mut impl ReportSink) -> Summary {
        // This module counts the time-outs for each kind of object, so the limit of the reader on unanswered calls is
        // off.
        let exec = &Self { reader: self.reader.limited(u32::MAX), ..self.clone() };
        let (space, state) = (Space::new(plan.images.stop_at_available_bytes), Mutex::default());
        let run = Run { exec, plan, stop, space, state };
        let outlet = Outlet::new(sink);
        run.planned(&outlet).await;
        run.reserve(&outlet).await;
        let mut summary = std::mem::take(&mut run.state().summary);
        summary.halts.retain(|halt| halt.not_begun > 0);
        summary
    }
}

// === impl Run ===

impl Run<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn planned(&self, outlet: &Outlet<'_, impl ReportSink>) {
        for actions in self.plan.actions.chunk_by(|one, next| one.target.kind() == next.target.kind()) {
            if let Some(first) = actions.first()
                && self.may_begin(first.target.kind()).await
            {
                self.begin_or_end_step(first).await;
            }
            self.side_by_side(actions, outlet).await;
        }
        self.end_step().await;
    }

    /// Removes fallback candidates while the measured free space is below its target (I9). A dry run skips this: it
    /// frees no space, so it would report all of them, while a real pass would stop earlier.
    async fn reserve(&self, outlet: &Outlet<'_, impl ReportSink>) {
        let is_overdue = self.state().is_overdue;
        if !self.exec.remover.is_dry() && !is_overdue {
            for action in &self.plan.images.reserve {
                if !self.is_still_short().await || !self.may_begin(Kind::Image).await {
                    break;
                }
                outlet.take(self.act(action).await).await;
            }
            let shortfall = self.shortfall().await.unwrap_or_default();
            self.state().summary.shortfall_bytes = shortfall;
        }
        self.state().summary.is_stopped = self.stop.is_cancelled();
    }

    async fn act(&self, action: &Action) -> Report {
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
        let mut state = self.state();
        state.layers.count(&report);
        state.summary.add(&report);
        report
    }

    fn failed(&self, action: &Action, error: &ExecuteError) -> Done {
        self.state().is_overdue |= matches!(error, ExecuteError::Shutdown { .. });
        self.note_hang(action.target.kind(), error);
        match error {
            ExecuteError::AskRuntime(error) if error.is_removal_in_progress() => {
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
            Target::RemoveContainer { id, name, state } => self.container(action, id, name, *state).await,
            Target::RemoveSandbox { id } => self.sandbox(id).await,
            Target::RemoveLogDir { path } => self.log_dir(path).await,
            Target::RemoveLogLink { path } => self.log_link(path).await,
            Target::RemoveImage { id, tags, .. } => self.image(action, id, tags).await,
        }
    }

    /// Returns the result of a successful action, with the measured bytes.
    fn removed(&self, freed_bytes: Option<u64>) -> Done {
        if self.exec.remover.is_dry() {
            return Done::of(Outcome::WouldRemove {});
        }
        let measure = if freed_bytes.is_some() { Measure::Measured } else { Measure::Unknown };
        Done { freed_bytes, measure, ..Done::of(Outcome::Removed {}) }
    }
}

// === impl ExecuteOptions ===

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self {
            kubelet_pods: None,
            asks_for_pods: true,
            keeps_pod_images: true,
            stop_grace: Duration::from_secs(2),
            space_settle: Duration::from_secs(1),
            stop_wait: Duration::from_mins(1),
        }
    }
}
