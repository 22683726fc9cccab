//! Whether the cluster has a node of our name. A wrong name gives an empty list of pods, which looks like a node that lost
//! all of them.

use std::time::Duration;

use kube::core::Request as Path;
use kube::core::params::GetParams;

use super::api_types::{ApiNode, NodeInfo};
use super::connection::{ask, unreadable};
use super::{Connection, KubernetesError};
use crate::model::is_object_name;

/// What speaks against lists for this node; `None` = the node is known.
pub(super) type Doubt = Option<String>;

/// Looks for the Node, and for what it says of its machine. An error is one of the way there, and says nothing of the node.
pub(super) async fn check(
    connection: &Connection,
    name: &str,
    limit: Duration,
) -> Result<(Doubt, NodeInfo), KubernetesError> {
    let doubted = |doubt: String| Ok((Some(doubt), NodeInfo::default()));
    let what = format!("look for node {name:?}");
    if !is_object_name(name) {
        return doubted(format!("{name:?} is no node's name; set --node-name"));
    }
    let request = Path::new("/api/v1/nodes").get(name, &GetParams::default());
    let request = request.map_err(|error| ask(&what, error.to_string()))?;
    match connection.ask::<ApiNode>(&what, request, limit).await {
        Ok(node) if node.kind == "Node" && node.metadata.name == name => Ok((None, node.status.node_info)),
        Ok(_) => Err(unreadable(&what, "it is of something else".to_owned())),
        Err(error) if error.says_not_found("nodes", name) => {
            doubted(format!("no Node named {name:?} in the cluster; set --node-name if it has another name"))
        }
        // Who may not ask cannot tell a wrong name from a node without pods.
        Err(error @ KubernetesError::Forbidden { .. }) => doubted(format!("{error}; grant `get` on nodes")),
        Err(error) => Err(error),
    }
}
