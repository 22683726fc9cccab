//! What an agent has learned: its memory, and the rows of the history that the file does not have yet.
//!
//! The memory has one owner, this state. It changes only here: by what a pass observed, and by each outcome. The file is a
//! mirror of it, which another module writes. Nothing here does I/O, so nothing here can fail.
//!
//! **A file that could not be read at the start.** The memory begins empty: unknown history means "just now", and the
//! baseline of the lists counts as lost. When the file can be read at last, [`merged`] adds what it has, as if it had
//! been read at the start, and no more:
//! - An image that the first pass found is as old as the file says. One that came later is new, even if the file has an
//!   image with its id: it was pulled again.
//! - A pod is missing since this agent missed it. It may have existed between the absence in the file and the first pass.
//! - Back-offs, removals and pulls of both count, and the higher baseline.
//!
//! So no object is removed earlier than it would have been with a file that can be read. A file that is replaced while
//! the agent runs adds nothing: the memory of the agent is newer.
//!
//! **A file that cannot be written.** The rows wait, at most [`QUEUE`] of them. Then the oldest are dropped, because the
//! newest matter more to someone who looks for the cause.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::database::fault::Cause;
use super::database::rows::Row;
use super::runs::{Run, RunEnd, RunStart};
use super::trace;
use crate::model::{
    BaselineLoss, FileSystem, ImageId, ImageMemory, ListCounts, Memory, Pulls, RemovedImage, Snapshot, TracedImage,
};
use crate::plan::{Outcome, Report, after_outcomes, after_run};

/// The most rows that wait for the file: some days of passes, and a few MiB of memory.
const QUEUE: usize = 10_000;

/// The memory of an agent, and what of it and of the history the file does not have yet.
#[derive(Debug, Default)]
pub struct StoreState {
    memory: Arc<Memory>,
    /// Whether the file does not have this memory yet.
    is_dirty: bool,
    /// Whether the memory has what the file had at the start.
    is_read: bool,
    /// The time of the first pass of this process.
    first_pass: Option<Timestamp>,
    rows: VecDeque<Arc<Row>>,
    /// The number of rows before the first that waits.
    before: u64,
    /// The number of rows that were dropped since the file failed.
    dropped: u64,
    /// The number of runs that this process began.
    runs: u64,
    /// Why the file is behind; `None` = it is not, as far as known.
    fault: Option<Cause>,
    /// Whether the file is tried again although it failed.
    is_retry: bool,
}

/// What the file does not have yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub memory: Arc<Memory>,
    pub rows: Vec<Arc<Row>>,
    /// The number of all rows up to the last of these.
    through: u64,
}

// === impl StoreState: passes ===

impl StoreState {
    /// Returns the memory for a pass at `taken_at`. `look` returns how far the clock jumped forward since the last pass, by which all
    /// times are moved, and the start of the agent, which becomes `agent_started_at`. Passes can overlap, so it is called once the
    /// memory is locked. Times after `taken_at` are set to it. All this is for later passes too.
    pub fn recall(&mut self, taken_at: Timestamp, look: impl FnOnce() -> (SignedDuration, Timestamp)) -> Memory {
        let (jump, started_at) = look();
        let (moved, started_at) = (Memory::clone(&self.memory).after_jump(jump), started_at.min(taken_at));
        let mut memory = moved.clone().until(taken_at);
        if memory != moved {
            tracing::warn!(%taken_at, "the store has times in the future; set them to now");
        }
        memory.agent_started_at.get_or_insert(started_at);
        self.first_pass.get_or_insert(taken_at);
        self.remember(memory.clone());
        Memory { agent_started_at: Some(started_at), ..memory }
    }

    /// Replaces the memory by what a pass makes of it. Passes can overlap, so `update` gets the memory as it is now, not as
    /// it was when the pass began. Returns the removed images that are pulled again, each once.
    pub fn learn(&mut self, update: impl FnOnce(Memory) -> Memory) -> Vec<(ImageId, Arc<RemovedImage>)> {
        let begun_at = self.memory.agent_started_at;
        let after = update(Memory::clone(&self.memory));
        let pulled_again = self.pulled_again(&after);
        self.trace(Vec::new(), trace::events(&self.memory, &after));
        self.remember(Memory { agent_started_at: begun_at.or(after.agent_started_at), ..after });
        self.is_retry = true;
        pulled_again
    }

