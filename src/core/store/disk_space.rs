//! A file system, and what takes its space.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoEnumIterator;

use super::account::{Accounting, CategoryEntry};
use super::category::Category;
use super::entries::{unknown_to_runtime, unlisted};
use crate::model::{
    DirUsage, DiskUse, FileSystem, LeftoverKind, LogDir, NodeDisk, PathUsage, PodDirUsage, PodRef, PodUid, Snapshot,
    VolumeUsage,
};

/// The large things that are listed of each disk.
const MOST: usize = 100;
/// One is listed if it takes more than one in so many of the used bytes.
const SHARE: u64 = 1000;

/// A file system, and what takes its space.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskSpace {
    #[serde(default)]
    pub holds: Vec<DiskUse>,
    /// How full it is.
    pub disk: FileSystem,
    /// Bytes that are not available, as in the thresholds; those reserved for root included.
    pub used_bytes: u64,
    /// Inodes in use; `null` = the file system does not count them.
    pub used_inodes: Option<u64>,
    /// What takes the space. The bytes of all add up to `used_bytes`, unless more was found than there is.
    pub categories: Vec<CategoryEntry>,
    /// The largest volumes, logs, directories and files besides the store of the runtime, largest first.
    #[serde(default)]
    pub largest: Vec<LargeEntry>,
}

/// A volume, the logs of a pod, a directory or a file.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct LargeEntry {
    pub category: Category,
    /// What it is: a volume with its plugin, or a path.
    pub name: String,
    /// The pod or process that has it; empty = not known.
    pub held_by: String,
    /// Its size.
    #[serde(flatten)]
    pub usage: DirUsage,
}

/// The file systems of a snapshot, the one of images first.
pub(super) fn disk_spaces(snapshot: &Snapshot, store: Option<&Accounting<'_>>) -> Vec<DiskSpace> {
    let pods = KnownPods::new(snapshot);
    let space = |disk: NodeDisk| {
        let mut filling = Filling::default();
        for of in &disk.holds {
            match of {
                DiskUse::Images => filling.images(snapshot, store, &pods),
                DiskUse::Logs => filling.logs(snapshot),
                DiskUse::Kubelet => filling.kubelet(snapshot, &pods),
            }
        }
        filling.others(snapshot, disk.name());
        filling.done(disk)
    };
    disks(snapshot).into_iter().map(space).collect()
}

/// Returns the disks. That of images is the one that the thresholds apply to; an older snapshot has no other.
fn disks(snapshot: &Snapshot) -> Vec<NodeDisk> {
    let mut disks = snapshot.disks.clone();
    let Some(images) = snapshot.image_filesystem.as_ref() else { return disks };
    if let Some(disk) = disks.iter_mut().find(|disk| disk.holds.contains(&DiskUse::Images)) {
        disk.file_system = images.clone();
        return disks;
    }
    let has_logs = snapshot.store.as_ref().is_some_and(|store| store.logs_on_image_disk);
    let holds = [Some(DiskUse::Images), has_logs.then_some(DiskUse::Logs)].into_iter().flatten().collect();
    disks.insert(0, NodeDisk { holds, file_system: images.clone() });
    disks
}

/// A file system whose content is added up.
#[derive(Default)]
struct Filling {
    entries: BTreeMap<Category, CategoryEntry>,
    largest: Vec<LargeEntry>,
}

// === impl Filling ===

impl Filling {
    fn entry(&mut self, category: Category) -> &mut CategoryEntry {
        self.entries.entry(category).or_insert(CategoryEntry::empty(category))
    }

    fn add(&mut self, category: Category, usage: DirUsage, objects: u64) {
        let entry = self.entry(category);
        entry.bytes = entry.bytes.saturating_add(usage.bytes);
        entry.inodes = entry.inodes.saturating_add(usage.inodes);
        entry.objects += objects;
        entry.at_least |= usage.at_least;
    }

