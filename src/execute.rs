//! Carries out a plan. The only room that destroys, and it chooses nothing.
//!
//! Actions go in the plan's order. Each is looked at again by its id right before: a plan is some seconds old, or was
//! read from a file, and whatever changed since is refused (I1, I6, I7, I11). Not there is success. A failure is told and
//! does not stop the rest. A stop is noticed between actions only, so that each that was begun is ended and told.
//!
//! A dry run takes the same road with hands that only take notes.

mod containers;
mod done;
mod hands;
mod images;
mod layers;
mod log_entries;
mod logs;
mod outcome;
mod proof;
mod sandboxes;
mod space;
mod stop;
mod summary;
#[cfg(test)]
mod tests;

pub use hands::{Hands, LiveHands, NoteTaker};
pub use logs::{Erased, LogError, LogFile, LogRoots};
pub use outcome::{Measure, Outcome, Refusal, Report};
pub use stop::{Stop, Stopper, stop};
pub use summary::Summary;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cri::RuntimeReader;
use crate::model::{ContainerId, SandboxId};
use crate::observe::{Disks, PodSource};
use crate::plan::{Action, Plan, Target};
use done::{Done, ExecuteError};
use layers::Layers;
use space::Space;

/// All that carrying out a plan needs.
#[derive(Clone)]
pub struct Executor<H> {
    /// Looks again, right before each removal.
    pub reader: RuntimeReader,
    /// Removes, or takes notes.
    pub hands: H,
    /// Has the last word on pods that are to be gone.
    pub pods: Arc<dyn PodSource>,
    /// Measures the file system of the images.
    pub disks: Arc<dyn Disks>,
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
}

/// One plan being carried out.
struct Run<'a, H> {
    exec: &'a Executor<H>,
    plan: &'a Plan,
    stop: &'a Stop,
    noted: Noted,
    pods_asked: proof::Answers,
    space: Space,
    layers: Layers,
    summary: Summary,
}

/// What a dry run would have removed by now, so that what comes after it is looked at as if it had. Empty otherwise.
#[derive(Debug, Default)]
struct Noted {
    containers: BTreeSet<ContainerId>,
    sandboxes: BTreeSet<SandboxId>,
}

// === impl Executor ===

impl<H: Hands> Executor<H> {
    /// Carries out a plan. `sink` gets each report as soon as its action ended; what a stop left is not reported.
    pub async fn carry_out(&self, plan: &Plan, stop: &Stop, sink: &mut impl FnMut(Report)) -> Summary {
        let space = Space::new(plan.images.stop_at_available_bytes);
        let (noted, pods_asked) = (Noted::default(), proof::Answers::default());
        let (layers, summary) = (Layers::default(), Summary::default());
        let mut run = Run { exec: self, plan, stop, noted, pods_asked, space, layers, summary };
        run.planned(sink).await;
        run.reserve(sink).await;
        run.summary
    }
}

// === impl Run ===

impl<H: Hands> Run<'_, H> {
    async fn planned(&mut self, sink: &mut impl FnMut(Report)) {
        for (number, action) in self.plan.actions.iter().enumerate() {
            if self.stop.is_set() {
                self.summary.not_begun = self.plan.actions.len() - number;
                break;
            }
            self.begin_or_end_step(action).await;
            self.act(action, sink).await;
        }
        self.end_step().await;
    }

    /// Takes images of the reserve while the measured space is short of its target (I9). A dry run frees nothing, so it
    /// could only take all of them, which would not happen.
    async fn reserve(&mut self, sink: &mut impl FnMut(Report)) {
        if !H::IS_DRY {
            for action in &self.plan.images.reserve {
                if !self.is_still_short().await || self.stop.is_set() {
                    break;
                }
                self.act(action, sink).await;
            }
            self.summary.shortfall_bytes = self.shortfall().await.unwrap_or_default();
        }
        self.summary.is_stopped = self.stop.is_set();
    }

    async fn act(&mut self, action: &Action, sink: &mut impl FnMut(Report)) {
        let done = self.recheck_and_remove(action).await.unwrap_or_else(|error| Done::failed(&error));
        let Done { outcome, freed_bytes, measure, note } = done;
        let proven_by = self.proven_by(action);
        let report = Report { action: action.clone(), outcome, freed_bytes, measure, proven_by, note };
        self.layers.count(&report);
        self.summary.add(&report);
        sink(report);
    }

    async fn recheck_and_remove(&mut self, action: &Action) -> Result<Done, ExecuteError> {
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
        }
    }
}
