//! The fleet: what stops the removals of a node, or of many, although the settings permit them (pauses, policies of the cluster, quiet hours),
//! which images policies remove, and what a node shows of itself in the cluster.
//!
//! Nothing here reads a clock or does I/O. The daemon brings the files of a node and the time together.

#![cfg_attr(not(test), forbid(clippy::disallowed_methods, clippy::disallowed_types))]

mod image_holders;
mod image_list;
mod node_disk;
mod node_disk_policy;
mod node_policies;
mod node_status;
mod overview;
mod pause;
mod publication;
mod quiet_hours;
mod rollout;

pub use image_holders::{FleetImage, ImageState, StatusImages};
pub use image_list::{Fates, ImageFate, ImageList, ListAnswer};
pub use node_disk::{NodeDisk, NodeDiskCondition, NodeDiskSpec};
pub use node_disk_policy::{
    LabelCondition, LabelOperator, NodeDiskPolicy, NodeDiskPolicySpec, NodeSelector, PolicyMode, PolicyPause,
};
pub use node_policies::{AppliedPolicy, NodePolicies};
pub use node_status::{DeferredPass, LocalStatus, NodeStatus, RunningPass};
pub use overview::{FleetNode, NodeAnswer, NodeState, SILENT_AFTER, overview};
pub use pause::{Pause, PauseCause, ended_by};
pub use quiet_hours::QuietHours;
pub use rollout::{goes_ahead, place_of};

use strum::{EnumString, IntoStaticStr, VariantNames};

/// What an agent does with the objects of kubegc in the cluster.
#[derive(Clone, Copy, Debug, EnumString, Eq, IntoStaticStr, Ord, PartialEq, PartialOrd, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum FleetPart {
    /// It follows the NodeDiskPolicies.
    Policies,
    /// It writes the NodeDisk of its node.
    Disks,
}
