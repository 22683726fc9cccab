//! A snapshot of the node at one time, as plain data.

pub(super) mod container_logs;
pub(super) mod disk_content;
pub(super) mod leftover;
pub(super) mod node_disk;
pub(super) mod trace;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ArchivedLog, ArchivedPod, Container, ContainerLogs, DiskContent, FileSystem, Image, ImageDetails, ImageId,
    ImageVolumes, Leftover, LeftoverLog, ListBytes, LogDir, LogLink, Memory, NodeDisk, Partial, PodDirUsage, PodList,
    PodUid, Runtime, RuntimeStore, Sandbox, Seen, Trace, Workload, running_pods,
};

/// A snapshot of the node: the result of each data source, and the memory of earlier passes.
///
/// The lists are taken in this order: log directories and links, images, sandboxes, containers, pods. The later list
/// includes an object that is created in between. A log directory is never newer than the pods it is compared with, and an
/// image never newer than the containers that use it.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Snapshot {
    /// The time of the pass. Every age is relative to it.
    pub taken_at: Timestamp,
    /// Name of the node; empty if not known.
    #[serde(default)]
    pub node: String,
    /// The container runtime.
    #[serde(default)]
    pub runtime: Seen<Runtime>,
    /// Since when the runtime's socket exists: its last restart, as far as an outside agent can see (I12). `null` = not
    /// known.
    #[serde(default = "seen::<Option<Timestamp>>")]
    pub listening_since: Seen<Option<Timestamp>>,
    /// The sandbox image (pause), as the runtime names it (I6). `null` = the runtime names none.
    #[serde(default = "seen::<Option<String>>")]
    pub sandbox_image: Seen<Option<String>>,
    /// All containers, in every state.
    #[serde(default)]
    pub containers: Seen<Vec<Container>>,
    #[serde(default)]
    pub sandboxes: Seen<Vec<Sandbox>>,
    #[serde(default)]
    pub images: Seen<Vec<Image>>,
    #[serde(default)]
    pub image_filesystem: Seen<FileSystem>,
    /// The file systems of images, pod logs and the kubelet's pods. One that cannot be measured is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<NodeDisk>,
    /// The entries of the pod log root.
    #[serde(default)]
    pub log_dirs: Seen<Vec<LogDir>>,
    /// The `*.log` entries of the container log root.
    #[serde(default)]
    pub log_links: Seen<Vec<LogLink>>,
    /// The logs of instances that the runtime no longer lists. Only read for a pass over containers.
    #[serde(default, skip_serializing_if = "Seen::is_not_read")]
    pub leftover_logs: Seen<Vec<LeftoverLog>>,
    /// The log files of the containers that the runtime lists. Only read for a pass over containers with `logs.limits`.
    #[serde(default, skip_serializing_if = "Seen::is_not_read")]
    pub container_logs: Seen<Vec<ContainerLogs>>,
    /// The log files in the archive that their pods have no more. Only read for a pass over containers with `logs.archive`.
    #[serde(default, skip_serializing_if = "Seen::is_not_read")]
    pub archived_logs: Seen<Vec<ArchivedLog>>,
    /// What the archive knows of their pods. Only read if a rule uses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archived_pods: Vec<ArchivedPod>,
    /// What is left over in the kubelet's directory; of its directories of pods those that the list of pods lacks. Only read for a
    /// pass over containers.
    #[serde(default, skip_serializing_if = "Seen::is_not_read")]
    pub leftovers: Seen<Vec<Leftover>>,
    /// The pods of the node.
    #[serde(default)]
    pub pods: Seen<PodList>,
    /// When the pods were listed, which is after all else; `null` = at the time of the pass. An absence begins then (I11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_listed_at: Option<Timestamp>,
    /// The uids under `<kubelet root>/pods`. A pod with such a directory does not count as deleted (I11).
    #[serde(default = "seen::<Vec<PodUid>>")]
    pub pod_dirs: Seen<Vec<PodUid>>,
    /// Images that the kubelet is pulling, as named in the pod specs (I6).
    #[serde(default)]
    pub pulling: Vec<String>,
    /// When the kubelet began those pulls, where known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pulling_since: BTreeMap<String, Timestamp>,
    /// The image for each name in a pod or a pull, as the runtime resolves it; `null` = no such image on the node (I6).
    /// A name without an entry was not resolved: it is compared as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved_images: BTreeMap<String, Seen<Option<ImageId>>>,
    /// Whether the pulls in progress could be read. If not, no image is proven unused (I2, I6).
    #[serde(default = "seen::<()>", skip_serializing_if = "Seen::is_seen")]
    pub image_uses: Seen<()>,
    /// The workloads of the cluster that name an image of this node. Only read if a guard or a rule uses them.
    #[serde(default, skip_serializing_if = "Seen::is_not_read")]
    pub workloads: Seen<Vec<Workload>>,
    /// What the configuration of each image says. Only read if a rule uses it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_details: BTreeMap<ImageId, Seen<ImageDetails>>,
    /// What the store of the runtime holds. Only commands that show it, and passes that would remove an image, read it.
    #[serde(default, skip_serializing_if = "Seen::is_not_read")]
    pub store: Seen<RuntimeStore>,
    /// What the kubelet's directories of pods take. Only read for an account of the disks.
    #[serde(default, skip_serializing_if = "Seen::is_not_read")]
    pub pod_usage: Seen<Vec<PodDirUsage>>,
    /// What else is on each disk; empty = not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disk_contents: Vec<DiskContent>,
    /// The sizes of the runtime's lists, and how they were received.
    #[serde(default)]
    pub list_bytes: ListBytes,
    /// The received part of each incomplete list. The list itself is then unavailable (I2).
    #[serde(default, skip_serializing_if = "is_empty")]
    pub partial: Partial,
    /// What earlier passes learned.
    #[serde(default)]
    pub memory: Memory,
    /// What happened to the images of the node; `null` = not read. Only `kubegc lab` uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The mounts that are known after this snapshot, for the memory; `None` = this snapshot needed no status.
    #[serde(skip)]
    pub image_volumes: Option<Arc<ImageVolumes>>,
}

