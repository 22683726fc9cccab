//! Writes the objects of the fleet: NodeDisks, and what others apply.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::core::params::{Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::fleet::{NodeDiskPolicySpec, NodeDiskStatus, StatusImages};
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
    /// Its labels.
    pub labels: BTreeMap<String, String>,
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

/// A Node, of which its images count.
impl ObjectPart for StatusImages {
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
            labels: object
                .pointer("/metadata/labels")
                .and_then(|it| Deserialize::deserialize(it).ok())
                .unwrap_or_default(),
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
