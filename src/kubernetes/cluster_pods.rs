//! The pods and nodes of a whole cluster, reduced to the fields that decide about the deletion of a pod.

use std::time::Duration;

use jiff::Timestamp;
use kube::core::params::GetParams;
use serde::Deserialize;

use super::connection::{invalid_request, unreadable};
use super::{ApiResource, Connection, KubernetesError, Watched};
use crate::model::{is_object_name, known_time, latest_time};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterPod {
    /// The metadata.
    pub metadata: ClusterPodMetadata,
    /// The spec.
    pub spec: ClusterPodSpec,
    /// The status.
    pub status: ClusterPodStatus,
}

/// The metadata of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPodMetadata {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The version of the object.
    pub resource_version: String,
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

/// The spec of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPodSpec {
    /// The name of its node; `None` or empty = not scheduled.
    pub node_name: Option<String>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPodStatus {
    /// As `Running`.
    pub phase: Option<String>,
    /// As `Evicted`.
    pub reason: Option<String>,
    /// The generation that the status describes.
    pub observed_generation: Option<i64>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
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

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterNode {
    /// Empty in a list.
    kind: String,
    /// The metadata.
    pub metadata: ClusterNodeMetadata,
    spec: NodeSpec,
    status: NodeStatus,
}

/// The metadata of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNodeMetadata {
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The version of the object.
    pub resource_version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Option<Vec<Condition>>,
}

/// Reads a node from the server's store. `None` = the API server itself answers that it does not exist.
///
/// # Errors
///
/// Any other answer, and none: it proves nothing.
pub async fn read_node(
    connection: &Connection,
    name: &str,
    limit: Duration,
) -> Result<Option<ClusterNode>, KubernetesError> {
    let what = format!("read node {name:?}");
    if !is_object_name(name) {
        return Err(invalid_request(&what, "it is no node's name".to_owned()));
    }
    let resource = ApiResource::nodes();
    let (path, escaped) = resource.object(&what, "", name)?;
    let request = path.get(&escaped, &GetParams::default());
    let request = request.map_err(|error| invalid_request(&what, error.to_string()))?;
    match connection.request::<ClusterNode>(&what, request, limit).await {
        Ok(node) if node.kind == resource.kind && node.metadata.name == name && !node.metadata.uid.is_empty() => {
            Ok(Some(node))
        }
        Ok(_) => Err(unreadable(&what, "the answer is another object".to_owned())),
        Err(error) if error.proves_absence(&resource, name) => Ok(None),
        Err(error) => Err(error),
    }
}

// === impl ClusterPod ===

impl ClusterPod {
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

impl Watched for ClusterPod {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

// === impl ClusterNode ===

impl ClusterNode {
    /// Returns whether the condition `Ready` is `True`. A node without that condition is not ready.
    pub fn is_ready(&self) -> bool {
        is_true(self.status.conditions.as_ref(), "Ready")
    }

    /// Returns whether it has a taint with this key, whatever the effect and value.
    pub fn has_taint(&self, key: &str) -> bool {
        self.spec.taints.iter().flatten().any(|taint| taint.key == key)
    }
}

impl Watched for ClusterNode {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

// === impl ApiResource ===

impl ApiResource {
    /// Returns the pods, which every API server serves.
    pub fn pods() -> Self {
        Self::core("pods", "Pod", true)
    }

    /// Returns the nodes, which every API server serves.
    pub fn nodes() -> Self {
        Self::core("nodes", "Node", false)
    }

    /// Returns the ConfigMaps, which every API server serves.
    pub fn config_maps() -> Self {
        Self::core("configmaps", "ConfigMap", true)
    }

    fn core(resource: &str, kind: &str, namespaced: bool) -> Self {
        Self {
            api_version: "v1".to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            verbs: ["delete", "get", "list", "patch", "watch"].map(str::to_owned).to_vec(),
            is_preferred: true,
        }
    }
}

fn is_true(conditions: Option<&Vec<Condition>>, name: &str) -> bool {
    conditions.into_iter().flatten().any(|condition| condition.name == name && condition.status == "True")
}
