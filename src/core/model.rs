//! Plain data that every module shares: ids, a snapshot of the node, the memory of earlier passes.
//!
//! This module has no handles, no clock and no decisions. Other programs read the JSON documents, so a field may be
//! added but not renamed. Reading ignores unknown fields, and missing optional fields take their default.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod backoff;
mod identity;
mod ids;
mod image_name;
mod image_names;
mod lists;
mod log_names;
mod memory;
mod object_meta;
mod objects;
mod odd_entries;
mod pod;
mod runtime_store;
mod seen;
mod snapshot;
mod text;
mod workloads;

pub use backoff::Backoff;
pub use backoff::Outage;
pub use identity::{ApiKind, Identity, OwnerReference, Uid};
pub use ids::{ContainerId, ImageId, PodRef, PodUid, SandboxId, canonical_image_id, short_id};
pub use image_name::ImageName;
pub use image_names::{full_image_name, is_image_pattern, last_part_of_name, last_parts};
pub use lists::{ListBytes, ListReceipt, MESSAGE_LIMIT_BYTES, MissingPart, PartState, Partial};
pub use log_names::{
    LogFileName, attempt_of_log, container_id_of_link, container_log_dir, container_of_link, is_compressing,
    is_current_log, is_log_link, is_log_link_without_id, log_dir_name, log_dir_of, log_file_name, log_link_name,
    pod_of_dir, pod_uid_of_dir, rotated_log,
};
pub use memory::removed_image::{Pulls, RepositoryPulls};
pub use memory::removed_image::{RemovedImage, RemovedImages, manifest_digests};
pub use memory::{
    Absence, BaselineLoss, Failure, ImageMemory, ImageVolumes, ListCounts, ListFall, Memory, NamedImages, RecentCounts,
    RuntimeMemory,
};
pub use object_meta::{
    FOREGROUND, LAST_APPLIED, ORPHAN, ObjectDetails, ObjectMeta, known_time, latest_time, left_out_owners,
};
pub use objects::{
    Container, ContainerState, EntryKind, FileSystem, Image, ImageDetails, LeftoverLog, LinkTarget, LogDir, LogLink,
    Runtime, Sandbox, SandboxState,
};
pub use odd_entries::MOST_OWNERS;
pub use pod::{
    Confirms, Phase, Pod, PodDetails, PodList, PodSourceName, PodSourceReport, is_object_name, running_pods,
};
pub use runtime_store::{CRI_NAMESPACE, HolderKind, PartKind, RuntimeStore, StoreHolder, StorePart, UNDO_LEASES};
pub use seen::Seen;
pub use snapshot::Snapshot;
pub use snapshot::container_logs::{ArchivedContainer, ArchivedLog, ArchivedPod};
pub use snapshot::container_logs::{ContainerLog, ContainerLogs, LogFacts};
pub use snapshot::disk_content::{DeletedFile, DiskContent, PathUsage};
pub use snapshot::disk_content::{DirUsage, PodDirUsage, VolumeUsage};
pub use snapshot::leftover::{Leftover, LeftoverKind, PullRecord, is_checkpoint, is_termination_log, termination_logs};
pub use snapshot::node_disk::{DiskGrowth, DiskMemory, DiskUse, EvictionLimits, FreeSpace, NodeDisk};
pub use snapshot::trace::{AgentSettings, DiskSample, ImageEvent, ImageRemoval, Trace, TraceEvent, TracedImage};
pub use text::{
    age_text, at_least_text, bytes_of_text, count_text, cut_text, duration_text, exact_range_text, exact_size_text,
    is_harmful, printable_lines, printable_text, range_of_text, size_text, yaml_error_text,
};
pub use workloads::Workload;
