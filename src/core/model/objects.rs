//! The objects of the node: runtime, containers, sandboxes, images, disks and logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::{ContainerId, ImageId, PodRef, PodUid, SandboxId, log_dir_name, log_file_name};

/// The container runtime.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Runtime {
    /// Name of the runtime, as `containerd`.
    pub name: String,
    /// Version of the runtime.
    #[serde(default)]
    pub version: String,
    /// Its socket, as a path for the agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
}

/// A container's state in the CRI. All states but `Running` are dead in the kubelet's terms.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[derive(IntoStaticStr, JsonSchema, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
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
    pub id: ContainerId,
    /// The sandbox of the container.
    #[serde(default)]
    pub sandbox_id: SandboxId,
    /// The pod from the container's labels; `null` = not created by a kubelet.
    pub pod: Option<PodRef>,
    /// Name of the container in the pod spec, from the CRI metadata.
    #[serde(default)]
    pub name: String,
    /// The kubelet's restart number. The profile `kubelet` does not order by it.
    #[serde(default)]
    pub attempt: u32,
    pub state: ContainerState,
    /// When the container was created, by the runtime's clock.
    pub created_at: Timestamp,
    /// When the container finished. Read only if the age counts from it.
    pub finished_at: Option<Timestamp>,
    /// The exit code; `null` = not exited, or the status was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it exited, as the runtime says: `Completed`, `Error` or `OOMKilled`; `null` as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_reason: Option<String>,
    /// Bytes of the container's log files, rotated ones included; `null` = not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// The image of the container as the runtime reports it: an image id, or a digest with older runtimes.
    pub image_id: Option<String>,
    /// The image as named in the pod spec.
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
    pub id: SandboxId,
    /// The pod from the CRI metadata; `null` = not created by a kubelet.
    pub pod: Option<PodRef>,
    /// The kubelet's attempt number of the sandbox. The profile `kubelet` does not order by it.
    #[serde(default)]
    pub attempt: u32,
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
    /// Bytes without data, those reserved for root included; `null` = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Total inodes; `null` = the file system does not count them.
    pub inodes: Option<u64>,
    pub inodes_free: Option<u64>,
    /// `f_fsid` of statvfs, which two file systems of one size do not share; `None` = not known. It can be another one after
    /// a restart of the node, so no document has it.
    #[serde(skip)]
    pub fsid: Option<u64>,
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
    pub modified_at: Option<Timestamp>,
    /// Bytes of the files in the directory; `null` = not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// The log of an instance that the runtime no longer lists, of a container that still exists: the current file and
/// rotated ones.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct LeftoverLog {
    /// The pod, from the labels of its other containers.
    pub pod: PodRef,
    /// Name of the container in the pod spec.
    pub container: String,
    /// The kubelet's restart number of the instance.
    #[serde(default)]
    pub attempt: u32,
    /// When one of the files was last modified; `null` = unknown.
    pub modified_at: Option<Timestamp>,
    /// Bytes of the files.
    #[serde(default)]
    pub size_bytes: u64,
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

/// What the configuration of an image says. All of it is what the builder of the image wrote.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ImageDetails {
    /// When it was built; `null` = it does not say so. Reproducible builds have a time of long ago.
    pub created_at: Option<Timestamp>,
    /// Its labels; `null` = not known, or too many.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its layers, as digests of their content, the lowest first (`rootfs.diff_ids`); `null` = not known, or too many.
    pub layers: Option<Vec<String>>,
}

// === impl Container ===

impl Container {
    /// Returns the pod's uid; `None` for a container that no kubelet created.
    pub fn pod_uid(&self) -> Option<&PodUid> {
        self.pod.as_ref().map(|pod| &pod.uid).filter(|uid| !uid.is_empty())
    }

    /// Returns namespace/pod/container; without a pod the container's name.
    pub fn full_name(&self) -> String {
        self.pod.as_ref().map_or_else(|| self.name.clone(), |pod| format!("{pod}/{}", self.name))
    }
}

// === impl LeftoverLog ===

impl LeftoverLog {
    /// Returns the path of the current file beneath the pod log root.
    pub fn path(&self, pods_root: &Path) -> PathBuf {
        pods_root.join(log_dir_name(&self.pod)).join(&self.container).join(log_file_name(self.attempt))
    }
}

// === impl FileSystem ===

impl FileSystem {
    /// Returns the bytes that are not available, those reserved for root included.
    pub fn used_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.available_bytes)
    }

    /// Returns whether two directories are on one file system: they show the same identifier, capacity and number of inodes.
    pub fn is_same_disk(&self, other: &Self) -> bool {
        (self.fsid, self.capacity_bytes, self.inodes) == (other.fsid, other.capacity_bytes, other.inodes)
    }
}

// === impl Sandbox ===

impl Sandbox {
    /// Returns the pod's uid; `None` for a sandbox that no kubelet created.
    pub fn pod_uid(&self) -> Option<&PodUid> {
        self.pod.as_ref().map(|pod| &pod.uid).filter(|uid| !uid.is_empty())
    }
}

/// Reads a missing number as 0, as the kubelet reads missing statistics.
fn null_is_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Option::unwrap_or_default)
}
