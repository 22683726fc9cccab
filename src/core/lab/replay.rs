//! A replay: the passes of the node, decided by the plan of another policy.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::world::World;
use crate::model::{
    DiskSample, DiskUse, EvictionLimits, FileSystem, ImageRemoval, Memory, NodeDisk, Pulls, Snapshot, Trace,
    TracedImage,
};
use crate::plan::{
    Measure, Outcome, Policy, Report, Scope, Target, after_outcomes, decide, may_remove_images, repositories_of,
    update_memory,
};

/// A time without a pass counts for no more than this: the agent did not run.
const LONGEST_GAP: i64 = 60 * 60;

/// What replays of one node are measured with.
#[derive(Clone, Debug)]
pub struct Ruler {
    /// When the replay begins, with the images that the node had then.
    pub since: Timestamp,
    /// When it ends.
    pub until: Timestamp,
    /// What happens before is not counted.
    pub counts_since: Timestamp,
    pub high_threshold_percent: u64,
    /// When the kubelet evicts pods.
    pub eviction: EvictionLimits,
    /// How long pulls take, by repository.
    pub pulls: Arc<Pulls>,
}

/// What a replay counts.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Totals {
    /// The most used bytes of the disk at a pass.
    pub peak_used_bytes: u64,
    /// The same in percent of the disk, rounded up.
    pub peak_used_percent: u64,
    /// For how long the disk was at or above the high threshold in force, in seconds.
    pub above_high_threshold_seconds: i64,
    /// For how long the kubelet would have evicted pods, in seconds.
    pub above_eviction_seconds: i64,
    /// The images that were removed.
    pub removed: u64,
    /// Their bytes.
    pub removed_bytes: u64,
    /// The pulls of images that had been removed before.
    pub pulled_again: u64,
    /// Their bytes.
    pub pulled_again_bytes: u64,
    /// How long these pulls took, of those for which that is known, in seconds.
    pub pulled_again_seconds: u64,
}

/// An image that a replay removes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Removal {
    /// The time of the pass.
    pub at: Timestamp,
    /// The position of the image in the trace.
    pub image: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    pub totals: Totals,
    /// The removals, in order.
    pub removals: Vec<Removal>,
}

struct Driver<'a> {
    ruler: &'a Ruler,
    policy: &'a Policy,
    world: World<'a>,
    memory: Memory,
    replay: Replay,
    /// Whether each pass is planned, also one that cannot remove an image.
    plans_each: bool,
}

// === impl Totals ===

impl Totals {
    /// Returns what happened: the disk at the passes of the node, and what the history has of the images that were removed since a time.
    pub fn happened(trace: &Trace, removals: &[ImageRemoval], ruler: &Ruler, since: Timestamp) -> Self {
        let (mut totals, mut last) = (Self::default(), None);
        for sample in ruler.samples(trace) {
            totals.measure(ruler, sample.at, &sample.file_system, last.replace(sample.at));
        }
        for removal in removals.iter().filter(|removal| removal.at >= since) {
            totals.removed += 1;
            totals.removed_bytes = totals.removed_bytes.saturating_add(removal.freed_bytes.unwrap_or_default());
            if removal.pulled_again_at.is_some() {
                let image = trace.images.iter().find(|image| *image.id() == removal.image);
                totals.pull_again(ruler, image, removal.estimated_bytes.unwrap_or_default());
            }
        }
        totals
    }

    fn pull_again(&mut self, ruler: &Ruler, image: Option<&TracedImage>, bytes: u64) {
        self.pulled_again += 1;
        self.pulled_again_bytes = self.pulled_again_bytes.saturating_add(bytes);
        self.pulled_again_seconds += image.map_or(0, |image| pull_seconds(image, &ruler.pulls));
    }

    /// Counts how full the disk is before a pass. That held since the pass before, as far as known.
    fn measure(&mut self, ruler: &Ruler, at: Timestamp, disk: &FileSystem, last: Option<Timestamp>) {
        let (available, percent) = (disk.available_bytes, used_percent(disk));
        let seconds = last.map_or(0, |last| at.duration_since(last).as_secs().min(LONGEST_GAP));
        self.peak_used_bytes = self.peak_used_bytes.max(disk.capacity_bytes.saturating_sub(available));
        self.peak_used_percent = self.peak_used_percent.max(percent);
        if percent >= ruler.high_threshold_percent {
            self.above_high_threshold_seconds += seconds;
        }
        if ruler.eviction_below(disk).is_some_and(|limit| available < limit) {
            self.above_eviction_seconds += seconds;
        }
    }
}

// === impl Ruler ===

impl Ruler {
    /// Returns the free bytes of the disk of images below which the kubelet evicts pods; `None` = no limit.
    pub fn eviction_below(&self, disk: &FileSystem) -> Option<u64> {
        self.eviction.below_bytes(&NodeDisk { holds: vec![DiskUse::Images], file_system: disk.clone() })
    }

