//! A snapshot of the node at one time, as plain data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ContainerId, ImageId, ListBytes, Memory, Partial, PodList, PodRef, PodUid, SandboxId, Seen};

/// A snapshot of the node: the result of each data source, and the memory of earlier passes.
///
/// The lists are taken in this order: log directories and links, images, sandboxes, containers, pods. The later list
/// includes an object that is created in between. A log directory is never newer than the pods it is compared with
/// (races 5 and 21 of an outside agent).
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Snapshot {
    /// Always `Snapshot`.
    #[serde(default)]
    pub kind: SnapshotKind,
    /// Version of the document, 1.
    #[serde(default = "one")]
    pub version: u32,
    /// The time of the pass. Every age is relative to it.
    pub taken_at: Timestamp,
    /// Name of the node; empty if not known.
    #[serde(default)]
    pub node: String,
    /// The container runtime.
    #[serde(default)]
    pub runtime: Seen<Runtime>,
    /// Since when the runtime's socket exists: its last restart, as far as an outside agent can see (I12). `null` = a
    /// document of an older version, which may have the value in `runtime`.
    #[serde(default = "not_said::<Timestamp>")]
    pub listening_since: Seen<Option<Timestamp>>,
    /// The sandbox image (pause), as the runtime names it (I6). `null` = the runtime names none, or a document of an
    /// older version, which may have it in `runtime`.
    #[serde(default = "not_said::<String>")]
    pub sandbox_image: Seen<Option<String>>,
    /// All containers, in every state.
    #[serde(default)]
    pub containers: Seen<Vec<Container>>,
    /// All sandboxes.
    #[serde(default)]
    pub sandboxes: Seen<Vec<Sandbox>>,
    /// All images.
    #[serde(default)]
    pub images: Seen<Vec<Image>>,
    /// The file system that holds the images.
    #[serde(default)]
    pub image_filesystem: Seen<FileSystem>,
    /// The entries of the pod log root.
    #[serde(default)]
    pub log_dirs: Seen<Vec<LogDir>>,
    /// The `*.log` entries of the container log root.
    #[serde(default)]
    pub log_links: Seen<Vec<LogLink>>,
    /// The pods of the node.
    #[serde(default)]
    pub pods: Seen<PodList>,
    /// The uids under `<kubelet root>/pods`. A pod with such a directory does not count as deleted (I11).
    #[serde(default = "nothing_seen")]
    pub pod_dirs: Seen<Vec<PodUid>>,
    /// Images that the kubelet is pulling, as named in the pod specs (I6).
    #[serde(default)]
    pub pulling: Vec<String>,
    /// The image for each name in a pod or a pull, as the runtime resolves it; `null` = no such image on the node (I6).
    /// A name without an entry was not resolved: it is compared as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved_images: BTreeMap<String, Seen<Option<ImageId>>>,
    /// Whether the pulls in progress could be read. If not, no image is proven unused (I2, I6).
    #[serde(default = "all_seen", skip_serializing_if = "is_seen")]
    pub image_uses: Seen<()>,
    /// The sizes of the runtime's lists, and how they were received.
    #[serde(default)]
    pub list_bytes: ListBytes,
    /// The received part of each incomplete list. The list itself is then unavailable (I2).
    #[serde(default, skip_serializing_if = "is_whole")]
    pub partial: Partial,
    /// What earlier passes learned.
    #[serde(default)]
    pub memory: Memory,
}

/// The `kind` of a snapshot document.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub enum SnapshotKind {
    /// The only kind.
    #[default]
    Snapshot,
}

/// The container runtime.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Runtime {
    /// Name of the runtime, as `containerd`.
    pub name: String,
    /// Version of the runtime.
    #[serde(default)]
    pub version: String,
    /// The name of the sandbox image (pause), if the runtime reports it.
    #[serde(default)]
    pub sandbox_image: Option<String>,
    /// Since when the runtime's socket exists: its last restart, as far as an outside agent can see (I12).
    #[serde(default)]
    pub listening_since: Option<Timestamp>,
}

