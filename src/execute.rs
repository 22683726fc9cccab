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
mod execution;
mod image_removal;
mod layers;
mod leftover_files;
mod log_entries;
mod logs;
mod pace;
mod remover;
mod side_by_side;
mod space;
#[cfg(test)]
mod tests;

pub use logs::{Archived, KnownLog, KubeletFile, LogError, LogFile, LogNames, LogRoots, RemovedLogs, RemovedStats};
pub use remover::{Remover, restore};

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cri::RuntimeReader;
use crate::observe::{Disks, ImageNames, PodSource};
use crate::plan::Report;

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
    pub roots: LogRoots,
    /// Options of the execution.
    pub options: ExecuteOptions,
    /// What may end the removals of the pass.
    pub gate: Arc<dyn RemovalGate>,
}

/// Says before each removal whether it may begin.
#[async_trait::async_trait]
pub trait RemovalGate: Send + Sync {
    /// Returns the lock of a removal that may begin, which is held until its end, so that a pause can wait for it.
    async fn enter(&self) -> Option<File> {
        None
    }

    /// Returns why no removal may begin now; `None` = it may.
    async fn closed_by(&self) -> Option<String>;
}

/// A gate that never closes.
#[derive(Debug)]
pub struct AlwaysOpen;

/// Options for carrying out a plan.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExecuteOptions {
    /// The kubelet's `pods` directory, as a path on the host. A pod that has a directory there exists, and its logs are
    /// kept (I11). `None` = no check, as with `guards.gone_after` 0. Default `None`.
    pub kubelet_pods: Option<PathBuf>,
    /// The kubelet's directory, as a path on the host. Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
    /// Whether a live lookup must confirm that a pod is deleted before anything is removed for that reason (I11). Off
    /// with `guards.gone_after` 0. Default on.
    pub confirms_deletions: bool,
    /// Whether the recheck keeps an image that a pod names by then (I6). Off if `guards.keep_pod_images` is off.
    /// Default on.
    pub keeps_pod_images: bool,
    /// For how long the content of an image is kept that is removed although no space is needed: `images.undo`. Default 0 = not at all.
    pub undo: Duration,
    /// How long to wait for the space of an image, and for free space before a fallback candidate is removed. Some runtimes
    /// and file systems answer a removal first and delete the data later. The measurement after containers waits up to four times as long for the space of their
    /// writable layers. Default 1 s; 0 = no wait.
    pub space_settle: Duration,
    /// How long the actions in progress may continue after a shutdown request. After that, kubegc no longer waits for
    /// the runtime's answer to the removal. Default 1 min, less than systemd and Kubernetes give the process (90 s).
    pub stop_wait: Duration,
}

/// Receives each report as soon as its action ends. The next action of its pod begins after it, so that a kill loses no
/// more than the records of the actions in progress (I10).
pub trait ReportSink {
    /// Takes reports, in the order in which the actions ended.
    fn take(&mut self, reports: Vec<Report>) -> impl Future<Output = ()> + Send;
}

// === impl Executor ===

impl Executor {
    /// Returns whether it removes nothing.
    pub fn is_dry(&self) -> bool {
        self.remover.is_dry()
    }

    /// Returns the same one, which removes nothing. If its gate is closed, the summary of a plan says why.
    #[must_use]
    pub fn dry(self) -> Self {
        Self { remover: Remover::Dry, ..self }
    }
}

// === impl AlwaysOpen ===

#[async_trait::async_trait]
impl RemovalGate for AlwaysOpen {
    async fn closed_by(&self) -> Option<String> {
        None
    }
}

// === impl ReportSink ===

impl<F: FnMut(Report)> ReportSink for F {
    fn take(&mut self, reports: Vec<Report>) -> impl Future<Output = ()> + Send {
        reports.into_iter().for_each(self);
        std::future::ready(())
    }
}

// === impl ExecuteOptions ===

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self {
            kubelet_pods: None,
            kubelet_root: "/var/lib/kubelet".into(),
            confirms_deletions: true,
            keeps_pod_images: true,
            undo: Duration::ZERO,
            space_settle: Duration::from_secs(1),
            stop_wait: Duration::from_mins(1),
        }
    }
}
