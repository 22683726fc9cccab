//! What the past tells. Loaded before planning, returned as new data after it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ImageId, PodUid};

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
    /// How much the runtime listed last time, less what was removed since: the measure for a sharp fall (I12).
    pub last_counts: Option<ListCounts>,
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

/// How much a look at the runtime listed.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ListCounts {
    /// Containers in any state.
    pub containers: u64,
    /// Sandboxes in any state.
    pub sandboxes: u64,
}
