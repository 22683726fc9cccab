//! The state of each image in the account of the disk, from the decisions of a plan.

use super::Plan;
use super::action::Kind;
use super::decision::Decision;
use super::reason::KeepReason;
use crate::model::Snapshot;
use crate::store::{Category, DiskAccount, ImageStates, account};

/// Makes the account of a snapshot, with the decisions of its plan about the images.
///
/// # Errors
/// Why there is none: the file system or the store of the runtime is unavailable.
pub fn disk_account(snapshot: &Snapshot, plan: &Plan) -> Result<DiskAccount, String> {
    account(snapshot, states(plan))
}

fn states(plan: &Plan) -> ImageStates {
    let images = plan.decisions().filter(|decision| decision.kind() == Kind::Image);
    let categories = images.filter_map(|decision| {
        let category = match decision {
            Decision::Remove(_) => Category::ImagesRemovable,
            // The reason why it is kept first says more.
            Decision::IfNeeded(_) => return None,
            Decision::Keep(kept) => category_of_kept(&kept.reason),
        };
        Some((decision.id().as_ref().into(), (category, decision.explain().phrase.into_owned())))
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
        | KeepReason::NotSelected { .. }
        | KeepReason::ShownOnly { .. }
        | KeepReason::NoRule { .. }
        | KeepReason::ProtectsImage { .. }
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
        | KeepReason::LastCopy { .. }
        | KeepReason::PulledAgain { .. }
        | KeepReason::BeingPulled { .. }
        | KeepReason::NamedByPod { .. }
        | KeepReason::RuntimeJustStarted { .. }
        | KeepReason::ListFell { .. }
        | KeepReason::BaselineLost { .. }
        | KeepReason::BackingOff { .. } => Category::ImagesKept,
    }
}
