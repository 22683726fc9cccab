//! The guards: what kubegc keeps although the kubelet would remove it. Each guard has its own setting.
//!
//! The kubelet has pod workers, so it can exclude that work on a pod is in progress. An agent outside the kubelet
//! cannot. Each guard closes one of the gaps that follow from this. The profile `kubelet` disables all guards.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named set of guards.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// All guards are on.
    #[default]
    Safe,
    /// The rules of the kubelet 1.36 only: for comparison and what-if analysis.
    Kubelet,
}

/// The guards. 0 or `false` disables a guard.
#[derive(Clone, Debug, PartialEq)]
pub struct Guards {
    /// Keep the newest instance of each (pod, container name) until the pod is deleted (I3). Default on.
    pub keep_newest_of_unit: bool,
    /// Keep CREATED containers younger than this, because they may be about to start (I4). Default 10 min.
    pub created_grace: Duration,
    /// Keep containers and sandboxes without pod labels (I5). Default on.
    pub keep_foreign: bool,
    /// Keep dead sandboxes younger than this, because a sandbox that is being created looks dead. Default 1 min.
    pub sandbox_grace: Duration,
    /// A pod counts as deleted only if a complete list does not contain it, nothing of it runs, the kubelet has no
    /// directory for it, and all this was true for this long (I2, I11). Default 1 min; 0 = absence from the list is
    /// enough, as for the kubelet.
    pub gone_after: Duration,
    /// Keep log entries whose names are not in the kubelet's format (I7). Default on.
    pub keep_unrecognized_logs: bool,
    /// Count an image as used if a container refers to it by ID, digest or tag, not by ID alone (I6). Default on.
    pub match_image_names: bool,
    /// Keep the sandbox image, whether it is pinned or not (I6). Default on.
    pub keep_sandbox_image: bool,
    /// Keep images that pods of this node use, and images that are being pulled (I6). Default on.
    pub keep_pod_images: bool,
    /// For a never-used image, count the maximum age from the time when it was first seen, and apply the minimum age
    /// too. Default on.
    pub age_from_first_seen: bool,
    /// Count nothing as unused or deleted for this long after the start of the runtime (I12). Default 1 min; 0 = off.
    pub settle: Duration,
    /// Count nothing as unused or deleted if the runtime lists fewer containers, sandboxes or images than this
    /// percentage of the last trusted list (I12). Range 0 to 100, default 50; 0 = off.
    pub fall_percent: u64,
    /// A list that became much shorter is trusted after it had its new length for this long, in at least three passes
    /// (I12). Default 10 min.
    pub fall_hold: Duration,
    /// The back-off after a failed removal. It doubles up to one hour. Default 1 min; 0 = retry in each pass.
    pub retry_after: Duration,
    /// Continue with the next images while the measured space is too small, whatever the sum of the sizes is (I9).
    /// Default on.
    pub measure_space: bool,
}

// === impl Guards ===

impl Guards {
    /// Returns the guards of a profile.
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Safe => Self::safe(),
            Profile::Kubelet => Self::none(),
        }
    }

    /// Returns all guards enabled.
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

    /// Returns all guards disabled.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_shown_as_in_documents() {
        for profile in [Profile::Safe, Profile::Kubelet] {
            assert_eq!(serde_json::json!(profile), profile.to_string());
        }
    }
}
