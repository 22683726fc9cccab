//! The plan as data: what is removed, what is kept, and why.

pub(super) mod action;
pub(super) mod ages;
pub(super) mod decision;
pub(super) mod disk_state;
pub(super) mod explain;
pub(super) mod forecast;
pub(super) mod kept_for;
pub(super) mod log_limit_note;
pub(super) mod pass;
pub(super) mod plan_error;
pub(super) mod reason;
pub(super) mod remove_word;
pub(super) mod report;
pub(super) mod selection;
pub(super) mod summary;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::guards::Profile;
use super::policy::image_policy::Pace;
use super::policy::image_target::ImageTarget;
use super::policy::pressure::Pressure;
use crate::model::{ImageId, ListBytes, ListReceipt, PodList, PodRef, PodSourceReport, Seen, Snapshot};
use crate::store::Size;
use action::{Action, Kind};
use disk_state::DiskState;
use log_limit_note::LogLimitNote;
use plan_error::PlanError;
use reason::{KeepReason, RemoveReason};

/// What one pass removes, in order, and why everything else is kept.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Plan {
    /// When the snapshot was taken.
    pub taken_at: Timestamp,
    /// The name of the node; empty if it is unknown.
    #[serde(default)]
    pub node: String,
    /// The profile of the rules.
    pub profile: Profile,
    /// The disk pressure that the pass is to end, or the flag by which it removes everything unused. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// The socket of the runtime, as a path for the agent; empty if it is unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// The pod sources, or why none is available.
    #[serde(default)]
    pub pods: Seen<PodKnowledge>,
    /// The disks of the node, and the limits that apply to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskState>,
    /// The runtime's lists that were received in parts because they are too large for one message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListNote>,
    /// The workloads that name more images than are kept for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadNote>,
    /// The objects to remove, in order.
    pub actions: Vec<Action>,
    /// The objects to keep.
    #[serde(default)]
    pub kept: Vec<Kept>,
    /// The goal of the image step, and its result.
    #[serde(default)]
    pub images: ImageSummary,
    /// The rules, in order, and what they decide. Absent without rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleNote>,
    /// The limits in `logs.limits` that the plan does not meet, or for which not all log files were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_limits: Vec<LogLimitNote>,
    /// Why a step could not be completed.
    #[serde(default)]
    pub errors: Vec<PlanError>,
}

/// Where the list of pods comes from.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodKnowledge {
    /// The pod source, or several of them together.
    pub source: String,
    /// Whether the list has all pods. If not, no pod counts as deleted (I2).
    #[serde(default)]
    pub complete: bool,
    /// The number of pods in the list.
    #[serde(default)]
    pub pods: u64,
    /// Each pod source in use: its result, and how old that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PodSourceReport>,
    /// Why the kubelet's pod directories are unavailable; `null` = they are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirs_unavailable: Option<String>,
}

/// What a pass has seen of a rule.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RuleNote {
    /// The name of the rule.
    pub rule: String,
    /// Whether the day of its `until` has come, so that it no longer applies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// The number of objects that it decides.
    #[serde(default)]
    pub objects: u64,
    /// Their bytes, as far as they are known: the sizes of images as the runtime reports them, and of logs.
    #[serde(default)]
    pub bytes: u64,
    /// Of a rule with `total`: the bytes of the images that it decides, used ones too, before this pass. A layer of several images
    /// counts once, and for the first such rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// The number of objects for which its condition could not be evaluated. `keep` keeps those.
    #[serde(default)]
    pub errors: u64,
    /// One of these objects, and the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A list of the runtime that was received in parts.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ListNote {
    /// The name of the list in the snapshot.
    pub list: String,
    /// The number of parts received.
    pub parts: u64,
    /// Encoded bytes of all parts together.
    pub bytes: u64,
    /// Whether all parts were received.
    pub complete: bool,
    /// The error of the call for the whole list.
    #[serde(default)]
    pub cause: String,
}

/// A workload that names more images than are kept for it.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct WorkloadNote {
    /// As `cronjob/shop/report`.
    pub workload: String,
    /// How many of its images are not kept for it.
    pub left_out: u64,
}

/// An object to keep.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Kept {
    /// The kind of the object.
    pub kind: Kind,
    /// The ID of the object; for logs, the path.
    pub id: String,
    /// The name of the container, or the first tag of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The pod of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Seconds since the object was created; for an image, since it was first seen; for a log directory, since it was
    /// last modified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    #[serde(flatten)]
    pub size: Size,
    /// The rule, with the value of the setting.
    #[serde(flatten)]
    pub reason: KeepReason,
}

