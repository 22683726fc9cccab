//! What each pod takes on the disks of the node: its writable layers, its volumes and its logs.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{DirUsage, PodDirUsage, PodRef, PodUid, RuntimeStore, Snapshot, VolumeUsage};

/// What each pod takes, the largest first.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct DiskByPod {
    /// When the node was observed.
    pub taken_at: Timestamp,
    /// Name of the node; empty if not known.
    pub node: String,
    pub pods: Vec<PodSpace>,
    pub namespaces: Vec<NamespaceSpace>,
    /// What could not be read.
    pub missing: Vec<String>,
}

/// What a pod takes.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodSpace {
    /// The pod. Of one that only has a directory of the kubelet, the uid alone is known.
    pub pod: PodRef,
    /// How much.
    #[serde(flatten)]
    pub space: Space,
    /// Its volumes on the disks of the node, largest first.
    pub volumes: Vec<VolumeUsage>,
}

/// What the pods of a namespace take.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct NamespaceSpace {
    /// The namespace; empty = not known.
    pub namespace: String,
    /// The number of pods.
    pub pods: u64,
    /// How much.
    #[serde(flatten)]
    pub space: Space,
}

/// An amount of space by what takes it.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Space {
    /// Bytes of writable layers, of dead containers too; `null` = it has none, or none was read.
    pub writable_layer_bytes: Option<u64>,
    pub volume_bytes: u64,
    pub log_bytes: u64,
    /// Bytes of other files of the kubelet for it, such as termination logs.
    pub other_bytes: u64,
    /// All of them.
    pub bytes: u64,
    /// Whether it takes at least this much: a part could not be read, or not in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Returns what each pod of a snapshot takes.
pub fn disk_by_pod(snapshot: &Snapshot) -> DiskByPod {
    let mut pods: Vec<_> = spaces(snapshot).into_values().collect();
    pods.sort_by(|a, b| (Reverse(a.space.bytes), &a.pod).cmp(&(Reverse(b.space.bytes), &b.pod)));
    DiskByPod {
        taken_at: snapshot.taken_at,
        node: snapshot.node.clone(),
        namespaces: by_namespace(&pods),
        pods,
        missing: missing(snapshot),
    }
}

fn by_namespace(pods: &[PodSpace]) -> Vec<NamespaceSpace> {
    let mut namespaces: HashMap<&str, NamespaceSpace> = HashMap::new();
    for pod in pods {
        let namespace = namespaces.entry(&pod.pod.namespace).or_default();
        namespace.pods += 1;
        namespace.space = namespace.space.and(pod.space);
    }
    let named = namespaces.into_iter().map(|(name, space)| NamespaceSpace { namespace: name.to_owned(), ..space });
    let mut namespaces: Vec<_> = named.collect();
    namespaces.sort_by(|a, b| (Reverse(a.space.bytes), &a.namespace).cmp(&(Reverse(b.space.bytes), &b.namespace)));
    namespaces
}

/// Returns what each pod takes.
fn spaces(snapshot: &Snapshot) -> HashMap<PodRef, PodSpace> {
    let mut spaces: HashMap<PodRef, PodSpace> = HashMap::new();
    let pods = pods_of_objects(snapshot);
    for (id, part) in snapshot.store.as_ref().into_iter().flat_map(RuntimeStore::writable_layers) {
        let Some(pod) = pods.get(id) else { continue };
        let space = &mut spaces.entry((*pod).clone()).or_default().space;
        space.writable_layer_bytes = sum(space.writable_layer_bytes, part.bytes);
        space.at_least |= part.bytes.is_none();
    }
    for dir in snapshot.log_dirs.as_ref().into_iter().flatten() {
        let Some(pod) = dir.pod() else { continue };
        let space = &mut spaces.entry(pod).or_default().space;
        space.log_bytes = space.log_bytes.saturating_add(dir.size_bytes.unwrap_or_default());
        space.at_least |= dir.size_bytes.is_none();
    }
    let known = pods_by_uid(snapshot, pods.into_values().chain(spaces.keys()));
    for dir in snapshot.pod_usage.as_ref().into_iter().flatten() {
        let unknown = || PodRef { uid: dir.uid.clone(), ..PodRef::default() };
        spaces.entry(known.get(&dir.uid).cloned().unwrap_or_else(unknown)).or_default().add(dir);
    }
    for (pod, space) in &mut spaces {
        space.pod = pod.clone();
        space.space.add_up();
    }
    spaces
}

