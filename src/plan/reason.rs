//! Why something goes, and why something stays.
//!
//! One enum each for all policies, so that documents, tables and `why` have one list to know; each policy file says in
//! its head which of them it gives. A variant carries the values that decided.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::ContainerState;

/// The rule that removes something.
#[derive(Clone, Debug, IntoStaticStr, JsonSchema, PartialEq, Deserialize, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum RemoveReason {
    /// The pod is gone (I11).
    PodGone {},
    /// The pod finished but still exists, and terminated pods are to be evicted.
    PodTerminal {},
    /// More dead instances of this (pod, container name) than allowed.
    OverUnitLimit {
        /// `containers.max_per_pod_container`.
        limit: i64,
    },
    /// More dead containers on the node than allowed.
    OverTotalLimit {
        /// `containers.max_containers`.
        limit: i64,
    },
    /// A dead sandbox of a living pod that has a newer one.
    Superseded {},
    /// A link that leads nowhere, and whose container ended or is gone.
    Dangling {},
    /// The disk reached the high threshold, and this image is next in line.
    Space {
        /// `images.high_threshold_percent`.
        high_threshold_percent: u64,
        /// Used space in percent.
        used_percent: u64,
    },
    /// Unused for longer than the maximum age.
    Age {
        /// `images.max_age`.
        max_age_seconds: i64,
        /// Seconds since its last use; `null` = never used, as the kubelet counts.
        unused_seconds: Option<i64>,
    },
    /// Unused, and everything unused was asked for.
    Unused {},
}

/// The rule that keeps something. Those that only the profile `safe` gives are guards.
#[derive(Clone, Debug, IntoStaticStr, JsonSchema, PartialEq, Deserialize, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum KeepReason {
    // --- the kubelet's own rules ---
    /// It runs (I1).
    Running {},
    /// Younger than the minimum age.
    YoungerThanMinAge {
        /// The minimum age that is meant: of containers or of images.
        min_age_seconds: i64,
    },
    /// Its unit has no more dead instances than allowed.
    WithinUnitLimit {
        /// `containers.max_per_pod_container`.
        limit: i64,
    },
    /// No limit is set that it could be over.
    NoLimit {},
    /// The sandbox is ready (I1).
    Ready {},
    /// The sandbox still has containers (I1).
    HasContainers {
        /// How many.
        containers: usize,
    },
    /// The newest sandbox of a pod that is not gone.
    NewestSandbox {},
    /// Its pod is in the list of pods.
    PodPresent {
        /// Where the list comes from.
        source: String,
    },
    /// The list of pods is not complete, so absence proves nothing (I2).
    PodsIncomplete {
        /// Where the list comes from.
        source: String,
        /// Why it is not complete, for people; empty = the source does not tell.
        #[serde(default)]
        cause: String,
    },
    /// No list of pods could be had, so absence proves nothing (I2).
    PodsNotSeen {
        /// Why.
        cause: String,
    },
    /// The link leads somewhere.
    TargetExists {},
    /// It could not be told where the link leads.
    TargetUnknown {},
    /// The link dangles, but its container may still write: the log is perhaps being rotated.
    ContainerNotExited {
        /// The container's state.
        state: ContainerState,
    },
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
    /// The disk is below the high threshold, and it is not too old.
    BelowThreshold {
        /// Used space in percent.
        used_percent: u64,
        /// `images.high_threshold_percent`.
        high_threshold_percent: u64,
    },
    /// The disk is below the high threshold, and it was not unused for longer than the maximum age.
    WithinMaxAge {
        /// `images.max_age`.
        max_age_seconds: i64,
    },
    /// What goes before it is enough.
    TargetReached {},
    /// Image collection is off: high threshold 100 and no maximum age.
    ImageGcOff {},
    /// Seen in use at the very moment of this pass.
    UsedMeanwhile {},
    /// The step could not run; the plan's errors say why.
    StepFailed {},
    /// Parts of the runtime's list are missing that may hold more of the same pod (I2, I3).
    ListIncomplete {
        /// Which list, as the snapshot names it.
        list: String,
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

    // --- guards ---
    /// The newest instance of its unit: the kubelet would run the container again (I3).
    NewestOfUnit {},
    /// Created and young: perhaps about to start (I4).
    MaybeStarting {
        /// `guards.created_grace`.
        created_grace_seconds: i64,
    },
    /// No pod labels: somebody else's (I5).
    Foreign {},
    /// Its pod is in no list, but not for long enough yet (I11).
    NotYetGone {
        /// The first look that did not find it; `null` = this one.
        absent_since: Option<Timestamp>,
        /// `guards.gone_after`.
        gone_after_seconds: i64,
    },
    /// Its pod is in no list, or finished and to be evicted, but something of it runs (I11).
    PodStillRuns {},
    /// Its pod is in no list, but the kubelet still has its directory (I11).
    PodDirExists {},
    /// Its pod is in no list, but the kubelet's directories could not be read (I11).
    PodDirsNotSeen {
        /// Why.
        cause: String,
    },
    /// Its pod is in no list, but a live lookup cannot confirm that it is deleted (I11).
    PodNotConfirmable {
        /// The pod source.
        source: String,
    },
    /// A dead sandbox so young that it may be one in the making (I4).
    YoungSandbox {
        /// `guards.sandbox_grace`.
        sandbox_grace_seconds: i64,
    },
    /// The name does not parse as ours, or it is not the kind of entry expected (I7).
    Unrecognized {},
    /// Something of its pod is still in the runtime.
    PodInRuntime {},
    /// The runtime's list of containers could not be had.
    RuntimeNotSeen {
        /// Why.
        cause: String,
    },
    /// The image of the runtime's sandboxes (I6).
    SandboxImage {},
    /// A keep pattern matches one of its names (I6).
    KeepPattern {
        /// The pattern.
        pattern: String,
    },
    /// The kubelet is pulling it (I6).
    BeingPulled {},
    /// A pod of this node names it (I6).
    NamedByPod {
        /// The pod, as namespace/name.
        named_by: String,
        /// The moment of the last complete list of pods, where the pod is known from that list alone; `null` = the pod is
        /// in the list of this snapshot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_of: Option<Timestamp>,
    },
    /// The runtime started a moment ago; its lists may not be whole (I12).
    RuntimeJustStarted {
        /// `guards.settle`.
        settle_seconds: i64,
    },
    /// The runtime lists far fewer objects than when its lists were last trusted (I12).
    ListFell {
        /// The list that fell: `containers`, `sandboxes` or `images`.
        #[serde(default)]
        list: String,
        /// Listed when it was last trusted, less what was removed since.
        before: u64,
        /// Listed now.
        now: u64,
        /// `guards.fall_hold`.
        #[serde(default)]
        hold_seconds: i64,
    },
    /// Its removal failed and waits before the next try.
    BackingOff {
        /// Not before.
        retry_at: Timestamp,
        /// Failures in a row.
        failures: u32,
        /// What the last try answered.
        error: String,
    },
}