/// A container's state in the CRI. All states but `Running` are dead in the kubelet's terms.
#[derive(Clone, Copy, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerState {
    /// Created, not started. It may be about to start.
    Created,
    /// Running.
    Running,
    /// Exited.
    Exited,
    /// The runtime cannot determine the state. The container may still be running.
    Unknown,
}

/// A container as the runtime lists it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Container {
    /// Id of the container.
    pub id: ContainerId,
    /// The sandbox of the container.
    #[serde(default)]
    pub sandbox_id: SandboxId,
    /// The pod from the container's labels; `null` = not created by a kubelet.
    #[serde(default)]
    pub pod: Option<PodRef>,
    /// Name of the container in the pod spec, from the CRI metadata.
    #[serde(default)]
    pub name: String,
    /// The kubelet's restart number. Garbage collection does not order by it.
    #[serde(default)]
    pub attempt: u32,
    /// State of the container.
    pub state: ContainerState,
    /// When the container was created, by the runtime's clock.
    pub created_at: Timestamp,
    /// When the container finished. Read only if the age counts from it.
    #[serde(default)]
    pub finished_at: Option<Timestamp>,
    /// The image of the container as the runtime reports it: an image id, or a digest with older runtimes.
    #[serde(default)]
    pub image_id: Option<String>,
    /// The image as named in the pod spec.
    #[serde(default)]
    pub image: Option<String>,
    /// Images mounted as volumes, by id. Known only if images are planned; an exited container has none mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_volumes: Vec<String>,
    /// Why the image volumes are not known: the error of the status call. `null` = they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_volumes_unknown: Option<String>,
}

/// A sandbox's state in the CRI.
#[derive(Clone, Copy, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// The network and the pause process are running.
    Ready,
    /// Stopped, failed, or being created.
    NotReady,
}

/// A pod sandbox as the runtime lists it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Sandbox {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// The pod from the CRI metadata; `null` = not created by a kubelet.
    #[serde(default)]
    pub pod: Option<PodRef>,
    /// The kubelet's attempt number of the sandbox. Garbage collection does not order by it.
    #[serde(default)]
    pub attempt: u32,
    /// State of the sandbox.
    pub state: SandboxState,
    /// When the sandbox was created, by the runtime's clock.
    pub created_at: Timestamp,
    /// Whether the pod is static: the kubelet read it from a file or a URL, not from the API server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_static: bool,
}

/// An image as the runtime lists it.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Image {
    /// Id of the image.
    pub id: ImageId,
    /// Names of the image, `repository:tag`. Removing the image removes all of them.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Names of the image, `repository@sha256:…`.
    #[serde(default)]
    pub digests: Vec<String>,
    /// Bytes as the runtime counts them. containerd reports the compressed size; shared layers count in each image.
    #[serde(default)]
    pub size_bytes: u64,
    /// Whether the runtime marks the image as not to be removed.
    #[serde(default)]
    pub pinned: bool,
}

/// A file system, from statvfs.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct FileSystem {
    /// A directory on the file system, as the runtime reports it.
    #[serde(default)]
    pub mountpoint: PathBuf,
    /// Total bytes; 0 = not known, which is an error for the image pass.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub capacity_bytes: u64,
    /// Bytes available to an unprivileged user.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub available_bytes: u64,
    /// Total inodes; `null` = the file system does not count them.
    #[serde(default)]
    pub inodes: Option<u64>,
    /// Free inodes.
    #[serde(default)]
    pub inodes_free: Option<u64>,
}

/// The type of a directory entry; symlinks are not followed.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A directory.
    #[default]
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

/// An entry of the pod log root.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct LogDir {
    /// Name of the entry, `NAMESPACE_NAME_UID` if a kubelet created it.
    pub name: String,
    /// Type of the entry.
    #[serde(default)]
    pub entry: EntryKind,
    /// When the entry was last modified.
    #[serde(default)]
    pub modified_at: Option<Timestamp>,
}

