//! Decides what a pass removes and why everything else is kept. Pure: one snapshot and one policy in, one plan out.
//!
//! There is no clock, no I/O and no randomness. `taken_at` is the only current time, and a snapshot with its lists in
//! another order gives the same plan. The steps run in the kubelet's order: containers, sandboxes, logs, images. Each
//! step takes into account what the steps before it remove: a sandbox is empty if this pass removes its last
//! containers.
//!
//! The plan keeps what a recheck would refuse in every pass: a property carries out random plans and expects no
//! refusal. One gap remains: with the profile `kubelet` the plan ignores images used by name, and the recheck does
//! not.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod account;
mod action;
mod ages;
mod confirm;
mod containers;
mod disk;
mod document;
mod error;
mod explain;
mod gaps;
mod guards;
mod image_candidate;
mod image_goal;
mod image_keep;
mod image_ranks;
mod image_use;
mod image_users;
mod image_volumes;
mod images;
mod instances;
mod list_sanity;
mod logs;
mod other_clients;
mod pace;
mod pattern;
mod plan_builder;
mod pods;
mod pressure;
mod reason;
mod reclaim;
mod report;
mod rule_book;
mod rule_facts;
mod sandboxes;
mod selection;
mod store;
mod summary;
mod update_memory;

pub use account::{
    Category, CategoryEntry, DiskAccount, ImageEntry, LeftEntry, SharedEntry, WritableEntry, disk_account,
};
pub use action::{Action, Kind, Target, key};
pub use ages::wait_for_ages;
pub use confirm::{Confirmed, Denial, confirm};
pub use containers::{AgeFrom, ContainerPolicy};
pub use document::{ImageSummary, ImageTrigger, Kept, ListNote, Plan, PlanKind, PodKnowledge, WorkloadNote};
pub use error::PlanError;
pub use explain::Explanation;
pub use guards::{Guards, Profile};
pub use image_goal::ImageTarget;
pub use image_users::{ImageUsers, images};
pub use images::{ImageOrder, ImagePolicy, kept_images_text};
pub use instances::known as known_time;
pub use logs::LogPolicy;
pub use pace::{Pace, is_emergency};
pub use pattern::{Pattern, unmatched_patterns};
pub use pressure::{Pressure, PressurePolicy};
pub use reason::{KeepReason, RemoveReason, RuleReason};
pub use report::{FailureCause, Measure, Outcome, Refusal, Report};
pub use rule_book::RuleNote;
pub use summary::{Counts, Halt, Summary};
pub use update_memory::update_memory;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::Snapshot;
use crate::rules::{Rules, Uses};
use plan_builder::{Context, PlanBuilder};

/// Everything that a plan depends on besides the snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The name of the set of rules, as the plan shows it. Only `guards` has an effect.
    pub profile: Profile,
    /// Limits on dead containers; `evict_terminated_pods` also applies to sandboxes.
    pub containers: ContainerPolicy,
    /// The directories with logs and log symlinks.
    pub logs: LogPolicy,
    /// Rules for images.
    pub images: ImagePolicy,
    /// The limits below which a disk has disk pressure.
    pub pressure: PressurePolicy,
    /// Which disk has pressure now, so that objects of terminated pods are removed, and unused images until it has none.
    pub under_pressure: Option<Pressure>,
    /// Under disk pressure: the passes before did not end it, so the logs of terminated pods go too.
    pub last_resort: bool,
    /// What kubegc keeps although the kubelet would remove it.
    pub guards: Guards,
    /// `rule`
    pub rules: Rules,
}

/// The steps of a pass. The service runs `Containers` and `Images` in two loops, as the kubelet does.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, IntoStaticStr, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Scope {
    /// Containers, sandboxes and logs.
    Containers,
    /// Images.
    Images,
    /// All steps, as for a command in a shell.
    All,
}

// === impl Policy ===

impl Policy {
    /// Returns whether images are kept that a workload names.
    pub fn keeps_workload_images(&self) -> bool {
        self.guards.keep_workload_images && self.under_pressure.is_none()
    }

    /// Returns the facts that the rules and the order of images use.
    pub fn facts_in_use(&self) -> Uses {
        let mut uses = self.rules.uses();
        if let ImageOrder::Score(score) = &self.images.order {
            uses.extend(score.uses());
        }
        uses
    }
}

// === impl Scope ===

impl Scope {
    /// Returns the word in documents and logs.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
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
    builder.rules = context.rules.notes();
}

/// Returns the time since `since`; 0 if `since` is unknown, or in the future because the clock was set back.
fn age(now: Timestamp, since: Timestamp) -> Duration {
    let age = instances::known(since).map(|since| now.duration_since(since));
    age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
}

/// Returns whether `since` is at least `min_age` ago. A time in the future never is, as in the kubelet.
fn is_older(now: Timestamp, since: Timestamp, min_age: Duration) -> bool {
    SignedDuration::try_from(min_age).is_ok_and(|min_age| now.duration_since(since) >= min_age)
}

/// Returns whole seconds, for documents.
fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
