//! What the directory of the runtime has, and the runtime does not list.

use std::collections::HashSet;

use super::disk_space::volumes;
use crate::model::{DirUsage, DiskUse, PartKind, PathUsage, Snapshot, StorePart};

/// Returns what walks over the directory of the runtime found besides what the runtime lists and what images declare as volumes; `None` = that
/// is not known. The snapshots of another snapshotter than that of the images are outside of its directories of the store.
pub(super) fn unknown_to_runtime(snapshot: &Snapshot) -> Option<DirUsage> {
    let content = snapshot.disk_contents.iter().find(|content| content.disk == DiskUse::Images)?;
    snapshot.pod_usage.as_ref()?; // it has the volumes that images declare
    let store = snapshot.store.as_ref().filter(|store| store.missing.is_empty())?;
    let images = snapshot.image_filesystem.as_ref()?.mountpoint.extension().unwrap_or_default();
    let is_outside = |part: &&StorePart| snapshotter(part).is_some_and(|of| *of != *images);
    let is_here = |part: &&StorePart| part.kind != PartKind::Writable || !store.containers_elsewhere;
    let (outside, inside): (Vec<_>, Vec<_>) = parts(snapshot).filter(is_here).partition(is_outside);
    let of_images = volumes(snapshot).filter(|(_, volume)| volume.of_image).map(|(_, volume)| volume.usage);
    let sum = |parts: Vec<&StorePart>| parts.into_iter().map(StorePart::usage).fold(DirUsage::default(), DirUsage::and);
    let listed = of_images.fold(sum(inside), DirUsage::and);
    Some(content.runtime.without(sum(outside)).and(content.runtime_store.without(listed)))
}

/// Returns the large directories and files of a walk without those that another snapshotter has and lists.
pub(super) fn unlisted<'s>(snapshot: &'s Snapshot, found: &'s [PathUsage]) -> impl Iterator<Item = &'s PathUsage> {
    let snapshotters: HashSet<_> = parts(snapshot).filter_map(snapshotter).collect();
    let is_listed =
        move |path: &str| snapshotters.iter().any(|of| path.contains(&format!(".snapshotter.v1.{of}/snapshots/")));
    found.iter().filter(move |found| !found.is_runtimes || !is_listed(&found.path))
}

/// Returns the parts of the store, none if it was not read.
fn parts(snapshot: &Snapshot) -> impl Iterator<Item = &StorePart> {
    snapshot.store.as_ref().into_iter().flat_map(|store| &store.parts)
}

/// Returns the snapshotter of containerd that has a part.
fn snapshotter(part: &StorePart) -> Option<&str> {
    let is_snapshot = matches!(part.kind, PartKind::Layer | PartKind::Writable);
    part.name.split_once('/').filter(|_| is_snapshot).map(|(of, _)| of)
}
