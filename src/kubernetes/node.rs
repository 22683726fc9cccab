//! Checks that the cluster has a Node with the configured name. A wrong name gives an empty list of pods, as if the
//! node had lost all of them.

use std::time::Duration;

use kube::core::params::GetParams;

use super::api_types::{ApiNode, NodeInfo};
use super::connection::{invalid_request, unreadable};
use super::{ApiResource, Connection, KubernetesError};
use crate::model::is_object_name;

/// Why lists for this node may be wrong; `None` = the Node exists.
pub(super) type NodeProblem = Option<String>;

/// Gets the Node and the identity of its machine.
///
/// # Errors
///
/// The request failed, which proves nothing about the Node.
pub(super) async fn check(
    connection: &Connection,
    name: &str,
    limit: Duration,
) -> Result<(NodeProblem, NodeInfo), KubernetesError> {
    let problem = |cause: String| Ok((Some(cause), NodeInfo::default()));
    let what = format!("look up node {name:?}");
    if !is_object_name(name) {
        return problem(format!("{name:?} is no node's name; set --node-name"));
    }
    let (path, escaped) = ApiResource::nodes().object(&what, "", name)?;
    let request = path.get(&escaped, &GetParams::default());
    let request = request.map_err(|error| invalid_request(&what, error.to_string()))?;
    match connection.request::<ApiNode>(&what, request, limit).await {
        Ok(node) if node.kind == "Node" && node.metadata.name == name => Ok((None, node.status.node_info)),
        Ok(_) => Err(unreadable(&what, "the answer is another object".to_owned())),
        Err(error) if error.says_not_found("nodes", name) => {
            problem(format!("no Node named {name:?} in the cluster; set --node-name if it has another name"))
        }
        // Without the permission, a wrong name looks the same as a node without pods.
        Err(error @ KubernetesError::Forbidden { .. }) => problem(format!("{error}; grant `get` on nodes")),
        Err(error) => Err(error),
    }
}
