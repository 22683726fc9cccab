//! Nodes: the live read of one, and the check that the cluster has a Node with the configured name. A wrong name gives an
//! empty list of pods, as if the node had lost all of them.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::api_pod::{Condition, is_true};
use super::node_pods::bounded;
use super::object::{Head, Object, Texts};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::metadata::find;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError};
use crate::model::is_object_name;

/// A node as the API returns it.
pub type ApiNode = Object<Head<IgnoredAny, Texts>, NodeSpec, NodeStatus>;

/// What is read of the settings of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
}

/// What is read of the status of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    conditions: Option<Vec<Condition>>,
    node_info: NodeInfo,
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
        Ok(Some(ApiNode { metadata, status, .. })) => {
            let labels = bounded(metadata.labels);
            Ok((None, NodeInfo { labels, ..status.node_info }))
        }
        Ok(None) => problem(format!("no Node named {name:?} in the cluster; set --node-name if it has another name")),
        // Without the permission, a wrong name looks the same as a node without pods.
        Err(error) if error.cause.code() == Some(403) => problem(format!("{error}; grant `get` on nodes")),
        Err(error) => Err(error),
    }
}

async fn read(connection: &Connection, name: &str, limit: Duration) -> Result<Option<ApiNode>, Cause> {
    if !is_object_name(name) {
        return Err(Cause::InvalidRequest("it is not a node name".to_owned()));
    }
    let resource = ApiResource::nodes();
    find(connection, &resource, ("", name), None, |node: &ApiNode| node.is(&resource, "", name), limit).await
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
