//! The reasons to remove and to keep objects.
//!
//! One enum each serves all policies. A variant carries the values that decided. `explain.rs` describes each variant, and
//! `remove_word.rs` the words of those to remove.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray};

use crate::model::{ContainerState, LeftoverKind};
use crate::plan::policy::image_target::ImageTarget;
use crate::plan::policy::log_limit::{ArchiveLimit, LogLimit};

/// The rule that decides an object.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RuleReason {
    /// The name of the rule.
    pub rule: String,
    /// The limit that it sets, as in the configuration; `null` = none: it keeps or removes the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Its note; empty = none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Why its condition could not be evaluated, so that it keeps the object; `null` = the condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The reason to remove an object.
#[derive(Clone, Debug, EnumDiscriminants, JsonSchema, PartialEq, Deserialize, Serialize)]
#[strum_discriminants(
    name(RemoveWord),
    doc = "A reason to remove an object, without its values.",
    derive(EnumString, IntoStaticStr, VariantArray),
    strum(serialize_all = "snake_case")
)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum RemoveReason {
    /// The pod is deleted (I11).
    PodDeleted {},
    /// The pod is terminated, and `containers.evict_terminated_pods` is set or a disk has pressure.
    PodTerminal {
        /// Whether the setting is off, so that the disk pressure is the reason.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pressure: bool,
    },
    /// The pod has more dead instances of this container than allowed.
    OverMaxPerPodContainer {
        /// `containers.max_per_pod_container`.
        limit: u64,
    },
    /// The node has more dead containers than allowed.
    OverTotalLimit {
        /// `containers.max_containers`.
        limit: u64,
    },
    /// The sandbox is dead, and its pod has a newer one.
    Superseded {},
    /// The log symlink is dangling, and its container exited or does not exist.
    Dangling {},
    /// Disk usage reached the high threshold, and this image is among the first by `images.order`.
    Space {
        /// `images.high_threshold_percent`.
        high_threshold_percent: u64,
        /// Disk usage in percent.
        used_percent: u64,
    },
    /// A target for images is exceeded, and this image is among the first by `images.order`.
    Target {
        #[serde(flatten)]
        target: ImageTarget,
        /// Free bytes, used inodes in percent, or bytes of all images.
        value: u64,
    },
    /// The image is unused for longer than the maximum age.
    Age {
        /// `images.max_age`.
        max_age_seconds: i64,
        /// Seconds since its last use; `null` = never used, as in the kubelet.
        unused_seconds: Option<i64>,
    },
    /// The log files of its pod, of its namespace or of the node have more bytes than allowed, and it is one of the oldest.
    OverLogLimit(LogLimit),
    /// Only the archive has the log file, and it is over a limit.
    OverArchiveLimit {
        /// The limit of `logs.archive`; `null` = the disk of the logs has pressure.
        #[schemars(with = "Option<ArchiveLimit>")]
        limit: Option<String>,
    },
    /// A rule removes it, or sets the limit that it exceeds.
    Rule(RuleReason),
    /// The image is unused, and `images.all_unused` is set or a disk has pressure.
    Unused {
        /// Whether the setting is off, so that the disk pressure is the reason.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pressure: bool,
    },
    /// The runtime has other instances of its container, and not the one of this file.
    InstanceGone {},
    /// Nothing in the store of containerd refers to it.
    Unreferenced {},
    /// The image is unused, and a list of the command names it.
    Listed {},
    /// The image is unused, and the command names it.
    Named {},
}

// === impl RemoveReason ===

impl RemoveReason {
    /// Returns the name of the rule that removes the object or sets the limit; `None` = no rule does.
    pub fn rule(&self) -> Option<&str> {
        if let Self::Rule(reason) = self { Some(&reason.rule) } else { None }
    }
}

