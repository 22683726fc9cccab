//! What images hold in the runtime's store, so that an estimate is what a removal reclaims.
//!
//! The runtime removes a layer or blob when the last object that refers to it is removed. An image of the CRI is one object
//! here, although containerd has a record of it for each of its names: the CRI removes them together. A record in its
//! namespace with a name that it does not list counts for none: it may be another name of an image.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

use super::Size;
use crate::model::{
    CRI_NAMESPACE, HolderKind, Image, ImageId, PartKind, RuntimeStore, Snapshot, StoreHolder, StorePart,
};

/// The parts of a store, and who holds each.
#[derive(Clone)]
pub struct StoreIndex<'a> {
    pub store: &'a RuntimeStore,
    /// The parts of each image, in ascending order.
    images: HashMap<ImageId, Vec<usize>>,
    /// The number of images and other holders that keep each part.
    owners: Vec<u32>,
    /// The holders that are no image of the CRI's list, with their parts.
    pub others: Vec<(&'a StoreHolder, Vec<usize>)>,
}

/// The index of the store of a snapshot, made once, when it is first needed.
pub struct SnapshotIndex<'a> {
    snapshot: &'a Snapshot,
    index: OnceCell<Option<StoreIndex<'a>>>,
}

// === impl SnapshotIndex ===

impl<'a> SnapshotIndex<'a> {
    /// Creates the index of a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, index: OnceCell::new() }
    }

    /// Returns the index; `None` = the store is not known whole.
    pub fn get(&self) -> Option<&StoreIndex<'a>> {
        let store = || self.snapshot.store.as_ref().filter(|store| store.missing.is_empty());
        let index = || Some(StoreIndex::new(store()?, self.snapshot.images.as_ref()?));
        self.index.get_or_init(index).as_ref()
    }

    pub fn size_of(&self, image: &Image) -> Size {
        Size { reported: Some(image.size_bytes), on_disk: self.get().and_then(|index| index.bytes_of(&image.id)) }
    }
}

// === impl StoreIndex ===

