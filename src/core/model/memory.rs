//! The memory of earlier passes. It is loaded before planning; later steps return it as new data.

pub mod removed_image;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ContainerId, DiskMemory, Image, ImageId, Pod, PodUid, Seen};
use removed_image::Pulls;
use removed_image::{RemovedImage, RemovedImages};

/// What earlier passes learned. An object without an entry counts as seen just now, not as never used.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Memory {
    /// When the agent started to observe: the start of the service, or of the memory for a one-shot run.
    pub agent_started_at: Option<Timestamp>,
    /// The memory of each image. Shared, because each removal makes a memory of its own, and most change the counts alone.
    pub images: Arc<[ImageMemory]>,
    /// The last pass that listed images and containers. An image that was last used then was in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_at: Option<Timestamp>,
    /// Pods of the runtime or the log root that a complete pod list did not name, and since when. Shared as [`Self::images`].
    pub absent_since: Arc<[Absence]>,
    /// Failed actions with a back-off, by [`crate::plan::Action::key`].
    pub failures: BTreeMap<String, Failure>,
    /// The highest counts of trusted lists of the runtime since about `guards.fall_hold`, without the objects removed since:
    /// the baseline for a sharp fall (I12).
    pub last_counts: Option<ListCounts>,
    /// The highest counts of the later part of that time. They become the baseline when the earlier part is too old.
    pub recent_counts: Option<RecentCounts>,
    /// The baseline was lost with a damaged store, so a fall could not be noticed; `null` = it was not.
    pub baseline_lost: Option<BaselineLoss>,
    /// The level to which a list fell from the baseline, not yet trusted; `null` = no list fell.
    pub fall: Option<ListFall>,
    /// What the runtime last reported about itself.
    pub runtime: Option<RuntimeMemory>,
    /// The pods of the last complete list, for the images in their specs (I6).
    pub named_images: Option<NamedImages>,
    /// What rules for logs ask of pods: each pod as a pass last saw it, by uid, while it exists or has a log directory.
    pub log_pods: Arc<Vec<Pod>>,
    /// The images that containers have mounted as volumes (I6).
    pub image_volumes: Arc<ImageVolumes>,
    /// The images that kubegc removed: the kubelet may have a record of them, and they may be pulled again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub removed_images: RemovedImages,
    /// The images that the kubelet was pulling in the last pass, and since when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pulling_since: BTreeMap<String, Timestamp>,
    /// The pulls of each repository.
    #[serde(skip_serializing_if = "is_empty")]
    pub pulls: Arc<Pulls>,
    /// Pods that have only a directory of the kubelet, and since when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub orphaned_since: BTreeMap<PodUid, Timestamp>,
    /// How full each disk was, by its mountpoint as in [`FileSystem`](super::FileSystem), and what was written to it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disks: BTreeMap<PathBuf, DiskMemory>,
}

/// The images that a container has mounted as volumes, for each container whose status was read. Mounts never change, so a
/// status is read once. A container that has none has an empty list; one without an entry is unknown.
pub type ImageVolumes = BTreeMap<ContainerId, Vec<String>>;

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageMemory {
    pub id: ImageId,
    /// The first pass that listed the image; `null` = before all memory (the kubelet's zero time).
    pub first_seen: Option<Timestamp>,
    /// The last pass in which the image was in use; `null` = never since `first_seen`.
    pub last_used: Option<Timestamp>,
    /// A container that used the image in that pass, as [`Container::full_name`](super::Container::full_name).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_by: Option<String>,
}

/// A missing pod: a complete pod list did not name it (I11).
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Absence {
    pub uid: PodUid,
    /// The first pass of the series that did not find the pod.
    pub since: Timestamp,
}

/// A failed action and its back-off.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Failure {
    /// Number of failures in a row.
    pub count: u32,
    /// The earliest time of the next try.
    pub retry_at: Timestamp,
    /// The error of the last try.
    #[serde(default)]
    pub error: String,
}

/// The number of objects in each list of the runtime.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ListCounts {
    /// Containers in any state.
    pub containers: u64,
    /// Sandboxes in any state.
    pub sandboxes: u64,
    /// Images; 0 = none, or not known.
    #[serde(default)]
    pub images: u64,
}

/// The highest counts since a time.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RecentCounts {
    /// The first pass whose counts are in it.
    pub since: Timestamp,
    /// The highest counts, without the objects removed since.
    pub counts: ListCounts,
}

/// A store that was replaced by an empty one.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct BaselineLoss {
    /// The first pass after the loss; `null` = there was none yet.
    pub since: Option<Timestamp>,
}

/// The level to which a list fell sharply.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ListFall {
    /// The first pass with this level.
    pub since: Timestamp,
    /// Number of passes with this level.
    pub passes: u32,
    /// The counts of the first of these passes, without the objects removed since.
    pub counts: ListCounts,
}