    /// Adds to the trace what a snapshot shows of images that are new or whose size is known better. Called before [`Self::learn`].
    pub fn trace_images(&mut self, snapshot: &Snapshot) {
        self.trace(trace::images(snapshot, &self.memory), Vec::new());
    }

    fn trace(&mut self, images: Vec<TracedImage>, events: Vec<trace::Event>) {
        if !images.is_empty() || !events.is_empty() {
            self.push(Row::Trace { images, events });
        }
    }

    /// Notes in the history which removed images are back since the memory before.
    fn pulled_again(&mut self, after: &Memory) -> Vec<(ImageId, Arc<RemovedImage>)> {
        let before = &self.memory.removed_images;
        let images = after.removed_images.iter().filter(|(id, image)| {
            let was_away = || before.get(*id).is_some_and(|image| image.back_at().is_none());
            image.back_at().is_some() && was_away()
        });
        let found: Vec<_> = images.map(|(id, image)| (id.clone(), Arc::clone(image))).collect();
        for (id, image) in &found {
            self.push(Row::PulledAgain { id: id.clone(), image: Arc::clone(image) });
        }
        found
    }

    /// Begins a run. Several may be in progress at the same time.
    pub fn begin_run(&mut self, start: RunStart) -> Run {
        self.runs += 1;
        let run = Run::new(self.runs, start);
        self.push(Row::Begin(run.clone()));
        self.is_retry = true;
        run
    }

    /// Records the outcomes of actions, and updates the memory with them. `retry_after` is the first back-off of a failure.
    ///
    /// The history of a dry run has no outcomes. An image that was not needed is not in it, because nothing was done to it.
    pub fn record(&mut self, run: &Run, at: Timestamp, reports: &[Report], retry_after: Duration) {
        self.remember(after_outcomes(&self.memory, reports, run.started_at, at, retry_after));
        let is_in_history = |report: &&Report| !run.dry && !matches!(report.outcome, Outcome::NotNeeded {});
        let is_real = |_: &&Report| !run.dry;
        let events = reports.iter().filter(is_real).filter_map(|report| trace::event_of(report, at));
        self.trace(Vec::new(), events.collect());
        for report in reports.iter().filter(is_in_history) {
            self.push(Row::Removal { run: run.clone(), at, report: report.clone() });
        }
    }

    /// Ends a run. If the disk was full, the file is tried again, because the run may have freed the space.
    pub fn end_run(&mut self, run: &Run, end: RunEnd) {
        let memory = after_outcomes(&self.memory, &[], run.started_at, end.at, Duration::ZERO);
        self.remember(after_run(&memory, &end.summary));
        self.push(Row::End { run: run.clone(), end });
        self.is_retry = self.fault.as_ref().is_some_and(|fault| fault.is_full);
    }

    /// Records the use of file systems. They are pruned with the history.
    pub fn record_usage(&mut self, at: Timestamp, file_systems: Vec<FileSystem>) {
        self.push(Row::Usage { at, file_systems });
    }

    fn remember(&mut self, memory: Memory) {
        if memory != *self.memory {
            self.memory = Arc::new(memory);
            self.is_dirty = true;
        }
    }

    fn push(&mut self, row: Row) {
        if self.rows.len() == QUEUE {
            self.rows.pop_front();
            self.before += 1;
            self.dropped += 1;
            if self.dropped == 1 {
                tracing::error!(
                    rows = QUEUE,
                    "too many rows are not written to the store; dropping the oldest rows of the history"
                );
            }
        }
        self.rows.push_back(Arc::new(row));
    }
}

// === impl StoreState: the file ===

impl StoreState {
    /// Returns the memory as it is now.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns why the file does not have all that this process has learned; `None` = it has.
    pub fn fault(&self, path: &Path) -> Option<String> {
        let history = if self.is_read { "" } else { ", without its history" };
        let fault = self.fault.as_ref()?;
        Some(format!("cannot use the store {}: {}; continuing in memory{history}", path.display(), fault.text))
    }

    /// Returns whether the file is to be written now. A file that failed is tried again when a pass begins, so a pass
    /// waits for it once.
    pub(super) fn is_due(&mut self) -> bool {
        let is_retry = std::mem::take(&mut self.is_retry);
        (self.is_dirty || !self.rows.is_empty()) && (self.fault.is_none() || is_retry)
    }

    /// Lets the next write try a file that failed.
    pub(super) fn retry(&mut self) {
        self.is_retry = true;
    }

