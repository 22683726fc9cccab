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
mod decide;
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
mod policy;
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
mod times;
mod update_memory;

pub use account::{
    Category, CategoryEntry, DiskAccount, ImageEntry, LeftEntry, SharedEntry, WritableEntry, disk_account,
};
pub use action::{Action, Kind, Target, key};
pub use ages::wait_for_ages;
pub use confirm::{Confirmed, Denial, confirm};
pub use containers::{AgeFrom, ContainerPolicy};
pub use decide::decide;
pub use document::{ImageSummary, ImageTrigger, Kept, ListNote, Plan, PlanKind, PodKnowledge, WorkloadNote};
pub use error::PlanError;
pub use explain::Explanation;
pub use guards::{Guards, Profile};
pub use image_goal::ImageTarget;
pub use image_users::{ImageUsers, images};
pub use images::{ImageOrder, ImagePolicy, kept_images_text};
pub use logs::LogPolicy;
pub use other_clients::OtherClients;
pub use pace::{Pace, is_emergency};
pub use pattern::{Pattern, unmatched_patterns};
pub use policy::{Policy, Scope};
pub use pressure::{Pressure, PressurePolicy};
pub use reason::{KeepReason, RemoveReason, RuleReason};
pub use report::{FailureCause, Measure, Outcome, Refusal, Report};
pub use rule_book::RuleNote;
pub use summary::{Counts, Halt, Summary};
pub use times::known as known_time;
pub use update_memory::update_memory;

#[cfg(test)]
mod tests;
