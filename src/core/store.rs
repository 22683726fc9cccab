//! What the store of the runtime holds and who holds it: the index, and the account of the disk. Pure: a snapshot in, data out.
//!
//! It is below `plan`, which estimates with the index what a removal reclaims. What decides about an image comes to the account as
//! data. The readers are above: containerd's API in `cri/containerd`, the files of CRI-O in `observe/store`.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod account;
mod by_pod;
mod category;
mod disk_space;
mod entries;
mod index;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use account::{CategoryEntry, DiskAccount, ImageStates, account};
pub use by_pod::{DiskByPod, NamespaceSpace, PodSpace, Space, disk_by_pod};
pub use category::Category;
pub use disk_space::{DiskSpace, LargeEntry, leftovers};
pub use entries::{ImageEntry, LeftEntry, SharedEntry, WritableEntry};
pub use index::{SnapshotIndex, StoreIndex};

/// The size of an object.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Size {
    /// Bytes: of an image as the runtime counts them, of a container, a log directory or a log file those of its log files;
    /// absent = not measured.
    #[serde(rename = "size_bytes", default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<u64>,
    /// Bytes of an image on the disk, with all that it shares; absent = the store of the runtime was not read.
    #[serde(rename = "on_disk_bytes", default, skip_serializing_if = "Option::is_none")]
    pub on_disk: Option<u64>,
}

// === impl Size ===

impl Size {
    /// Returns the best that is known.
    pub fn known(self) -> Option<u64> {
        self.on_disk.or(self.reported)
    }
}

impl From<Option<u64>> for Size {
    fn from(reported: Option<u64>) -> Self {
        Self { reported, on_disk: None }
    }
}
