//! The store of containerd, through its own API on the socket of the runtime. It only reads; [`undo`] describes leases, which the writer
//! creates.
//!
//! One list that fails does not prevent the others: [`RuntimeStore::missing`] names it. A runtime without this API answers
//! that its first call is not implemented.
//!
//! A committed snapshot never changes, so its usage is read once, as long as it is listed.

mod reference_graph;
mod store_calls;
pub(super) mod undo;

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use super::{CriError, RuntimeReader};
use crate::model::{PartKind, RuntimeStore};
use reference_graph::GraphBuilder;
use store_calls::StoreCalls;

/// The most calls at the same time.
const AT_ONCE: usize = 8;

/// The snapshotters that keep each snapshot in a directory of its own, so that the usage that they report is space of their
/// disk. Others keep it in a block device, or fetch it from a registry when it is read.
const IN_DIRECTORIES: [&str; 3] = ["overlayfs", "native", "fuse-overlayfs"];

/// A snapshot: namespace, snapshotter, name.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct SnapshotKey {
    pub namespace: String,
    pub snapshotter: String,
    pub name: String,
}

/// The bytes and inodes of snapshots.
type Usages = HashMap<SnapshotKey, (u64, u64)>;

/// The usages of committed snapshots, so far.
#[derive(Debug, Default)]
pub struct SnapshotUsages(Mutex<Usages>);

// === impl SnapshotKey ===

impl SnapshotKey {
    fn new(namespace: &str, snapshotter: &str, name: &str) -> Self {
        let (namespace, snapshotter) = (namespace.to_owned(), snapshotter.to_owned());
        Self { namespace, snapshotter, name: name.to_owned() }
    }
}

// === impl RuntimeReader ===

impl RuntimeReader {
    /// Reads the store of containerd, with or without the usages of writable layers. Usages that are not received until `until` are not known. The lists have no limit of
    /// their own: the caller limits the whole call.
    ///
    /// # Errors
    /// The runtime does not serve the API of containerd, or cannot be reached.
    pub async fn containerd_store(
        &self,
        usages: &SnapshotUsages,
        writable_layers: bool,
        until: Instant,
    ) -> Result<RuntimeStore, CriError> {
        let calls = StoreCalls::new(self);
        let mut graph = GraphBuilder::default();
        let namespaces = calls.namespaces().await?;
        let snapshotters = graph.or_missing("snapshotters", calls.snapshotters().await);
        for namespace in &namespaces {
            let calls = calls.within(namespace)?;
            let snapshots = join_all(snapshotters.iter().map(|of| calls.snapshots(of)));
            let others = async { tokio::join!(calls.downloads(), calls.images(), calls.containers(), calls.leases()) };
            let (snapshots, blobs, (downloads, images, containers, leases)) =
                tokio::join!(snapshots, calls.blobs(), others);
            for (snapshotter, list) in snapshotters.iter().zip(snapshots) {
                graph.snapshots(namespace, snapshotter, list);
            }
            graph.blobs(namespace, blobs);
            graph.downloads(namespace, downloads);
            graph.images(namespace, images);
            graph.containers(namespace, containers);
            graph.leases(namespace, leases);
        }
        let (mut store, mut keys) = graph.build();
        let is_layer = |at: &usize| store.parts.get(*at).is_some_and(|part| part.kind == PartKind::Layer);
        keys.retain(|(position, _)| writable_layers || is_layer(position));
        usages.fill(&calls, &mut store, keys, until).await;
        Ok(store)
    }

    /// Returns the ids of the containers and sandboxes of all clients of containerd.
    ///
    /// # Errors
    /// As of [`Self::containerd_store`], or one of the lists cannot be read.
    pub async fn all_container_ids(&self) -> Result<HashSet<String>, CriError> {
        let calls = StoreCalls::new(self);
        let mut ids = HashSet::new();
        for namespace in calls.namespaces().await? {
            let containers = calls.within(&namespace)?.containers().await?;
            ids.extend(containers.into_iter().map(|container| container.id));
        }
        Ok(ids)
    }
}

// === impl SnapshotUsages ===

impl SnapshotUsages {
    /// Adds the usages to the parts. `keys` are the snapshots by the positions of their parts.
    async fn fill(
        &self,
        calls: &StoreCalls,
        store: &mut RuntimeStore,
        keys: Vec<(usize, SnapshotKey)>,
        until: Instant,
    ) {
        let listed: HashSet<_> = keys.iter().map(|(_, key)| key).collect();
        self.known().retain(|key, _| listed.contains(key));
        drop(listed);
        let (mut lacking, mut not_counted) = (Vec::new(), HashSet::new());
        for (position, key) in keys {
            let known = self.known().get(&key).copied();
            match known {
                Some(usage) => set(store, position, usage),
                None if IN_DIRECTORIES.contains(&key.snapshotter.as_str()) => lacking.push((position, key)),
                None => drop(not_counted.insert(key.snapshotter)),
            }
        }
        let uncounted = |name| format!("sizes of snapshotter {name}: it does not keep layers in directories");
        store.missing_sizes.extend(not_counted.into_iter().map(uncounted));
        self.read(calls, store, lacking, until).await;
    }

    /// Reads usages, some at the same time. The first call that fails for another reason than that its snapshot does not
    /// exist any more ends it, and so does the time limit.
    async fn read(
        &self,
        calls: &StoreCalls,
        store: &mut RuntimeStore,
        lacking: Vec<(usize, SnapshotKey)>,
        until: Instant,
    ) {
        let all = lacking.len();
        let answers =
            stream::iter(lacking).map(|(position, key)| async move { (position, calls.usage(&key).await, key) });
        let (mut answers, mut read) = (pin!(answers.buffer_unordered(AT_ONCE)), 0);
        let cause = loop {
            match tokio::time::timeout_at(until, answers.next()).await {
                Err(_) => break Some("they took too long".to_owned()),
                Ok(None) => break None,
                Ok(Some((position, Ok(usage), key))) => self.learn(store, position, key, usage),
                Ok(Some((_, Err(error), _))) if error.is_not_found() => {}
                Ok(Some((_, Err(error), _))) => break Some(error.to_string()),
            }
            read += 1;
        };
        if let Some(cause) = cause {
            store.missing_sizes.push(format!("sizes of {} of {all} snapshots: {cause}", all - read));
        }
    }

    fn learn(&self, store: &mut RuntimeStore, position: usize, key: SnapshotKey, usage: (u64, u64)) {
        set(store, position, usage);
        if store.parts.get(position).is_some_and(|part| part.kind == PartKind::Layer) {
            self.known().insert(key, usage);
        }
    }

    fn known(&self) -> MutexGuard<'_, Usages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(store: &mut RuntimeStore, position: usize, (bytes, inodes): (u64, u64)) {
    if let Some(part) = store.parts.get_mut(position) {
        (part.bytes, part.inodes) = (Some(bytes), Some(inodes));
    }
}
