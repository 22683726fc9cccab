//! Defects in answers, as a runtime with bugs may send them.
//!
//! Each answer supports the defects that apply to its message; other defects leave it unchanged. No defect adds objects
//! to the node or removes objects from it.

use std::pin::Pin;

use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::garbage::Garbage;
use super::wrong_facts::{Facts, WrongFact};
use crate::cri::generated as pb;
use crate::cri::generated::containerd::{containers, content, images, introspection, leases, namespaces, snapshots};

/// The answer of a streaming list.
pub(super) type Batches<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A defect in an answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Defect {
    /// No field is set.
    Empty,
    /// A list contains only every second item, beginning with the second.
    Truncated,
    /// Every second item of a list has no id, beginning with the first. A single object has no id.
    WithoutId,
    /// A list contains each item twice.
    Twice,
    /// Every item has one field with an invalid value: control characters, a huge text, a time in the year 1677 or
    /// 2262, or an enum value that does not exist. The position of the item in the list determines the field.
    Garbage,
    /// One fact of every item is wrong.
    Wrong(WrongFact),
}

/// An answer that can have a defect.
pub(super) trait Defective: Send + Sized + 'static {
    /// Applies the defect to the message.
    fn apply(&mut self, defect: Defect);
}

/// An item of a list.
pub(super) trait Item: Clone + Garbage + Facts {
    /// Removes the id.
    fn drop_id(&mut self);
}

/// Applies a defect to a list.
fn apply_to_list<T: Item>(items: &mut Vec<T>, defect: Defect) {
    match defect {
        Defect::Empty => items.clear(),
        Defect::Truncated => *items = items.iter().skip(1).step_by(2).cloned().collect(),
        Defect::WithoutId => items.iter_mut().step_by(2).for_each(Item::drop_id),
        Defect::Twice => *items = items.iter().flat_map(|item| [item.clone(), item.clone()]).collect(),
        Defect::Garbage => items.iter_mut().enumerate().for_each(|(place, item)| item.fill_with_garbage(place)),
        Defect::Wrong(wrong) => items.iter_mut().for_each(|item| item.falsify(wrong)),
    }
}

/// Applies a defect to a single object.
fn apply_to_object<T: Item>(object: &mut Option<T>, defect: Defect) {
    match (defect, object.as_mut()) {
        (Defect::Empty, _) => *object = None,
        (Defect::WithoutId, Some(object)) => object.drop_id(),
        (Defect::Garbage, Some(object)) => object.fill_with_garbage(0),
        (Defect::Wrong(wrong), Some(object)) => object.falsify(wrong),
        _ => {}
    }
}

// === impl Item ===

macro_rules! item {
    ($($message:ty => $id:ident),* $(,)?) => {
        $(impl Item for $message {
            fn drop_id(&mut self) {
                self.$id = Default::default();
            }
        })*
    };
}

item!(
    pb::Container => id,
    pb::PodSandbox => id,
    pb::Image => id,
    pb::ContainerStatus => id,
    pb::FilesystemUsage => fs_id,
    namespaces::Namespace => name,
    images::Image => name,
    containers::Container => id,
    content::Info => digest,
    content::Status => r#ref,
    snapshots::Info => name,
    leases::Lease => id,
);

// === impl Defective ===

macro_rules! answer {
    ($apply:ident: $($message:ty => $field:ident),* $(,)?) => {
        $(impl Defective for $message {
            fn apply(&mut self, defect: Defect) {
                $apply(&mut self.$field, defect);
            }
        })*
    };
}

answer!(apply_to_list:
    pb::ListContainersResponse => containers,
    pb::StreamContainersResponse => containers,
    pb::ListPodSandboxResponse => items,
    pb::StreamPodSandboxesResponse => items,
    pb::ListImagesResponse => images,
    pb::StreamImagesResponse => images,
    namespaces::ListNamespacesResponse => namespaces,
    images::ListImagesResponse => images,
    containers::ListContainersResponse => containers,
    content::ListContentResponse => info,
    content::ListStatusesResponse => statuses,
    snapshots::ListSnapshotsResponse => info,
    leases::ListResponse => leases,
    pb::ImageFsInfoResponse => image_filesystems,
);

answer!(apply_to_object:
    pb::ContainerStatusResponse => status,
    pb::ImageStatusResponse => image,
);

macro_rules! whole_answer {
    ($($message:ty),* $(,)?) => {
        $(impl Defective for $message {
            fn apply(&mut self, defect: Defect) {
                match defect {
                    Defect::Empty => *self = Self::default(),
                    Defect::Garbage => self.fill_with_garbage(0),
                    _ => {}
                }
            }
        })*
    };
}

whole_answer!(
    pb::VersionResponse,
    pb::StatusResponse,
    pb::RunPodSandboxResponse,
    pb::StopPodSandboxResponse,
    pb::RemovePodSandboxResponse,
    pb::CreateContainerResponse,
    pb::StartContainerResponse,
    pb::StopContainerResponse,
    pb::RemoveContainerResponse,
    pb::RemoveImageResponse,
    introspection::PluginsResponse,
    snapshots::UsageResponse,
);

/// The entries have no id of their own. [`Defect::WithoutId`] removes their attributes instead, which contain the id.
impl Defective for pb::ListContainerStatsResponse {
    fn apply(&mut self, defect: Defect) {
        let stats = &mut self.stats;
        match defect {
            Defect::Empty => stats.clear(),
            Defect::Truncated => *stats = stats.iter().skip(1).step_by(2).cloned().collect(),
            Defect::WithoutId => stats.iter_mut().step_by(2).for_each(|one| one.attributes = None),
            Defect::Twice => *stats = stats.iter().flat_map(|one| [one.clone(), one.clone()]).collect(),
            Defect::Garbage => stats.iter_mut().for_each(|one| {
                let size = pb::UInt64Value { value: u64::MAX };
                one.writable_layer = Some(pb::FilesystemUsage { used_bytes: Some(size), ..Default::default() });
            }),
            Defect::Wrong(wrong) => stats.iter_mut().for_each(|one| one.falsify(wrong)),
        }
    }
}

/// Applies the defect to each batch of a streamed list. An empty list has no batch.
impl<T: Defective> Defective for Batches<T> {
    fn apply(&mut self, defect: Defect) {
        let batches = std::mem::replace(self, Box::pin(tokio_stream::empty()));
        if defect != Defect::Empty {
            *self = Box::pin(batches.map(move |batch| {
                batch.map(|mut batch| {
                    batch.apply(defect);
                    batch
                })
            }));
        }
    }
}