/// The reason to keep an object. Reasons that only the profile `safe` uses are guards.
#[derive(Clone, Debug, IntoStaticStr, JsonSchema, PartialEq, Deserialize, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum KeepReason {
    // --- the kubelet's own rules ---
    /// It is running (I1).
    Running {},
    /// It is younger than the minimum age.
    YoungerThanMinAge {
        /// The minimum age of containers or of images.
        min_age_seconds: i64,
    },
    /// Its pod has no more dead instances of it than allowed.
    WithinMaxPerPodContainer {
        /// `containers.max_per_pod_container`.
        limit: u64,
    },
    /// No limit on dead containers is set.
    NoLimit {},
    /// The sandbox is ready (I1).
    Ready {},
    /// The sandbox still has containers (I1).
    HasContainers {
        /// The number of containers.
        containers: usize,
    },
    /// It is the newest sandbox of a pod that is not proven to be deleted.
    NewestSandbox {},
    /// Its pod is in the list of pods.
    PodPresent {
        /// The pod source.
        source: String,
    },
    /// The list of pods is incomplete, so a missing pod may exist (I2).
    PodsIncomplete {
        /// The pod source.
        source: String,
        /// Why it is incomplete; empty = unknown.
        #[serde(default)]
        cause: String,
    },
    /// No list of pods is available, so every pod may exist (I2).
    PodsNotSeen { cause: String },
    /// The target of the symlink exists.
    TargetExists {},
    /// The target of the symlink cannot be determined.
    TargetUnknown {},
    /// The symlink is dangling, but its container may still write: the log may be in rotation.
    ContainerNotExited { state: ContainerState },
    /// A container uses it, in whatever state (I6).
    InUse {
        /// One of those containers.
        container: String,
    },
    /// A container has it mounted as a volume (I6).
    ImageVolume {
        /// One of those containers.
        container: String,
    },
    /// The runtime pinned it (I6).
    Pinned {},
    /// Disk usage is below the high threshold, and no maximum age is set.
    BelowThreshold {
        /// Disk usage in percent.
        used_percent: u64,
        /// `images.high_threshold_percent`.
        high_threshold_percent: u64,
    },
    /// Disk usage is below the high threshold, and the image is not unused for longer than the maximum age.
    WithinMaxAge {
        /// `images.max_age`.
        max_age_seconds: i64,
    },
    /// The runtime no longer has the instance of this log, and the log is not older than `logs.leftover_max_age`.
    WithinLeftoverMaxAge {
        /// `logs.leftover_max_age`.
        max_age_seconds: i64,
    },
    /// The images before it are enough to reach the low threshold.
    TargetReached {},
    /// Image removal is disabled: the high threshold is 100, and no maximum age is set.
    ImageGcOff {},
    /// It was in use at the start of this pass.
    UsedMeanwhile {},
    /// The step failed. The plan lists the error.
    StepFailed {},
    /// Parts of the runtime's list are missing that may hold more of the same pod (I2, I3).
    ListIncomplete {
        /// The list, as the snapshot names it.
        list: String,
    },
    /// It has no name, and the image of a container is not in the list by the name that the container has (I6).
    PossiblyInUse {
        /// One of those containers.
        container: String,
    },
    /// The image volumes of a container are not known, but its pod names this image (I6).
    PossibleImageVolume {
        /// One of those containers.
        container: String,
    },
    /// The image volumes of a container are not known, and neither is its pod's spec (I6).
    ImageVolumesUnknown {
        /// One of those containers.
        container: String,
    },

    /// The removals before it are as many as one pass may do, by `images.pace`.
    BeyondPace {
        /// The most images of a pass; `null` = any number.
        images: Option<u64>,
        /// The most bytes of a pass; `null` = any number.
        bytes: Option<u64>,
    },
    /// Its removal would reclaim nothing: all that it holds is held by other objects too.
    FreesNothing {},

    /// `leftovers.remove` does not name its kind.
    NotSelected {
        /// Its kind, as the setting names it.
        leftover: LeftoverKind,
    },
    /// The kubelet's directory of a pod has a mount, or what the kubelet does not create.
    ForeignPath {
        /// What it is, and where.
        cause: String,
    },
    /// kubegc shows it and never removes it.
    ShownOnly {},
    /// No rule removes it: a checkpoint is what a person asked for.
    NoRule {},
    /// Without this record of a pulled image, any pod could use the image (I21).
    ProtectsImage {},

    // --- guards ---
    /// A container of another client of the runtime uses it.
    UsedByOtherClient {
        /// The namespace of that container in the runtime.
        namespace: String,
        /// The id of that container.
        container: String,
    },
    /// It is the newest instance of its container: without it the kubelet would run the container again (I3).
    NewestInstance {},
    /// The runtime does not know its state, and nothing shows that its sandbox is stopped: it may run, and its removal would
    /// stop it.
    MaybeRunning {},
    /// It is created and young, so it may be about to start (I4).
    MaybeStarting {
        /// `guards.created_grace`.
        created_grace_seconds: i64,
    },
    /// It has no pod labels, so the kubelet does not manage it (I5).
    #[serde(rename = "foreign")]
    #[strum(serialize = "foreign")]
    Unmanaged {},
    /// Its pod is missing, but not for long enough (I11).
    PodMissing {
        /// The first pass that did not find the pod; `null` = this pass.
        absent_since: Option<Timestamp>,
        /// `guards.gone_after`.
        gone_after_seconds: i64,
    },
    /// Its pod is missing or terminated, but still has a running container or a ready sandbox (I11).
    PodStillRuns {},
    /// Its pod is missing, but the kubelet still has its directory (I11).
    PodDirExists {},
    /// Its pod is missing, but the kubelet's pod directories are unavailable (I11).
    PodDirsNotSeen { cause: String },
    /// Its pod is missing, but a live lookup cannot confirm its deletion (I11).
    PodNotConfirmable {
        /// The pod source.
        source: String,
    },
    /// The dead sandbox is so young that it may still be in creation (I4).
    YoungSandbox {
        /// `guards.sandbox_grace`.
        sandbox_grace_seconds: i64,
    },
    /// The kubelet does not use such a name or such a kind of entry (I7).
    Unrecognized {},
    /// The runtime still has a container or sandbox of its pod.
    PodInRuntime {},
    /// The runtime's list of containers is unavailable.
    RuntimeNotSeen { cause: String },
    /// It is the sandbox image of the runtime (I6).
    SandboxImage {},
    /// A rule keeps it.
    Rule(RuleReason),
    /// A workload of the cluster names it, and may create a pod with it here.
    NamedByWorkload {
        /// The workload, as `cronjob/shop/report`.
        workload: String,
    },
    /// A keep pattern matches one of its names (I6).
    KeepPattern { pattern: String },
    /// It was pulled again soon after kubegc had removed it for the reason for which it would be removed now (kubernetes#132403).
    PulledAgain {
        /// The removal.
        removed_at: Timestamp,
        /// The time without a use after which it is removed again.
        unused_seconds: i64,
    },
    /// The kubelet is pulling it (I6).
    BeingPulled {},
    /// The spec of a pod of this node names it (I6).
    NamedByPod {
        /// The pod, as namespace/name.
        named_by: String,
        /// The moment of the last complete list of pods, where the pod is known from that list alone; `null` = the pod is
        /// in the list of this snapshot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_of: Option<Timestamp>,
    },
    /// The runtime has just started, so its lists may be incomplete (I12).
    RuntimeJustStarted {
        /// `guards.settle`.
        settle_seconds: i64,
    },
    /// The runtime lists far fewer objects than when its lists were last trusted (I12).
    ListFell {
        /// The list that fell: `containers`, `sandboxes` or `images`.
        #[serde(default)]
        list: String,
        /// The length when the list was last trusted, minus the removals since.
        before: u64,
        /// The length now.
        now: u64,
        /// `guards.fall_hold`.
        #[serde(default)]
        hold_seconds: i64,
    },
    /// The lengths of the runtime's lists from before were lost with the store, so a fall could not be noticed (I12).
    BaselineLost {
        /// `guards.fall_hold`.
        #[serde(default)]
        hold_seconds: i64,
    },
    /// Its removal failed, and its back-off has not passed.
    BackingOff {
        /// The earliest time of the next attempt.
        retry_at: Timestamp,
        /// Failures in a row.
        failures: u32,
        /// The error of the last attempt.
        error: String,
    },
}

// === impl KeepReason ===

impl KeepReason {
    /// Returns whether a rule keeps the object only because its condition could not be evaluated.
    pub(in crate::plan) fn is_not_evaluated(&self) -> bool {
        matches!(self, Self::Rule(RuleReason { error: Some(_), .. }))
    }
}
