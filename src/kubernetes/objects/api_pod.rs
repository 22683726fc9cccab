//! The fields of a pod that kubegc reads in a whole cluster. The parser skips all other fields.

use jiff::Timestamp;
use serde::Deserialize;

use super::object::{Head, Object};
use crate::model::{Phase, known_time};

/// A pod as the API returns it.
pub type ApiPod = Object<Head<MirrorAnnotations>, PodSpec, PodStatus>;

/// The annotations of a static pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MirrorAnnotations {
    #[serde(rename = "kubernetes.io/config.hash")]
    hash: Option<String>,
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
}

/// The spec of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The name of its node; `None` or empty = not scheduled.
    pub node_name: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    ephemeral_containers: Option<Vec<Container>>,
    volumes: Option<Vec<Volume>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    image: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Volume {
    image: Option<ImageVolume>,
}

#[derive(Clone, Debug, Deserialize)]
struct ImageVolume {
    reference: Option<String>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// As `Running`.
    pub phase: Option<String>,
    /// As `Evicted`.
    pub reason: Option<String>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

/// A condition of a pod or a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    name: String,
    status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    #[serde(deserialize_with = "known_time")]
    finished_at: Option<Timestamp>,
}

// === impl ApiPod ===

impl ApiPod {
    /// Returns the uid that the CRI shows.
    pub(super) fn cri_uid(&self) -> &str {
        let MirrorAnnotations { hash, mirror } = &self.metadata.annotations;
        cri_uid(&self.metadata.uid, hash.as_deref(), mirror.as_deref())
    }

    /// Returns when its last container terminated; `None` = a container has not terminated, or none is known.
    pub fn finished_at(&self) -> Option<Timestamp> {
        let statuses = self.status.container_statuses.iter().flatten();
        let times: Option<Vec<_>> = statuses.map(|status| status.state.terminated.as_ref()?.finished_at).collect();
        times?.into_iter().max()
    }

    /// Returns whether a condition is `True`.
    pub fn has_condition(&self, name: &str) -> bool {
        is_true(self.status.conditions.as_ref(), name)
    }
}

/// The most images that a pod protects: no pod needs as many, and one that names thousands would fill the memory of the agent.
const MOST_IMAGES: usize = 500;

// === impl PodSpec ===

impl PodSpec {
    pub(super) fn images(self) -> Vec<String> {
        let containers = [self.containers, self.init_containers, self.ephemeral_containers];
        let of_containers = containers.into_iter().flatten().flatten().filter_map(|container| container.image);
        let of_volumes = self.volumes.into_iter().flatten().filter_map(|volume| volume.image?.reference);
        let mut images: Vec<String> = of_containers.chain(of_volumes).filter(|image| !image.is_empty()).collect();
        images.sort_unstable();
        images.dedup();
        images.truncate(MOST_IMAGES);
        images.shrink_to_fit();
        images
    }
}

/// Returns the uid of a pod that the CRI shows. The API contains a static pod as its mirror pod, whose own uid does not occur on
/// the node. An annotation contains the uid of the static pod (`kubernetes.io/config.hash`).
pub(super) fn cri_uid<'p>(own: &'p str, hash: Option<&'p str>, mirror: Option<&'p str>) -> &'p str {
    mirror.and_then(|mirror| hash.or(Some(mirror))).filter(|uid| !uid.is_empty()).unwrap_or(own)
}

pub(super) fn phase(text: Option<&str>) -> Phase {
    match text {
        Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => Phase::Unknown,
    }
}

/// Returns whether a condition is `True`.
pub(super) fn is_true(conditions: Option<&Vec<Condition>>, name: &str) -> bool {
    conditions.into_iter().flatten().any(|condition| condition.name == name && condition.status == "True")
}
