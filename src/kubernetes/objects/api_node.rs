//! Nodes: the live read of one, and the check that the cluster has a Node with the configured name. A wrong name gives an
//! empty list of pods, as if the node had lost all of them.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::api_pod::{Condition, is_true};
use super::node_pods::{Texts, bounded};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, Watched};
use crate::model::{ObjectMeta, is_object_name};

/// A node as the API returns it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiNode {
    /// Empty in a list.
    kind: String,
    pub metadata: ObjectMeta,
    spec: NodeSpec,
    status: NodeStatus,
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
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    conditions: Option<Vec<Condition>>,
}

/// The node of this agent as the API returns it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OwnNode {
    kind: String,
    metadata: OwnMetadata,
    status: OwnStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OwnMetadata {
    name: String,
    uid: String,
    labels: Option<Texts>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnStatus {
    node_info: NodeInfo,
}

/// A node in an answer.
trait NodeAnswer: DeserializeOwned {
    /// Returns whether it is an object of this kind with this name.
    fn is(&self, kind: &str, name: &str) -> bool;
}

/// The identity of a node's machine, as its kubelet reported it. Empty = not reported.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NodeInfo {
    /// `status.nodeInfo.bootID`.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// `status.nodeInfo.machineID`.
    #[serde(rename = "machineID")]
    pub machine_id: String,
    /// The labels of the Node object; `None` = too many, or it was not read.
    #[serde(skip)]
    pub labels: Option<Texts>,
}

/// Why lists for this node may be wrong; `None` = the Node exists.
pub(in crate::kubernetes) type NodeProblem = Option<String>;

/// Reads a node from the server's store. `None` = the API server itself answers that it does not exist.
///
/// # Errors
///
/// Any other answer, and none: it proves nothing.
pub async fn read_node(
    connection: &Connection,
    name: &str,
    limit: Duration,
) -> Result<Option<ApiNode>, KubernetesError> {
    attempt(format!("read node {name:?}"), read(connection, name, limit)).await
}

/// Gets the Node of this name and the identity of its machine.
///
/// # Errors
///
/// The request failed, which proves nothing about the Node.
pub(in crate::kubernetes) async fn check(
    connection: &Connection,
    name: &str,
    limit: Duration,
) -> Result<(NodeProblem, NodeInfo), KubernetesError> {
    let problem = |cause: String| Ok((Some(cause), NodeInfo::default()));
    if !is_object_name(name) {
        return problem(format!("{name:?} is not a node name; set --node-name"));
    }
    match attempt(format!("look up node {name:?}"), read(connection, name, limit)).await {
        Ok(Some(OwnNode { metadata, status, .. })) => {
            let labels = bounded(metadata.labels.unwrap_or_default());
            Ok((None, NodeInfo { labels, ..status.node_info }))
        }
        Ok(None) => problem(format!("no Node named {name:?} in the cluster; set --node-name if it has another name")),
        // Without the permission, a wrong name looks the same as a node without pods.
        Err(error) if error.cause.code() == Some(403) => problem(format!("{error}; grant `get` on nodes")),
        Err(error) => Err(error),
    }
}

async fn read<N: NodeAnswer>(connection: &Connection, name: &str, limit: Duration) -> Result<Option<N>, Cause> {
    if !is_object_name(name) {
        return Err(Cause::InvalidRequest("it is not a node name".to_owned()));
    }
    let resource = ApiResource::nodes();
    match connection.request::<N>(resource.get("", name)?, limit).await {
        Ok(node) if node.is(&resource.kind, name) => Ok(Some(node)),
        Ok(_) => Err(Cause::another_object()),
        Err(cause) if cause.proves_absence(&resource, name) => Ok(None),
        Err(cause) => Err(cause),
    }
}

// === impl ApiNode ===

impl ApiNode {
    /// Returns whether the condition `Ready` is `True`. A node without that condition is not ready.
    pub fn is_ready(&self) -> bool {
        is_true(self.status.conditions.as_ref(), "Ready")
    }

    /// Returns whether it has a taint with this key, whatever the effect and value.
    pub fn has_taint(&self, key: &str) -> bool {
        self.spec.taints.iter().flatten().any(|taint| taint.key == key)
    }
}

impl NodeAnswer for ApiNode {
    fn is(&self, kind: &str, name: &str) -> bool {
        self.kind == kind && *self.metadata.name == *name && !self.metadata.uid.is_empty()
    }
}

impl NodeAnswer for OwnNode {
    fn is(&self, kind: &str, name: &str) -> bool {
        self.kind == kind && self.metadata.name == name && !self.metadata.uid.is_empty()
    }
}

impl Watched for ApiNode {
    const METADATA_ONLY: bool = false;

    fn resource_version(&self) -> &str {
        &self.metadata.version
    }
}
