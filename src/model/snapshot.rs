//! Everything about one moment of the node, as plain data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ContainerId, ImageId, ListBytes, Memory, Partial, PodList, PodRef, PodUid, SandboxId, Seen};

/// One moment of the node: what each source said, and what the past tells.
///
/// The lists are taken in this order: log directories and links, images, sandboxes, containers, pods. A thing made in
/// between is then known to the later list, and a log directory is never newer than the pods it is compared with
/// (races 5 and 21 of an outside agent).
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Snapshot {
    /// Always `Snapshot`.
    #[serde(default)]
    pub kind: SnapshotKind,
    /// The document's version, 1.
    #[serde(default = "one")]
    pub version: u32,
    /// The one clock of the pass: every age counts back from here.
    pub taken_at: Timestamp,
    /// The node's name; empty where it is not known.
    #[serde(default)]
    pub node: String,
    /// The runtime itself.
    #[serde(default)]
    pub runtime: Seen<Runtime>,
    /// Since when the runtime's socket exists: its last restart, as far as an agent outside it can see (I12). `null` = the
    /// document is of an older version and says it in `runtime`, if at all.
    #[serde(default = "not_said::<Timestamp>")]
    pub listening_since: Seen<Option<Timestamp>>,
    /// The image that the runtime's sandboxes run, as the runtime names it (I6). `null` = it names none, or the document is
    /// of an older version and says it in `runtime`.
    #[serde(default = "not_said::<String>")]
    pub sandbox_image: Seen<Option<String>>,
    /// Every container in every state.
    #[serde(default)]
    pub containers: Seen<Vec<Container>>,
    /// Every sandbox.
    #[serde(default)]
    pub sandboxes: Seen<Vec<Sandbox>>,
    /// Every image.
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
    /// The pods that should be here.
    #[serde(default)]
    pub pods: Seen<PodList>,
    /// The uids under `<kubelet root>/pods`: a veto against calling a pod gone (I11).
    #[serde(default = "nothing_seen")]
    pub pod_dirs: Seen<Vec<PodUid>>,
    /// Images that the kubelet is pulling right now, as named in the pod specs (I6).
    #[serde(default)]
    pub pulling: Vec<String>,
    /// The image that each name used by a pod or a pull means, as the runtime resolves it; `null` = none that is here (I6).
    /// A name that is missing here was not resolved: its text alone is compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved_images: BTreeMap<String, Seen<Option<ImageId>>>,
    /// Whether the pulls in progress could be read. Where not, no image is proven unused (I2, I6).
    #[serde(default = "all_seen", skip_serializing_if = "is_seen")]
    pub image_uses: Seen<()>,
    /// How large the runtime's lists are, and how they were received.
    #[serde(default)]
    pub list_bytes: ListBytes,
    /// What was received of a list that is not complete. The list itself is not seen then (I2).
    #[serde(default, skip_serializing_if = "is_whole")]
    pub partial: Partial,
    /// What earlier passes learnt.
    #[serde(default)]
    pub memory: Memory,
}

/// The word that begins a snapshot document.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub enum SnapshotKind {
    /// The only one.
    #[default]
    Snapshot,
}

/// The runtime behind the socket.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Runtime {
    /// Its own name for itself, as `containerd`.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The name of the image that its sandboxes run, where it tells.
    #[serde(default)]
    pub sandbox_image: Option<String>,
    /// Since when its socket exists: the last restart, as far as can be seen from outside (I12).
    #[serde(default)]
    pub listening_since: Option<Timestamp>,
}

/// A container's state in the CRI. All but `Running` are dead in the kubelet's words.
#[derive(Clone, Copy, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerState {
    /// Made, not started: perhaps about to start.
    Created,
    /// Running.
    Running,
    /// Finished.
    Exited,
    /// The runtime cannot tell; perhaps still running.
    Unknown,
}

/// A container as the runtime lists it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Container {
    /// Its id.
    pub id: ContainerId,
    /// The sandbox that it belongs to.
    #[serde(default)]
    pub sandbox_id: SandboxId,
    /// The pod by its labels; `null` = no kubelet made it.
    #[serde(default)]
    pub pod: Option<PodRef>,
    /// The name in the pod spec, from the CRI metadata.
    #[serde(default)]
    pub name: String,
    /// The kubelet's restart number. Garbage collection does not order by it.
    #[serde(default)]
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When it was made, by the runtime's clock.
    pub created_at: Timestamp,
    /// When it ended. Asked for only where the age counts from it.
    #[serde(default)]
    pub finished_at: Option<Timestamp>,
    /// What the runtime says it runs: an image id, or with older runtimes a digest.
    #[serde(default)]
    pub image_id: Option<String>,
    /// The image as the pod named it.
    #[serde(default)]
    pub image: Option<String>,
    /// Images mounted as volumes, by id. Known only where images are planned; an exited container has none mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_volumes: Vec<String>,
    /// Why its image volumes are not known: its status failed. `null` = they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_volumes_unknown: Option<String>,
    /// Its log file. Known only after its status was asked.
    #[serde(default)]
    pub log_path: Option<PathBuf>,
}

