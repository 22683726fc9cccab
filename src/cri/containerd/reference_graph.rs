//! Builds the store from the lists: who refers to what, as containerd's own garbage collection reads it from fields and
//! labels (containerd's `docs/garbage-collection.md`). Back references and conditional ones are not followed.
//!
//! A blob is one file for all namespaces, and each namespace has a record of it with labels of its own. If only one has it,
//! record and file are one part. The lists are not taken at one
//! moment: a part that refers to what no list has is incomplete.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::SnapshotKey;
use super::store_calls::Leased;
use crate::cri::CriError;
use crate::cri::generated::containerd::{containers, content, images, leases, snapshots};
use crate::cri::writer::LEASE_EXPIRES;
use crate::model::{HolderKind, PartKind, RuntimeStore, StoreHolder, StorePart};

const ROOT: &str = "containerd.io/gc.root";
const CONTENT: &str = "containerd.io/gc.ref.content";
const SNAPSHOT: &str = "containerd.io/gc.ref.snapshot.";
/// A lease with it holds its resources, and not what their labels refer to.
const FLAT: &str = "containerd.io/gc.flat";

/// The size of a block of nearly all file systems. A file takes whole blocks.
const BLOCK_BYTES: u64 = 4096;

/// The labels of an object.
type Labels = HashMap<String, String>;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Name {
    /// The record of a blob in a namespace.
    Blob(String, String),
    Snapshot(SnapshotKey),
}

#[derive(Default)]
pub(super) struct GraphBuilder {
    /// Parts, each with what it refers to.
    parts: Vec<(StorePart, Vec<Name>)>,
    /// Holders, each with what it holds.
    holders: Vec<(StoreHolder, Vec<Name>)>,
    positions: HashMap<Name, usize>,
    /// The blobs by digest: the positions of their records.
    blobs: BTreeMap<String, Vec<usize>>,
    snapshots: Vec<(usize, SnapshotKey)>,
    missing: Vec<String>,
}

// === impl GraphBuilder ===

impl GraphBuilder {
    /// Returns a list, or nothing and a note of what is missing.
    pub fn or_missing<T>(&mut self, what: &str, list: Result<Vec<T>, CriError>) -> Vec<T> {
        list.unwrap_or_else(|error| {
            self.missing.push(format!("{what}: {error}"));
            Vec::new()
        })
    }

    pub fn snapshots(&mut self, namespace: &str, snapshotter: &str, list: Result<Vec<snapshots::Info>, CriError>) {
        for snapshot in self.or_missing(&format!("snapshots of {snapshotter} in namespace {namespace}"), list) {
            let key = |name: &str| SnapshotKey::new(namespace, snapshotter, name);
            let mut refs = named_by(&snapshot.labels, namespace);
            if !snapshot.parent.is_empty() {
                refs.push(Name::Snapshot(key(&snapshot.parent)));
            }
            let kind = snapshot.kind();
            let is_view = kind == snapshots::Kind::View;
            let part = StorePart {
                kind: if kind == snapshots::Kind::Committed { PartKind::Layer } else { PartKind::Writable },
                bytes: is_view.then_some(0),
                inodes: is_view.then_some(0),
                namespace: namespace.to_owned(),
                name: format!("{snapshotter}/{}", snapshot.name),
                created_at: snapshot.created_at.and_then(|at| time(at.seconds)),
                ..StorePart::default()
            };
            let key = key(&snapshot.name);
            let position = self.add(Name::Snapshot(key.clone()), part, refs, &snapshot.labels);
            if !is_view {
                self.snapshots.push((position, key));
            }
        }
    }

