//! The account of the disks of a node: what takes their space, each byte once, and what could be removed.
//!
//! A layer or blob counts where its most important holder is: an image in use before a kept one, that before a removable
//! one, and an object that the CRI lists before another client of the runtime.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::category::{Category, of_kind};
use super::disk_space::{DiskSpace, disk_spaces};
use super::entries::{ImageEntry, LeftEntry, SharedEntry, WritableEntry};
use super::index::{StoreIndex, is_of_cri};
use crate::model::{CRI_NAMESPACE, HolderKind, ImageId, LeftoverKind, PartKind, RuntimeStore, Snapshot, StoreHolder};

/// Whether each image is in use, kept or removable, and why.
pub type ImageStates = BTreeMap<ImageId, (Category, String)>;

/// What the disks of a node hold.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskAccount {
    /// When the node was observed.
    pub taken_at: Timestamp,
    /// Name of the node; empty if not known.
    pub node: String,
    /// The file system of the images; if it is not known, that of the logs or of the kubelet.
    #[serde(flatten)]
    pub first: DiskSpace,
    /// The other file systems of the node.
    #[serde(default)]
    pub other_disks: Vec<DiskSpace>,
    /// Bytes that the removal of all removable images would reclaim, those included that are still too young.
    #[serde(default)]
    pub reclaimable_bytes: u64,
    /// The images, those first that reclaim most when they are removed alone.
    pub images: Vec<ImageEntry>,
    /// What several images hold together and nothing else does, largest first. It is reclaimed with the last of them.
    pub shared: Vec<SharedEntry>,
    /// The writable layers of containers, largest first.
    pub writable_layers: Vec<WritableEntry>,
    /// What no image or container of the CRI holds, largest first.
    pub others: Vec<LeftEntry>,
    /// Bundles, mounts and shims of tasks whose containers no client of containerd has: their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// What could not be read. It counts in `not_of_the_runtime` of its disk.
    pub missing: Vec<String>,
}

#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct CategoryEntry {
    pub category: Category,
    /// Bytes; a part whose size is not known has none.
    pub bytes: u64,
    /// Inodes, as far as they are known.
    pub inodes: u64,
    /// The number of layers, blobs, volumes, log directories or open files.
    pub objects: u64,
    /// Whether it has at least this size: a part could not be read, or not in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

// === impl DiskAccount ===

impl DiskAccount {
    pub fn disks(&self) -> impl Iterator<Item = &DiskSpace> {
        std::iter::once(&self.first).chain(&self.other_disks)
    }
}

/// Makes the account of a snapshot. Without the store of the runtime it has the rest.
///
/// # Errors
/// Why there is none: no file system could be measured.
pub fn account(snapshot: &Snapshot, images: ImageStates) -> Result<DiskAccount, String> {
    let store = snapshot.store.as_ref();
    let accounting = store.map(|store| Accounting::new(snapshot, images, store));
    let mut disks = disk_spaces(snapshot, accounting.as_ref()).into_iter();
    let cause = || format!("image file system: {}", snapshot.image_filesystem.cause().unwrap_or("not measured"));
    let first = disks.next().ok_or_else(cause)?;
    let of_store = accounting.as_ref();
    let leftovers = snapshot.leftovers.as_ref().into_iter().flatten();
    let tasks = leftovers.filter(|found| found.kind == LeftoverKind::Task);
    Ok(DiskAccount {
        taken_at: snapshot.taken_at,
        node: snapshot.node.clone(),
        first,
        other_disks: disks.collect(),
        reclaimable_bytes: of_store.map_or(0, |store| store.reclaimable_bytes),
        images: of_store.map(Accounting::images).unwrap_or_default(),
        shared: of_store.map(Accounting::shared).unwrap_or_default(),
        writable_layers: of_store.map(Accounting::writable_layers).unwrap_or_default(),
        others: of_store.map(Accounting::others).unwrap_or_default(),
        tasks: tasks.map(|found| found.at.path.clone()).collect(),
        missing: missing(snapshot, store),
    })
}

/// Returns what could not be read.
fn missing(snapshot: &Snapshot, store: Option<&RuntimeStore>) -> Vec<String> {
    // Without their file system the store is not read.
    let images = snapshot.image_filesystem.as_ref();
    let causes = [
        ("image file system", snapshot.image_filesystem.cause()),
        ("store of the runtime", images.and(snapshot.store.cause())),
        ("directories of pods", snapshot.pod_usage.failure()),
    ];
    let mut causes: Vec<_> =
        causes.into_iter().filter_map(|(what, cause)| Some(format!("{what}: {}", cause?))).collect();
    causes.extend(store.into_iter().flat_map(|store| store.missing.iter().chain(&store.missing_sizes)).cloned());
    causes.extend(snapshot.disk_contents.iter().flat_map(|content| &content.missing).cloned());
    causes
}