    /// Returns what the file does not have yet.
    pub(super) fn unwritten(&self) -> Unwritten {
        let through = self.before + self.rows.len() as u64;
        Unwritten { memory: Arc::clone(&self.memory), rows: self.rows.iter().cloned().collect(), through }
    }

    /// Notes that the file has this now. More may have come meanwhile.
    pub(super) fn written(&mut self, path: &Path, written: &Unwritten) {
        while self.before < written.through && self.rows.pop_front().is_some() {
            self.before += 1;
        }
        self.is_dirty = !Arc::ptr_eq(&self.memory, &written.memory);
        if self.fault.take().is_some() {
            let dropped = std::mem::take(&mut self.dropped);
            tracing::info!(path = %path.display(), dropped_rows = dropped, "the store is written to disk again");
        }
    }

    /// Forgets what no file is there for.
    pub(super) fn forget_unwritten(&mut self) {
        self.rows.clear();
        self.is_dirty = false;
    }

    /// Notes that the file cannot be used. Each cause is logged once.
    pub(super) fn failed(&mut self, path: &Path, cause: Cause) {
        if self.fault.as_ref().is_none_or(|known| known.text != cause.text) {
            let is_empty = !self.is_read;
            tracing::error!(path = %path.display(), cause = cause.text, is_empty, "cannot use the store; continuing in memory");
        }
        self.fault = Some(cause);
    }

    /// Adds the memory of the file, if it was not read before.
    pub(super) fn adopt(&mut self, known: &Arc<Memory>) {
        if std::mem::replace(&mut self.is_read, true) {
            self.is_dirty = true;
            return;
        }
        let lost = self.memory.baseline_lost.filter(|_| known.last_counts.is_none());
        self.memory = match (self.first_pass, lost) {
            (Some(first_pass), _) => Arc::new(merged(known, &self.memory, first_pass)),
            (None, Some(_)) => Arc::new(Memory { baseline_lost: known.baseline_lost.or(lost), ..Memory::clone(known) }),
            (None, None) => Arc::clone(known),
        };
        self.is_dirty = !Arc::ptr_eq(&self.memory, known);
    }

    /// Begins without the memory of the file. Its baseline is lost, so nothing is trusted for a while (I12).
    pub(super) fn lose_memory(&mut self) {
        if !self.is_read {
            self.remember(Memory { baseline_lost: Some(BaselineLoss::default()), ..Memory::clone(&self.memory) });
        }
    }
}

/// Merges the memory of this process with that of a file that could not be read when the process began, as the head of
/// this file says.
fn merged(known: &Memory, learnt: &Memory, first_pass: Timestamp) -> Memory {
    let old: HashMap<_, _> = known.images.iter().map(|image| (&image.id, image)).collect();
    let is_old = |image: &ImageMemory| image.first_seen.is_none_or(|at| at <= first_pass);
    let image = |image: &ImageMemory| match old.get(&image.id) {
        Some(known) if is_old(image) => merged_image(known, image),
        _ => image.clone(),
    };
    let mut failures = known.failures.clone();
    failures.extend(learnt.failures.clone());
    let (mut removed_images, mut pulls) = (known.removed_images.clone(), Pulls::clone(&known.pulls));
    removed_images.extend(learnt.removed_images.clone());
    pulls.extend(Pulls::clone(&learnt.pulls));
    let counts = known.last_counts.into_iter().chain(learnt.last_counts);
    Memory {
        agent_started_at: known.agent_started_at.or(learnt.agent_started_at),
        images: if learnt.images.is_empty() {
            known.images.clone() // no list of images was received yet
        } else {
            learnt.images.iter().map(image).collect()
        },
        failures,
        removed_images,
        pulls: Arc::new(pulls),
        last_counts: counts.reduce(|one, other| ListCounts::zip(one, other, u64::max)),
        baseline_lost: known.baseline_lost.or(learnt.baseline_lost.filter(|_| known.last_counts.is_none())),
        ..learnt.clone()
    }
}

fn merged_image(known: &ImageMemory, learnt: &ImageMemory) -> ImageMemory {
    let last_used_by = if learnt.last_used > known.last_used { &learnt.last_used_by } else { &known.last_used_by };
    ImageMemory {
        id: known.id.clone(),
        // `None` = before all memory, so it is the earliest.
        first_seen: known.first_seen.min(learnt.first_seen),
        last_used: known.last_used.max(learnt.last_used),
        last_used_by: last_used_by.clone(),
    }
}
