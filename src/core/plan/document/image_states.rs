//! The state of each image in the account of the disk, from the decisions of a plan.

use super::Plan;
use super::action::Kind;
use super::decision::Decision;
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
            Decision::Keep(kept) => kept.reason.explain().category,
        };
        Some((decision.id().as_ref().into(), (category, decision.explain().phrase.into_owned())))
    });
    categories.collect()
}