/// The account in the making.
pub(super) struct Accounting<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) store: &'a RuntimeStore,
    pub(super) index: StoreIndex<'a>,
    pub(super) states: ImageStates,
    pub(super) of_part: Vec<Option<Category>>,
    /// Bytes of the parts that only removable images hold.
    reclaimable_bytes: u64,
}

// === impl Accounting ===

impl<'a> Accounting<'a> {
    fn new(snapshot: &'a Snapshot, states: ImageStates, store: &'a RuntimeStore) -> Self {
        let images = snapshot.images.as_ref().map(Vec::as_slice).unwrap_or_default();
        let index = StoreIndex::new(store, images);
        let mut accounting =
            Self { snapshot, store, index, states, of_part: vec![None; store.parts.len()], reclaimable_bytes: 0 };
        accounting.assign();
        accounting
    }

    /// Gives each part the category of its most important holder.
    fn assign(&mut self) {
        let mut claims: Vec<(Category, Vec<usize>)> = Vec::new();
        for (image, (category, _)) in &self.states {
            claims.push((*category, self.index.parts_of(image).unwrap_or_default().to_vec()));
        }
        let listed = self.listed_objects();
        for (holder, parts) in &self.index.others {
            claims.push((category_of(holder, &listed), parts.clone()));
        }
        claims.sort_by_key(|(category, _)| *category);
        for (category, parts) in claims {
            for position in parts {
                let Some(part) = self.store.parts.get(position) else { continue };
                let Some(known @ None) = self.of_part.get_mut(position) else { continue };
                *known = Some(of_kind(category, part.kind));
                if category == Category::ImagesRemovable {
                    self.reclaimable_bytes = self.reclaimable_bytes.saturating_add(part.bytes.unwrap_or_default());
                }
            }
        }
        for (part, category) in self.store.parts.iter().zip(&mut self.of_part) {
            category.get_or_insert(of_kind(Category::Unreferenced, part.kind));
        }
    }

    /// Returns the ids of the containers and sandboxes that the CRI lists.
    fn listed_objects(&self) -> HashSet<&'a str> {
        let containers = self.snapshot.listed_containers().into_iter().flatten().map(|container| container.id.as_str());
        let sandboxes = self.snapshot.listed_sandboxes().into_iter().flatten().map(|sandbox| sandbox.id.as_str());
        containers.chain(sandboxes).collect()
    }

    /// Returns the categories of the store.
    pub(super) fn categories(&self) -> Vec<CategoryEntry> {
        let mut entries = BTreeMap::new();
        for (part, category) in self.store.parts.iter().zip(&self.of_part) {
            let Some(category) = *category else { continue };
            if part.kind == PartKind::Writable && self.store.containers_elsewhere {
                continue;
            }
            let entry = entries.entry(category).or_insert(CategoryEntry::empty(category));
            entry.bytes = entry.bytes.saturating_add(part.bytes.unwrap_or_default());
            entry.inodes = entry.inodes.saturating_add(part.inodes.unwrap_or_default());
            entry.objects += 1;
        }
        entries.into_values().collect()
    }
}

// === impl CategoryEntry ===

impl CategoryEntry {
    pub(super) fn empty(category: Category) -> Self {
        Self { category, bytes: 0, inodes: 0, objects: 0, at_least: false }
    }
}

