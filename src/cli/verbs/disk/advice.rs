//! The end of `kubegc disk`: what a collection would free, and what it would not.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cli::render::{format, planned};
use crate::model::LeftoverKind;
use crate::plan::{Action, KeepReason, Kept, Kind, Plan, PlanError, Target, kept_images_text};
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
        Some(format!("Forecast of {name}: {}.", disk.forecast_text(account.reclaimable_bytes)?))
    });
    forecasts.chain(lines.into_iter().flatten()).map(|line| line + "\n").collect()
}

/// Says what a pass would free now.
fn freed(account: &DiskAccount, plan: &Plan) -> String {
    if plan.actions.is_empty() {
        let kept = kept_images_text(plan);
        let why = if kept.is_empty() { "nothing is dead or unused".to_owned() } else { format::printable(&kept) };
        return format!("`kubegc collect` would remove nothing now: {why}.");
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
    let bytes = plan.actions.iter().map(bytes).fold(collected_with_images(plan), u64::saturating_add);
    format!("`kubegc collect` would free about {} ({}).", format::size(bytes), planned(plan))
}

/// Returns the bytes that nothing refers to and that containerd collects after the removal of an image.
fn collected_with_images(plan: &Plan) -> u64 {
    let is_unreferenced =
        |one: &&Kept| matches!(one.reason, KeepReason::NotSelected { leftover: LeftoverKind::Unreferenced });
    let unreferenced = plan.kept.iter().find(|one| plan.removes(Kind::Image) && is_unreferenced(one));
    unreferenced.and_then(|one| one.size.known()).unwrap_or_default()
}

/// Returns the ids of the images that a plan removes.
pub(super) fn planned_images(plan: &Plan) -> HashSet<String> {
    let images = plan.actions.iter().filter(|action| action.target.kind() == Kind::Image);
    images.map(|action| action.target.id()).collect()
}

/// Says what unused images it keeps until they are older or the disk is fuller, and why.
fn kept_for_now(account: &DiskAccount, plan: &Plan) -> Option<String> {
    let images = plan.actions.iter().filter(|action| action.target.kind() == Kind::Image);
    let planned = planned_images(plan);
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