// === impl Snapshot ===

impl Snapshot {
    /// Returns a snapshot for which no source was read.
    pub fn unobserved(taken_at: Timestamp) -> Self {
        Self { taken_at, ..Self::default() }
    }

    /// Returns the containers that were received, from a complete list or not; `None` = unavailable.
    pub fn listed_containers(&self) -> Option<&[Container]> {
        self.containers.as_ref().or(self.partial.containers.as_ref()).map(Vec::as_slice)
    }

    /// Returns the same containers, mutable.
    pub fn listed_containers_mut(&mut self) -> Option<&mut Vec<Container>> {
        match &mut self.containers {
            Seen::Seen(containers) => Some(containers),
            _ => self.partial.containers.as_mut(),
        }
    }

    /// Returns the sandboxes that were received, from a complete list or not; `None` = unavailable.
    pub fn listed_sandboxes(&self) -> Option<&[Sandbox]> {
        self.sandboxes.as_ref().or(self.partial.sandboxes.as_ref()).map(Vec::as_slice)
    }

    /// Returns the pods with a RUNNING container or a READY sandbox, of the lists as they were received.
    pub fn running_pods(&self) -> HashSet<&PodUid> {
        let containers = self.listed_containers().unwrap_or_default();
        let sandboxes = self.listed_sandboxes().unwrap_or_default();
        running_pods(containers, sandboxes).map(|pod| &pod.uid).filter(|uid| !uid.is_empty()).collect()
    }

    /// Returns the pods of a complete list and those of which something runs: another pod is missing. `None` = it may exist.
    pub fn existing_pods(&self) -> Option<HashSet<&PodUid>> {
        let list = self.pods.as_ref().filter(|list| list.complete && self.list_bytes.shows_all_that_runs())?;
        Some(list.pods.iter().map(|pod| &pod.uid).chain(self.running_pods()).collect())
    }