    /// Adds something that is listed if it is large.
    fn add_named(&mut self, category: Category, name: String, held_by: String, usage: DirUsage) {
        self.add(category, usage, 1);
        self.largest.push(LargeEntry { category, name, held_by, usage });
    }

    /// Adds the store of the runtime, and the volumes that images declare.
    fn images(&mut self, snapshot: &Snapshot, store: Option<&Accounting<'_>>, pods: &KnownPods) {
        for entry in store.map(Accounting::categories).into_iter().flatten() {
            self.entries.insert(entry.category, entry);
        }
        for (pod, volume) in volumes(snapshot).filter(|(_, volume)| volume.of_image) {
            self.volume(Category::PodVolumes, pods.text(&pod.uid), volume);
        }
        self.add(Category::UnknownToRuntime, unknown_to_runtime(snapshot).unwrap_or_default(), 0);
    }

    fn volume(&mut self, category: Category, held_by: String, volume: &VolumeUsage) {
        self.add_named(category, format!("{} \"{}\"", volume.plugin, volume.name), held_by, volume.usage);
    }

    fn logs(&mut self, snapshot: &Snapshot) {
        for dir in snapshot.log_dirs.as_ref().into_iter().flatten() {
            let held_by = dir.pod().map_or_else(|| dir.name.clone(), |pod| pod.name_or_uid());
            let bytes = dir.size_bytes.unwrap_or_default();
            let usage = DirUsage { bytes, inodes: 0, at_least: dir.size_bytes.is_none() };
            self.add_named(Category::Logs, "logs".to_owned(), held_by, usage);
        }
        for log in snapshot.archived_logs.as_ref().into_iter().flatten() {
            let usage = DirUsage { bytes: log.size_bytes, inodes: 1, at_least: false };
            self.add(Category::ArchivedLogs, usage, 1);
        }
    }

    /// Adds the directories of pods. Those of pods that do not exist any more are left over.
    fn kubelet(&mut self, snapshot: &Snapshot, pods: &KnownPods) {
        for dir in snapshot.pod_usage.as_ref().into_iter().flatten() {
            let held_by = pods.text(&dir.uid);
            if pods.is_missing(&dir.uid) {
                let usage = dir.on_kubelet_disk();
                let name = LeftoverKind::PodDirectory.phrase().to_owned();
                self.add_named(Category::Leftovers, name, held_by, usage);
                continue;
            }
            self.add_named(Category::PodVolumes, "files of the kubelet".to_owned(), held_by.clone(), dir.other);
            dir.volumes_on_kubelet_disk().for_each(|volume| self.volume(Category::PodVolumes, held_by.clone(), volume));
        }
    }

    /// Adds what a walk over the disk found.
    fn others(&mut self, snapshot: &Snapshot, of: Option<DiskUse>) {
        let Some(content) = snapshot.disk_contents.iter().find(|content| Some(content.disk) == of) else { return };
        self.add(Category::KubeletFiles, content.kubelet, 0);
        self.add(Category::OtherFiles, content.other, 0);
        self.add(Category::DeletedFiles, content.deleted, content.deleted.inodes);
        for found in unlisted(snapshot, &content.largest) {
            let category = match found {
                PathUsage { is_kubelets: true, .. } => Category::KubeletFiles,
                PathUsage { is_runtimes: true, .. } => Category::UnknownToRuntime,
                _ => Category::OtherFiles,
            };
            let (name, held_by) = (found.path.clone(), String::new());
            self.largest.push(LargeEntry { category, name, held_by, usage: found.usage });
        }
        for file in &content.largest_deleted {
            let held_by = format!("{} (pid {})", file.process, file.pid);
            let usage = DirUsage { bytes: file.bytes, inodes: 1, at_least: false };
            let name = format!("{} (deleted)", file.path);
            self.largest.push(LargeEntry { category: Category::DeletedFiles, name, held_by, usage });
        }
    }

