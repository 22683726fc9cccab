//! The lists of an account: images, what they share, writable layers, and what the CRI does not list, or the runtime itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::account::Accounting;
use super::category::Category;
use super::disk_space::volumes;
use crate::model::{ContainerId, DirUsage, DiskUse, ImageId, PartKind, PathUsage, PodRef, Snapshot, StorePart};

#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageEntry {
    pub id: ImageId,
    /// Its first tag; `null` = it has none.
    pub name: Option<String>,
    /// In use, kept or removable.
    pub category: Category,
    /// Why.
    pub reason: String,
    /// Bytes that nothing else holds: its removal reclaims them. `null` = not known.
    pub own_bytes: Option<u64>,
    /// The same in inodes, where these are known.
    pub own_inodes: u64,
    /// Bytes of all its layers and blobs. `null` = not known.
    pub all_bytes: Option<u64>,
    /// Bytes as the runtime counts them.
    pub size_bytes: u64,
}

/// What a set of images holds together.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct SharedEntry {
    /// The images, by their first tag or id.
    pub images: Vec<String>,
    /// Bytes that all of them hold and nothing else does.
    pub bytes: u64,
    /// The same in inodes.
    pub inodes: u64,
    /// Whether all of them are removable.
    pub removable: bool,
}

/// The writable layer of a container.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct WritableEntry {
    /// The container or sandbox.
    pub id: ContainerId,
    /// Its name, as namespace/pod/container.
    pub name: String,
    pub pod: Option<PodRef>,
    /// Bytes; `null` = not known.
    pub bytes: Option<u64>,
    /// Inodes; `null` = not known.
    pub inodes: Option<u64>,
}

/// Data that no image or container of the CRI holds.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct LeftEntry {
    pub category: Category,
    /// What it is.
    pub kind: PartKind,
    /// The runtime's namespace; empty for a blob that several have.
    pub namespace: String,
    /// Its name in the runtime.
    pub name: String,
    /// What holds it, as `lease 1234`; empty = nothing.
    pub held_by: String,
    /// Bytes; `null` = not known.
    pub bytes: Option<u64>,
    /// Inodes; `null` = not known.
    pub inodes: Option<u64>,
    /// Seconds since it was created; `null` = not known.
    pub age_seconds: Option<i64>,
}

// === impl Accounting ===