/// Returns the pod of each container and sandbox, by its id.
pub(super) fn pods_of_objects(snapshot: &Snapshot) -> HashMap<&str, &PodRef> {
    let containers = snapshot.listed_containers().into_iter().flatten();
    let containers = containers.map(|one| (one.id.as_str(), one.pod.as_ref()));
    let sandboxes = snapshot.listed_sandboxes().into_iter().flatten();
    let sandboxes = sandboxes.map(|one| (one.id.as_str(), one.pod.as_ref()));
    containers.chain(sandboxes).filter_map(|(id, pod)| Some((id, pod?))).collect()
}

/// Returns the pods that are known by their uid: those of objects and log directories before those of a list of pods.
pub(super) fn pods_by_uid<'a>(snapshot: &Snapshot, seen: impl Iterator<Item = &'a PodRef>) -> HashMap<PodUid, PodRef> {
    let listed = snapshot.pods.as_ref().into_iter().flat_map(|list| &list.pods);
    let listed =
        listed.map(|pod| PodRef { uid: pod.uid.clone(), namespace: pod.namespace.clone(), name: pod.name.clone() });
    listed.chain(seen.cloned()).map(|pod| (pod.uid.clone(), pod)).collect()
}

/// Returns what of the space of pods could not be read.
fn missing(snapshot: &Snapshot) -> Vec<String> {
    let missing = [
        ("writable layers", snapshot.store.cause()),
        ("logs", snapshot.log_dirs.cause()),
        ("volumes", snapshot.pod_usage.cause()),
    ];
    missing.into_iter().filter_map(|(what, cause)| Some(format!("{what}: {}", cause?))).collect()
}

/// Returns the sum of what is known; `None` = nothing is.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).reduce(u64::saturating_add)
}

// === impl PodSpace ===

impl PodSpace {
    /// Adds what the kubelet's directory of the pod takes.
    fn add(&mut self, directory: &PodDirUsage) {
        let volumes = directory.volumes.iter().fold(DirUsage::default(), |sum, volume| sum.and(volume.usage));
        let space = &mut self.space;
        space.volume_bytes = space.volume_bytes.saturating_add(volumes.bytes);
        space.other_bytes = space.other_bytes.saturating_add(directory.other.bytes);
        space.at_least |= volumes.at_least || directory.other.at_least;
        self.volumes.extend(directory.volumes.iter().filter(|volume| volume.usage.bytes > 0).cloned());
        self.volumes.sort_by_key(|volume| Reverse(volume.usage.bytes));
    }
}

// === impl Space ===

impl Space {
    fn add_up(&mut self) {
        let parts =
            [self.writable_layer_bytes.unwrap_or_default(), self.volume_bytes, self.log_bytes, self.other_bytes];
        self.bytes = parts.into_iter().fold(0, u64::saturating_add);
    }

