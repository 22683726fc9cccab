//! Decides what a pass removes and why everything else is kept. Pure: one snapshot and one policy in, one plan out.
//!
//! There is no clock, no I/O and no randomness. `taken_at` is the only current time, and a snapshot with its lists in
//! another order gives the same plan. The steps run in the kubelet's order: containers, sandboxes, logs, leftovers, images. Each
//! step takes into account what the steps before it remove: a sandbox is empty if this pass removes its last
//! containers.
//!
//! The plan keeps what a recheck would refuse in every pass: a property carries out random plans and expects no
//! refusal. One gap remains: with the profile `kubelet` the plan ignores images used by name, and the recheck does
//! not.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod confirm;
mod containers;
mod decide;
mod disk_usage;
mod document;
mod images;
mod leftover;
mod logs;
mod pods;
mod policy;
mod rules;
mod step;
mod times;
mod update_memory;

pub use confirm::{Confirmed, Denial, confirm};
pub use decide::decide;
pub use document::action::{Action, Kind, Target, key};
pub use document::ages::wait_for_ages;
pub use document::decision::Decision;
pub use document::disk_state::{DiskState, DiskSummary, disk_account};
pub use document::explain::Explanation;
pub use document::forecast::{Forecast, TimeLeft};
pub use document::kept_for::{KeptFor, kept_images_text};
pub use document::log_limit_note::{FilesLeft, LogLimitNote};
pub use document::pass::{Pass, PassCounts};
pub use document::plan_error::PlanError;
pub use document::reason::{KeepReason, RemoveReason, RuleReason};
pub use document::remove_word::RemoveWord;
pub use document::report::{FailureCause, Measure, Outcome, Refusal, Report};
pub use document::summary::{Counts, Halt, Summary};
pub use document::{ImageSummary, ImageTrigger, Kept, ListNote, Plan, PodKnowledge, RuleNote, WorkloadNote};
pub use images::goal::{is_over_goal, may_remove_images};
pub use images::other_clients::OtherClients;
pub use images::pace::is_emergency;
pub use images::uses::{ImageUsers, images};
pub use logs::archive::archive_ends;
pub use policy::guards::{Guards, Profile};
pub use policy::image_policy::{ImageOrder, ImagePolicy, Pace};
pub use policy::image_target::ImageTarget;
pub use policy::log_limit::{ArchiveLimit, LimitOf, LogLimit};
pub use policy::pressure::{Pressure, PressurePolicy};
pub use policy::{ARCHIVE, AgeFrom, ContainerPolicy, Leftovers, LogPolicy, NamedBy, PassState, Policy, Scope};
pub use rules::object_facts::repositories_of;
pub use times::known as known_time;
pub use update_memory::outcomes::{after_outcomes, after_run};
pub use update_memory::update_memory;

#[cfg(test)]
mod tests;