/// A sandbox's state in the CRI.
#[derive(Clone, Copy, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// Its network and pause process are up.
    Ready,
    /// Stopped, failed, or still being made.
    NotReady,
}

/// A pod sandbox as the runtime lists it.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Sandbox {
    /// Its id.
    pub id: SandboxId,
    /// The pod by the CRI metadata; `null` = no kubelet made it.
    #[serde(default)]
    pub pod: Option<PodRef>,
    /// The kubelet's number of the sandbox. Garbage collection does not order by it.
    #[serde(default)]
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When it was made, by the runtime's clock.
    pub created_at: Timestamp,
    /// The kubelet has the pod from a file or an address of its own and not from the API server: a static pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_static: bool,
}

/// An image as the runtime lists it.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Image {
    /// Its id.
    pub id: ImageId,
    /// Its names, `repository:tag`. Removing it removes all of them.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Its names, `repository@sha256:…`.
    #[serde(default)]
    pub digests: Vec<String>,
    /// Bytes as the runtime counts them: containerd says the compressed size, and shared layers count in each image.
    #[serde(default)]
    pub size_bytes: u64,
    /// The runtime asks not to remove it.
    #[serde(default)]
    pub pinned: bool,
}

/// A file system as statvfs tells it.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct FileSystem {
    /// A directory on it, as the runtime names it.
    #[serde(default)]
    pub mountpoint: PathBuf,
    /// All bytes; 0 = not known, which is an error for the image pass.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub capacity_bytes: u64,
    /// Bytes that an ordinary user may still take.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub available_bytes: u64,
    /// All inodes; `null` = not counted there.
    #[serde(default)]
    pub inodes: Option<u64>,
    /// Free inodes.
    #[serde(default)]
    pub inodes_free: Option<u64>,
}

/// What a directory entry is, without following it.
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
    /// Its name, `NAMESPACE_NAME_UID` where a kubelet made it.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub entry: EntryKind,
    /// Its last change.
    #[serde(default)]
    pub modified_at: Option<Timestamp>,
}

/// Whether a link leads anywhere.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkTarget {
    /// It does.
    Exists,
    /// It dangles: some hop does not exist.
    Missing,
    /// It could not be told, as without permission.
    #[default]
    Unknown,
}

/// An entry of the container log root.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct LogLink {
    /// Its name, `POD_NAMESPACE_CONTAINER-ID.log` where a kubelet made it.
    pub name: String,
    /// Whether it leads anywhere.
    #[serde(default)]
    pub target: LinkTarget,
}

// === impl Snapshot ===

impl Snapshot {
    /// The containers that were received, from a complete list or not; `None` = unavailable.
    pub fn listed_containers(&self) -> Option<&[Container]> {
        self.containers.as_ref().or(self.partial.containers.as_ref()).map(Vec::as_slice)
    }

    /// The same, to be changed.
    pub fn listed_containers_mut(&mut self) -> Option<&mut Vec<Container>> {
        match &mut self.containers {
            Seen::Seen(containers) => Some(containers),
            Seen::NotSeen(_) => self.partial.containers.as_mut(),
        }
    }

    /// The sandboxes that were received, from a complete list or not; `None` = unavailable.
    pub fn listed_sandboxes(&self) -> Option<&[Sandbox]> {
        self.sandboxes.as_ref().or(self.partial.sandboxes.as_ref()).map(Vec::as_slice)
    }

    /// Since when the runtime's socket exists; `None` = the document does not say.
    pub fn listening_since(&self) -> Seen<Option<Timestamp>> {
        let in_runtime = || self.runtime.as_ref().and_then(|runtime| runtime.listening_since);
        self.listening_since.clone().map(|since| since.or_else(in_runtime))
    }

    /// The image of the runtime's sandboxes: as the runtime names it now or, where it does not answer, as it did before.
    /// A name holds until the runtime restarts: a later answer without one proves nothing. `None` = it names none.
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
    /// The pod's uid; `None` for a container that no kubelet made.
    pub fn pod_uid(&self) -> Option<&PodUid> {
        self.pod.as_ref().map(|pod| &pod.uid).filter(|uid| !uid.is_empty())
    }
}

// === impl Sandbox ===

impl Sandbox {
    /// The pod's uid; `None` for a sandbox that no kubelet made.
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