/// Returns the category of what this holds; `listed` are the containers and sandboxes of the CRI.
fn category_of(holder: &StoreHolder, listed: &HashSet<&str>) -> Category {
    let is_listed = || holder.namespace == CRI_NAMESPACE && listed.contains(holder.name.as_str());
    match holder.kind {
        HolderKind::Container if is_listed() => Category::ImagesInUse,
        HolderKind::Image if is_of_cri(holder) => Category::UnlistedImages,
        HolderKind::Image | HolderKind::Container => Category::OtherClients,
        HolderKind::Lease if holder.is_for_undo() => Category::KeptForUndo,
        HolderKind::Lease => Category::Leases,
        HolderKind::Label => Category::Labels,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Two removable images that share a layer, a container of the CRI, and what others hold.
    fn snapshot() -> Snapshot {
        let part = |kind: &str, name: &str, bytes: u64| json!({ "kind": kind, "name": name, "bytes": bytes });
        let holder = |kind: &str, namespace: &str, name: &str, parts: &[usize]| json!({ "kind": kind, "namespace": namespace, "name": name, "refs": parts });
        let image = |id: &str, tag: &str| json!({ "id": id, "tags": [tag] });
        let parts = [
            part("layer", "a", 100),
            part("layer", "both", 300),
            part("layer", "unlisted", 60),
            part("layer", "moby", 50),
            part("layer", "leased", 20),
            part("layer", "none", 10),
            part("writable", "w1", 7),
            part("writable", "w2", 5),
            part("layer", "a2", 30),
        ];
        let holders = [
            holder("image", "k8s.io", "docker.io/library/a:1", &[0, 1, 8]),
            holder("image", "k8s.io", "docker.io/library/b:1", &[1]),
            holder("image", "k8s.io", "docker.io/library/odd:1", &[2]),
            holder("image", "moby", "docker.io/library/c:1", &[3]),
            holder("lease", "k8s.io", "pull-1", &[4]),
            holder("container", "k8s.io", "c1", &[6]),
            holder("container", "moby", "c2", &[7]),
        ];
        let seen = |value: Value| json!({ "seen": value });
        let container = json!({ "id": "c1", "name": "app", "state": "running", "created_at": "2026-11-21T11:00:00Z" });
        serde_json::from_value(json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "containers": seen(json!([container, { "id": "c2", "name": "x", "state": "running", "created_at": "2026-11-21T11:00:00Z" }])),
            "sandboxes": seen(json!([])),
            "images": seen(json!([image("a", "docker.io/library/a:1"), image("b", "docker.io/library/b:1")])),
            "image_filesystem": seen(json!({ "mountpoint": "/images", "capacity_bytes": 9000, "available_bytes": 5000 })),
            "store": seen(json!({ "parts": parts, "holders": holders })),
        }))
        .unwrap()
    }

    fn states() -> ImageStates {
        ["a", "b"].map(|id| (id.into(), (Category::ImagesRemovable, String::new()))).into()
    }

    #[test]
    fn each_part_counts_once_where_its_most_important_holder_is() {
        let account = account(&snapshot(), states()).unwrap();
        let filled = account.first.categories.iter().filter(|entry| entry.objects > 0);
        let rows: Vec<_> =
            filled.map(|entry| (entry.category.into(), entry.bytes, entry.objects)).collect::<Vec<(&str, _, _)>>();
        let expected = [
            ("images_removable", 430, 3),
            ("writable_layers", 7, 1),
            ("unlisted_images", 60, 1),
            ("other_clients", 55, 2),
            ("leases", 20, 1),
            ("unreferenced", 10, 1),
        ];
        assert_eq!((rows.as_slice(), account.reclaimable_bytes), (&expected[..], 430));
    }

    #[test]
    fn what_images_share_and_what_no_image_holds_is_listed_the_largest_first() {
        let account = account(&snapshot(), states()).unwrap();
        let images = account.images.iter().map(|one| (one.id.as_str(), one.own_bytes, one.all_bytes));
        assert_eq!(images.collect::<Vec<_>>(), [("a", Some(130), Some(430)), ("b", Some(0), Some(300))]);
        let shared = account.shared.iter().map(|one| (one.images.join(" "), one.bytes, one.removable));
        assert_eq!(shared.collect::<Vec<_>>(), [("docker.io/library/a:1 docker.io/library/b:1".to_owned(), 300, true)]);
        let others = account.others.iter().map(|one| (&*one.name, &*one.held_by));
        let expected = [
            ("unlisted", "image docker.io/library/odd:1"),
            ("moby", "image docker.io/library/c:1"),
            ("leased", "lease pull-1"),
            ("none", ""),
            ("w2", "container c2"),
        ];
        assert_eq!(others.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_layer_of_several_images_counts_for_each_in_equal_parts() {
        let snapshot = snapshot();
        let index = super::super::SnapshotIndex::new(&snapshot);
        let shares: BTreeMap<_, _> = index.get().unwrap().shares().into_iter().collect();
        assert_eq!(
            shares.into_iter().map(|(id, bytes)| (id.as_str(), bytes)).collect::<Vec<_>>(),
            [("a", 280), ("b", 150)]
        );
    }
}
