//! The fields of a pod that kubegc reads, on a node and in a whole cluster. The parser skips all other fields.
//!
//! `k8s_openapi` has types for the whole objects. They hold what most of a pod is, such as `managedFields` as JSON values,
//! environments and probes. The memory for a page of pods, and for the kubelet's list, would be many times as large.

use jiff::Timestamp;
use serde::Deserialize;

use super::Watched;
use crate::model::{Phase, Pod, known_time, latest_time};

/// A pod as the API returns it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiPod {
    /// Empty in a list.
    pub(super) kind: String,
    /// The metadata.
    pub metadata: PodMetadata,
    /// The spec.
    pub spec: PodSpec,
    /// The status.
    pub status: PodStatus,
}

/// The metadata of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetadata {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    pub(super) resource_version: String,
    annotations: Option<Annotations>,
    /// When it was created.
    #[serde(deserialize_with = "latest_time")]
    pub creation_timestamp: Option<Timestamp>,
    /// When its deletion is to be complete.
    #[serde(deserialize_with = "latest_time")]
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period of its deletion, in seconds.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Its finalizers.
    pub finalizers: Option<Vec<String>>,
    /// How often its spec was changed, from 1 on. API servers before 1.33 do not count it.
    pub generation: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.hash")]
    hash: Option<String>,
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
    /// The kubelet's source of the pod. Only answers of the kubelet contain it.
    #[serde(rename = "kubernetes.io/config.source")]
    source: Option<String>,
    /// When the kubelet first saw the pod. Only answers of the kubelet contain it.
    #[serde(rename = "kubernetes.io/config.seen")]
    seen: Option<String>,
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

/// A pod of a node, reduced to what kubegc keeps of it.
#[derive(Clone, Deserialize)]
#[serde(try_from = "ApiPod")]
pub(super) struct NodePod {
    resource_version: String,
    pub(super) pod: Pod,
}

// === impl ApiPod ===

impl ApiPod {
    /// Returns the uid that the CRI shows. The API contains a static pod as its mirror pod, whose own uid does not
    /// occur on the node. An annotation contains the uid of the static pod (`kubernetes.io/config.hash`).
    pub(super) fn cri_uid(&self) -> &str {
        let noted = self.metadata.annotations.as_ref().filter(|annotations| annotations.mirror.is_some());
        let noted = noted.and_then(|annotations| annotations.hash.as_deref().or(annotations.mirror.as_deref()));
        noted.filter(|uid| !uid.is_empty()).unwrap_or(&self.metadata.uid)
    }

    /// Returns where the kubelet has the pod from: `api`, `file` or `http`.
    pub(super) fn config_source(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.source.as_deref()
    }

    /// Returns when the kubelet first saw the pod.
    pub(super) fn config_seen(&self) -> Option<Timestamp> {
        self.metadata.annotations.as_ref()?.seen.as_deref()?.parse().ok()
    }

    /// Returns the fields that kubegc keeps.
    ///
    /// # Errors
    ///
    /// The pod has no uid, namespace or name.
    pub(super) fn into_pod(self) -> Result<Pod, String> {
        if self.metadata.uid.is_empty() || self.metadata.namespace.is_empty() || self.metadata.name.is_empty() {
            return Err("a pod without uid, namespace or name".to_owned());
        }
        Ok(Pod {
            uid: self.cri_uid().into(),
            phase: phase(self.status.phase.as_deref()),
            deleting: self.metadata.deletion_timestamp.is_some(),
            images: self.spec.images(),
            namespace: self.metadata.namespace,
            name: self.metadata.name,
        })
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

impl Watched for ApiPod {
    const METADATA_ONLY: bool = false;

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

// === impl NodePod ===

impl TryFrom<ApiPod> for NodePod {
    type Error = String;

    fn try_from(mut pod: ApiPod) -> Result<Self, String> {
        let resource_version = std::mem::take(&mut pod.metadata.resource_version);
        Ok(Self { resource_version, pod: pod.into_pod()? })
    }
}

impl Watched for NodePod {
    const METADATA_ONLY: bool = false;

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

// === impl PodSpec ===

impl PodSpec {
    fn images(self) -> Vec<String> {
        let containers = [self.containers, self.init_containers, self.ephemeral_containers];
        let of_containers = containers.into_iter().flatten().flatten().filter_map(|container| container.image);
        let of_volumes = self.volumes.into_iter().flatten().filter_map(|volume| volume.image?.reference);
        let mut images: Vec<String> = of_containers.chain(of_volumes).filter(|image| !image.is_empty()).collect();
        images.sort_unstable();
        images.dedup();
        images.shrink_to_fit();
        images
    }
}

fn phase(text: Option<&str>) -> Phase {
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
