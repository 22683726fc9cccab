//! The end of `kubegc disk`: what a collection would free, and what it would not.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cli::render::{format, planned};
use crate::plan::{Action, Kind, Plan, PlanError, Target};
use crate::store::{Category, DiskAccount, LargeEntry};

/// Says what to do about what fills the disks.
pub(super) fn advice(account: &DiskAccount, plan: &Plan) -> String {
    let lines = if plan.errors.iter().any(PlanError::is_unobserved) {
        [
            Some("What `kubegc collect` would free is not known, because a list is unavailable.".to_owned()),
            None,
            largest(account),
        ]
    } else {
        [Some(freed(account, plan)), kept_for_now(account, plan), largest(account)]
    };
    let forecasts = plan.disks.iter().filter_map(|disk| {
        let name = disk.disk.file_system.mountpoint.display();
        Some(format!("{name} {}.", disk.forecast_text(account.reclaimable_bytes)?))
    });
    forecasts.chain(lines.into_iter().flatten()).map(|line| line + "\n").collect()
}

/// Says what a pass would free now.
fn freed(account: &DiskAccount, plan: &Plan) -> String {
    if plan.actions.is_empty() {
        return "`kubegc collect` would remove nothing now.".to_owned();
    }
    let layers: HashMap<&str, u64> =
        account.writable_layers.iter().filter_map(|layer| Some((layer.id.as_str(), layer.bytes?))).collect();
    let bytes = |action: &Action| {
        let layer = match &action.target {
            Target::RemoveContainer { id, .. } => layers.get(id.as_str()).copied().unwrap_or_default(),
            _ => 0,
        };
        action.bytes().unwrap_or_default().saturating_add(layer)
    };
    let bytes = plan.actions.iter().map(bytes).fold(0, u64::saturating_add);
    format!("`kubegc collect` would free about {} ({}).", format::size(bytes), planned(plan))
}

/// Says what unused images it keeps until they are older or the disk is fuller, and why.
fn kept_for_now(account: &DiskAccount, plan: &Plan) -> Option<String> {
    let images = plan.actions.iter().filter(|action| action.target.kind() == Kind::Image);
    let planned: HashSet<_> = images.clone().map(|action| action.target.id()).collect();
    let bytes = images.filter_map(Action::bytes).fold(account.reclaimable_bytes, u64::saturating_sub);
    let unused = account.images.iter().filter(|image| image.category == Category::ImagesRemovable);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for image in unused.filter(|image| !planned.contains(image.id.as_str())) {
        *reasons.entry(&image.reason).or_default() += 1;
    }
    let kept: usize = reasons.values().sum();
    let (images, size) = (format::count(kept, "unused image"), format::size(bytes));
    let reasons: Vec<_> =
        reasons.iter().map(|(reason, count)| format!("{count}: {}", format::printable(reason))).collect();
    (kept > 0).then(|| format!("It would keep {images} with {size} ({}).", reasons.join("; ")))
}

/// Names the largest that kubegc does not remove.
fn largest(account: &DiskAccount) -> Option<String> {
    let others = account.disks().flat_map(|disk| &disk.largest).filter(|entry| entry.category != Category::Logs);
    let LargeEntry { name, held_by, usage, .. } = others.max_by_key(|entry| entry.usage.bytes)?;
    let held_by = if held_by.is_empty() { String::new() } else { format!(" of {}", format::printable(held_by)) };
    let (name, size) = (format::printable(name), format::size(usage.bytes));
    Some(format!("The largest that kubegc does not remove: {name}{held_by}, {size}."))
}
