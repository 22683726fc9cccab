//! The fields of API objects that kubegc reads. The parser skips all other fields.
//!
//! `k8s_openapi` has types for the whole objects. They hold what most of a pod is, such as `managedFields` as JSON values,
//! environments and probes. The memory for a page of pods, and for the kubelet's list, would be many times as large.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::model::{Phase, Pod};

/// A pod as the API returns it.
#[derive(Clone, Deserialize)]
pub(super) struct ApiPod {
    /// Empty in a list.
    #[serde(default)]
    pub(super) kind: String,
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: PodStatus,
}

/// The metadata of any object.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) resource_version: String,
    annotations: Option<Annotations>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Default, Deserialize)]
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

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    ephemeral_containers: Option<Vec<Container>>,
    volumes: Option<Vec<Volume>>,
}

#[derive(Clone, Deserialize)]
struct Container {
    image: Option<String>,
}

#[derive(Clone, Deserialize)]
struct Volume {
    image: Option<ImageVolume>,
}

#[derive(Clone, Deserialize)]
struct ImageVolume {
    reference: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: Option<String>,
}

/// A Node as the API returns it.
#[derive(Deserialize)]
pub(super) struct ApiNode {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) status: NodeStatus,
}

/// The status of a Node, as far as it identifies the machine.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeStatus {
    pub(super) node_info: NodeInfo,
}

/// The identity of a node's machine, as its kubelet reported it. Empty = not reported.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// `status.nodeInfo.bootID`.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// `status.nodeInfo.machineID`.
    #[serde(rename = "machineID")]
    pub machine_id: String,
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
}

// === impl Spec ===

impl Spec {
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
