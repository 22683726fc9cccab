//! What a plan depends on besides the snapshot: the settings of its steps, and which steps there are.

pub(super) mod guards;
pub(super) mod image_policy;
pub(super) mod image_target;
pub(super) mod log_limit;
pub(super) mod pressure;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::model::{EvictionLimits, ImageName, LeftoverKind};
use crate::rules::{Rules, Uses};
use guards::{Guards, Profile};
use image_policy::{ImageOrder, ImagePolicy};
use log_limit::{ArchiveLimit, LogLimit};
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
    pub images: ImagePolicy,
    /// The limits below which a disk has disk pressure.
    pub pressure: PressurePolicy,
    /// What kubegc keeps although the kubelet would remove it.
    pub guards: Guards,
    pub rules: Rules,
    /// When the kubelet evicts pods, for forecasts.
    pub eviction: EvictionLimits,
    /// What holds for one pass.
    pub pass: PassState,
}

/// What a plan depends on for one pass, and what is no setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassState {
    /// Which disk has pressure now, so that objects of terminated pods are removed, and unused images until it has none.
    pub pressure: Option<Pressure>,
    /// Under disk pressure: the passes before did not end it, so the logs of terminated pods go too.
    pub is_last_resort: bool,
    /// Images that go while they are unused, after the rules of the node, by what lists them.
    pub listed: BTreeMap<String, Vec<ImageName>>,
    /// What names images that are removed while they are unused. The command leaves the others out of the plan.
    pub named_by: Option<NamedBy>,
}

/// What names the images that a command removes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NamedBy {
    /// `--remove-list`
    List,
    /// Its arguments.
    Arguments,
}

/// Limits on dead containers (kubelet flags of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPolicy {
    pub min_age: Duration,
    /// `containers.max_per_pod_container`; `None` = no limit.
    pub max_per_pod_container: Option<u64>,
    /// `containers.max_containers`; `None` = no limit.
    pub max_containers: Option<u64>,
    pub age_from: AgeFrom,
    pub evict_terminated_pods: bool,
}

/// The time from which a container's age counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AgeFrom {
    /// When it was created, as in the kubelet.
    #[default]
    Created,
    /// When it finished (kubernetes#13562); when it was created if the finish time is unknown.
    Finished,
}

/// The directories of the archive, beside the pod log root.
pub const ARCHIVE: [&str; 2] = ["kubegc", "archive"];

#[derive(Clone, Debug, PartialEq)]
pub struct LogPolicy {
    pub pods_root: PathBuf,
    pub containers_root: PathBuf,
    /// `logs.leftover_max_age`; 0 = a pod keeps the logs of all its instances.
    pub leftover_max_age: Duration,
    /// `logs.limits`, each kind once; empty = none.
    pub limits: Vec<LogLimit>,
    /// `logs.archive`, each kind once; empty = there is no archive.
    pub archive: Vec<ArchiveLimit>,
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
    Images,
    /// All steps, as for a command in a shell.
    All,
}

// === impl Policy ===

impl Policy {
    /// Returns whether images are kept that a workload names.
    pub fn keeps_workload_images(&self) -> bool {
        self.guards.keep_workload_images && self.pass.pressure.is_none()
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

// === impl ContainerPolicy ===

impl Default for ContainerPolicy {
    fn default() -> Self {
        Self {
            min_age: Duration::ZERO,
            max_per_pod_container: Some(1),
            max_containers: None,
            age_from: AgeFrom::Created,
            evict_terminated_pods: false,
        }
    }
}

// === impl LogPolicy ===

impl LogPolicy {
    /// Returns the directory of the archive: `/var/log/kubegc/archive` for `/var/log/pods`.
    pub fn archive_root(&self) -> PathBuf {
        self.pods_root.parent().into_iter().chain(ARCHIVE.map(Path::new)).collect()
    }
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self {
            pods_root: "/var/log/pods".into(),
            containers_root: "/var/log/containers".into(),
            leftover_max_age: Duration::ZERO,
            limits: Vec::new(),
            archive: Vec::new(),
        }
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