/// Why the image step removes images.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageTrigger {
    /// The used space reached the high threshold.
    PercentUsed,
    /// Images were unused for longer than the maximum age. The used space is below the high threshold.
    Age,
    /// Less space is free than a target in `images.targets` permits.
    FreeBytes,
    /// More inodes are used than a target in `images.targets` permits.
    InodesPercent,
    /// All images together have more bytes than a target in `images.targets` permits.
    TotalBytes,
    /// A rule removes images. The used space is below the high threshold.
    Rule,
    /// A disk has pressure (`[pressure]`).
    Pressure,
    /// The removal of all unused images is requested.
    AllUnused,
}

/// The goal of the image step, and its result.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ImageSummary {
    /// Why images are removed; `null` = no image is removed.
    pub triggered_by: Option<ImageTrigger>,
    /// The target in `images.targets` that began the removal, and its state then, as in tables; `null` = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_by: Option<String>,
    /// Used space in percent, rounded up as in the kubelet; `null` = not determined.
    pub used_percent: Option<u64>,
    /// Bytes to reclaim to reach the low threshold and the ends of the targets.
    pub target_bytes: u64,
    /// Inodes to reclaim.
    #[serde(skip_serializing_if = "is_zero")]
    pub target_inodes: u64,
    /// The part of `target_bytes` that removing all removable images does not reach, by their estimates.
    pub shortfall_bytes: u64,
    /// The pass stops removing images at this number of available bytes; 0 = it does not stop early.
    pub stop_at_available_bytes: u64,
    /// The same in free inodes.
    #[serde(skip_serializing_if = "is_zero")]
    pub stop_at_free_inodes: u64,
    /// Fallback candidates, in order. They are removed only if the measured space is still too small after all actions
    /// (I9).
    pub reserve: Vec<Action>,
    /// Whether the estimates are from the store of the runtime. If not, they are the sizes that the runtime reports.
    pub knows_store: bool,
    /// Images that reclaim something only together. If the removal of one fails, the rest of its set is kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Vec<ImageId>>,
    /// The pace that applies to this pass, by `images.pace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// The score of each unused image by `images.order`, if that is an expression.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<ImageId, f64>,
    /// The number of unused images without a score, which are removed last.
    #[serde(skip_serializing_if = "is_zero")]
    pub unscored: u64,
    /// The number of images that the pace leaves to later passes.
    #[serde(skip_serializing_if = "is_zero")]
    pub beyond_pace: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde requires")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

// === impl ImageTrigger ===

impl ImageTrigger {
    /// Returns why images are removed for a reason; `None` = it is none to remove images because of the disk or of their age.
    pub(super) fn of(reason: &RemoveReason) -> Option<Self> {
        match reason {
            RemoveReason::Space { .. } => Some(Self::PercentUsed),
            RemoveReason::Target { target: ImageTarget::Free { .. }, .. } => Some(Self::FreeBytes),
            RemoveReason::Target { target: ImageTarget::Inodes { .. }, .. } => Some(Self::InodesPercent),
            RemoveReason::Target { target: ImageTarget::Total { .. }, .. } => Some(Self::TotalBytes),
            RemoveReason::Age { .. } => Some(Self::Age),
            RemoveReason::Rule(_) => Some(Self::Rule),
            RemoveReason::Unused { pressure: true } => Some(Self::Pressure),
            _ => None,
        }
    }
}

// === impl PodKnowledge ===

impl From<&PodList> for PodKnowledge {
    fn from(list: &PodList) -> Self {
        let PodList { source, complete, pods, sources, .. } = list;
        let (source, sources) = (source.clone(), sources.clone());
        Self { source, complete: *complete, pods: pods.len() as u64, sources, dirs_unavailable: None }
    }
}

// === impl WorkloadNote ===

impl WorkloadNote {
    /// Returns a note for each workload whose images are limited.
    pub(super) fn all(snapshot: &Snapshot) -> Vec<Self> {
        let workloads = snapshot.workloads.as_ref().into_iter().flatten();
        let limited = workloads.filter(|workload| workload.left_out > 0);
        limited.map(|workload| Self { workload: workload.to_string(), left_out: workload.left_out }).collect()
    }
}

// === impl ListNote ===

impl ListNote {
    /// Returns a note for each list that was received in parts.
    pub(super) fn all(sizes: &ListBytes) -> Vec<Self> {
        let in_parts = sizes.receipts().filter_map(|(list, receipt)| Some((list, receipt, receipt.refused.as_ref()?)));
        let note = |(list, receipt, refused): (&str, &ListReceipt, &String)| Self {
            list: list.to_owned(),
            parts: receipt.parts,
            bytes: receipt.bytes,
            complete: receipt.missing.is_empty(),
            cause: refused.clone(),
        };
        in_parts.map(note).collect()
    }
}
