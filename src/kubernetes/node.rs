//! Whether the cluster has a node of our name. A wrong name gives an empty list of pods, which looks like a node that lost
//! all of them.

use std::time::Duration;

use kube::core::Request as Path;
use kube::core::params::GetParams;

use super::connection::{ask, unreadable};
use super::{Connection, KubernetesError, wire};

/// What speaks against lists for this node; `None` = the node is known.
pub(super) type Doubt = Option<String>;

/// Looks for the Node. An error is one of the way there, and says nothing of the node.
pub(super) async fn check(connection: &Connection, name: &str, limit: Duration) -> Result<Doubt, KubernetesError> {
    let what = format!("look for node {name:?}");
    if !is_name(name) {
        return Ok(Some(format!("{name:?} is no node's name; set --node-name")));
    }
    let request = Path::new("/api/v1/nodes").get(name, &GetParams::default());
    let request = request.map_err(|error| ask(&what, error.to_string()))?;
    match connection.ask::<wire::Object>(&what, request, limit).await {
        Ok(object) if object.kind == "Node" && object.metadata.name == name => Ok(None),
        Ok(_) => Err(unreadable(&what, "it is of something else".to_owned())),
        Err(error) if error.says_not_found("nodes", name) => {
            Ok(Some(format!("no Node named {name:?} in the cluster; set --node-name if it has another name")))
        }
        // Who may not ask cannot tell a wrong name from a node without pods.
        Err(error @ KubernetesError::Forbidden { .. }) => Ok(Some(format!("{error}; grant `get` on nodes"))),
        Err(error) => Err(error),
    }
}

/// Says whether this can stand in a path and a selector: what the API takes for names.
pub(super) fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.bytes().all(allowed)
}
