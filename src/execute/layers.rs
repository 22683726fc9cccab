//! Reclaimed bytes of containers and sandboxes.
//!
//! The space of a single writable layer cannot be measured: the runtime answers a removal first and deletes the layer
//! later. So consecutive removals of containers and sandboxes form one step. Their file system is measured before the
//! first and after the last removal of the step (I9). The report of a single container has an estimate: the size that
//! the runtime reported before the step.
//!
//! Not more is counted than the sizes that `ListContainerStats` reported and an eighth: the rest is the work of other
//! processes. Each figure says how it was determined: `measured`, `estimated` or `unknown`. History has measured
//! bytes only.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::space::{LastChange, NOISE_BYTES, POLL};
use crate::model::ContainerId;
use crate::plan::{Kind, Measure, Outcome, Report, Target};

/// The longest wait, in settle times, if the sizes of all layers are known. If not, it is one settle time. containerd 2 lists
/// no sizes of exited containers.
const SETTLES: u32 = 4;

/// The step in progress. `None` = the last action removed another kind of object.
#[derive(Debug, Default)]
pub(super) struct LayerSizes(Option<Step>);

/// Consecutive removals of containers and sandboxes.
#[derive(Debug)]
struct Step {
    /// A directory on the file system of the writable layers, and its available bytes before the first removal.
    before: Option<(PathBuf, u64)>,
    /// The sizes of the layers, as the runtime reported them before the first removal.
    sizes: BTreeMap<ContainerId, u64>,
    /// Bytes of deleted log files.
    log_bytes: u64,
    /// The sum of the known sizes of the removed layers.
    expected: u64,
    /// Whether the sizes of all removed layers are known.
    is_complete: bool,
    /// The numbers of removed containers and of removed sandboxes.
    removed: [usize; 2],
}

// === impl LayerSizes ===

impl LayerSizes {
    /// Adds the bytes of a container's log files.
    pub(super) fn add_logs(&mut self, bytes: u64) {
        if let Some(step) = &mut self.0 {
            step.log_bytes += bytes;
        }
    }

    /// Counts a removed container or sandbox.
    pub(super) fn count(&mut self, report: &Report) {
        let (Some(step), Outcome::Removed {}) = (&mut self.0, &report.outcome) else { return };
        match &report.action.target {
            Target::RemoveContainer { id, .. } => {
                step.removed[0] += 1;
                let size = step.sizes.get(id);
                step.expected += size.copied().unwrap_or_default();
                step.is_complete &= size.is_some();
            }
            Target::RemoveSandbox { .. } => step.removed[1] += 1,
            _ => {}
        }
    }

    /// Returns the size of a container's layer, as the runtime reported it before the step.
    pub(super) fn size(&self, id: &ContainerId) -> Option<u64> {
        self.0.as_ref()?.sizes.get(id).copied()
    }

    /// Begins a step before its first removal.
    pub(super) async fn begin(&mut self, exec: &Executor) {
        if exec.remover.is_dry() || self.0.is_some() {
            return;
        }
        let sizes = exec.reader.writable_layers().await.unwrap_or_default();
        let path = exec.reader.container_filesystem().await.ok().flatten();
        let before = match path {
            Some(path) => exec.disks.measure(&path).await.ok().map(|disk| (path, disk.available_bytes)),
            None => None,
        };
        self.0 = Some(Step { before, sizes, log_bytes: 0, expected: 0, is_complete: true, removed: [0; 2] });
    }

    /// Ends the step in progress. Returns the bytes that it reclaimed; `None` = it removed nothing.
    pub(super) async fn end(&mut self, exec: &Executor, stop: &CancellationToken) -> Option<(Kind, u64, Measure)> {
        let step = self.0.take()?;
        let kind = match step.removed {
            [0, 0] => return None,
            [0, _] => Kind::Sandbox,
            _ => Kind::Container,
        };
        let reclaimed = step.reclaimed(exec, stop).await;
        let (bytes, measure) = step.figure(reclaimed, step.shares_disk(exec).await);
        Some((kind, bytes, measure))
    }
}

// === impl Step ===

impl Step {
    /// Returns the bytes of log files and layers. `reclaimed` is the measured difference; `None` = not measured.
    fn figure(&self, reclaimed: Option<u64>, shares_disk: bool) -> (u64, Measure) {
        let Some(reclaimed) = reclaimed else {
            let measure = if self.is_complete { Measure::Estimated } else { Measure::Unknown };
            return (self.log_bytes + self.expected, measure);
        };
        // On a shared disk the difference includes the log files.
        let layers = if shares_disk { reclaimed.saturating_sub(self.log_bytes) } else { reclaimed };
        // Bytes beyond the known sizes, plus one eighth for metadata, are attributed to other processes.
        let most = if self.is_complete { self.expected + self.expected / 8 } else { u64::MAX };
        (self.log_bytes + layers.min(most), Measure::Measured)
    }

    /// Returns how long the runtime may take to delete the layers.
    fn longest_wait(&self, settle: Duration) -> Duration {
        if self.is_complete { settle * SETTLES } else { settle }
    }

    /// Returns the bytes that became available since the step began, after the runtime had time to delete the layers.
    async fn reclaimed(&self, exec: &Executor, stop: &CancellationToken) -> Option<u64> {
        let (path, before) = self.before.as_ref()?;
        let until = Instant::now() + self.longest_wait(exec.options.space_settle);
        let mut last = LastChange::default();
        loop {
            let after = exec.disks.measure(path).await.ok()?.available_bytes;
            let reclaimed = after.saturating_sub(*before);
            let is_all = if self.is_complete {
                reclaimed.saturating_add(NOISE_BYTES) >= self.expected
            } else {
                last.is_over(after, Instant::now())
            };
            if is_all || Instant::now() >= until || stop.is_cancelled() {
                return Some(reclaimed);
            }
            sleep(POLL).await;
        }
    }

    /// Returns whether the log files are on the disk of the writable layers. If that is unknown, the result is `true`:
    /// missing a byte in the sum does less harm than counting it twice.
    async fn shares_disk(&self, exec: &Executor) -> bool {
        let Some((path, _)) = self.before.clone() else { return true };
        self.log_bytes == 0 || exec.roots.in_pods(move |roots| roots.is_on_disk_of(&path)).await.unwrap_or(true)
    }
}