/// Whether the target of a symlink exists.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkTarget {
    /// The target exists.
    Exists,
    /// A dangling log symlink: the target, or a link on the way to it, does not exist.
    Missing,
    /// Not determined, for example without permission.
    #[default]
    Unknown,
}

/// An entry of the container log root.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct LogLink {
    /// Name of the entry, `POD_NAMESPACE_CONTAINER-ID.log` if a kubelet created it.
    pub name: String,
    /// Whether the target of the symlink exists.
    #[serde(default)]
    pub target: LinkTarget,
}

// === impl Snapshot ===

impl Snapshot {
    /// Returns the containers that were received, from a complete list or not; `None` = unavailable.
    pub fn listed_containers(&self) -> Option<&[Container]> {
        self.containers.as_ref().or(self.partial.containers.as_ref()).map(Vec::as_slice)
    }

    /// Returns the same containers, mutable.
    pub fn listed_containers_mut(&mut self) -> Option<&mut Vec<Container>> {
        match &mut self.containers {
            Seen::Seen(containers) => Some(containers),
            Seen::NotSeen(_) => self.partial.containers.as_mut(),
        }
    }

    /// Returns the sandboxes that were received, from a complete list or not; `None` = unavailable.
    pub fn listed_sandboxes(&self) -> Option<&[Sandbox]> {
        self.sandboxes.as_ref().or(self.partial.sandboxes.as_ref()).map(Vec::as_slice)
    }

    /// Returns since when the runtime's socket exists; `None` = not in the document.
    pub fn listening_since(&self) -> Seen<Option<Timestamp>> {
        let in_runtime = || self.runtime.as_ref().and_then(|runtime| runtime.listening_since);
        self.listening_since.clone().map(|since| since.or_else(in_runtime))
    }

    /// Returns the sandbox image that the runtime names now or, if it is unavailable, that it named before. A name is
    /// valid until the runtime restarts: a later response without a name proves nothing. `None` = it names none.
    pub fn sandbox_image(&self) -> Seen<Option<&str>> {
        let before = self.memory.runtime.as_ref();
        let remembered = before.and_then(|before| before.sandbox_image.as_ref());
        let since = self.listening_since();
        let is_same_runtime = before.map(|before| before.listening_since) == since.as_ref().copied();
        match (&self.sandbox_image, remembered) {
            (Seen::Seen(Some(name)), _) | (Seen::NotSeen(_), Some(Some(name))) => Seen::Seen(Some(name)),
            (Seen::Seen(None), Some(Some(name))) if is_same_runtime => Seen::Seen(Some(name)),
            (Seen::Seen(None), _) => {
                Seen::Seen(self.runtime.as_ref().and_then(|runtime| runtime.sandbox_image.as_deref()))
            }
            (Seen::NotSeen(_), Some(None)) => Seen::Seen(None),
            (Seen::NotSeen(cause), None) => Seen::NotSeen(cause.clone()),
        }
    }
}

// === impl Container ===

impl Container {
    /// Returns the pod's uid; `None` for a container that no kubelet created.
    pub fn pod_uid(&self) -> Option<&PodUid> {
        self.pod.as_ref().map(|pod| &pod.uid).filter(|uid| !uid.is_empty())
    }
}

// === impl Sandbox ===

impl Sandbox {
    /// Returns the pod's uid; `None` for a sandbox that no kubelet created.
    pub fn pod_uid(&self) -> Option<&PodUid> {
        self.pod.as_ref().map(|pod| &pod.uid).filter(|uid| !uid.is_empty())
    }
}

fn not_said<T>() -> Seen<Option<T>> {
    Seen::Seen(None)
}

fn one() -> u32 {
    1
}

fn all_seen() -> Seen<()> {
    Seen::Seen(())
}

fn is_seen(uses: &Seen<()>) -> bool {
    uses.as_ref().is_some()
}

fn is_whole(partial: &Partial) -> bool {
    *partial == Partial::default()
}

fn nothing_seen() -> Seen<Vec<PodUid>> {
    Seen::Seen(Vec::new())
}

/// Reads a missing number as 0, as the kubelet reads missing statistics.
fn null_is_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Option::unwrap_or_default)
}