    /// Returns the file system, with what is left for the rest.
    fn done(mut self, NodeDisk { holds, file_system: disk }: NodeDisk) -> DiskSpace {
        let used_bytes = disk.used_bytes();
        let used_inodes = disk.inodes.zip(disk.inodes_free).map(|(all, free)| all.saturating_sub(free));
        let reserved = disk.free_bytes.map_or(0, |free| free.saturating_sub(disk.available_bytes));
        self.add(Category::ReservedBlocks, DirUsage { bytes: reserved, ..DirUsage::default() }, 0);
        let sum = |of: fn(&CategoryEntry) -> u64| self.entries.values().map(of).fold(0, u64::saturating_add);
        let rest = DirUsage {
            bytes: used_bytes.saturating_sub(sum(|entry| entry.bytes)),
            inodes: used_inodes.unwrap_or_default().saturating_sub(sum(|entry| entry.inodes)),
            at_least: false,
        };
        self.add(Category::NotOfTheRuntime, rest, 0);
        let categories = Category::iter().map(|category| *self.entry(category)).collect();
        self.largest.retain(|entry| entry.usage.bytes > used_bytes / SHARE);
        self.largest.sort_by(|a, b| (Reverse(a.usage.bytes), &a.name).cmp(&(Reverse(b.usage.bytes), &b.name)));
        self.largest.truncate(MOST);
        DiskSpace { holds, disk, used_bytes, used_inodes, categories, largest: self.largest }
    }
}

pub(super) fn volumes(snapshot: &Snapshot) -> impl Iterator<Item = (&PodDirUsage, &VolumeUsage)> {
    let pods = snapshot.pod_usage.as_ref().into_iter().flatten();
    pods.flat_map(|pod| pod.volumes.iter().map(move |volume| (pod, volume)))
}

/// Returns what is left over on all disks: how many of each kind, and their size. A kind is absent if it is not known.
pub fn leftovers(snapshot: &Snapshot) -> BTreeMap<LeftoverKind, (u64, DirUsage)> {
    let (pods, dirs) = (KnownPods::new(snapshot), snapshot.pod_usage.as_ref());
    let has_pods = dirs.is_some() && pods.existing.is_some();
    let has_files = snapshot.leftovers.failure().is_none();
    let store = snapshot.store.as_ref();
    let known = [
        (LeftoverKind::PullRecord, has_files && snapshot.images.is_seen()),
        (LeftoverKind::TerminationLog, has_files && snapshot.containers.is_seen()),
        (LeftoverKind::PodDirectory, has_pods),
        (LeftoverKind::Address, has_files && snapshot.sandboxes.is_seen()),
        (LeftoverKind::Checkpoint, has_files),
        (LeftoverKind::Unreferenced, store.is_some()),
        (LeftoverKind::Task, has_files && !snapshot.disk_contents.is_empty()),
    ];
    let mut all: BTreeMap<_, (u64, DirUsage)> =
        known.into_iter().filter_map(|(kind, is_known)| is_known.then_some((kind, Default::default()))).collect();
    let gone = dirs.into_iter().flatten().filter(|dir| pods.is_missing(&dir.uid));
    let gone = gone.map(|dir| (LeftoverKind::PodDirectory, dir.on_kubelet_disk()));
    let files = snapshot.leftovers.as_ref().into_iter().flatten();
    let files = files.filter(|leftover| leftover.kind != LeftoverKind::PodDirectory);
    let unreferenced = store.into_iter().flat_map(|store| store.unreferenced(snapshot.taken_at));
    let unreferenced = unreferenced.map(|part| (LeftoverKind::Unreferenced, part.usage()));
    for (kind, usage) in gone.chain(files.map(|found| (found.kind, found.at.usage))).chain(unreferenced) {
        let (count, sum) = all.entry(kind).or_default();
        (*count, *sum) = (*count + 1, sum.and(usage));
    }
    all
}

/// The pods by their uid.
struct KnownPods<'a> {
    names: HashMap<PodUid, PodRef>,
    /// `None` = others may exist.
    existing: Option<HashSet<&'a PodUid>>,
}

