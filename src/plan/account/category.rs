//! What takes space on a disk: the categories, and which image has which.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumIter, IntoStaticStr};

use crate::model::{ImageId, PartKind};
use crate::plan::document::Plan;
use crate::plan::document::action::Kind;
use crate::plan::document::decision::Verdict;
use crate::plan::document::reason::KeepReason;

/// What takes space, in the order of importance.
#[derive(
    Clone, Copy, Debug, EnumIter, Eq, IntoStaticStr, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Category {
    /// Layers of images that containers use, and layers of containers whose image does not exist any more.
    ImagesInUse,
    /// Layers of unused images that a rule or guard keeps.
    ImagesKept,
    /// Layers of images that are removed now, or when the disk is fuller.
    ImagesRemovable,
    /// The images as they were pulled. The runtime has them besides the unpacked layers.
    CompressedBlobs,
    /// What containers have written.
    WritableLayers,
    /// Images of the CRI's namespace that the CRI does not list, because their content is incomplete or for another platform.
    UnlistedImages,
    /// Images, containers and blobs of other clients of the runtime, in its other namespaces or without the CRI.
    OtherClients,
    /// What only a lease holds.
    Leases,
    /// What only a label of its own holds.
    Labels,
    /// Downloads that have not ended.
    Downloads,
    /// Layers and blobs that nothing refers to.
    Unreferenced,
    /// Log files of pods.
    Logs,
    /// Blocks without data that only root may fill.
    ReservedBlocks,
    /// Everything else.
    NotOfTheRuntime,
}

// === impl Category ===

impl Category {
    /// Returns the words for people.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::ImagesInUse => "images in use",
            Self::ImagesKept => "images kept",
            Self::ImagesRemovable => "images removable",
            Self::CompressedBlobs => "compressed blobs",
            Self::WritableLayers => "writable layers",
            Self::UnlistedImages => "images not listed by the CRI",
            Self::OtherClients => "other clients of the runtime",
            Self::Leases => "held by leases",
            Self::Labels => "held by labels",
            Self::Downloads => "downloads",
            Self::Unreferenced => "unreferenced",
            Self::Logs => "pod logs",
            Self::ReservedBlocks => "reserved blocks",
            Self::NotOfTheRuntime => "not of the runtime",
        }
    }
}

/// Returns the category of a part of this kind whose holder has a category.
pub(super) fn of_kind(category: Category, kind: PartKind) -> Category {
    use Category::{CompressedBlobs, Downloads, ImagesInUse, ImagesKept, ImagesRemovable, WritableLayers};
    match (category, kind) {
        (_, PartKind::Download) => Downloads,
        (ImagesInUse, PartKind::Writable) => WritableLayers,
        (ImagesInUse | ImagesKept | ImagesRemovable, PartKind::Blob) => CompressedBlobs,
        (category, _) => category,
    }
}

/// Returns the category of each image and the reason, from the decisions of a plan.
pub(super) fn decisions(plan: &Plan) -> BTreeMap<ImageId, (Category, String)> {
    let categories = plan.decisions(Kind::Image).filter_map(|decision| {
        let category = match decision.verdict {
            Verdict::Remove(_) => Category::ImagesRemovable,
            // The reason why it is kept first says more.
            Verdict::IfNeeded(_) => return None,
            Verdict::Keep(reason) => category_of_kept(reason),
        };
        Some((decision.id.as_str().into(), (category, decision.verdict.explain().phrase.into_owned())))
    });
    categories.collect()
}

fn category_of_kept(reason: &KeepReason) -> Category {
    match reason {
        KeepReason::InUse { .. }
        | KeepReason::PossiblyInUse { .. }
        | KeepReason::ImageVolume { .. }
        | KeepReason::UsedByOtherClient { .. } => Category::ImagesInUse,
        KeepReason::BelowThreshold { .. }
        | KeepReason::TargetReached {}
        | KeepReason::WithinMaxAge { .. }
        | KeepReason::YoungerThanMinAge { .. }
        | KeepReason::ImageGcOff {}
        | KeepReason::BeyondPace { .. }
        | KeepReason::FreesNothing {} => Category::ImagesRemovable,
        KeepReason::Running { .. }
        | KeepReason::WithinMaxPerPodContainer { .. }
        | KeepReason::NoLimit { .. }
        | KeepReason::Ready { .. }
        | KeepReason::HasContainers { .. }
        | KeepReason::NewestSandbox { .. }
        | KeepReason::PodPresent { .. }
        | KeepReason::PodsIncomplete { .. }
        | KeepReason::PodsNotSeen { .. }
        | KeepReason::TargetExists { .. }
        | KeepReason::TargetUnknown { .. }
        | KeepReason::ContainerNotExited { .. }
        | KeepReason::Pinned { .. }
        | KeepReason::WithinLeftoverMaxAge { .. }
        | KeepReason::UsedMeanwhile { .. }
        | KeepReason::StepFailed { .. }
        | KeepReason::ListIncomplete { .. }
        | KeepReason::PossibleImageVolume { .. }
        | KeepReason::ImageVolumesUnknown { .. }
        | KeepReason::NewestInstance { .. }
        | KeepReason::MaybeRunning { .. }
        | KeepReason::MaybeStarting { .. }
        | KeepReason::Unmanaged { .. }
        | KeepReason::PodMissing { .. }
        | KeepReason::PodStillRuns { .. }
        | KeepReason::PodDirExists { .. }
        | KeepReason::PodDirsNotSeen { .. }
        | KeepReason::PodNotConfirmable { .. }
        | KeepReason::YoungSandbox { .. }
        | KeepReason::Unrecognized { .. }
        | KeepReason::PodInRuntime { .. }
        | KeepReason::RuntimeNotSeen { .. }
        | KeepReason::SandboxImage { .. }
        | KeepReason::Rule(_)
        | KeepReason::NamedByWorkload { .. }
        | KeepReason::KeepPattern { .. }
        | KeepReason::BeingPulled { .. }
        | KeepReason::NamedByPod { .. }
        | KeepReason::RuntimeJustStarted { .. }
        | KeepReason::ListFell { .. }
        | KeepReason::BaselineLost { .. }
        | KeepReason::BackingOff { .. } => Category::ImagesKept,
    }
}
