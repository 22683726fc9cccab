//! Writes the objects of the fleet: NodeDisks, and what others apply.

use std::time::Duration;

use kube::core::params::{Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::fleet::{NodeDiskPolicySpec, NodeDiskStatus};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::built;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, Watched, read_metadata};

/// The field manager of agents.
const MANAGER: &str = "kubegc-agent";

/// An object of the fleet in a list or a watch. One whose part cannot be read must not hide the others.
#[derive(Clone, Debug)]
pub struct FleetObject<T> {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its settings or its status; or why they cannot be read, and the fields that they have.
    pub part: Result<T, (String, Vec<String>)>,
    version: String,
}

/// The part of an object that counts.
pub trait ObjectPart: Clone + DeserializeOwned + Send + 'static {
    /// The field of the object.
    const FIELD: &'static str;
}

impl ObjectPart for NodeDiskPolicySpec {
    const FIELD: &'static str = "spec";
}

impl ObjectPart for NodeDiskStatus {
    const FIELD: &'static str = "status";
}

impl<'de, T: ObjectPart> Deserialize<'de> for FleetObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let part = object.get(T::FIELD).cloned().unwrap_or_else(|| json!({}));
        let fields = part.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect();
        Ok(Self {
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            part: serde_json::from_value(part).map_err(|error| (format!("{}: {error}", T::FIELD), fields)),
            version: text("/metadata/resourceVersion"),
        })
    }
}

impl<T: ObjectPart> Watched for FleetObject<T> {
    const METADATA_ONLY: bool = false;

    fn resource_version(&self) -> &str {
        &self.version
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_does_not_hide_the_others() {
        let read = |spec: Value| {
            let object = json!({ "metadata": { "name": "a", "uid": "u", "generation": 3, "resourceVersion": "7" }, "spec": spec });
            serde_json::from_value::<FleetObject<NodeDiskPolicySpec>>(object).unwrap()
        };
        let good = read(json!({ "mode": "observe" }));
        assert_eq!(
            (good.name.as_str(), good.uid.as_str(), good.generation, good.resource_version()),
            ("a", "u", 3, "7")
        );
        assert!(good.part.is_ok());
        // A time that the API server accepts and jiff does not.
        let (fault, fields) = read(json!({ "paused": { "until": "9999-12-31T23:59:59Z" } })).part.unwrap_err();
        assert!(fault.starts_with("spec: ") && fields == ["paused"], "{fault} {fields:?}");
    }
}
