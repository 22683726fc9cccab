//! Writes the objects of the fleet: NodeDisks, and what others apply.

use std::time::Duration;

use kube::core::params::{Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fleet::{NodeDisk, NodeDiskStatus};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::built;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, Watched, read_metadata};

/// The field manager of agents.
const MANAGER: &str = "kubegc-agent";

impl Watched for NodeDisk {
    const METADATA_ONLY: bool = false;

    fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

/// Writes the status of a node's NodeDisk (server-side apply). If there is no such object, it is created, owned by the Node: then it
/// disappears with it.
///
/// # Errors
///
/// The API server refuses it, there is no Node of this name, or the API server gives no answer.
pub async fn write_node_disk(
    connection: &Connection,
    node: &str,
    status: &NodeDiskStatus,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let resource = ApiResource::node_disks();
    let what = || format!("write the NodeDisk {node:?}");
    let write = || async {
        apply::<Value>(connection, &resource, node, Applied::Status(status), MANAGER, limit).await.map(drop)
    };
    let written = attempt(what(), write()).await;
    if written.as_ref().err().and_then(|error| error.cause.code()) != Some(404) {
        return written;
    }
    let owner = read_metadata(connection, &ApiResource::nodes(), "", node, limit).await?;
    let create = async {
        let owner = owner.ok_or_else(|| Cause::InvalidRequest(format!("there is no Node {node:?}")))?;
        let owners = json!([{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.uid }]);
        apply::<Value>(connection, &resource, node, Applied::<()>::Created(owners), MANAGER, limit).await?;
        write().await
    };
    attempt(what(), create).await
}

/// The part of an object that is applied.
pub(super) enum Applied<T> {
    /// Its settings.
    Spec(T),
    /// Its status.
    Status(T),
    /// The object without settings, with these owners.
    Created(Value),
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
    let labels = json!({ "app.kubernetes.io/managed-by": "kubegc" });
    let (metadata, field, value) = match &part {
        Applied::Spec(spec) => (json!({ "name": name, "labels": labels }), "spec", json!(spec)),
        Applied::Status(status) => (json!({ "name": name }), "status", json!(status)),
        Applied::Created(owners) => {
            (json!({ "name": name, "labels": labels, "ownerReferences": owners }), "spec", json!({}))
        }
    };
    let object =
        json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, field: value });
    let (path, escaped) = resource.object("", name)?;
    let (params, patch) = (PatchParams::apply(manager).force(), Patch::Apply(object));
    let request = match part {
        Applied::Status(_) => path.patch_subresource("status", &escaped, &params, &patch),
        Applied::Spec(_) | Applied::Created(_) => path.patch(&escaped, &params, &patch),
    };
    connection.request(built(request)?, limit).await
}