// === impl KnownPods ===

impl<'a> KnownPods<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let dirs = snapshot.log_dirs.as_ref().into_iter().flatten().filter_map(LogDir::pod);
        let dirs: HashSet<_> = dirs.collect();
        let objects = super::by_pod::pods_of_objects(snapshot);
        let names = super::by_pod::pods_by_uid(snapshot, objects.into_values().chain(&dirs));
        let has_objects = snapshot.containers.is_seen() && snapshot.sandboxes.is_seen();
        Self { names, existing: snapshot.existing_pods().filter(|_| has_objects) }
    }

    /// Returns whether a pod with this uid is missing.
    fn is_missing(&self, uid: &PodUid) -> bool {
        self.existing.as_ref().is_some_and(|pods| !pods.contains(uid))
    }

    fn text(&self, uid: &PodUid) -> String {
        self.names.get(uid).map_or_else(|| format!("uid {uid}"), PodRef::name_or_uid)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::Seen;
    use crate::store::{DiskAccount, account};

    /// A node with images on one disk, and pods and logs on another.
    fn snapshot(more: &Value) -> Snapshot {
        let seen = |value: Value| json!({ "seen": value });
        let disk = |mountpoint: &str, used: u64| json!({ "mountpoint": mountpoint, "capacity_bytes": 100_000, "available_bytes": 100_000 - used, "free_bytes": 100_010 - used });
        let volume = |name: &str, bytes: u64, of_image: bool| json!({ "plugin": "empty-dir", "name": name, "bytes": bytes, "inodes": 1, "of_image": of_image });
        let pod = json!({ "uid": "u-web", "namespace": "shop", "name": "web" });
        let mut document = json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "containers": seen(json!([])),
            "sandboxes": seen(json!([])),
            "images": seen(json!([])),
            "image_filesystem": seen(disk("/images", 5000)),
            "disks": [
                { "holds": ["images"], "file_system": disk("/images", 5000) },
                { "holds": ["logs", "kubelet"], "file_system": disk("/var", 9000) },
            ],
            "log_dirs": seen(json!([{ "name": "shop_web_u-web", "size_bytes": 70 }])),
            "pods": seen(json!({ "source": "test", "complete": true, "pods": [pod] })),
            "store": seen(json!({ "parts": [{ "kind": "writable", "name": "l", "bytes": 100 }], "holders": [] })),
            "pod_usage": seen(json!([
                { "uid": "u-web", "volumes": [volume("cache", 3000, false), volume("i", 20, true)], "other": { "bytes": 7, "inodes": 1 } },
                { "uid": "u-gone", "volumes": [volume("data", 400, false)], "other": { "bytes": 5, "inodes": 1 } },
            ])),
            "disk_contents": [{
                "disk": "logs",
                "kubelet": { "bytes": 11, "inodes": 1 },
                "other": { "bytes": 2000, "inodes": 9, "at_least": true },
                "largest": [{ "path": "/var/core", "bytes": 1500, "inodes": 1 }],
                "deleted": { "bytes": 900, "inodes": 2 },
                "largest_deleted": [{ "path": "/tmp/x", "process": "db", "pid": 7, "bytes": 800 }],
            }],
        });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(document).unwrap()
    }

    fn account_of(snapshot: &Snapshot) -> DiskAccount {
        account(snapshot, BTreeMap::new()).unwrap()
    }

    fn bytes(space: &DiskSpace) -> Vec<(&'static str, u64)> {
        let filled = space.categories.iter().filter(|entry| entry.bytes > 0);
        filled.map(|entry| (entry.category.into(), entry.bytes)).collect()
    }

    #[test]
    fn each_disk_has_its_own_categories_that_add_up() {
        let account = account_of(&snapshot(&json!({})));
        let [second] = &*account.other_disks else { panic!("{account:#?}") };
        let rest = 5000 - 100 - 20 - 10;
        assert_eq!(
            bytes(&account.first),
            [("unreferenced", 100), ("pod_volumes", 20), ("reserved_blocks", 10), ("not_of_the_runtime", rest)]
        );
        let found = [
            ("logs", 70),
            ("pod_volumes", 3007),
            ("kubelet_files", 11),
            ("leftovers", 405),
            ("other_files", 2000),
            ("deleted_files", 900),
            ("reserved_blocks", 10),
        ];
        let rest = 9000 - found.iter().map(|(_, bytes)| bytes).sum::<u64>();
        assert_eq!(bytes(second), [&found[..], &[("not_of_the_runtime", rest)]].concat());
        let least: Vec<_> =
            second.categories.iter().filter(|entry| entry.at_least).map(|entry| entry.category).collect();
        assert_eq!((least, account.missing), (vec![Category::OtherFiles], Vec::<String>::new()));
    }

    #[test]
    fn the_largest_are_named_with_who_has_them() {
        let account = account_of(&snapshot(&json!({})));
        let largest = &account.other_disks[0].largest;
        let rows: Vec<_> = largest.iter().map(|one| (&*one.name, &*one.held_by, one.usage.bytes)).collect();
        assert_eq!(
            rows[..4],
            [
                ("empty-dir \"cache\"", "shop/web", 3000),
                ("/var/core", "", 1500),
                ("/tmp/x (deleted)", "db (pid 7)", 800),
                ("directory of a pod that is gone", "uid u-gone", 405),
            ]
        );
        assert_eq!(account.first.largest[0].held_by, "shop/web");
        let volumes = account.other_disks[0].categories.iter().find(|entry| entry.category == Category::PodVolumes);
        assert_eq!(volumes.unwrap().objects, 2);
        assert!(largest.iter().all(|one| one.usage.bytes > 9), "less than a thousandth is not named");
    }

    #[test]
    fn what_is_left_over_is_counted_by_kind() {
        let of = |more: Value| -> Vec<_> {
            let found = leftovers(&snapshot(&more)).into_iter();
            found.map(|(kind, (count, usage))| (kind, count, usage.bytes)).collect()
        };
        let dirs = (LeftoverKind::PodDirectory, 1, 405);
        let (records, logs) = ((LeftoverKind::PullRecord, 0, 0), (LeftoverKind::TerminationLog, 1, 4));
        let log = json!({ "kind": "termination_log", "path": "/pods/u/containers/app/0", "bytes": 4, "inodes": 1 });
        let address = json!({ "kind": "address", "path": "/networks/n/10.0.0.1", "bytes": 4096, "inodes": 1 });
        let measured = json!({ "kind": "pod_directory", "path": "/pods/u-gone", "bytes": 0, "inodes": 0 });
        let task = json!({ "kind": "task", "path": "/proc/7", "bytes": 0, "inodes": 0 });
        let found = json!({ "seen": [log, address, measured, task] });
        let (addresses, checkpoints) = ((LeftoverKind::Address, 1, 4096), (LeftoverKind::Checkpoint, 0, 0));
        let unreferenced = (LeftoverKind::Unreferenced, 0, 0);
        let all = [records, logs, dirs, addresses, checkpoints, unreferenced, (LeftoverKind::Task, 1, 0)];
        assert_eq!(of(json!({ "leftovers": found })), all);
        let without_walk = of(json!({ "leftovers": { "seen": [] }, "disk_contents": [] }));
        assert!(!without_walk.iter().any(|(kind, ..)| *kind == LeftoverKind::Task), "{without_walk:?}");
        let logs =
            json!({ "leftovers": found, "log_dirs": { "seen": [{ "name": "shop_old_u-gone", "size_bytes": 1 }] } });
        assert_eq!(of(logs), all, "its logs do not show that it exists");
        let part = json!({ "kind": "blob", "name": "b", "bytes": 100, "created_at": "2026-11-21T11:00:00Z" });
        let store = of(json!({ "leftovers": found, "store": { "seen": { "parts": [part], "holders": [] } } }));
        assert!(store.contains(&(LeftoverKind::Unreferenced, 1, 100)), "{store:?}");
        let incomplete = json!({ "pods": { "seen": { "source": "test", "complete": false, "pods": [] } },
            "leftovers": { "not_seen": "no answer" } });
        assert_eq!(of(incomplete), [unreferenced], "a pod that is not listed may exist");
    }

    /// A layer of another snapshotter is in the store, and not with the store of the images.
    #[test]
    fn what_the_runtime_does_not_list_is_what_its_directory_has_besides() {
        let part =
            |kind: &str, name: &str, bytes: u64| json!({ "kind": kind, "name": name, "bytes": bytes, "inodes": 1 });
        let parts = [part("layer", "overlayfs/a", 300), part("blob", "b", 100), part("layer", "native/c", 50)];
        let large = |path: &str| json!({ "path": path, "bytes": 60, "inodes": 1, "is_runtimes": true });
        let [log, layer] =
            ["/c/io.containerd.runtime.v2.task/log.json", "/c/io.containerd.snapshotter.v1.native/snapshots/1/fs"];
        let account_of = |store: Value| {
            let content = json!({ "disk": "images", "runtime": { "bytes": 150, "inodes": 9 },
                "runtime_store": { "bytes": 427, "inodes": 9, "at_least": true }, "largest": [large(log), large(layer)] });
            let mut snapshot = snapshot(&json!({ "disk_contents": [content], "store": { "seen": store } }));
            let Seen::Seen(images) = &mut snapshot.image_filesystem else { panic!() };
            images.mountpoint = "/c/io.containerd.snapshotter.v1.overlayfs".into();
            account_of(&snapshot).first
        };
        let row = |disk: &DiskSpace| {
            let row = disk.categories.iter().find(|row| row.category == Category::UnknownToRuntime).unwrap();
            (row.bytes, row.at_least)
        };
        let disk = account_of(json!({ "parts": parts, "holders": [] }));
        assert_eq!(row(&disk), (150 - 50 + 427 - 300 - 100 - 20, true), "20 are a volume that an image declares");
        let named: Vec<_> = disk.largest.iter().filter(|one| one.category == Category::UnknownToRuntime).collect();
        assert_eq!(named.iter().map(|one| &*one.name).collect::<Vec<_>>(), [log]);
        let unmeasured = json!({ "kind": "writable", "name": "overlayfs/d" });
        let parts = [&parts[..], &[unmeasured]].concat();
        let disk = account_of(json!({ "parts": parts, "holders": [] }));
        assert_eq!(row(&disk), (100, true), "the layer may have the rest");
        assert_eq!(row(&account_of(json!({ "missing": ["leases: refused"] }))), (0, false));
    }

    /// Without a complete list, a pod that is not listed may exist.
    #[test]
    fn nothing_is_left_over_while_pods_may_be_missing() {
        let incomplete = json!({ "pods": { "seen": { "source": "test", "complete": false, "pods": [] } } });
        let blind = json!({ "sandboxes": { "not_seen": "refused" } });
        for unknown in [incomplete, blind] {
            let account = account_of(&snapshot(&unknown));
            let rows = bytes(&account.other_disks[0]);
            assert!(!rows.iter().any(|(category, _)| *category == "leftovers"), "{unknown}: {rows:?}");
        }
    }

    #[test]
    fn without_a_runtime_the_rest_is_accounted_for() {
        let cause = json!({ "not_seen": "no runtime" });
        let disks = snapshot(&json!({})).disks;
        let unseen = json!({ "image_filesystem": cause, "images": cause, "store": cause, "disks": [disks[1]] });
        let account = account_of(&snapshot(&unseen));
        assert_eq!((account.first.holds.as_slice(), account.other_disks.len()), (&disks[1].holds[..], 0));
        assert_eq!(account.missing, ["image file system: no runtime"]);
        assert!(bytes(&account.first).contains(&("pod_volumes", 3007)));
    }
}
