//! Carries out a plan. The only room that destroys, and it chooses nothing.
//!
//! Actions go in the plan's order. Each is looked at again by its id right before: a plan is some seconds old, or was
//! read from a file, and whatever changed since is refused (I1, I6, I7, I11). Not there is success. A failure is told and
//! does not stop the rest, unless the runtime hangs ([`Halt`]). A stop is noticed between actions. The action in progress
//! ends and is reported, within `stop_wait`.
//!
//! A dry run takes the same road with a remover that only records.

mod action_result;
mod confirm_deletion;
mod containers;
mod halt;
mod images;
mod layers;
mod log_entries;
mod logs;
mod outcome;
mod remover;
mod sandboxes;
mod space;
mod stop;
mod summary;
#[cfg(test)]
mod tests;

pub use halt::Halt;
pub use logs::{LogError, LogFile, LogRoots, RemovedStats};
pub use outcome::{Measure, Outcome, Refusal, Report};
pub use remover::{DryRun, LiveRemover, Remover};
pub use stop::{Stop, Stopper, stop};
pub use summary::Summary;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cri::{CriError, RuntimeReader};
use crate::model::{ContainerId, SandboxId};
use crate::observe::{Disks, ImageNames, PodSource};
use crate::plan::{Action, Kind, Plan, Target};
use action_result::{Done, ExecuteError};
use layers::LayerSizes;
use space::Space;

/// All that carrying out a plan needs.
#[derive(Clone)]
pub struct Executor<H> {
    /// Looks again, right before each removal.
    pub reader: RuntimeReader,
    /// Removes, or takes notes.
    pub remover: H,
    /// Has the last word on pods that are to be gone.
    pub pods: Arc<dyn PodSource>,
    /// Measures the file system of the images.
    pub disks: Arc<dyn Disks>,
    /// What the runtime said of the names of images.
    pub image_names: Arc<ImageNames>,
    /// Where logs lie.
    pub roots: LogRoots,
    /// How.
    pub options: ExecuteOptions,
}

/// How a plan is carried out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExecuteOptions {
    /// The kubelet's `pods` directory, by its path on the host: a pod that has a directory there exists, and its logs are
    /// kept (I11). `None` = not checked, as with `guards.gone_after` 0. Default `None`.
    pub kubelet_pods: Option<PathBuf>,
    /// Whether the source of pods is asked anew before anything goes because its pod is gone (I11). Off with
    /// `guards.gone_after` 0. Default on.
    pub asks_for_pods: bool,
    /// Whether an image stays that a pod names by now (I6). Off with `guards.keep_pod_images`. Default on.
    pub keeps_pod_images: bool,
    /// What a container in an unknown state gets between the signal and the kill. Default 2 s, the kubelet's least.
    pub stop_grace: Duration,
    /// How long a disk that is still short may take to give space back, before an image of the reserve goes. Some
    /// runtimes answer a removal first and delete later. The measurement after containers waits up to four times as long
    /// for the space of their writable layers. Default 1 s; 0 = no wait.
    pub space_settle: Duration,
    /// How long the action in progress may go on after a shutdown was asked for. A removal without an answer by then is
    /// left to the runtime. Default 1 min, less than systemd and Kubernetes give the process (90 s).
    pub stop_wait: Duration,
}

/// One plan being carried out.
struct Run<'a, H> {
    exec: &'a Executor<H>,
    plan: &'a Plan,
    stop: &'a Stop,
    noted: Noted,
    pods_asked: confirm_deletion::Answers,
    space: Space,
    unanswered: halt::Unanswered,
    /// The action in progress had no answer when the wait after the stop ended.
    is_overdue: bool,
    layers: LayerSizes,
    summary: Summary,
}

/// What a dry run would have removed by now, so that what comes after it is looked at as if it had. Empty otherwise.
#[derive(Debug, Default)]
struct Noted {
    containers: BTreeSet<ContainerId>,
    sandboxes: BTreeSet<SandboxId>,
}

// === impl Executor ===

impl<H: Remover> Executor<H> {
    /// Carries out a plan. `sink` gets each report as soon as its action ended. Actions that were not begun, after a stop
    /// or because the runtime hangs, are counted in the summary and not reported.
    pub async fn carry_out(&self, plan: &Plan, stop: &Stop, sink: &mut impl FnMut(Report)) -> Summary {
        let space = Space::new(plan.images.stop_at_available_bytes);
        let (noted, pods_asked) = (Noted::default(), confirm_deletion::Answers::default());
        // Time-outs are counted for each kind of object here; the reader limits the waits for an absent runtime.
        let exec = &Self { reader: self.reader.limited(u32::MAX), ..self.clone() };
        let (layers, unanswered, is_overdue, summary) = Default::default();
        let mut run = Run { exec, plan, stop, noted, pods_asked, space, unanswered, is_overdue, layers, summary };
        run.planned(sink).await;
        run.reserve(sink).await;
        run.summary.halts.retain(|halt| halt.not_begun > 0);
        run.summary
    }
}

// === impl Run ===

impl<H: Remover> Run<'_, H> {
    async fn planned(&mut self, sink: &mut impl FnMut(Report)) {
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

    /// Takes images of the reserve while the measured space is short of its target (I9). A dry run frees nothing, so it
    /// could only take all of them, which would not happen.
    async fn reserve(&mut self, sink: &mut impl FnMut(Report)) {
        if !H::IS_DRY && !self.is_overdue {
            for action in &self.plan.images.reserve {
                if !self.is_still_short().await || !self.may_begin(Kind::Image).await {
                    break;
                }
                self.act(action, sink).await;
            }
            self.summary.shortfall_bytes = self.shortfall().await.unwrap_or_default();
        }
        self.summary.is_stopped = self.stop.is_set();
    }

    async fn act(&mut self, action: &Action, sink: &mut impl FnMut(Report)) {
        let (stop, wait) = (self.stop, self.exec.options.stop_wait);
        let result = tokio::select! {
            biased;
            result = self.recheck_and_remove(action) => result,
            () = stop.expired(wait) => Err(ExecuteError::Shutdown { seconds: wait.as_secs() }),
        };
        let done = result.unwrap_or_else(|error| self.failed(action, &error));
        let Done { outcome, freed_bytes, measure, note } = done;
        let proven_by = self.proven_by(action);
        let report = Report { action: action.clone(), outcome, freed_bytes, measure, proven_by, note };
        self.layers.count(&report);
        self.summary.add(&report);
        sink(report);
    }

    fn failed(&mut self, action: &Action, error: &ExecuteError) -> Done {
        self.is_overdue |= matches!(error, ExecuteError::Shutdown { .. });
        self.note_hang(action.target.kind(), error);
        match error {
            ExecuteError::AskRuntime(CriError::InProgress { .. }) => Done::refused(Refusal::RemovalInProgress),
            error => Done::failed(error),
        }
    }

    async fn recheck_and_remove(&mut self, action: &Action) -> Result<Done, ExecuteError> {
        if self.exec.remover.is_in_progress(&action.target.id()) {
            return Ok(Done::refused(Refusal::RemovalInProgress));
        }
        // First, so that no wait for an answer lies between the look at the object itself and its removal.
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

    /// How an action that went through ends, with the bytes that were measured.
    fn removed(freed_bytes: Option<u64>) -> Done {
        if H::IS_DRY {
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
