//! Writes the objects of the fleet: NodeDisks, and what others apply.

use std::time::Duration;

use kube::core::params::{Patch, PatchParams};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::object::{Head, Object, Readable, Texts};
use crate::fleet::NodeStatus;
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::built;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, read_metadata};

/// The field manager of agents.
const MANAGER: &str = "kubegc-agent";

/// An object of the fleet, of which the settings count.
pub type FleetSpec<S> = Object<Head<IgnoredAny, Texts>, Readable<S>>;
/// An object of the fleet or a Node, of which the status counts.
pub type FleetStatus<T> = Object<Head<IgnoredAny, Texts>, IgnoredAny, Readable<T>>;

/// Writes the status of a node's NodeDisk (server-side apply). If there is no such object, it is created, owned by the Node: then it
/// disappears with it.
///
/// # Errors
///
/// The API server refuses it, there is no Node of this name, or the API server gives no answer.
pub async fn write_node_disk(
    connection: &Connection,
    node: &str,
    status: &NodeStatus,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let resource = ApiResource::node_disks();
    let what = || format!("write the NodeDisk {node:?}");
    let write = || apply::<Value>(connection, &resource, node, Applied::Status(status), MANAGER, limit);
    match attempt(what(), write()).await {
        Err(error) if error.cause.code() == Some(404) => {
            write_owned(connection, &resource, node, limit).await?;
            attempt(what(), write()).await.map(drop)
        }
        written => written.map(drop),
    }
}

/// Writes an object with the name of a node, owned by the Node.
async fn write_owned(
    connection: &Connection,
    resource: &ApiResource,
    node: &str,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let owner = read_metadata(connection, &ApiResource::nodes(), "", node, limit).await?;
    let create = async {
        let owner = owner.ok_or_else(|| Cause::InvalidRequest(format!("there is no Node {node:?}")))?;
        let owners = json!([{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.uid }]);
        let part = Applied::Owned::<Value> { owners };
        apply::<Value>(connection, resource, node, part, MANAGER, limit).await.map(drop)
    };
    attempt(format!("write the {} {node:?}", resource.kind), create).await
}

/// The part of an object that is applied.
pub(super) enum Applied<T> {
    /// Its settings.
    Spec(T),
    /// Its status.
    Status(T),
    /// Its owners.
    Owned { owners: Value },
}

/// Applies a part of an object of the cluster, and returns the answer.
pub(super) async fn apply<A: DeserializeOwned>(
    connection: &Connection,
    resource: &ApiResource,
    name: &str,
    part: Applied<impl Serialize>,
    manager: &str,
    limit: Duration,
) -> Result<A, Cause> {
    let own = json!({ "app.kubernetes.io/managed-by": "kubegc" });
    let is_status = matches!(part, Applied::Status(_));
    let (metadata, field, value) = match part {
        Applied::Spec(spec) => (json!({ "name": name, "labels": own }), "spec", json!(spec)),
        Applied::Status(status) => (json!({ "name": name }), "status", json!(status)),
        Applied::Owned { owners } => {
            (json!({ "name": name, "labels": own, "ownerReferences": owners }), "spec", json!({}))
        }
    };
    let object =
        json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, field: value });
    let (path, escaped) = resource.object("", name)?;
    let (params, patch) = (PatchParams::apply(manager).force(), Patch::Apply(object));
    let request = if is_status {
        path.patch_subresource("status", &escaped, &params, &patch)
    } else {
        path.patch(&escaped, &params, &patch)
    };
    connection.request(built(request)?, limit).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::NodeDiskPolicySpec;
    use crate::kubernetes::objects::object::Metadata as _;

    #[test]
    fn one_object_does_not_hide_the_others() {
        let read = |spec: Value| {
            let object = json!({ "metadata": { "name": "a", "uid": "u", "generation": 3, "resourceVersion": "7" }, "spec": spec });
            serde_json::from_value::<FleetSpec<NodeDiskPolicySpec>>(object).unwrap()
        };
        let good = read(json!({ "mode": "observe" }));
        assert_eq!((good.metadata.key(), good.metadata.generation), (["", "a", "7"], Some(3)));
        assert!(good.spec.0.is_ok());
        // A time that the API server accepts and jiff does not.
        let (fault, fields) = read(json!({ "paused": { "until": "9999-12-31T23:59:59Z" } })).spec.0.unwrap_err();
        assert!(!fault.is_empty() && fields == ["paused"], "{fault} {fields:?}");
    }
}
