//! One removal as data: the object, and the reason.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Kept;
use super::reason::{KeepReason, RemoveReason};
use crate::model::{ContainerId, ContainerState, ImageId, LeftoverKind, PodRef, SandboxId};
use crate::store::Size;

/// One removal.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Action {
    /// The object to remove.
    #[serde(flatten)]
    pub target: Target,
    /// The pod of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Seconds since the object was created; for an image, since it was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// Its size. What the removal of an image reclaims is in `estimated_bytes`.
    #[serde(flatten)]
    pub size: Size,
    /// The rule, with the value of the setting.
    #[serde(flatten)]
    pub reason: RemoveReason,
}

/// The object that an action removes.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Target {
    /// A dead container with its log files and its log symlink, unless these stay. The container is removed last.
    RemoveContainer {
        id: ContainerId,
        /// The name of the container in the pod spec.
        #[serde(default)]
        name: String,
        /// The state of the container in the snapshot. The container is not removed if its state has changed since.
        state: ContainerState,
        /// Whether its logs stay: a rule keeps them, or the pod is terminated and its logs are last under disk pressure.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keeps_logs: bool,
    },
    /// A dead sandbox. It is stopped, then removed.
    RemoveSandbox { id: SandboxId },
    /// A pod's log directory with all its content.
    RemoveLogDir {
        /// The path: the pod log root and one name.
        path: PathBuf,
    },
    /// The log of an instance that the runtime no longer lists: the file and its rotated files. For `over_log_limit` the one file
    /// alone, of any instance.
    RemoveLogFile {
        /// The path: the pod log root, the directories of the pod and of the container, and the name of the file.
        path: PathBuf,
    },
    /// A dangling log symlink.
    RemoveLogLink {
        /// The path: the container log root and one name.
        path: PathBuf,
    },
    /// A file or directory that no program needs any more.
    RemoveLeftover {
        /// What it is.
        leftover: LeftoverKind,
        /// The path beneath the directory of the program that left it.
        path: PathBuf,
    },
    /// The lease of a removed image, which keeps its content so that the removal can be undone.
    DeleteUndoLease {
        /// The name of the lease in containerd.
        lease: String,
    },
    /// What nothing in the store of containerd refers to: containerd collects it when asked.
    CollectUnreferenced {
        /// The directory of the store.
        store: PathBuf,
    },
    /// An image with all its tags.
    RemoveImage {
        id: ImageId,
        /// The tags of the image, for information only.
        #[serde(default)]
        tags: Vec<String>,
        /// The names of the image with a digest, by which it is known if it is pulled again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        digests: Vec<String>,
        /// The bytes that the removal reclaims after those before it in the plan, or the size that the runtime reports if its
        /// store is not known. The reclaimed bytes are measured.
        #[serde(default)]
        estimated_bytes: u64,
    },
}

