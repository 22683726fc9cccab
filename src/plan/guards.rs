//! The guards: what the kubelet would remove and we keep, each with its own switch.
//!
//! The kubelet knows through its pod workers that nothing is under way for a pod; an agent outside it never does. Each
//! guard closes one of the gaps that follow from this. The profile `kubelet` turns all of them off.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named set of guards.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Every guard on.
    #[default]
    Safe,
    /// The rules of the kubelet 1.36 and nothing more: for comparison and what-if.
    Kubelet,
}

/// The guards. Durations of 0 and `false` turn one off.
#[derive(Clone, Debug, PartialEq)]
pub struct Guards {
    /// Keeps the newest instance of each (pod, container name) until the pod is gone (I3). Default on.
    pub keep_newest_of_unit: bool,
    /// Keeps CREATED containers younger than this: they may be about to start (I4). Default 10 min.
    pub created_grace: Duration,
    /// Leaves containers and sandboxes without pod labels alone (I5). Default on.
    pub keep_foreign: bool,
    /// Keeps dead sandboxes younger than this: one in the making looks dead. Default 1 min.
    pub sandbox_grace: Duration,
    /// A pod is gone only if a complete list does not name it, nothing of it runs, the kubelet has no directory for it,
    /// and all that held for this long (I2, I11). Default 1 min; 0 = absence from the list is enough, as for the kubelet.
    pub gone_after: Duration,
    /// Keeps log entries whose names do not parse as a kubelet's (I7). Default on.
    pub keep_unrecognized_logs: bool,
    /// Counts an image as used if a container names it by id, digest or tag, and not by id alone (I6). Default on.
    pub match_image_names: bool,
    /// Keeps the image of the runtime's sandboxes, pinned or not (I6). Default on.
    pub keep_sandbox_image: bool,
    /// Keeps images that pods of this node name, and those being pulled (I6). Default on.
    pub keep_pod_images: bool,
    /// Counts the maximum age of a never-used image from its first sight, and obeys the minimum age too. Default on.
    pub age_from_first_seen: bool,
    /// Nothing counts as unused or gone for this long after the runtime started (I12). Default 1 min; 0 = off.
    pub settle: Duration,
    /// Nothing counts as unused or deleted when the runtime lists fewer containers, sandboxes or images than this percentage
    /// of what it listed when it was last trusted (I12). Range 0 to 100, default 50; 0 = off.
    pub fall_percent: u64,
    /// How long a list that fell must stay at its new level, in three passes at least, before it is trusted (I12). Default
    /// 10 min.
    pub fall_hold: Duration,
    /// Waits this long after a failed removal, doubling up to an hour. Default 1 min; 0 = tries in each pass.
    pub retry_after: Duration,
    /// Goes on to the next images while the measured space is short, whatever the sizes add up to (I9). Default on.
    pub measure_space: bool,
}

// === impl Guards ===

impl Guards {
    /// The guards of a profile.
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Safe => Self::safe(),
            Profile::Kubelet => Self::none(),
        }
    }

    /// Every guard on.
    fn safe() -> Self {
        Self {
            keep_newest_of_unit: true,
            created_grace: Duration::from_mins(10),
            keep_foreign: true,
            sandbox_grace: Duration::from_mins(1),
            gone_after: Duration::from_mins(1),
            keep_unrecognized_logs: true,
            match_image_names: true,
            keep_sandbox_image: true,
            keep_pod_images: true,
            age_from_first_seen: true,
            settle: Duration::from_mins(1),
            fall_percent: 50,
            fall_hold: Duration::from_mins(10),
            retry_after: Duration::from_mins(1),
            measure_space: true,
        }
    }

    /// Every guard off.
    fn none() -> Self {
        Self {
            keep_newest_of_unit: false,
            created_grace: Duration::ZERO,
            keep_foreign: false,
            sandbox_grace: Duration::ZERO,
            gone_after: Duration::ZERO,
            keep_unrecognized_logs: false,
            match_image_names: false,
            keep_sandbox_image: false,
            keep_pod_images: false,
            age_from_first_seen: false,
            settle: Duration::ZERO,
            fall_percent: 0,
            fall_hold: Duration::ZERO,
            retry_after: Duration::ZERO,
            measure_space: false,
        }
    }
}

impl Default for Guards {
    fn default() -> Self {
        Self::safe()
    }
}

// === impl Profile ===

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Safe => "safe",
            Self::Kubelet => "kubelet",
        })
    }
}
