//! What stops the removals of a node, or of many, although the settings permit them: pauses, policies of the cluster, quiet hours.
//!
//! Nothing here reads a clock or does I/O. The daemon brings the files of a node and the time together.

mod node_disk_policy;
mod pause;
mod quiet_hours;

pub use node_disk_policy::{
    LabelCondition, LabelOperator, NodeDiskPolicy, NodeDiskPolicySpec, NodePolicies, NodeSelector, PolicyMode,
    PolicyPause,
};
pub use pause::{Pause, Suspension};
pub use quiet_hours::QuietHours;

use strum::{EnumString, IntoStaticStr, VariantNames};

/// What an agent does with the objects of kubegc in the cluster.
#[derive(Clone, Copy, Debug, EnumString, Eq, IntoStaticStr, Ord, PartialEq, PartialOrd, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum FleetPart {
    /// It follows the NodeDiskPolicies.
    Policies,
}