/// An object that a plan decides, with what it says of it either way.
#[derive(Clone, Debug)]
pub struct Object {
    pub target: Target,
    pub pod: Option<PodRef>,
    pub age_seconds: Option<i64>,
    pub size: Size,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[derive(IntoStaticStr, JsonSchema, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// A container.
    Container,
    /// A pod sandbox.
    Sandbox,
    /// An entry of the pod log root.
    LogDir,
    /// A log file, or the log of an instance that the runtime no longer lists.
    LogFile,
    /// An entry of the container log root.
    LogLink,
    /// What no program needs any more.
    Leftover,
    /// An image.
    Image,
}

// === impl Target ===

impl Target {
    /// Returns the kind of the object.
    pub fn kind(&self) -> Kind {
        match self {
            Self::RemoveContainer { .. } => Kind::Container,
            Self::RemoveSandbox { .. } => Kind::Sandbox,
            Self::RemoveLogDir { .. } => Kind::LogDir,
            Self::RemoveLogFile { .. } => Kind::LogFile,
            Self::RemoveLogLink { .. } => Kind::LogLink,
            Self::RemoveLeftover { .. } | Self::DeleteUndoLease { .. } | Self::CollectUnreferenced { .. } => {
                Kind::Leftover
            }
            Self::RemoveImage { .. } => Kind::Image,
        }
    }

    /// Returns the path of a file or directory; `None` = it is an object of the runtime.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::RemoveLogDir { path }
            | Self::RemoveLogFile { path }
            | Self::RemoveLogLink { path }
            | Self::RemoveLeftover { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the object's ID; for files its path.
    pub fn id(&self) -> String {
        match self {
            Self::RemoveContainer { id, .. } => id.to_string(),
            Self::RemoveSandbox { id } => id.to_string(),
            Self::RemoveLogDir { path: at }
            | Self::RemoveLogFile { path: at }
            | Self::RemoveLogLink { path: at }
            | Self::RemoveLeftover { path: at, .. }
            | Self::CollectUnreferenced { store: at } => at.display().to_string(),
            Self::DeleteUndoLease { lease } => lease.clone(),
            Self::RemoveImage { id, .. } => id.to_string(),
        }
    }

    /// Returns the container's name, the image's first tag, or what a leftover is.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::RemoveContainer { name, .. } => Some(name),
            Self::RemoveImage { tags, .. } => tags.first().map(String::as_str),
            Self::RemoveLeftover { leftover, .. } => Some(leftover.phrase()),
            Self::DeleteUndoLease { .. } => Some("image kept for undo"),
            Self::CollectUnreferenced { .. } => Some(LeftoverKind::Unreferenced.phrase()),
            _ => None,
        }
    }

    pub fn with(self, pod: Option<PodRef>, age_seconds: Option<i64>, size: impl Into<Size>) -> Object {
        Object { target: self, pod, age_seconds, size: size.into() }
    }

    /// Returns its removal, without its pod, its age and its size.
    pub fn remove(self, reason: RemoveReason) -> Action {
        self.with(None, None, None).remove(reason)
    }
}

// === impl Object ===

impl Object {
    /// Returns its removal.
    pub fn remove(self, reason: RemoveReason) -> Action {
        let Self { target, pod, age_seconds, size } = self;
        Action { target, pod, age_seconds, size, reason }
    }

    /// Returns that it is kept.
    pub fn keep(self, reason: KeepReason) -> Kept {
        let Self { target, pod, age_seconds, size } = self;
        let name = target.name().filter(|name| !name.is_empty()).map(str::to_owned);
        Kept { kind: target.kind(), id: target.id(), name, pod, age_seconds, size, reason }
    }
}

// === impl Action ===

impl Action {
    /// Returns the size of the object: of an image what it takes on the disk, with all that it shares.
    pub fn size(&self) -> Option<u64> {
        self.size.known().or(self.bytes())
    }

    /// Returns what the removal reclaims, as far as it is known: of an image the estimate, of other objects that of their log files.
    pub fn bytes(&self) -> Option<u64> {
        match self.target {
            Target::RemoveImage { estimated_bytes, .. } => Some(estimated_bytes),
            _ => self.size.reported,
        }
    }

    /// Returns the key of the object in the memory: kind and ID.
    pub fn key(&self) -> String {
        key(self.target.kind(), &self.target.id())
    }
}

/// Returns the key of an object in the memory: kind and ID.
pub fn key(kind: Kind, id: &str) -> String {
    format!("{}/{id}", kind.as_str())
}

// === impl Kind ===

impl Kind {
    /// Returns the kind in a sentence, in the singular: `log directory`.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Sandbox => "sandbox",
            Self::LogDir => "log directory",
            Self::LogFile => "log file",
            Self::LogLink => "log link",
            Self::Leftover => "leftover",
            Self::Image => "image",
        }
    }

    /// All kinds, in the order in which a pass handles them.
    pub const ALL: [Self; 7] =
        [Self::Container, Self::Sandbox, Self::LogDir, Self::LogFile, Self::LogLink, Self::Leftover, Self::Image];

    /// Returns the name of the kind in documents.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
