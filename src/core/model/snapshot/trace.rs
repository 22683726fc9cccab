//! The trace: what happened to the images of a node, for a replay under other settings.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::FromRepr;

use crate::model::{EvictionLimits, FileSystem, Image, ImageId};

/// What happened to the images of a node.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Trace {
    /// The images, in any order.
    pub images: Vec<TracedImage>,
    /// What happened, oldest first, of the same time in the order of [`ImageEvent`].
    pub events: Vec<TraceEvent>,
    /// The file system of the images at each pass over images, oldest first.
    pub disk: Vec<DiskSample>,
    /// The images that kubegc removed, as the history has them, newest first; `null` = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removals: Option<Vec<ImageRemoval>>,
    /// The settings of the agent of the node; `null` = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSettings>,
}

/// The settings of an agent that decide what is removed.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct AgentSettings {
    /// As TOML, without those that are the defaults.
    pub keys: BTreeMap<String, String>,
    pub eviction: EvictionLimits,
}

/// An image that the node has or had.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct TracedImage {
    /// The image. The sandbox image counts as pinned.
    #[serde(flatten)]
    pub image: Image,
    /// Its part of the disk: a layer counts for its images in equal parts. `null` = no pass knew the store of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// A container that used it last, as [`Container::full_name`](crate::model::Container::full_name).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_by: Option<String>,
}

/// What happened to one image.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct TraceEvent {
    pub at: Timestamp,
    /// Its position in the list of images.
    pub image: usize,
    pub event: ImageEvent,
}

/// What happens to an image. The numbers are those in the store, in the order of events of the same time.
#[derive(Clone, Copy, Debug, Eq, FromRepr, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ImageEvent {
    /// A pass listed it for the first time.
    Appeared = 1,
    /// A pass found it in use, and the pass before did not.
    Used = 2,
    /// The last pass that found it in use.
    LastUsed = 3,
    /// Something else removed it: a pass no longer listed it.
    Removed = 4,
    /// kubegc removed it.
    Collected = 5,
}

/// The file system of the images at a pass over images.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskSample {
    /// The time of the pass.
    pub at: Timestamp,
    /// The file system before the pass.
    #[serde(flatten)]
    pub file_system: FileSystem,
}

/// An image that kubegc removed.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageRemoval {
    pub at: Timestamp,
    pub image: ImageId,
    /// Reclaimed bytes; `null` = not measured.
    pub freed_bytes: Option<u64>,
    /// The bytes on the disk that the removal was to reclaim.
    pub estimated_bytes: Option<u64>,
    /// When it was pulled again, within 14 days; `null` = it was not.
    pub pulled_again_at: Option<Timestamp>,
}

// === impl TraceEvent ===

impl TraceEvent {
    /// Returns whether it happened before a pass at this time measured the disk. What kubegc removed at that time is gone after it.
    pub fn is_seen_at(&self, pass: Timestamp) -> bool {
        self.at < pass || self.at == pass && self.event != ImageEvent::Collected
    }
}

// === impl TracedImage ===

impl TracedImage {
    /// The most tags, and the most digests, that are recorded of an image.
    pub const MOST_NAMES: usize = 8;
    /// The longest name that is recorded: a registry has none that is longer, but a tag on the node may be.
    pub const LONGEST_NAME: usize = 512;

    /// Returns the image with the names that are recorded.
    pub fn of(image: &Image, pinned: bool, disk_bytes: Option<u64>) -> Self {
        let few = |names: &[String]| {
            let names = names.iter().filter(|name| name.len() <= Self::LONGEST_NAME);
            names.take(Self::MOST_NAMES).cloned().collect()
        };
        let (tags, digests) = (few(&image.tags), few(&image.digests));
        let image = Image { id: image.id.clone(), tags, digests, size_bytes: image.size_bytes, pinned };
        Self { image, disk_bytes, last_used_by: None }
    }

    /// Returns its bytes on the disk; those that the runtime reports if they are not known.
    pub fn bytes(&self) -> u64 {
        self.disk_bytes.unwrap_or(self.image.size_bytes)
    }

    pub fn id(&self) -> &ImageId {
        &self.image.id
    }
}