    fn samples<'t>(&self, trace: &'t Trace) -> impl Iterator<Item = &'t DiskSample> {
        let span = self.since..self.until;
        trace.disk.iter().filter(move |sample| span.contains(&sample.at))
    }
}

// === impl Replay ===

impl Replay {
    /// Replays a trace under a policy.
    pub fn of(trace: &Trace, policy: &Policy, ruler: &Ruler) -> Self {
        Self::planning(trace, policy, ruler, false)
    }

    pub(super) fn planning(trace: &Trace, policy: &Policy, ruler: &Ruler, plans_each: bool) -> Self {
        let (agent_started_at, pulls) = (Some(ruler.since), Arc::clone(&ruler.pulls));
        let memory = Memory { agent_started_at, pulls, ..Memory::default() };
        let world = World::at(trace, ruler.since);
        let mut driver = Driver { ruler, policy, world, memory, replay: Self::default(), plans_each };
        let mut events = trace.events.iter().skip_while(|event| event.at < ruler.since).peekable();
        let mut last = None;
        for sample in ruler.samples(trace) {
            if last.is_some_and(|last| last < ruler.counts_since) && sample.at >= ruler.counts_since {
                driver.replay = Self::default();
            }
            while let Some(event) = events.next_if(|event| event.is_seen_at(sample.at)) {
                if let Some(image) = driver.world.apply(event) {
                    driver.note(image, event.at);
                }
            }
            let disk = driver.world.disk(sample);
            driver.replay.totals.measure(ruler, sample.at, &disk, last.replace(sample.at));
            driver.pass(sample);
        }
        driver.replay
    }
}

// === impl Driver ===

impl Driver<'_> {
    /// Counts a pull of an image that had been removed, and remembers it as a pass would.
    fn note(&mut self, image: &TracedImage, at: Timestamp) {
        if let Some(removed) = self.memory.removed_images.get_mut(image.id()) {
            Arc::make_mut(removed).pulled_again_at = Some(at);
        }
        self.replay.totals.pull_again(self.ruler, Some(image), image.bytes());
    }

    /// Runs one pass over images: what the plan removes is gone after it.
    fn pass(&mut self, sample: &DiskSample) {
        let (now, disk) = (sample.at, self.world.disk(sample));
        let pressed = self.policy.pressure.judge(&disk).map(|pressure| self.policy.under_pressure(pressure));
        let policy = pressed.as_ref().unwrap_or(self.policy);
        let unused = self.world.unused(now, !policy.guards.age_from_first_seen);
        let may_remove = || unused.any && may_remove_images(policy, &disk, self.world.bytes, unused.since, now);
        if self.plans_each || may_remove() {
            let memory = std::mem::take(&mut self.memory);
            let snapshot = self.world.snapshot(now, disk, memory, policy.has_image_total());
            let reports = self.carry_out(&snapshot, policy);
            let memory = after_outcomes(&update_memory(&snapshot, policy), &reports, now, now, Duration::ZERO);
            // The images are those of the world. Lists of it never fall by mistake.
            let Memory { agent_started_at, removed_images, pulls, .. } = memory;
            self.memory = Memory { agent_started_at, removed_images, pulls, ..Memory::default() };
        }
        self.world.use_now(now);
    }

    /// Removes what the plan removes. Sizes add up, so what it estimates is what it reclaims.
    fn carry_out(&mut self, snapshot: &Snapshot, policy: &Policy) -> Vec<Report> {
        let plan = decide(snapshot, policy, Scope::Images);
        plan.kept.iter().for_each(|kept| self.world.hold(kept, snapshot.taken_at));
        let mut reports = Vec::new();
        for action in plan.actions {
            let Target::RemoveImage { id, .. } = &action.target else { continue };
            let Some((image, bytes)) = self.world.remove(id) else { continue };
            self.replay.removals.push(Removal { at: snapshot.taken_at, image });
            self.replay.totals.removed += 1;
            self.replay.totals.removed_bytes = self.replay.totals.removed_bytes.saturating_add(bytes);
            let (outcome, freed_bytes, measure) = (Outcome::Removed {}, Some(bytes), Measure::Measured);
            reports.push(Report {
                action,
                outcome,
                freed_bytes,
                measure,
                proven_by: None,
                note: None,
                kept_until: None,
            });
        }
        reports
    }
}

/// Returns how long the last pull of a repository of an image took that a pass saw; 0 = none did.
fn pull_seconds(image: &TracedImage, pulls: &Pulls) -> u64 {
    let known = repositories_of(&image.image).into_iter().filter_map(|name| pulls.get(&name)?.seconds);
    known.max().unwrap_or_default()
}

fn used_percent(disk: &FileSystem) -> u64 {
    let used = u128::from(disk.capacity_bytes.saturating_sub(disk.available_bytes));
    let percent = (used * 100).div_ceil(u128::from(disk.capacity_bytes.max(1)));
    u64::try_from(percent).unwrap_or(u64::MAX)
}
