//! Decides what goes and why the rest stays. Pure: one snapshot and one policy in, one plan out.
//!
//! No clock, no I/O, no randomness: `taken_at` is the only now, and shuffled input gives the same plan. The steps come in
//! the kubelet's order (containers, sandboxes, logs, images), and each sees what those before it leave: a sandbox whose
//! last containers go in this pass is empty.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod action;
mod confirm;
mod containers;
mod disk;
mod explain;
mod gaps;
mod guards;
mod image_keep;
mod image_use;
mod image_volumes;
mod images;
mod list_sanity;
mod logs;
mod names;
mod pattern;
mod plan_builder;
mod pods;
mod pressure;
mod reason;
mod sandboxes;
mod update_memory;

pub use action::{
    Action, ImageSummary, ImageTrigger, Kept, Kind, ListNote, Plan, PlanError, PlanKind, PodKnowledge, Target, key,
};
pub use confirm::{Confirmed, Denial, confirm};
pub use containers::{AgeFrom, ContainerPolicy};
pub use explain::Explanation;
pub use guards::{Guards, Profile};
pub use image_use::{is_named, may_be_named};
pub use images::ImagePolicy;
pub use logs::LogPolicy;
pub use names::{container_id_of_link, log_link_name, pod_of_dir, pod_uid_of_dir};
pub use pattern::Pattern;
pub use pressure::{Pressure, PressurePolicy};
pub use reason::{KeepReason, RemoveReason};
pub use update_memory::update_memory;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::Snapshot;
use plan_builder::{Context, PlanBuilder};

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
    /// When a disk is so short that everything goes that nothing needs.
    pub pressure: PressurePolicy,
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
    let context = Context::new(snapshot, policy);
    let mut builder = PlanBuilder::default();
    steps(&context, &mut builder, scope);
    builder.into_plan(snapshot, policy)
}

fn steps<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>, scope: Scope) {
    if scope != Scope::Images {
        containers::decide(context, builder);
        sandboxes::decide(context, builder);
        logs::decide(context, builder);
    }
    if scope != Scope::Containers {
        images::decide(context, builder);
    }
}

/// The time since a moment; 0 for one in the future, since clocks step.
fn age(now: Timestamp, since: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
}

/// Says whether a moment lies at least `min_age` back. The future never does, as in the kubelet.
fn is_older(now: Timestamp, since: Timestamp, min_age: Duration) -> bool {
    SignedDuration::try_from(min_age).is_ok_and(|min_age| now.duration_since(since) >= min_age)
}

/// Whole seconds, for documents.
fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