    /// Returns the sandbox image that the runtime names now or, if it is unavailable, that it named before. A name is
    /// valid until the runtime restarts: a later response without a name proves nothing. `None` = it names none.
    pub fn sandbox_image(&self) -> Seen<Option<&str>> {
        let before = self.memory.runtime.as_ref();
        let remembered = before.and_then(|before| before.sandbox_image.as_ref());
        let since = self.listening_since.as_ref().copied();
        let is_same_runtime = before.map(|before| before.listening_since) == since;
        match (self.sandbox_image.result(), remembered) {
            (Ok(Some(name)), _) | (Err(_), Some(Some(name))) => Seen::Seen(Some(name)),
            (Ok(None), Some(Some(name))) if is_same_runtime => Seen::Seen(Some(name)),
            (Ok(None), _) | (Err(_), Some(None)) => Seen::Seen(None),
            (Err(cause), None) => Seen::NotSeen(cause.to_owned()),
        }
    }
}

/// What documents of earlier versions lack was read, and there was none.
fn seen<T: Default>() -> Seen<T> {
    Seen::Seen(T::default())
}

fn is_empty(partial: &Partial) -> bool {
    *partial == Partial::default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::RuntimeMemory;

    fn snapshot() -> Snapshot {
        serde_json::from_value(json!({ "taken_at": "2026-11-21T12:00:00Z" })).unwrap()
    }

    #[test]
    fn a_document_omits_empty_fields() {
        let written: Value = json!(snapshot());
        let has = |document: &Value, key: &str| document.get(key).is_some();
        assert!(!has(&written, "partial") && !has(&written, "image_uses"), "{written}");
        let mut incomplete = Snapshot { image_uses: Seen::NotSeen("refused".to_owned()), ..snapshot() };
        incomplete.partial.containers = Some(Vec::new());
        let written = json!(incomplete);
        assert!(has(&written, "partial") && has(&written, "image_uses"), "{written}");
    }

    #[test]
    fn containers_of_an_incomplete_list_count_as_listed() {
        let one: Vec<Container> = vec![
            serde_json::from_value(json!({ "id": "c", "state": "exited", "created_at": "2026-11-21T11:00:00Z" }))
                .unwrap(),
        ];
        let mut known = Snapshot { containers: Seen::Seen(one.clone()), ..snapshot() };
        assert_eq!(known.listed_containers_mut(), Some(&mut one.clone()));
        known.containers = Seen::NotSeen("too large".to_owned());
        assert_eq!(known.listed_containers_mut(), None);
        known.partial.containers = Some(one.clone());
        assert_eq!(known.listed_containers_mut(), Some(&mut one.clone()));
    }

    /// A runtime that names no image now may have been read while it starts.
    #[test]
    fn the_sandbox_image_is_remembered_until_the_runtime_restarts() {
        let pause = Some("pause:3.9".to_owned());
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        let named = |now: Seen<Option<String>>, since: i64| {
            let mut node = Snapshot { listening_since: Seen::Seen(at(since)), sandbox_image: now, ..snapshot() };
            node.memory.runtime = Some(RuntimeMemory {
                listening_since: at(1),
                first_seen: node.taken_at,
                sandbox_image: Seen::Seen(pause.clone()),
            });
            node.sandbox_image().map(|name| name.map(str::to_owned))
        };
        assert_eq!(named(Seen::Seen(None), 1), Seen::Seen(pause.clone()), "the same runtime");
        assert_eq!(named(Seen::Seen(None), 2), Seen::Seen(None), "it has restarted");
        assert_eq!(named(Seen::Seen(Some("pause:4".to_owned())), 1), Seen::Seen(Some("pause:4".to_owned())));
        assert_eq!(named(Seen::NotSeen("refused".to_owned()), 2), Seen::Seen(pause));
    }
}
