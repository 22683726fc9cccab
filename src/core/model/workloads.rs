//! What creates pods, and the images that it names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Image;

/// An object of a cluster that creates pods: a CronJob, a suspended Job, a StatefulSet, or a Deployment by one of its newest ReplicaSets.
#[derive(Clone, Debug, Default, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
pub struct Workload {
    /// As `CronJob`.
    pub kind: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
    /// The images in the template of its pods.
    #[serde(default)]
    pub images: Vec<String>,
    /// How many more it names. They are not kept for it: what one workload or one namespace may keep is limited.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

// === impl Workload ===

impl Workload {
    /// Returns whether it names this image, or may do so by an alias of the runtime.
    pub fn names(&self, image: &Image) -> bool {
        self.images.iter().any(|name| image.may_be_named(name))
    }
}

/// Formats it as `cronjob/shop/report`.
impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.kind.to_ascii_lowercase(), self.namespace, self.name)
    }
}
