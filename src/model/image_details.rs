//! What the configuration of an image says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the configuration of an image says. All of it is what the builder of the image wrote.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageDetails {
    /// When it was built; `null` = it does not say so. Reproducible builds have a time of long ago.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// Its labels; `null` = not known, or too many.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Its layers, as digests of their content, the lowest first (`rootfs.diff_ids`); `null` = not known, or too many.
    #[serde(default)]
    pub layers: Option<Vec<String>>,
}
