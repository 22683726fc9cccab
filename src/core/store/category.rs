//! What takes space on a disk: the categories.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumIter, IntoStaticStr};

use crate::model::PartKind;

/// What takes space, in the order of importance.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[derive(EnumIter, IntoStaticStr, JsonSchema, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Category {
    /// Layers of images that containers use, and layers of containers whose image does not exist any more.
    ImagesInUse,
    /// Layers of unused images that a rule or guard keeps.
    ImagesKept,
    /// Layers of images that are removed now, or when the disk is fuller.
    ImagesRemovable,
    /// The images as they were pulled. The runtime has them besides the unpacked layers.
    CompressedBlobs,
    /// What containers have written.
    WritableLayers,
    /// Images of the CRI's namespace that the CRI does not list, because their content is incomplete or for another platform.
    UnlistedImages,
    /// Images, containers and blobs of other clients of the runtime, in its other namespaces or without the CRI.
    OtherClients,
    /// Removed images that a lease of kubegc keeps, so that their removal can be undone.
    KeptForUndo,
    /// What only another lease holds.
    Leases,
    /// What only a label of its own holds.
    Labels,
    /// Downloads that have not ended.
    Downloads,
    /// Layers and blobs that nothing refers to.
    Unreferenced,
    /// Log files of pods.
    Logs,
    /// Log files that only the archive has.
    ArchivedLogs,
    /// Volumes of pods on the disks of the node, and the kubelet's files for each pod.
    PodVolumes,
    /// The kubelet's own files.
    KubeletFiles,
    /// What the directory of the runtime has besides its store, and in that store besides what the runtime lists.
    UnknownToRuntime,
    /// What no program needs any more, such as directories of pods that are gone.
    Leftovers,
    /// Directories and files of other programs.
    OtherFiles,
    /// Deleted files that a process holds open.
    DeletedFiles,
    /// Blocks without data that only root may fill.
    ReservedBlocks,
    /// Everything else: what no list and no walk has found.
    NotOfTheRuntime,
}

// === impl Category ===

impl Category {
    /// Returns the words for people.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::ImagesInUse => "images in use",
            Self::ImagesKept => "images kept",
            Self::ImagesRemovable => "images removable",
            Self::CompressedBlobs => "compressed blobs",
            Self::WritableLayers => "writable layers",
            Self::UnlistedImages => "images not listed by the CRI",
            Self::OtherClients => "other clients of the runtime",
            Self::KeptForUndo => "kept for undo",
            Self::Leases => "held by leases",
            Self::Labels => "held by labels",
            Self::Downloads => "downloads",
            Self::Unreferenced => "unreferenced",
            Self::Logs => "pod logs",
            Self::ArchivedLogs => "archived logs",
            Self::PodVolumes => "pod volumes",
            Self::KubeletFiles => "files of the kubelet",
            Self::UnknownToRuntime => "unknown to the runtime",
            Self::Leftovers => "leftovers",
            Self::OtherFiles => "files of other programs",
            Self::DeletedFiles => "deleted files that are open",
            Self::ReservedBlocks => "reserved blocks",
            Self::NotOfTheRuntime => "everything else",
        }
    }
}

/// Returns the category of a part of this kind whose holder has a category.
pub(super) fn of_kind(category: Category, kind: PartKind) -> Category {
    use Category::{CompressedBlobs, Downloads, ImagesInUse, ImagesKept, ImagesRemovable, WritableLayers};
    match (category, kind) {
        (_, PartKind::Download) => Downloads,
        (ImagesInUse, PartKind::Writable) => WritableLayers,
        (ImagesInUse | ImagesKept | ImagesRemovable, PartKind::Blob) => CompressedBlobs,
        (category, _) => category,
    }
}
