//! The images of the pods on a node, for a person who asks what uses one.

use std::time::Duration;

use serde::Deserialize;

use super::api_pod::PodSpec;
use super::object::{Head, Object};
use crate::kubernetes::requests::list::Listing;
use crate::kubernetes::{ApiResource, Connection, KubernetesError};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "as the API names them")]
struct Status {
    container_statuses: Option<Vec<ContainerImage>>,
    init_container_statuses: Option<Vec<ContainerImage>>,
    ephemeral_container_statuses: Option<Vec<ContainerImage>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerImage {
    image: String,
    #[serde(rename = "imageID")]
    id: String,
}

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

// === impl ImageUser ===

impl ImageUser {
    fn of(pod: Object<Head, PodSpec, Status>) -> Self {
        let Object { metadata: Head { namespace, name, .. }, spec, status, .. } = pod;
        let statuses = [status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses];
        let of_statuses =
            statuses.into_iter().flatten().flatten().flat_map(|container| [container.image, container.id]);
        let node = spec.node_name.clone().unwrap_or_default();
        Self { pod: format!("{namespace}/{name}"), node, images: of_statuses.chain(spec.images()).collect() }
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
    Ok(pods.complete(connection, limit).await?.into_iter().map(ImageUser::of).collect())
}