impl<'a> StoreIndex<'a> {
    /// Creates the index of a store, for these images of the CRI.
    pub fn new<'i>(store: &'a RuntimeStore, images: impl IntoIterator<Item = &'i Image>) -> Self {
        let mut names = HashMap::new();
        for image in images {
            names.extend(image.names().map(|name| (name.into_owned(), &image.id)));
            // The record with the id as its name has it in full.
            names.insert(image.id.to_string(), &image.id);
        }
        let (mut refs, mut others) = (HashMap::<ImageId, Vec<usize>>::new(), Vec::new());
        for holder in &store.holders {
            match names.get(&holder.name).filter(|_| is_of_cri(holder)) {
                Some(id) => refs.entry((*id).clone()).or_default().extend(&holder.refs),
                None => others.push((holder, store.held_by(holder))),
            }
        }
        let images: HashMap<_, _> = refs.into_iter().map(|(id, refs)| (id, store.reached_from(refs, true))).collect();
        let mut owners = vec![0; store.parts.len()];
        let counted = others.iter().filter(|(holder, _)| !is_of_cri(holder)).map(|(_, parts)| parts);
        for position in images.values().chain(counted).flatten() {
            if let Some(count) = owners.get_mut(*position) {
                *count += 1;
            }
        }
        Self { store, images, owners, others }
    }

    /// Returns the parts of an image; `None` = the store has no such image.
    pub fn parts_of(&self, image: &ImageId) -> Option<&[usize]> {
        self.images.get(image).map(Vec::as_slice)
    }

    /// Removes an image: its parts have one holder less.
    pub fn remove(&mut self, image: &ImageId) {
        for part in self.images.remove(image).unwrap_or_default() {
            if let Some(count) = self.owners.get_mut(part) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Removes the oldest lease on a removed image. Returns it, and the bytes that only it holds.
    pub fn remove_undo_lease(&mut self) -> Option<(&'a StoreHolder, u64)> {
        let leases = self.others.iter().enumerate().filter(|(_, (holder, _))| holder.is_for_undo());
        let oldest = leases.min_by_key(|(_, (holder, _))| (holder.created_at, &holder.name)).map(|(at, _)| at)?;
        let (holder, parts) = self.others.remove(oldest);
        let mut bytes = 0_u64;
        for part in parts {
            let Some(count) = self.owners.get_mut(part) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                bytes = bytes.saturating_add(self.part(part).and_then(|part| part.bytes).unwrap_or_default());
            }
        }
        Some((holder, bytes))
    }

    /// Returns whether the lists have all that an image holds. Each image has layers.
    pub fn is_whole(&self, image: &ImageId) -> bool {
        let mut parts = self.parts_of(image).unwrap_or_default().iter().filter_map(|part| self.part(*part));
        parts.clone().any(|part| part.kind == PartKind::Layer) && parts.all(|part| !part.incomplete)
    }

    /// Returns the number of holders of a part.
    pub fn owners(&self, part: usize) -> u32 {
        self.owners.get(part).copied().unwrap_or_default()
    }

    pub fn part(&self, position: usize) -> Option<&'a StorePart> {
        self.store.parts.get(position)
    }

    /// Returns the bytes of these parts; `None` = not all are known.
    pub fn bytes(&self, parts: impl IntoIterator<Item = usize>) -> Option<u64> {
        parts
            .into_iter()
            .map(|part| self.part(part)?.bytes)
            .try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)))
    }

    /// Returns the bytes of all that an image holds; `None` = not all are known.
    pub fn bytes_of(&self, image: &ImageId) -> Option<u64> {
        self.bytes(self.parts_of(image)?.iter().copied()).filter(|_| self.is_whole(image))
    }

    /// Returns the bytes of each image for which they are known. A part of several images counts in equal parts.
    pub fn shares(&self) -> HashMap<&ImageId, u64> {
        let mut images_of = vec![0; self.store.parts.len()];
        for position in self.images.values().flatten() {
            if let Some(count) = images_of.get_mut(*position) {
                *count += 1;
            }
        }
        let share = |part: &usize| Some(self.part(*part)?.bytes? / images_of.get(*part).copied().unwrap_or(1).max(1));
        let known = self.images.iter().filter(|(image, _)| self.is_whole(image));
        known.filter_map(|(image, parts)| Some((image, parts.iter().map(share).sum::<Option<u64>>()?))).collect()
    }

    /// Returns the bytes that only this image holds; `None` = not known.
    pub fn own_bytes(&self, image: &ImageId) -> Option<u64> {
        self.bytes(self.held_alone(image)).filter(|_| self.is_whole(image))
    }

    /// Returns the bytes of all images, each part once; `None` = not all are known.
    pub fn all_bytes(&self) -> Option<u64> {
        self.bytes_without(std::iter::empty())
    }

    /// Returns the same without what these images hold.
    pub fn bytes_without<'i>(&self, holders: impl Iterator<Item = &'i ImageId>) -> Option<u64> {
        let held: BTreeSet<_> = holders.filter_map(|image| self.parts_of(image)).flatten().collect();
        let parts: BTreeSet<_> = self.images.values().flatten().filter(|part| !held.contains(part)).copied().collect();
        self.bytes(parts)
    }

    /// Returns the inodes of these parts; `None` = not all are known.
    pub fn inodes(&self, parts: impl IntoIterator<Item = usize>) -> Option<u64> {
        parts
            .into_iter()
            .map(|part| self.part(part)?.inodes)
            .try_fold(0_u64, |sum, inodes| Some(sum.saturating_add(inodes?)))
    }

    /// Returns the inodes of these parts, of those that are known.
    pub fn known_inodes(&self, parts: impl IntoIterator<Item = usize>) -> u64 {
        parts.into_iter().filter_map(|part| self.part(part)?.inodes).fold(0, u64::saturating_add)
    }

    /// Returns the parts that no other holder keeps.
    pub fn held_alone<'s>(&'s self, image: &ImageId) -> impl Iterator<Item = usize> + 's {
        self.parts_of(image).unwrap_or_default().iter().copied().filter(|part| self.owners(*part) == 1)
    }
}

/// Returns whether a holder can be an image that the CRI lists.
pub(super) fn is_of_cri(holder: &StoreHolder) -> bool {
    holder.kind == HolderKind::Image && holder.namespace == CRI_NAMESPACE
}