/// What the runtime last reported about itself, for passes in which it is unavailable.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RuntimeMemory {
    /// When the runtime's socket was created, from the file system.
    pub listening_since: Option<Timestamp>,
    /// The first pass with this socket.
    pub first_seen: Timestamp,
    /// The sandbox image (pause) that the runtime named, if any.
    #[serde(default)]
    pub sandbox_image: Seen<Option<String>>,
}

/// The pods of the last complete list, for the images in their specs.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct NamedImages {
    /// The time of that list, accurate to some minutes.
    pub as_of: Timestamp,
    /// The pods of that list. The memory is copied for each change of the store, and a node may have hundreds.
    pub pods: Arc<Vec<Pod>>,
}

// === impl Memory ===

impl Memory {
    /// The longest back-off of a failed action.
    pub const LONGEST_WAIT: Duration = Duration::from_hours(1);

    /// Returns the last removal of an image by kubegc: of its id, or of a manifest with the same digest. A name is no evidence,
    /// because another image may have it now.
    pub fn removal_of(&self, image: &Image) -> Option<&RemovedImage> {
        let by_digest = || self.removed_images.values().find(|removed| removed.has_digest_of(image));
        self.removed_images.get(&image.id).or_else(by_digest).map(|removed| &**removed)
    }

    /// Returns the last use of an image and its user: what is remembered of it or, where nothing is, from before its removal by
    /// kubegc. An image that was restored is not one that was never used.
    pub fn last_use_of<'a>(
        &'a self,
        image: &Image,
        past: Option<&'a ImageMemory>,
    ) -> (Option<Timestamp>, Option<&'a str>) {
        match past {
            Some(past) => (past.last_used, past.last_used_by.as_deref()),
            None => self.removal_of(image).map_or((None, None), |it| (it.last_used, it.last_used_by.as_deref())),
        }
    }

    /// Limits stored times to `now`, and back-offs to [`Self::LONGEST_WAIT`] after `now`. Later times were stored before
    /// the clock was set back, and would keep objects until the clock reaches them again.
    #[must_use]
    pub fn until(mut self, now: Timestamp) -> Self {
        self.for_each_time(|at| *at = now.min(*at));
        let latest_retry = now.saturating_add(Self::LONGEST_WAIT).unwrap_or(Timestamp::MAX);
        self.failures.values_mut().for_each(|failure| failure.retry_at = latest_retry.min(failure.retry_at));
        self
    }

    /// Moves all stored times by a jump of the wall clock, so that the time since each is what passed without the jump (I15).
    #[must_use]
    pub fn after_jump(mut self, by: SignedDuration) -> Self {
        let later = |at: Timestamp| at.saturating_add(by).unwrap_or(Timestamp::MAX);
        self.for_each_time(|at| *at = later(*at));
        self.failures.values_mut().for_each(|failure| failure.retry_at = later(failure.retry_at));
        self.runtime.iter_mut().flat_map(|runtime| &mut runtime.listening_since).for_each(|at| *at = later(*at));
        self
    }

    /// Calls `change` for each time at which a pass saw something.
    fn for_each_time(&mut self, mut change: impl FnMut(&mut Timestamp)) {
        for image in Arc::make_mut(&mut self.images) {
            image.first_seen.iter_mut().chain(&mut image.last_used).for_each(&mut change);
        }
        for absence in Arc::make_mut(&mut self.absent_since) {
            change(&mut absence.since);
        }
        self.agent_started_at.iter_mut().chain(&mut self.images_at).for_each(&mut change);
        self.fall.iter_mut().for_each(|fall| change(&mut fall.since));
        self.recent_counts.iter_mut().for_each(|recent| change(&mut recent.since));
        self.baseline_lost.iter_mut().flat_map(|loss| &mut loss.since).for_each(&mut change);
        self.runtime.iter_mut().for_each(|runtime| change(&mut runtime.first_seen));
        self.named_images.iter_mut().for_each(|named| change(&mut named.as_of));
        self.pulling_since.values_mut().chain(self.orphaned_since.values_mut()).for_each(&mut change);
        for disk in self.disks.values_mut() {
            change(&mut disk.at);
            disk.growth.iter_mut().for_each(|period| change(&mut period.since));
        }
    }
}

fn is_empty(pulls: &Arc<Pulls>) -> bool {
    pulls.is_empty()
}

// === impl ListCounts ===

impl ListCounts {
    /// Lists each count with the name of its list in documents.
    pub fn by_list(&self) -> [(&'static str, u64); 3] {
        [("containers", self.containers), ("sandboxes", self.sandboxes), ("images", self.images)]
    }

    /// Combines two counts, list by list.
    #[must_use]
    pub fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            containers: join(self.containers, other.containers),
            sandboxes: join(self.sandboxes, other.sandboxes),
            images: join(self.images, other.images),
        }
    }
}
