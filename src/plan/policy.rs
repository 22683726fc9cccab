//! What a plan depends on besides the snapshot: the settings of its steps, and which steps there are.

pub(super) mod eviction;
pub(super) mod image_policy;
pub(super) mod pressure;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::containers::ContainerPolicy;
use super::guards::{Guards, Profile};
use super::images::last_copies::LastCopies;
use super::logs::LogPolicy;
use crate::model::LeftoverKind;
use crate::rules::{Rules, Uses};
use eviction::EvictionLimits;
use image_policy::{ImageOrder, ImagePolicy};
use pressure::{Pressure, PressurePolicy};

/// Everything that a plan depends on besides the snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The name of the set of rules, as the plan shows it. Only `guards` has an effect.
    pub profile: Profile,
    /// Limits on dead containers; `evict_terminated_pods` also applies to sandboxes.
    pub containers: ContainerPolicy,
    /// The directories with logs and log symlinks.
    pub logs: LogPolicy,
    /// The kinds of leftovers that are removed: `leftovers.remove`.
    pub leftovers: Leftovers,
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
    /// When the kubelet evicts pods, for forecasts.
    pub eviction: EvictionLimits,
    /// `keepLastCopy` of the policies of the cluster.
    pub last_copies: LastCopies,
}

/// The kinds of leftovers that are removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Leftovers(pub BTreeSet<LeftoverKind>);

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

    /// Returns whether the bytes of all images, or of those of a rule, can be a reason.
    pub fn has_image_total(&self) -> bool {
        self.images.has_total() || self.rules.iter().any(|rule| rule.total().is_some())
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

// === impl Leftovers ===

impl Leftovers {
    /// Returns the kinds of a profile: the kubelet itself removes none.
    pub fn of(profile: Profile) -> Self {
        Self(LeftoverKind::REMOVED.into_iter().filter(|_| profile == Profile::Safe).collect())
    }
}

impl Default for Leftovers {
    fn default() -> Self {
        Self::of(Profile::default())
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
