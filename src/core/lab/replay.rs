//! A replay: the passes of the node, decided by the plan of another policy.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::world::{Pull, World};
use crate::model::{
    DiskSample, DiskUse, EvictionLimits, FileSystem, Memory, NodeDisk, Pulls, Snapshot, Trace, TracedImage,
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
        let samples = trace.disk.iter().filter(|sample| (ruler.since..ruler.until).contains(&sample.at));
        let mut last: Option<&DiskSample> = None;
        for sample in samples {
            while let Some(event) = events.next_if(|event| event.is_seen_at(sample.at)) {
                let pull = driver.world.apply(event);
                driver.note(pull, event.at);
            }
            driver.measure(sample, last);
            driver.pass(sample);
            last = Some(sample);
        }
        driver.replay
    }
}

// === impl Driver ===

impl Driver<'_> {
    /// Counts a pull of an image that had been removed, and remembers it as a pass would.
    fn note(&mut self, pull: Option<Pull>, at: Timestamp) {
        let Some(Pull { image, .. }) = pull.filter(|pull| pull.is_again) else { return };
        if let Some(removed) = self.memory.removed_images.get_mut(image.id()) {
            Arc::make_mut(removed).pulled_again_at = Some(at);
        }
        let totals = &mut self.replay.totals;
        totals.pulled_again += 1;
        totals.pulled_again_bytes += image.bytes();
        totals.pulled_again_seconds += pull_seconds(image, &self.ruler.pulls);
    }

    /// Counts how full the disk is before a pass. That held since the pass before, as far as known.
    fn measure(&mut self, sample: &DiskSample, last: Option<&DiskSample>) {
        let disk = self.world.disk(sample);
        let used = disk.capacity_bytes.saturating_sub(disk.available_bytes);
        let percent = used_percent(&disk);
        let seconds = last.map_or(0, |last| sample.at.duration_since(last.at).as_secs().min(LONGEST_GAP));
        let available = disk.available_bytes;
        let images = NodeDisk { holds: vec![DiskUse::Images], file_system: disk };
        let totals = &mut self.replay.totals;
        totals.peak_used_bytes = totals.peak_used_bytes.max(used);
        totals.peak_used_percent = totals.peak_used_percent.max(percent);
        if percent >= self.ruler.high_threshold_percent {
            totals.above_high_threshold_seconds += seconds;
        }
        if self.ruler.eviction.below_bytes(&images).is_some_and(|limit| available < limit) {
            totals.above_eviction_seconds += seconds;
        }
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
            self.replay.totals.removed_bytes += bytes;
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
