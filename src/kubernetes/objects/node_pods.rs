//! The fields of a pod that kubegc reads on its node, from the API server or the kubelet. The parser skips all other fields.

use jiff::Timestamp;
use serde::Deserialize;

use super::api_pod::{PodSpec, PodStatus, cri_uid, phase};
use super::object::{Head, Object, Texts};
use crate::kubernetes::{Listed, Watched};
use crate::model::{LAST_APPLIED, Pod, PodDetails};

/// The most bytes of the labels or of the annotations of a pod.
const MAX_TEXT: usize = 16 << 10;
const HASH: &str = "kubernetes.io/config.hash";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The kubelet's source of the pod. Only answers of the kubelet contain it.
const SOURCE: &str = "kubernetes.io/config.source";
/// When the kubelet first saw the pod. Only answers of the kubelet contain it.
const SEEN: &str = "kubernetes.io/config.seen";

/// A pod as the API server or the kubelet returns it.
pub(in crate::kubernetes) type NodeApiPod = Object<Head<Texts, Texts>, PodSpec, PodStatus>;

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
        annotation(&self.metadata, SOURCE)
    }

    /// Returns when the kubelet first saw the pod.
    pub(in crate::kubernetes) fn config_seen(&self) -> Option<Timestamp> {
        annotation(&self.metadata, SEEN)?.parse().ok()
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
            uid: cri_uid(&metadata.uid, annotation(&metadata, HASH), annotation(&metadata, MIRROR)).into(),
            phase: phase(self.status.phase.as_deref()),
            deleting: metadata.deletion_timestamp.is_some(),
            images: self.spec.images(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            details: Some(Box::new(details(metadata))),
        })
    }
}

fn annotation<'m>(metadata: &'m Head<Texts, Texts>, key: &str) -> Option<&'m str> {
    metadata.annotations.get(key).map(String::as_str)
}

fn details(metadata: Head<Texts, Texts>) -> PodDetails {
    let (owner_kind, owner_name) = metadata.controller().map(|owner| (owner.kind.clone(), owner.name.clone())).unzip();
    let mut annotations = metadata.annotations;
    annotations.remove(LAST_APPLIED);
    PodDetails { labels: bounded(metadata.labels), annotations: bounded(annotations), owner_kind, owner_name }
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

impl Listed for NodePod {
    const METADATA_ONLY: bool = false;
}

impl Watched for NodePod {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}
