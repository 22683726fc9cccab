//! The guards: what kubegc keeps although the kubelet would remove it.
//!
//! The kubelet has pod workers, so it can exclude that work on a pod is in progress. An agent outside the kubelet
//! cannot. Each guard closes one of the gaps that follow from this. The profile sets them all: `kubelet` disables them.
//! Those that depend on a node have a setting of their own too, which their comment names.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// A named set of guards.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[derive(Display, EnumString, IntoStaticStr, JsonSchema, Deserialize, Serialize, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Profile {
    /// All guards are on.
    #[default]
    Safe,
    /// The rules of the kubelet 1.36 only: for comparison and what-if analysis.
    Kubelet,
    /// The same as `kubelet`, with the name that suits the controller: the rules of kube-controller-manager 1.36 only.
    Upstream,
}

/// The guards. 0 or `false` disables a guard.
#[derive(Clone, Debug, PartialEq)]
pub struct Guards {
    /// The newest instance of each container of a pod is kept until the pod is deleted (I3).
    pub keep_newest_instance: bool,
    /// `guards.created_grace` (I4)
    pub created_grace: Duration,
    /// `guards.keep_foreign` (I5)
    pub keep_foreign: bool,
    /// `guards.sandbox_grace`
    pub sandbox_grace: Duration,
    /// `guards.gone_after` (I2, I11)
    pub gone_after: Duration,
    /// Log entries with names that the kubelet does not use are kept (I7).
    pub keep_unrecognized_logs: bool,
    /// An image is in use if a container names its id, digest or tag, not its id alone (I6).
    pub match_image_names: bool,
    /// The sandbox image of the runtime is kept, pinned or not (I6).
    pub keep_sandbox_image: bool,
    /// `guards.keep_pod_images` (I6)
    pub keep_pod_images: bool,
    /// `guards.keep_workload_images`. It needs a permission, so no profile has it.
    pub keep_workload_images: bool,
    /// An image that a container of another client of the runtime uses is kept, also one of another namespace.
    pub keep_images_of_other_clients: bool,
    /// An image that was pulled again soon after its removal by age or by a rule is not removed for the same reason again until it
    /// is unused for twice as long. Disk pressure, thresholds and targets remove it as any other.
    pub keep_pulled_again: bool,
    /// `images.max_age` of a never-used image counts from its first observation, and `images.min_age` applies.
    pub age_from_first_seen: bool,
    /// `guards.settle` (I12)
    pub settle: Duration,
    /// A list of the runtime is not trusted if it falls below this percentage of its baseline, unless
    /// [`Self::fall_hold`] is 0 (I12).
    pub fall_percent: u64,
    /// `guards.fall_hold` (I12)
    pub fall_hold: Duration,
    /// The back-off after a failed removal, or one that is refused again and again. It doubles up to an hour.
    pub retry_after: Duration,
    /// Further images are removed while the measured space is below the target, whatever the estimated sizes (I9).
    pub measure_space: bool,
}

// === impl Guards ===

impl Guards {
    /// Returns the guards of a profile.
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Safe => Self::safe(),
            Profile::Kubelet | Profile::Upstream => Self::none(),
        }
    }

    fn safe() -> Self {
        Self {
            keep_newest_instance: true,
            created_grace: Duration::from_mins(10),
            keep_foreign: true,
            sandbox_grace: Duration::from_mins(1),
            gone_after: Duration::from_mins(1),
            keep_unrecognized_logs: true,
            match_image_names: true,
            keep_sandbox_image: true,
            keep_pod_images: true,
            keep_workload_images: false,
            keep_images_of_other_clients: true,
            keep_pulled_again: true,
            age_from_first_seen: true,
            settle: Duration::from_mins(1),
            fall_percent: 50,
            fall_hold: Duration::from_mins(10),
            retry_after: Duration::from_mins(1),
            measure_space: true,
        }
    }

    fn none() -> Self {
        Self {
            keep_newest_instance: false,
            created_grace: Duration::ZERO,
            keep_foreign: false,
            sandbox_grace: Duration::ZERO,
            gone_after: Duration::ZERO,
            keep_unrecognized_logs: false,
            match_image_names: false,
            keep_sandbox_image: false,
            keep_pod_images: false,
            keep_workload_images: false,
            keep_images_of_other_clients: false,
            keep_pulled_again: false,
            age_from_first_seen: false,
            settle: Duration::ZERO,
            fall_percent: 50,
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
