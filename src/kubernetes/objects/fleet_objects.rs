//! Writes the objects of the fleet: NodeDisks, and what others apply.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::core::params::{Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::fleet::{NodeDiskPolicySpec, NodeDiskStatus, NodeImagesSpec, StatusImages};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::built;
use crate::kubernetes::requests::list::Listing;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, MetadataOnly, Watched, read_metadata};

/// The field manager of agents.
const MANAGER: &str = "kubegc-agent";
/// The field manager of the labels that show images. What it no longer applies is removed.
const LABELS_MANAGER: &str = "kubegc-copies";
/// The most nodes with an image that are read: the first by name.
const MOST_HOLDERS: u32 = 20;

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

impl ObjectPart for NodeImagesSpec {
    const FIELD: &'static str = "spec";
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

/// Writes the status of a node's NodeDisk (server-side apply), and returns its uid. If there is no such object, it is created, owned by
/// the Node: then it disappears with it.
///
/// # Errors
///
/// The API server refuses it, there is no Node of this name, or the API server gives no answer.
pub async fn write_node_disk(
    connection: &Connection,
    node: &str,
    status: &NodeDiskStatus,
    limit: Duration,
) -> Result<String, KubernetesError> {
    let resource = ApiResource::node_disks();
    let what = || format!("write the NodeDisk {node:?}");
    let write = || apply::<MetadataOnly>(connection, &resource, node, Applied::Status(status), MANAGER, limit);
    let written = attempt(what(), write()).await;
    let written = match written {
        Err(error) if error.cause.code() == Some(404) => {
            write_owned(connection, &resource, node, json!({}), limit).await?;
            attempt(what(), write()).await?
        }
        written => written?,
    };
    Ok(written.metadata.uid.to_string())
}

/// Writes the NodeImages of a node (server-side apply), owned by the Node.
///
/// # Errors
///
/// As for [`write_node_disk`].
pub async fn write_node_images(
    connection: &Connection,
    node: &str,
    images: &NodeImagesSpec,
    limit: Duration,
) -> Result<(), KubernetesError> {
    write_owned(connection, &ApiResource::node_images(), node, json!(images), limit).await
}

/// Labels the NodeDisk of a node with these names, and with no other of their kind. The object must have this uid.
///
/// # Errors
///
/// The API server refuses it, the object is another, or the API server gives no answer.
pub async fn label_node_disk(
    connection: &Connection,
    node: &str,
    uid: &str,
    labels: &BTreeSet<String>,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let labels = labels.iter().map(|label| (label.clone(), json!(""))).collect();
    let (resource, part) = (ApiResource::node_disks(), Applied::Labels::<Value> { uid, labels });
    let applied = apply::<Value>(connection, &resource, node, part, LABELS_MANAGER, limit);
    attempt(format!("label the NodeDisk {node:?}"), applied).await.map(drop)
}

/// Returns the NodeDisks with a label, the first by name.
///
/// # Errors
///
/// The API server refuses it, or gives no answer.
pub async fn labeled_node_disks(
    connection: &Connection,
    label: &str,
    limit: Duration,
) -> Result<Vec<FleetObject<NodeDiskStatus>>, KubernetesError> {
    Listing::all(&ApiResource::node_disks()).labeled(Some(label)).first(connection, MOST_HOLDERS, limit).await
}

/// Writes an object with the name of a node, owned by the Node.
async fn write_owned(
    connection: &Connection,
    resource: &ApiResource,
    node: &str,
    spec: Value,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let owner = read_metadata(connection, &ApiResource::nodes(), "", node, limit).await?;
    let create = async {
        let owner = owner.ok_or_else(|| Cause::InvalidRequest(format!("there is no Node {node:?}")))?;
        let owners = json!([{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.uid }]);
        apply::<Value>(connection, resource, node, Applied::Owned { owners, spec }, MANAGER, limit).await.map(drop)
    };
    attempt(format!("write the {} {node:?}", resource.kind), create).await
}

/// The part of an object that is applied.
pub(super) enum Applied<'u, T> {
    /// Its settings.
    Spec(T),
    /// Its status.
    Status(T),
    /// Its settings and its owners.
    Owned { owners: Value, spec: T },
    /// Labels of the object with this uid.
    Labels { uid: &'u str, labels: Map<String, Value> },
}

/// Applies a part of an object of the cluster, and returns the answer.
pub(super) async fn apply<A: DeserializeOwned>(
    connection: &Connection,
    resource: &ApiResource,
    name: &str,
    part: Applied<'_, impl Serialize>,
    manager: &str,
    limit: Duration,
) -> Result<A, Cause> {
    let own = json!({ "app.kubernetes.io/managed-by": "kubegc" });
    let is_status = matches!(part, Applied::Status(_));
    let (metadata, field, value) = match part {
        Applied::Spec(spec) => (json!({ "name": name, "labels": own }), "spec", json!(spec)),
        Applied::Status(status) => (json!({ "name": name }), "status", json!(status)),
        Applied::Owned { owners, spec } => {
            (json!({ "name": name, "labels": own, "ownerReferences": owners }), "spec", json!(spec))
        }
        Applied::Labels { uid, labels } => (json!({ "name": name, "uid": uid, "labels": labels }), "spec", json!({})),
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