    /// Returns the sum.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            writable_layer_bytes: sum(self.writable_layer_bytes, other.writable_layer_bytes),
            volume_bytes: self.volume_bytes.saturating_add(other.volume_bytes),
            log_bytes: self.log_bytes.saturating_add(other.log_bytes),
            other_bytes: self.other_bytes.saturating_add(other.other_bytes),
            bytes: self.bytes.saturating_add(other.bytes),
            at_least: self.at_least || other.at_least,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use crate::model::Seen;
    /// A node with a running pod, a dead container of another one with logs, and a directory of a pod that is gone.
    fn snapshot() -> Snapshot {
        let pod = |name: &str| json!({ "uid": format!("u-{name}"), "namespace": "shop", "name": name });
        let container = |id: &str, name: &str| json!({ "id": id, "name": "app", "pod": pod(name), "state": "exited", "created_at": "2026-11-21T11:00:00Z" });
        let layer = |bytes: u64| json!({ "kind": "writable", "name": "l", "bytes": bytes });
        let holder =
            |id: &str, part: usize| json!({ "kind": "container", "namespace": "k8s.io", "name": id, "refs": [part] });
        let volume =
            |name: &str, bytes: u64| json!({ "plugin": "empty-dir", "name": name, "bytes": bytes, "inodes": 1 });
        let other = json!({ "bytes": 7, "inodes": 1, "at_least": true });
        let seen = |value: serde_json::Value| json!({ "seen": value });
        serde_json::from_value(json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "containers": seen(json!([container("c1", "web"), container("c2", "job")])),
            "sandboxes": seen(json!([])),
            "log_dirs": seen(json!([{ "name": "shop_job_u-job", "size_bytes": 50 }, { "name": "notes", "size_bytes": 9 }])),
            "pods": seen(json!({ "source": "test", "pods": [pod("db")] })),
            "store": seen(json!({ "parts": [layer(100), layer(2000)], "holders": [holder("c1", 0), holder("c2", 1)] })),
            "pod_usage": seen(json!([
                { "uid": "u-web", "volumes": [volume("small", 3), volume("cache", 9000)], "other": other },
                { "uid": "u-db", "volumes": [volume("data", 1)], "other": { "bytes": 0, "inodes": 0 } },
                { "uid": "u-gone", "volumes": [], "other": { "bytes": 5, "inodes": 1 } },
            ])),
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_has_its_layers_volumes_and_logs_the_largest_first() {
        let by_pod = disk_by_pod(&snapshot());
        let row = |one: &PodSpace| {
            let Space { writable_layer_bytes, volume_bytes, log_bytes, other_bytes, bytes, at_least } = one.space;
            (
                one.pod.to_string(),
                [writable_layer_bytes.unwrap_or_default(), volume_bytes, log_bytes, other_bytes, bytes],
                at_least,
            )
        };
        let rows: Vec<_> = by_pod.pods.iter().map(row).collect();
        assert_eq!(rows[0], ("shop/web".to_owned(), [100, 9003, 0, 7, 9110], true));
        assert_eq!(rows[1], ("shop/job".to_owned(), [2000, 0, 50, 0, 2050], false));
        assert_eq!((rows[2].1[4], &by_pod.pods[2].pod.uid), (5, &"u-gone".into()), "{rows:?}");
        assert_eq!(rows[3], ("shop/db".to_owned(), [0, 1, 0, 0, 1], false), "known from the list of pods alone");
        assert_eq!(by_pod.pods[0].volumes.iter().map(|volume| &*volume.name).collect::<Vec<_>>(), ["cache", "small"]);
        let namespaces = by_pod.namespaces.iter().map(|one| (&*one.namespace, one.pods, one.space.bytes));
        assert_eq!(namespaces.collect::<Vec<_>>(), [("shop", 3, 11_161), ("", 1, 5)]);
        assert!(by_pod.missing.is_empty(), "{:?}", by_pod.missing);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let log_dirs = snapshot()
            .log_dirs
            .map(|dirs| dirs.into_iter().map(|dir| crate::model::LogDir { size_bytes: None, ..dir }).collect());
        let unknown =
            Snapshot { store: Seen::NotRead, pod_usage: Seen::NotSeen("a hang".to_owned()), log_dirs, ..snapshot() };
        let by_pod = disk_by_pod(&unknown);
        assert_eq!(by_pod.missing, ["writable layers: not read", "volumes: a hang"]);
        assert!(by_pod.pods.iter().all(|pod| pod.space.at_least), "{:?}", by_pod.pods);
    }
}
