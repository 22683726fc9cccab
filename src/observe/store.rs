//! Reads what the store of the runtime holds, beside the CRI: from containerd's own API on the same socket, or from the files
//! of CRI-O.
//!
//! Nothing depends on it: without it the account of the disk says so, and a pass works with the sizes of the CRI and with
//! measurement.

mod crio;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Places;
use super::disk::Disks;
use crate::cri::{RuntimeReader, SnapshotUsages};
use crate::model::{ContainerId, DiskUse, FileSystem, HolderKind, NodeDisk, PartKind, RuntimeStore, Seen, Snapshot};

/// The longest time to read the lists of the store.
const LISTS: Duration = Duration::from_secs(10);
/// The longest time to read the store: the first time, it has the usage of each layer.
const STORE: Duration = Duration::from_secs(20);

/// Reads the store. It remembers what never changes, so one serves all passes.
#[derive(Debug, Default)]
pub(super) struct StoreReader {
    usages: SnapshotUsages,
    sizes: crio::Sizes,
}

// === impl StoreReader ===

impl StoreReader {
    pub async fn read(
        &self,
        reader: &RuntimeReader,
        places: &Places,
        disks: &dyn Disks,
        snapshot: &Snapshot,
        writable_layers: bool,
    ) -> Seen<RuntimeStore> {
        let Some(images) = snapshot.image_filesystem.as_ref() else {
            let cause = snapshot.image_filesystem.cause().unwrap_or_default();
            return Seen::NotSeen(format!("image file system: {cause}"));
        };
        let read = match self.read_containerd(reader, writable_layers).await {
            Some(store) => store,
            None => self.read_crio(reader, places, disks, images, writable_layers).await,
        };
        let Seen::Seen(mut store) = read else { return read };
        if writable_layers {
            add_writable_layers(reader, &mut store).await;
        }
        let holds = |disk: &NodeDisk, of| disk.holds.contains(&of);
        let has_both = |disk: &NodeDisk| holds(disk, DiskUse::Images) && holds(disk, DiskUse::Logs);
        store.holders.retain(|holder| holder.expires_at.is_none_or(|at| at > snapshot.taken_at));
        store.logs_on_image_disk = snapshot.disks.iter().any(has_both);
        Seen::Seen(store)
    }

    /// Reads the store of containerd. `None` = the runtime is another.
    async fn read_containerd(&self, reader: &RuntimeReader, writable_layers: bool) -> Option<Seen<RuntimeStore>> {
        let begun = Instant::now();
        let read = Box::pin(reader.containerd_store(&self.usages, writable_layers, begun + STORE));
        match timeout_at(begun + STORE + LISTS, read).await {
            Ok(Err(error)) if error.is_unimplemented() => None,
            Ok(store) => Some(store.into()),
            Err(_) => Some(Seen::NotSeen(format!("no answer within {} s", (STORE + LISTS).as_secs()))),
        }
    }

    /// Reads the store of CRI-O. Its containers may be in another directory than its images.
    async fn read_crio(
        &self,
        reader: &RuntimeReader,
        places: &Places,
        disks: &dyn Disks,
        images: &FileSystem,
        writable_layers: bool,
    ) -> Seen<RuntimeStore> {
        let (containers, cause) = match reader.container_filesystem().await {
            Ok(containers) => (containers, None),
            Err(error) => (None, Some(format!("directory of containers: {error}"))),
        };
        let of_containers = match &containers {
            Some(path) => disks.measure(path).await.ok(),
            None => None,
        };
        let until = Instant::now() + STORE;
        let wanted = crio::Wanted { sizes: self.sizes.clone(), containers, writable_layers, until };
        let mut read = crio::read(&places.host, &images.mountpoint, wanted).await;
        if let Seen::Seen(store) = &mut read {
            store.missing.extend(cause);
            store.containers_elsewhere = of_containers.is_some_and(|disk| !disk.is_same_disk(images));
        }
        read
    }
}

/// Adds the sizes of the writable layers that the runtime measures itself, where the store has none.
async fn add_writable_layers(reader: &RuntimeReader, store: &mut RuntimeStore) {
    let is_unknown = |position: &usize| {
        store.parts.get(*position).is_some_and(|part| part.kind == PartKind::Writable && part.bytes.is_none())
    };
    let of_containers = store.holders.iter().filter(|holder| holder.kind == HolderKind::Container);
    let unknown: BTreeMap<usize, ContainerId> = of_containers
        .flat_map(|holder| holder.refs.iter().filter(|at| is_unknown(at)).map(|at| (*at, holder.name.as_str().into())))
        .collect();
    if unknown.is_empty() {
        return;
    }
    match reader.writable_layers().await {
        Ok(sizes) => {
            for (position, container) in unknown {
                if let Some(part) = store.parts.get_mut(position) {
                    part.bytes = sizes.get(&container).copied();
                }
            }
            note_unknown_sizes(store);
        }
        Err(error) => store.missing_sizes.push(format!("sizes of writable layers: {error}")),
    }
}

/// Notes that writable layers have no size, if nothing says so yet.
fn note_unknown_sizes(store: &mut RuntimeStore) {
    let unknown = store.writable_layers().filter(|(_, part)| part.bytes.is_none()).count();
    if unknown > 0 && store.missing_sizes.is_empty() {
        store.missing_sizes.push(format!("sizes of {unknown} writable layers: the runtime does not report them"));
    }
}
