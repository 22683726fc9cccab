//! Protobuf in, model out. The zero values of the CRI mean CREATED and READY, and times are nanoseconds since 1970.

use jiff::Timestamp;
use prost::Message;
use prost::bytes::Bytes;

use super::{generated as pb, lists};
use crate::model::{Container, ContainerState, Image, PodRef, PodUid, Sandbox, SandboxState};

const POD_UID: &str = "io.kubernetes.pod.uid";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_NAME: &str = "io.kubernetes.pod.name";
/// Where the kubelet has the pod from: `api`, `file` or `http`.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
const POD_LABELS: &[u8] = b"io.kubernetes.pod.";

/// Reads a time; an unset one is 1970, very long ago, as for the kubelet.
pub fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A state that is not in the CRI reads as unknown: such a container perhaps still runs.
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
pub fn pod_of_labels(labels: impl IntoIterator<Item = (String, String)>) -> Option<PodRef> {
    let mut pod = PodRef::default();
    for (key, value) in labels {
        match key.as_str() {
            POD_UID => pod.uid = value.into(),
            POD_NAMESPACE => pod.namespace = value,
            POD_NAME => pod.name = value,
            _ => {}
        }
    }
    Some(pod).filter(|pod| !pod.uid.is_empty())
}

/// The selector for what carries this pod's label.
pub fn pod_selector(uid: &PodUid) -> std::collections::HashMap<String, String> {
    [(POD_UID.to_owned(), uid.to_string())].into()
}

/// The pod by a sandbox's metadata, the way the kubelet's sandbox collection reads it; the label must be there too,
/// since other tools fill in the metadata as well (I5).
fn pod_of_metadata(metadata: Option<pb::PodSandboxMetadata>, labels: &[Bytes]) -> Option<PodRef> {
    let metadata = metadata.filter(|metadata| !metadata.uid.is_empty())?;
    picked(labels, POD_LABELS).any(|(key, _)| key == POD_UID).then(|| PodRef {
        uid: metadata.uid.into(),
        namespace: metadata.namespace,
        name: metadata.name,
    })
}

/// Says whether a sandbox's annotations, which are its pod's, show a static pod.
fn is_static(annotations: &[Bytes]) -> bool {
    picked(annotations, CONFIG_SOURCE.as_bytes())
        .any(|(key, source)| key == CONFIG_SOURCE && matches!(source.as_str(), "file" | "http"))
}

/// Picks the entries in which `wanted` occurs, and decodes no others. One that cannot be decoded is not there.
fn picked<'a>(map: &'a [Bytes], wanted: &'a [u8]) -> impl Iterator<Item = (String, String)> + 'a {
    let ours = map.iter().filter(move |raw| raw.windows(wanted.len()).any(|window| window == wanted));
    ours.filter_map(|raw| lists::Label::decode(raw.as_ref()).ok()).map(|label| (label.key, label.value))
}

pub fn container(from: lists::Container) -> Container {
    let metadata = from.metadata.unwrap_or_default();
    let image_id = if from.image_id.is_empty() { from.image_ref } else { from.image_id };
    Container {
        id: from.id.into(),
        sandbox_id: from.pod_sandbox_id.into(),
        pod: pod_of_labels(picked(&from.labels, POD_LABELS)),
        name: metadata.name,
        attempt: metadata.attempt,
        state: container_state(from.state),
        created_at: time(from.created_at),
        finished_at: None,
        image_id: Some(image_id).filter(|id| !id.is_empty()),
        image: from.image.map(|image| image.image).filter(|image| !image.is_empty()),
        image_volumes: Vec::new(),
        image_volumes_unknown: None,
        log_path: None,
    }
}

pub fn sandbox(from: lists::PodSandbox) -> Sandbox {
    Sandbox {
        id: from.id.into(),
        attempt: from.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        pod: pod_of_metadata(from.metadata, &from.labels),
        state: sandbox_state(from.state),
        created_at: time(from.created_at),
        is_static: is_static(&from.annotations),
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

/// The image of the runtime's sandboxes from Status verbose: containerd 1.x and CRI-O put their configuration as JSON
/// under "config". containerd 2.x does not name it there, and pins the image instead.
///
/// # Errors
/// The configuration cannot be read.
pub fn sandbox_image(info: &std::collections::HashMap<String, String>) -> Result<Option<String>, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Config {
        #[serde(default, rename = "sandboxImage")]
        sandbox_image: Option<String>,
    }
    let Some(config) = info.get("config") else { return Ok(None) };
    let config: Config = serde_json::from_str(config)?;
    Ok(config.sandbox_image.filter(|image| !image.is_empty()))
}

#[cfg(test)]
mod tests;
