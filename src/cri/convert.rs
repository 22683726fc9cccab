//! Converts protobuf messages to the model. The zero values of the CRI mean CREATED and READY. Times are nanoseconds
//! since 1970.

use std::collections::BTreeMap;

use jiff::Timestamp;
use prost::Message;
use prost::bytes::Bytes;

use super::generated as pb;
use crate::model::{Container, ContainerState, Image, ImageDetails, PodRef, PodUid, Sandbox, SandboxState, known_time};

const POD_UID: &str = "io.kubernetes.pod.uid";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_NAME: &str = "io.kubernetes.pod.name";
/// The pod source of the kubelet for this pod: `api`, `file` or `http`.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// The most bytes of the labels of an image, and of the digests of its layers.
const MAX_TEXT: usize = 32 << 10;
const POD_LABELS: &[u8] = b"io.kubernetes.pod.";

/// The part of a verbose `ImageStatus` that kubegc reads: an image configuration of the OCI.
#[derive(serde::Deserialize)]
struct Info {
    #[serde(rename = "imageSpec")]
    spec: Option<Spec>,
}

#[derive(serde::Deserialize)]
struct Spec {
    #[serde(default, deserialize_with = "known_time")]
    created: Option<Timestamp>,
    config: Option<ImageConfig>,
    rootfs: Option<RootFs>,
}

#[derive(serde::Deserialize)]
struct ImageConfig {
    #[serde(rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(serde::Deserialize)]
struct RootFs {
    diff_ids: Option<Vec<String>>,
}

/// Converts a time. An unset time becomes 1970, far in the past, as in the kubelet.
pub fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Converts a container state. A state that the CRI does not define becomes unknown: such a container may still be
/// running.
pub fn container_state(state: i32) -> ContainerState {
    match pb::ContainerState::try_from(state) {
        Ok(pb::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(pb::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(pb::ContainerState::ContainerExited) => ContainerState::Exited,
        _ => ContainerState::Unknown,
    }
}

/// Converts a sandbox state. A state that the CRI does not define becomes ready: such a sandbox is kept.
fn sandbox_state(state: i32) -> SandboxState {
    match pb::PodSandboxState::try_from(state) {
        Ok(pb::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        _ => SandboxState::Ready,
    }
}

/// Returns the pod from the labels of a container, like the container garbage collection of the kubelet.
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

/// Returns the label selector for the objects of this pod.
pub fn pod_selector(uid: &PodUid) -> std::collections::HashMap<String, String> {
    [(POD_UID.to_owned(), uid.to_string())].into()
}

/// Returns the pod from the metadata of a sandbox, like the sandbox garbage collection of the kubelet. The label must
/// be present as well, because other tools also fill in the metadata (I5).
fn pod_of_metadata(metadata: Option<pb::PodSandboxMetadata>, labels: &[Bytes]) -> Option<PodRef> {
    let metadata = metadata.filter(|metadata| !metadata.uid.is_empty())?;
    picked(labels, POD_LABELS).any(|(key, _)| key == POD_UID).then(|| PodRef {
        uid: metadata.uid.into(),
        namespace: metadata.namespace,
        name: metadata.name,
    })
}

/// Returns whether the annotations of a sandbox, which are those of its pod, show a static pod.
fn is_static(annotations: &[Bytes]) -> bool {
    picked(annotations, CONFIG_SOURCE.as_bytes())
        .any(|(key, source)| key == CONFIG_SOURCE && matches!(source.as_str(), "file" | "http"))
}

/// Returns the entries that contain `wanted`, and decodes no others. Skips entries that cannot be decoded.
fn picked<'a>(map: &'a [Bytes], wanted: &'a [u8]) -> impl Iterator<Item = (String, String)> + 'a {
    let ours = map.iter().filter(move |raw| raw.windows(wanted.len()).any(|window| window == wanted));
    ours.filter_map(|raw| pb::LeanLabel::decode(raw.as_ref()).ok()).map(|label| (label.key, label.value))
}

pub fn container(from: pb::LeanContainer) -> Container {
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
        exit_code: None,
        exit_reason: None,
        log_bytes: None,
        image_id: Some(image_id).filter(|id| !id.is_empty()),
        image: from.image.map(|image| image.image).filter(|image| !image.is_empty()),
        image_volumes: Vec::new(),
        image_volumes_unknown: None,
    }
}

pub fn sandbox(from: pb::LeanSandbox) -> Sandbox {
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

/// Returns the sandbox image from the verbose Status. containerd 1.x and CRI-O report their configuration as JSON under
/// "config". containerd 2.x does not name the image there, and pins it instead.
///
/// # Errors
/// The configuration cannot be decoded.
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

/// Returns what the configuration of an image says, from the verbose `ImageStatus`. containerd and CRI-O report it as JSON
/// under "info".
///
/// # Errors
/// The configuration cannot be decoded.
pub fn image_details(info: &std::collections::HashMap<String, String>) -> Result<ImageDetails, serde_json::Error> {
    let Some(info) = info.get("info") else { return Ok(ImageDetails::default()) };
    let Info { spec } = serde_json::from_str(info)?;
    let Some(Spec { created, config, rootfs }) = spec else { return Ok(ImageDetails::default()) };
    let labels = config.map(|config| config.labels.unwrap_or_default());
    Ok(ImageDetails {
        created_at: created,
        labels: labels.filter(|labels| is_small(labels.iter().flat_map(|(key, value)| [key, value]))),
        layers: rootfs.and_then(|rootfs| rootfs.diff_ids).filter(|layers| is_small(layers)),
    })
}

/// Returns whether the texts of a configuration may stay in memory: another wrote them.
fn is_small<'a>(texts: impl IntoIterator<Item = &'a String>) -> bool {
    texts.into_iter().map(String::len).sum::<usize>() <= MAX_TEXT
}

#[cfg(test)]
mod tests;
