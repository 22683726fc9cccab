//! What passes saw of the pulls of images, by repository.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What passes saw of the pulls of images, by the full name of the repository.
pub type Pulls = BTreeMap<String, RepositoryPulls>;

/// The pulls of images of one repository.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RepositoryPulls {
    /// How often a pass found an image that the pass before did not have.
    pub pulls: u64,
    /// How long the last pull took that a pass saw in progress, at least 1, and too long by at most the time between two passes;
    /// `null` = none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// The pass that saw the last pull.
    pub last: Timestamp,
}

// === impl RepositoryPulls ===

impl RepositoryPulls {
    /// The most repositories that are remembered. Those whose last pull is the oldest leave first.
    pub const MOST: usize = 1_000;
    /// The longest name of a repository that is remembered, as in registries: a pod may name any other one.
    pub const LONGEST_NAME: usize = 255;
}
