//! What the past tells. Loaded before planning, returned as new data after it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ImageId, Pod, PodUid, Seen};

/// What earlier passes learnt. An object without an entry counts as seen just now, never as never used.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Memory {
    /// When the agent began to watch: the start of the service, or of the memory for a one-shot run.
    pub agent_started_at: Option<Timestamp>,
    /// What is known of each image.
    pub images: Vec<ImageMemory>,
    /// Pods of the runtime or the log root that a complete pod list did not name, and since when.
    pub absent_since: Vec<Absence>,
    /// Actions that failed lately and wait before they are tried again, by [`crate::plan::Action::key`].
    pub failures: BTreeMap<String, Failure>,
    /// What the runtime listed when its lists were last trusted, less what was removed since: the baseline for a sharp
    /// fall (I12).
    pub last_counts: Option<ListCounts>,
    /// The level to which a list fell from that baseline and that is not trusted yet; `null` = no list fell.
    pub fall: Option<ListFall>,
    /// What the runtime last said of itself.
    pub runtime: Option<RuntimeMemory>,
    /// The pods of the last complete list, for the images that they name (I6).
    pub named_images: Option<NamedImages>,
}

/// One image's past.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageMemory {
    /// The image.
    pub id: ImageId,
    /// The first pass that listed it; `null` = before all memory (the kubelet's zero time).
    #[serde(default)]
    pub first_seen: Option<Timestamp>,
    /// The last pass that saw it in use; `null` = never since `first_seen`.
    #[serde(default)]
    pub last_used: Option<Timestamp>,
}

/// A pod that a complete list did not name (I11).
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Absence {
    /// The pod.
    pub uid: PodUid,
    /// The first of the looks that did not find it.
    pub since: Timestamp,
}

/// An action that failed and is not tried again before a moment.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Failure {
    /// How often in a row.
    pub count: u32,
    /// The next try, not before.
    pub retry_at: Timestamp,
    /// What the last try answered.
    #[serde(default)]
    pub error: String,
}

/// How much the runtime listed.
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

/// The level to which a list fell sharply.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ListFall {
    /// The first pass that saw this level.
    pub since: Timestamp,
    /// How many passes saw it.
    pub passes: u32,
    /// What the first of them listed, less what was removed since.
    pub counts: ListCounts,
}

/// What the runtime last said of itself, for passes in which it does not answer.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RuntimeMemory {
    /// The time at which its socket was made, by the file system.
    #[serde(default)]
    pub listening_since: Option<Timestamp>,
    /// The first pass that saw this socket.
    pub first_seen: Timestamp,
    /// The sandbox image that it named, if it named one.
    #[serde(default)]
    pub sandbox_image: Seen<Option<String>>,
}

/// The pods of the last complete list, for the images that they name.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct NamedImages {
    /// The moment of that list, to within some minutes.
    pub as_of: Timestamp,
    /// Its pods.
    pub pods: Vec<Pod>,
}

// === impl Memory ===

impl Memory {
    /// The longest wait before a failed action is tried again.
    pub const LONGEST_WAIT: Duration = Duration::from_hours(1);

    /// The same without times that lie after `now`: they were stored by a clock that was set back since, and would hold
    /// objects until the clock reaches them again.
    #[must_use]
    pub fn until(mut self, now: Timestamp) -> Self {
        fn clamp(at: &mut Timestamp, latest: Timestamp) {
            *at = latest.min(*at);
        }
        for image in &mut self.images {
            image.first_seen.iter_mut().chain(&mut image.last_used).for_each(|at| clamp(at, now));
        }
        self.absent_since.iter_mut().for_each(|absence| clamp(&mut absence.since, now));
        let latest_retry = now.saturating_add(Self::LONGEST_WAIT).unwrap_or(Timestamp::MAX);
        self.failures.values_mut().for_each(|failure| clamp(&mut failure.retry_at, latest_retry));
        self.agent_started_at.iter_mut().for_each(|at| clamp(at, now));
        self.fall.iter_mut().for_each(|fall| clamp(&mut fall.since, now));
        self.runtime.iter_mut().for_each(|runtime| clamp(&mut runtime.first_seen, now));
        self.named_images.iter_mut().for_each(|named| clamp(&mut named.as_of, now));
        self
    }
}

// === impl ListCounts ===

impl ListCounts {
    /// Each list with its name in documents.
    pub fn by_list(&self) -> [(&'static str, u64); 3] {
        [("containers", self.containers), ("sandboxes", self.sandboxes), ("images", self.images)]
    }

    /// Joins two counts, list by list.
    #[must_use]
    pub fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            containers: join(self.containers, other.containers),
            sandboxes: join(self.sandboxes, other.sandboxes),
            images: join(self.images, other.images),
        }
    }
}