    pub fn blobs(&mut self, namespace: &str, list: Result<Vec<content::Info>, CriError>) {
        for blob in self.or_missing(&format!("blobs of namespace {namespace}"), list) {
            let part = StorePart {
                kind: PartKind::Blob,
                namespace: namespace.to_owned(),
                name: blob.digest.clone(),
                bytes: u64::try_from(blob.size)
                    .ok()
                    .map(|bytes| bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)),
                inodes: Some(1),
                created_at: blob.created_at.and_then(|at| time(at.seconds)),
                ..StorePart::default()
            };
            let name = Name::Blob(namespace.to_owned(), blob.digest.clone());
            let position = self.add(name, part, named_by(&blob.labels, namespace), &blob.labels);
            self.blobs.entry(blob.digest).or_default().push(position);
        }
    }

    pub fn downloads(&mut self, namespace: &str, list: Result<Vec<content::Status>, CriError>) {
        for download in self.or_missing(&format!("downloads of namespace {namespace}"), list) {
            let part = StorePart {
                kind: PartKind::Download,
                namespace: namespace.to_owned(),
                name: download.r#ref,
                bytes: u64::try_from(download.offset).ok(),
                inodes: None,
                created_at: download.started_at.and_then(|at| time(at.seconds)),
                ..StorePart::default()
            };
            self.parts.push((part, Vec::new()));
        }
    }

    pub fn images(&mut self, namespace: &str, list: Result<Vec<images::Image>, CriError>) {
        for image in self.or_missing(&format!("images of namespace {namespace}"), list) {
            let mut refs = named_by(&image.labels, namespace);
            refs.extend(image.target.map(|target| Name::Blob(namespace.to_owned(), target.digest)));
            let created_at = image.created_at.and_then(|at| time(at.seconds));
            self.hold(StoreHolder { created_at, ..holder(HolderKind::Image, namespace, image.name) }, refs);
        }
    }

    pub fn containers(&mut self, namespace: &str, list: Result<Vec<containers::Container>, CriError>) {
        for container in self.or_missing(&format!("containers of namespace {namespace}"), list) {
            let mut refs = named_by(&container.labels, namespace);
            let layer = SnapshotKey::new(namespace, &container.snapshotter, &container.snapshot_key);
            refs.push(Name::Snapshot(layer));
            let image = Some(container.image).filter(|image| !image.is_empty());
            let created_at = container.created_at.and_then(|at| time(at.seconds));
            let of = holder(HolderKind::Container, namespace, container.id);
            self.hold(StoreHolder { image, created_at, ..of }, refs);
        }
    }

    pub fn leases(&mut self, namespace: &str, list: Result<Vec<Leased>, CriError>) {
        for (lease, resources) in self.or_missing(&format!("leases of namespace {namespace}"), list) {
            let name = |resource: leases::Resource| match resource.r#type.split_once('/') {
                None if resource.r#type == "content" => Some(Name::Blob(namespace.to_owned(), resource.id)),
                Some(("snapshots", snapshotter)) => {
                    Some(Name::Snapshot(SnapshotKey::new(namespace, snapshotter, &resource.id)))
                }
                _ => None,
            };
            let refs = resources.into_iter().filter_map(name).collect();
            let created_at = lease.created_at.and_then(|at| time(at.seconds));
            let of = holder(HolderKind::Lease, namespace, lease.id);
            let expires_at = lease.labels.get(LEASE_EXPIRES).and_then(|at| at.parse().ok());
            self.hold(StoreHolder { created_at, expires_at, flat: lease.labels.contains_key(FLAT), ..of }, refs);
        }
    }

    /// Returns the store, and the snapshots by the positions of their parts.
    pub fn build(mut self) -> (RuntimeStore, Vec<(usize, SnapshotKey)>) {
        self.share_blobs();
        let position = |names: Vec<Name>| -> Vec<usize> {
            names.iter().filter_map(|name| self.positions.get(name).copied()).collect()
        };
        // The file of a blob, which a record refers to, has its position already.
        let parts = self.parts.into_iter().map(|(mut part, names)| {
            let (all, refs) = (names.len(), position(names));
            part.incomplete = refs.len() < all;
            part.refs.extend(refs);
            part
        });
        let holders = self.holders.into_iter().map(|(holder, names)| StoreHolder { refs: position(names), ..holder });
        let (parts, holders) = (parts.collect(), holders.collect());
        (RuntimeStore { parts, holders, missing: self.missing, ..RuntimeStore::default() }, self.snapshots)
    }

    /// Adds the file of each blob of which several namespaces have a record.
    fn share_blobs(&mut self) {
        for (digest, records) in &self.blobs {
            let Some((first, [_, ..])) = records.split_first() else { continue };
            let Some((part, _)) = self.parts.get(*first) else { continue };
            let file = StorePart { namespace: String::new(), name: digest.clone(), ..part.clone() };
            let position = self.parts.len();
            self.parts.push((file, Vec::new()));
            for record in records {
                if let Some((part, _)) = self.parts.get_mut(*record) {
                    (part.bytes, part.inodes) = (Some(0), Some(0));
                    part.refs.push(position);
                }
            }
        }
    }

    fn add(&mut self, name: Name, part: StorePart, refs: Vec<Name>, labels: &Labels) -> usize {
        if labels.contains_key(ROOT) {
            let of = holder(HolderKind::Label, &part.namespace, part.name.clone());
            self.hold(of, vec![name.clone()]);
        }
        let position = self.parts.len();
        self.positions.insert(name, position);
        self.parts.push((part, refs));
        position
    }

    fn hold(&mut self, holder: StoreHolder, refs: Vec<Name>) {
        self.holders.push((holder, refs));
    }
}

fn holder(kind: HolderKind, namespace: &str, name: String) -> StoreHolder {
    StoreHolder { kind, namespace: namespace.to_owned(), name, ..StoreHolder::default() }
}

/// Returns what labels refer to. A key may have more after a dot or a slash, which means nothing.
fn named_by(labels: &Labels, namespace: &str) -> Vec<Name> {
    let name = |(key, value): (&String, &String)| {
        if let Some(rest) = key.strip_prefix(CONTENT)
            && (rest.is_empty() || rest.starts_with(['.', '/']))
        {
            return Some(Name::Blob(namespace.to_owned(), value.clone()));
        }
        let snapshotter = key.strip_prefix(SNAPSHOT)?.split('/').next()?;
        Some(Name::Snapshot(SnapshotKey::new(namespace, snapshotter, value)))
    };
    labels.iter().filter_map(name).collect()
}

fn time(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok().filter(|at| *at > Timestamp::UNIX_EPOCH)
}
