//! What the store of the runtime holds: layers, writable layers and blobs, and what refers to them. No list of the CRI shows
//! it.
//!
//! It is the graph that the runtime's own garbage collector uses: what no holder reaches is removed there, or is left over.
//! Nothing in it is a reason to remove an object. It shows what a removal reclaims, and what other clients of the runtime
//! use.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::DirUsage;

/// The namespace of the runtime in which the CRI's objects are.
pub const CRI_NAMESPACE: &str = "k8s.io";

/// What the names of leases begin with that keep removed images, so that a removal can be undone.
pub const UNDO_LEASES: &str = "kubegc-undo-";

#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct RuntimeStore {
    /// What takes space.
    pub parts: Vec<StorePart>,
    /// What keeps parts in the store.
    pub holders: Vec<StoreHolder>,
    /// What could not be read, and why. The parts and holders are then not all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Sizes that could not be read, and why. The parts without a size are in the list all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_sizes: Vec<String>,
    /// Whether the pod log root is on the file system of the images.
    pub logs_on_image_disk: bool,
    /// Whether the layers of containers are on another file system than the images.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub containers_elsewhere: bool,
}

/// What kind of data a part is.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[derive(IntoStaticStr, JsonSchema, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PartKind {
    /// A layer of images, unpacked. It never changes. With CRI-O also what an image has besides: manifests, a configuration, the
    /// data of an artifact.
    #[default]
    Layer,
    /// The layer that a container writes to, or a snapshot that is being made.
    Writable,
    /// A file of an image as it was pulled: a compressed layer, a manifest, a configuration.
    Blob,
    /// A blob that is being pulled, or whose pull did not end.
    Download,
}

/// Data in the store.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct StorePart {
    /// What it is.
    pub kind: PartKind,
    /// The runtime's namespace; empty for a blob, which all namespaces share.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name in the runtime.
    pub name: String,
    /// Bytes on the disk, without those of other parts; `null` = not known.
    pub bytes: Option<u64>,
    /// Inodes, without those of other parts; `null` = not known.
    pub inodes: Option<u64>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// The parts that it keeps in the store, by position: a layer its parent, a manifest its blobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<usize>,
    /// Whether it refers to more, which no list has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// What kind of object keeps parts in the store.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[derive(IntoStaticStr, JsonSchema, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HolderKind {
    /// An image, by one of its names.
    #[default]
    Image,
    /// A container, or a sandbox.
    Container,
    /// A lease: a client of the runtime reserves parts.
    Lease,
    /// A label of the part itself.
    Label,
}

/// What keeps parts in the store.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct StoreHolder {
    /// What it is.
    pub kind: HolderKind,
    /// The runtime's namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its name: that of an image, the id of a container or lease, the name of a part.
    pub name: String,
    /// The image of a container, by the name that its client uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// The parts that it holds itself, by position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<usize>,
    /// Whether it holds only these parts, and not those to which they refer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flat: bool,
    /// When it ends by itself. A lease that has ended holds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

// === impl StoreHolder ===

impl StoreHolder {
    /// Returns whether it is a lease of kubegc on a removed image.
    pub fn is_for_undo(&self) -> bool {
        self.kind == HolderKind::Lease && self.namespace == CRI_NAMESPACE && self.name.starts_with(UNDO_LEASES)
    }
}

// === impl StorePart ===

impl StorePart {
    /// Returns what it takes on the disk, as far as it is known.
    pub fn usage(&self) -> DirUsage {
        DirUsage {
            bytes: self.bytes.unwrap_or_default(),
            inodes: self.inodes.unwrap_or_default(),
            at_least: self.bytes.is_none(),
        }
    }
}

// === impl RuntimeStore ===

impl RuntimeStore {
    /// Returns the writable layers, each with the id of its container.
    pub fn writable_layers(&self) -> impl Iterator<Item = (&str, &StorePart)> {
        let containers = self.holders.iter().filter(|holder| holder.kind == HolderKind::Container);
        let parts = containers.flat_map(|holder| holder.refs.iter().map(|part| (holder.name.as_str(), *part)));
        let parts = parts.filter_map(|(container, part)| Some((container, self.parts.get(part)?)));
        parts.filter(|(_, part)| part.kind == PartKind::Writable)
    }

    /// Returns the parts that existed at a time and that no holder keeps, without those that are downloaded: the runtime removes
    /// them when it collects its garbage.
    pub fn unreferenced(&self, at: Timestamp) -> impl Iterator<Item = &StorePart> {
        let held: BTreeSet<_> = self.holders.iter().flat_map(|holder| self.held_by(holder)).collect();
        let parts = self.parts.iter().enumerate().filter(move |(position, _)| !held.contains(position));
        let existed = move |part: &&StorePart| part.created_at.is_some_and(|created| created < at);
        parts.map(|(_, part)| part).filter(|part| part.kind != PartKind::Download).filter(existed)
    }

    /// Returns the positions of all parts that a holder keeps, each once.
    pub fn held_by(&self, holder: &StoreHolder) -> Vec<usize> {
        self.reached_from(holder.refs.iter().copied(), !holder.flat)
    }

    /// Returns the positions of these parts and, if wanted, of all to which they refer, each once, in ascending order.
    pub fn reached_from(&self, parts: impl IntoIterator<Item = usize>, follows: bool) -> Vec<usize> {
        let (mut found, mut next) = (BTreeSet::new(), Vec::from_iter(parts));
        while let Some(position) = next.pop() {
            let Some(part) = self.parts.get(position) else { continue };
            if found.insert(position) && follows {
                next.extend(&part.refs);
            }
        }
        found.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(refs: &[usize]) -> StorePart {
        StorePart { refs: refs.to_vec(), ..StorePart::default() }
    }

    /// A document may be edited by hand, so positions without a part and circles are possible.
    #[test]
    fn a_holder_reaches_each_part_once() {
        let parts = vec![part(&[1, 2]), part(&[2]), part(&[0, 9]), part(&[])];
        let store = RuntimeStore { parts, ..RuntimeStore::default() };
        let holder = |refs: &[usize], flat| StoreHolder { refs: refs.to_vec(), flat, ..StoreHolder::default() };
        assert_eq!(store.held_by(&holder(&[0], false)), [0, 1, 2]);
        assert_eq!(store.held_by(&holder(&[0, 3], true)), [0, 3], "a flat lease");
        assert_eq!(store.held_by(&holder(&[7], false)), [0; 0]);
    }
}
