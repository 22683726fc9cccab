//! Plain data that every room shares: ids, one moment of the node, what the past tells.
//!
//! Nothing here has a handle, a clock or a decision. The JSON shapes are documents that other programs read, so a field
//! may be added but not renamed: unknown fields are ignored on reading, missing optional ones take their default.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod ids;
mod lists;
mod memory;
mod pods;
mod seen;
mod snapshot;

pub use ids::{ContainerId, ImageId, PodRef, PodUid, SandboxId, canonical_image_id};
pub use lists::{ListBytes, ListReceipt, MESSAGE_LIMIT_BYTES, MissingPart, PartState, Partial};
pub use memory::{Absence, Failure, ImageMemory, ListCounts, ListFall, Memory, NamedImages, RuntimeMemory};
pub use pods::{Confirms, Phase, Pod, PodList, PodSourceReport, is_object_name, running_pods};
pub use seen::Seen;
pub use snapshot::{
    Container, ContainerState, EntryKind, FileSystem, Image, LinkTarget, LogDir, LogLink, Runtime, Sandbox,
    SandboxState, Snapshot, SnapshotKind,
};