impl Accounting<'_> {
    pub(super) fn images(&self) -> Vec<ImageEntry> {
        let listed = self.snapshot.images.as_ref().map(Vec::as_slice).unwrap_or_default();
        let mut entries: BTreeMap<&ImageId, ImageEntry> = BTreeMap::new();
        for image in listed {
            let Some((category, reason)) = self.states.get(&image.id) else { continue };
            let parts = self.index.parts_of(&image.id);
            entries.entry(&image.id).or_insert_with(|| ImageEntry {
                id: image.id.clone(),
                name: image.tags.first().cloned(),
                category: *category,
                reason: reason.clone(),
                own_bytes: parts.and_then(|_| self.index.bytes(self.index.held_alone(&image.id))),
                own_inodes: self.index.known_inodes(self.index.held_alone(&image.id)),
                all_bytes: parts.and_then(|parts| self.index.bytes(parts.iter().copied())),
                size_bytes: image.size_bytes,
            });
        }
        let mut entries: Vec<_> = entries.into_values().collect();
        entries.sort_by_key(|image| Reverse(image.own_bytes));
        entries
    }

    pub(super) fn shared(&self) -> Vec<SharedEntry> {
        let mut holders: BTreeMap<usize, Vec<&ImageId>> = BTreeMap::new();
        for image in self.states.keys() {
            for part in self.index.parts_of(image).unwrap_or_default() {
                holders.entry(*part).or_default().push(image);
            }
        }
        let mut sets: BTreeMap<Vec<&ImageId>, Vec<usize>> = BTreeMap::new();
        for (part, images) in holders {
            if images.len() > 1 && images.len() == self.index.owners(part) as usize {
                sets.entry(images).or_default().push(part);
            }
        }
        let names = self.image_names();
        let entry = |(images, parts): (Vec<&ImageId>, Vec<usize>)| SharedEntry {
            bytes: parts.iter().filter_map(|part| self.index.part(*part)?.bytes).fold(0, u64::saturating_add),
            inodes: self.index.known_inodes(parts),
            removable: images.iter().all(|id| self.states.get(*id).is_some_and(|of| of.0 == Category::ImagesRemovable)),
            images: images
                .iter()
                .map(|id| names.get(id).map_or_else(|| id.to_string(), |name| (*name).to_owned()))
                .collect(),
        };
        let mut entries: Vec<_> = sets.into_iter().map(entry).collect();
        entries.sort_by_key(|entry| Reverse(entry.bytes));
        entries
    }

    fn image_names(&self) -> HashMap<&ImageId, &str> {
        let listed = self.snapshot.images.as_ref().into_iter().flatten();
        listed.filter_map(|image| Some((&image.id, image.tags.first()?.as_str()))).collect()
    }

    pub(super) fn writable_layers(&self) -> Vec<WritableEntry> {
        let containers = self.snapshot.listed_containers().into_iter().flatten();
        let containers = containers.map(|one| (one.id.as_str(), (one.full_name(), one.pod.clone())));
        let sandboxes = self.snapshot.listed_sandboxes().into_iter().flatten();
        let sandboxes = sandboxes.map(|one| {
            let name = one.pod.as_ref().map_or_else(|| one.id.to_string(), ToString::to_string);
            (one.id.as_str(), (format!("{name} (sandbox)"), one.pod.clone()))
        });
        let names: HashMap<_, _> = containers.chain(sandboxes).collect();
        let entry = |(id, part): (&str, &StorePart)| {
            let (name, pod) = names.get(id)?.clone();
            Some(WritableEntry { id: id.into(), name, pod, bytes: part.bytes, inodes: part.inodes })
        };
        let mut entries: Vec<_> = self.store.writable_layers().filter_map(entry).collect();
        entries.sort_by(|a, b| (Reverse(a.bytes), &a.name).cmp(&(Reverse(b.bytes), &b.name)));
        entries
    }

    pub(super) fn others(&self) -> Vec<LeftEntry> {
        let mut holders: HashMap<usize, String> = HashMap::new();
        for (holder, parts) in &self.index.others {
            let kind: &str = holder.kind.into();
            for part in parts {
                holders.entry(*part).or_insert_with(|| format!("{kind} {}", holder.name));
            }
        }
        let parts = self.store.parts.iter().zip(&self.of_part).enumerate();
        let mut entries: Vec<_> = parts
            .filter_map(|(position, (part, category))| {
                let category = category.filter(|category| is_other(*category))?;
                let held_by = holders.get(&position).cloned().unwrap_or_default();
                // A record without bytes of its own stands for a blob that is listed too.
                (part.bytes != Some(0)).then(|| self.left(category, part, held_by))
            })
            .collect();
        entries.sort_by(|a, b| (Reverse(a.bytes), &a.name).cmp(&(Reverse(b.bytes), &b.name)));
        entries
    }

    fn left(&self, category: Category, part: &StorePart, held_by: String) -> LeftEntry {
        let StorePart { kind, namespace, name, bytes, inodes, created_at, .. } = part.clone();
        let age_seconds = created_at.map(|at| self.snapshot.taken_at.duration_since(at).as_secs());
        LeftEntry { category, kind, namespace, name, held_by, bytes, inodes, age_seconds }
    }
}

fn is_other(category: Category) -> bool {
    use Category::{Downloads, Labels, Leases, OtherClients, UnlistedImages, Unreferenced};
    matches!(category, UnlistedImages | OtherClients | Leases | Labels | Downloads | Unreferenced)
}

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
