//! The images of the pods on a node, for a person who asks what uses one.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kubernetes::requests::list::Listing;
use crate::kubernetes::{ApiResource, Connection, KubernetesError, Watched};

/// What in a pod names images.
const PLACES: [(&str, &[&str]); 7] = [
    ("/spec/containers", &["/image"]),
    ("/spec/initContainers", &["/image"]),
    ("/spec/ephemeralContainers", &["/image"]),
    ("/spec/volumes", &["/image/reference"]),
    ("/status/containerStatuses", &["/image", "/imageID"]),
    ("/status/initContainerStatuses", &["/image", "/imageID"]),
    ("/status/ephemeralContainerStatuses", &["/image", "/imageID"]),
];

/// A pod, and its images.
#[derive(Clone, Debug)]
pub struct ImageUser {
    /// As namespace/name.
    pub pod: String,
    /// Its node; empty = none yet.
    pub node: String,
    /// Their names in its spec, and their names and ids in its status.
    pub images: Vec<String>,
}

impl<'de> Deserialize<'de> for ImageUser {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let pod = Value::deserialize(from)?;
        let text = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let of_place = |(list, paths): &(&str, &[&str])| {
            let entries = pod.pointer(list).and_then(Value::as_array).into_iter().flatten();
            entries.flat_map(|entry| paths.iter().filter_map(|path| text(entry, path))).collect::<Vec<_>>()
        };
        let images = PLACES.iter().flat_map(of_place).collect();
        let paths = ["/metadata/namespace", "/metadata/name", "/spec/nodeName"];
        let [namespace, name, node] = paths.map(|path| text(&pod, path).unwrap_or_default());
        Ok(Self { pod: format!("{namespace}/{name}"), node, images })
    }
}

impl Watched for ImageUser {
    const METADATA_ONLY: bool = false;

    /// It is listed only.
    fn resource_version(&self) -> &'static str {
        ""
    }
}

/// Lists the pods of a node, or of all nodes.
///
/// # Errors
///
/// The list is not complete.
pub async fn list_image_users(
    connection: &Connection,
    node: Option<&str>,
    limit: Duration,
) -> Result<Vec<ImageUser>, KubernetesError> {
    let pods = node.map_or_else(|| Listing::all(&ApiResource::pods()), Listing::pods_of);
    pods.complete(connection, limit).await
}
