//! Protobuf in, model out. The zero values of the CRI mean CREATED and READY, and times are nanoseconds since 1970.

use jiff::Timestamp;

use super::generated as pb;
use crate::model::{Container, ContainerState, Image, PodRef, Sandbox, SandboxState};

const POD_UID: &str = "io.kubernetes.pod.uid";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_NAME: &str = "io.kubernetes.pod.name";

type Labels = std::collections::HashMap<String, String>;

/// Reads a time; an unset one is 1970, very long ago, as for the kubelet.
pub fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub fn container_state(state: i32) -> ContainerState {
    match pb::ContainerState::try_from(state) {
        Ok(pb::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(pb::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(pb::ContainerState::ContainerExited) => ContainerState::Exited,
        _ => ContainerState::Unknown,
    }
}

/// A state that is not in the CRI reads as ready: such a sandbox stays.
fn sandbox_state(state: i32) -> SandboxState {
    match pb::PodSandboxState::try_from(state) {
        Ok(pb::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        _ => SandboxState::Ready,
    }
}

/// The pod by a container's labels, the way the kubelet's container collection reads it.
pub fn pod_of_labels(mut labels: Labels) -> Option<PodRef> {
    let uid = labels.remove(POD_UID).filter(|uid| !uid.is_empty())?;
    Some(PodRef {
        uid: uid.into(),
        namespace: labels.remove(POD_NAMESPACE).unwrap_or_default(),
        name: labels.remove(POD_NAME).unwrap_or_default(),
    })
}

/// The pod by a sandbox's metadata, the way the kubelet's sandbox collection reads it; the label must be there too,
/// since other tools fill in the metadata as well (I5).
fn pod_of_metadata(metadata: Option<pb::PodSandboxMetadata>, labels: &Labels) -> Option<PodRef> {
    let metadata = metadata.filter(|metadata| !metadata.uid.is_empty() && labels.contains_key(POD_UID))?;
    Some(PodRef { uid: metadata.uid.into(), namespace: metadata.namespace, name: metadata.name })
}

pub fn container(from: pb::Container) -> Container {
    let metadata = from.metadata.unwrap_or_default();
    let image_id = if from.image_id.is_empty() { from.image_ref } else { from.image_id };
    Container {
        id: from.id.into(),
        sandbox_id: from.pod_sandbox_id.into(),
        pod: pod_of_labels(from.labels),
        name: metadata.name,
        attempt: metadata.attempt,
        state: container_state(from.state),
        created_at: time(from.created_at),
        finished_at: None,
        image_id: Some(image_id).filter(|id| !id.is_empty()),
        image: from.image.map(|image| image.image).filter(|image| !image.is_empty()),
        image_volumes: Vec::new(),
        log_path: None,
    }
}

pub fn sandbox(from: pb::PodSandbox) -> Sandbox {
    Sandbox {
        id: from.id.into(),
        attempt: from.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        pod: pod_of_metadata(from.metadata, &from.labels),
        state: sandbox_state(from.state),
        created_at: time(from.created_at),
    }
}

pub fn image(from: pb::Image) -> Image {
    Image {
        id: from.id.into(),
        tags: from.repo_tags,
        digests: from.repo_digests,
        size_bytes: from.size,
        pinned: from.pinned,
    }
}
