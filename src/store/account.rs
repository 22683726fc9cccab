//! The account of the image file system: what takes its space, each byte once, and what could be removed.
//!
//! A layer or blob counts where its most important holder is: an image in use before a kept one, that before a removable
//! one, and an object that the CRI lists before another client of the runtime.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoEnumIterator;

use super::category::{Category, of_kind};
use super::entries::{ImageEntry, LeftEntry, SharedEntry, WritableEntry};
use super::index::{StoreIndex, is_of_cri};
use crate::model::{
    CRI_NAMESPACE, FileSystem, HolderKind, ImageId, PartKind, RuntimeStore, Seen, Snapshot, StoreHolder,
};

/// Whether each image is in use, kept or removable, and why.
pub type ImageStates = BTreeMap<ImageId, (Category, String)>;

/// What the image file system holds.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskAccount {
    /// Always `DiskAccount`.
    pub kind: DiskAccountKind,
    /// Version of the document, 1.
    pub version: u32,
    /// When the node was observed.
    pub taken_at: Timestamp,
    /// Name of the node; empty if not known.
    pub node: String,
    /// The file system of the images.
    pub disk: FileSystem,
    /// Bytes that are not available, as in the thresholds; those reserved for root included.
    pub used_bytes: u64,
    /// Inodes in use; `null` = the file system does not count them.
    pub used_inodes: Option<u64>,
    /// What takes the space. The bytes of all add up to `used_bytes`, unless the runtime reports more than there is.
    pub categories: Vec<CategoryEntry>,
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
    /// What could not be read. It counts in `not_of_the_runtime`.
    pub missing: Vec<String>,
}

/// The kind of the document.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub enum DiskAccountKind {
    /// The only value.
    #[default]
    DiskAccount,
}

/// One category.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct CategoryEntry {
    /// The category.
    pub category: Category,
    /// Bytes; a part whose size is not known has none.
    pub bytes: u64,
    /// Inodes, as far as they are known.
    pub inodes: u64,
    /// The number of layers, blobs or log directories.
    pub objects: u64,
}

/// Makes the account of a snapshot.
///
/// # Errors
/// Why there is none: the file system or the store of the runtime is unavailable.
pub fn account(snapshot: &Snapshot, images: ImageStates) -> Result<DiskAccount, String> {
    let disk = match &snapshot.image_filesystem {
        Seen::Seen(disk) => disk,
        Seen::NotSeen(cause) => return Err(format!("image file system: {cause}")),
    };
    let store = match &snapshot.store {
        Some(Seen::Seen(store)) => store,
        Some(Seen::NotSeen(cause)) => return Err(format!("store of the runtime: {cause}")),
        None => return Err("the snapshot has no store of the runtime".to_owned()),
    };
    Ok(Accounting::new(snapshot, images, store).account(disk))
}

/// The account in the making.
pub(super) struct Accounting<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) store: &'a RuntimeStore,
    pub(super) index: StoreIndex<'a>,
    pub(super) states: ImageStates,
    /// The category of each part.
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

    fn account(&self, disk: &FileSystem) -> DiskAccount {
        let used_bytes = disk.capacity_bytes.saturating_sub(disk.available_bytes);
        let used_inodes = disk.inodes.zip(disk.inodes_free).map(|(all, free)| all.saturating_sub(free));
        DiskAccount {
            kind: DiskAccountKind::DiskAccount,
            version: 1,
            taken_at: self.snapshot.taken_at,
            node: self.snapshot.node.clone(),
            disk: disk.clone(),
            used_bytes,
            used_inodes,
            categories: self.categories(disk, used_bytes, used_inodes),
            reclaimable_bytes: self.reclaimable_bytes,
            images: self.images(),
            shared: self.shared(),
            writable_layers: self.writable_layers(),
            others: self.others(),
            missing: self.store.missing.iter().chain(&self.store.missing_sizes).cloned().collect(),
        }
    }

    fn categories(&self, disk: &FileSystem, used_bytes: u64, used_inodes: Option<u64>) -> Vec<CategoryEntry> {
        let empty = |category| CategoryEntry { category, bytes: 0, inodes: 0, objects: 0 };
        let mut entries: BTreeMap<Category, _> = Category::iter().map(|category| (category, empty(category))).collect();
        for (part, category) in self.store.parts.iter().zip(&self.of_part) {
            if part.kind == PartKind::Writable && self.store.containers_elsewhere {
                continue;
            }
            let Some(entry) = category.and_then(|category| entries.get_mut(&category)) else { continue };
            entry.bytes = entry.bytes.saturating_add(part.bytes.unwrap_or_default());
            entry.inodes = entry.inodes.saturating_add(part.inodes.unwrap_or_default());
            entry.objects += 1;
        }
        if let Some(logs) = entries.get_mut(&Category::Logs).filter(|_| self.store.logs_on_image_disk) {
            let dirs = self.snapshot.log_dirs.as_ref().map(Vec::as_slice).unwrap_or_default();
            logs.bytes = dirs.iter().filter_map(|dir| dir.size_bytes).sum();
            logs.objects = dirs.len() as u64;
        }
        if let (Some(reserved), Some(free)) = (entries.get_mut(&Category::ReservedBlocks), disk.free_bytes) {
            reserved.bytes = free.saturating_sub(disk.available_bytes);
        }
        let sum = |of: fn(&CategoryEntry) -> u64| entries.values().map(of).fold(0, u64::saturating_add);
        let (bytes, inodes) = (sum(|entry| entry.bytes), sum(|entry| entry.inodes));
        if let Some(rest) = entries.get_mut(&Category::NotOfTheRuntime) {
            rest.bytes = used_bytes.saturating_sub(bytes);
            rest.inodes = used_inodes.unwrap_or_default().saturating_sub(inodes);
        }
        entries.into_values().collect()
    }
}

/// Returns the category of what this holds; `listed` are the containers and sandboxes of the CRI.
fn category_of(holder: &StoreHolder, listed: &HashSet<&str>) -> Category {
    let is_listed = || holder.namespace == CRI_NAMESPACE && listed.contains(holder.name.as_str());
    match holder.kind {
        HolderKind::Container if is_listed() => Category::ImagesInUse,
        HolderKind::Image if is_of_cri(holder) => Category::UnlistedImages,
        HolderKind::Image | HolderKind::Container => Category::OtherClients,
        HolderKind::Lease => Category::Leases,
        HolderKind::Label => Category::Labels,
    }
}
