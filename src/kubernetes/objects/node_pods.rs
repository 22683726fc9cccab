//! The fields of a pod that kubegc reads on its node, from the API server or the kubelet. The parser skips all other fields.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::api_pod::{PodSpec, PodStatus, cri_uid, phase};
use crate::kubernetes::Watched;
use crate::model::{LAST_APPLIED, Pod, PodDetails, latest_time};

/// The most bytes of the labels or of the annotations of a pod.
const MAX_TEXT: usize = 16 << 10;
const HASH: &str = "kubernetes.io/config.hash";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The kubelet's source of the pod. Only answers of the kubelet contain it.
const SOURCE: &str = "kubernetes.io/config.source";
/// When the kubelet first saw the pod. Only answers of the kubelet contain it.
const SEEN: &str = "kubernetes.io/config.seen";

/// A pod as the API server or the kubelet returns it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::kubernetes) struct NodeApiPod {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    labels: Option<Texts>,
    annotations: Option<Texts>,
    owner_references: Option<Vec<Owner>>,
    #[serde(deserialize_with = "latest_time")]
    deletion_timestamp: Option<Timestamp>,
}

/// Labels or annotations.
pub(super) type Texts = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
    controller: Option<bool>,
}

/// A pod of a node, reduced to what kubegc keeps of it.
#[derive(Clone, Deserialize)]
#[serde(try_from = "NodeApiPod")]
pub(in crate::kubernetes) struct NodePod {
    resource_version: String,
    pub(in crate::kubernetes) pod: Pod,
}

// === impl NodeApiPod ===

impl NodeApiPod {
    /// Returns where the kubelet has the pod from: `api`, `file` or `http`.
    pub(in crate::kubernetes) fn config_source(&self) -> Option<&str> {
        self.metadata.annotation(SOURCE)
    }

    /// Returns when the kubelet first saw the pod.
    pub(in crate::kubernetes) fn config_seen(&self) -> Option<Timestamp> {
        self.metadata.annotation(SEEN)?.parse().ok()
    }

    /// Returns the fields that kubegc keeps.
    ///
    /// # Errors
    ///
    /// The pod has no uid, namespace or name.
    pub(in crate::kubernetes) fn into_pod(self) -> Result<Pod, String> {
        let metadata = self.metadata;
        if metadata.uid.is_empty() || metadata.namespace.is_empty() || metadata.name.is_empty() {
            return Err("a pod without uid, namespace or name".to_owned());
        }
        Ok(Pod {
            uid: cri_uid(&metadata.uid, metadata.annotation(HASH), metadata.annotation(MIRROR)).into(),
            phase: phase(self.status.phase.as_deref()),
            deleting: metadata.deletion_timestamp.is_some(),
            images: self.spec.images(),
            details: Some(Box::new(details(metadata.labels, metadata.annotations, metadata.owner_references))),
            namespace: metadata.namespace,
            name: metadata.name,
        })
    }
}

// === impl Metadata ===

impl Metadata {
    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

fn details(labels: Option<Texts>, annotations: Option<Texts>, owners: Option<Vec<Owner>>) -> PodDetails {
    let mut annotations = annotations.unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let owner = owners.unwrap_or_default().into_iter().find(|owner| owner.controller == Some(true));
    let (owner_kind, owner_name) = owner.map(|owner| (owner.kind, owner.name)).unzip();
    PodDetails {
        labels: bounded(labels.unwrap_or_default()),
        annotations: bounded(annotations),
        owner_kind,
        owner_name,
    }
}

/// Returns the texts if they may stay in memory: another wrote them.
pub(super) fn bounded(texts: Texts) -> Option<Texts> {
    let bytes: usize = texts.iter().map(|(key, value)| key.len() + value.len()).sum();
    (bytes <= MAX_TEXT).then_some(texts)
}

// === impl NodePod ===

impl TryFrom<NodeApiPod> for NodePod {
    type Error = String;

    fn try_from(mut pod: NodeApiPod) -> Result<Self, String> {
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
