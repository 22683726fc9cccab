//! Lists the pods of a node, completely or not at all.

use std::time::Duration;

use http::Request;
use kube::core::params::ListParams;
use kube::core::{ObjectList, Request as Path};

use super::api_types::ApiPod;
use super::connection::{invalid_request, unreadable};
use super::{Connection, KubernetesError};
use crate::model::Pod;

const LIST_PODS: &str = "list the pods of all namespaces";
/// A page is parsed as a whole, and most nodes have at most 110 pods of some 15 KB. More pods a page need more memory,
/// fewer more requests.
const PAGE: u32 = 100;

/// All selected pods at one resource version.
pub(super) struct Listed {
    pub(super) pods: Vec<Pod>,
    /// The resource version of the list. A watch from this version misses nothing.
    pub(super) version: String,
}

/// Lists the pods that `fields` selects, past the server's cache. All pages have one resource version. If one page
/// fails, there is no list.
pub(super) async fn pods_at(
    connection: &Connection,
    resource: &Path,
    fields: &str,
    limit: Duration,
) -> Result<Listed, KubernetesError> {
    let mut params = ListParams::default().fields(fields).limit(PAGE);
    let mut listed = Listed { pods: Vec::new(), version: String::new() };
    loop {
        let request = request(resource, &params)?;
        let page: ObjectList<ApiPod> = connection.request_once(LIST_PODS, request, limit).await?;
        params.continue_token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        listed.add(page).map_err(|cause| unreadable(LIST_PODS, cause))?;
        if params.continue_token.is_none() {
            return Ok(listed);
        }
    }
}

// === impl Listed ===

impl Listed {
    /// Adds a page.
    fn add(&mut self, page: ObjectList<ApiPod>) -> Result<(), String> {
        let head = page.metadata;
        let version = head.resource_version.filter(|version| !version.is_empty() && page.types.kind == "PodList");
        let version = version.ok_or("not a list of pods")?;
        if !self.version.is_empty() && self.version != version {
            return Err("its pages are of different moments".to_owned());
        }
        let (token, more) = (head.continue_.unwrap_or_default(), head.remaining_item_count.unwrap_or(0));
        if token.is_empty() && more > 0 {
            return Err(format!("{more} pods are missing"));
        }
        self.version = version;
        page.items.into_iter().try_for_each(|pod| Ok(self.pods.push(pod.into_pod()?)))
    }
}

fn request(resource: &Path, params: &ListParams) -> Result<Request<Vec<u8>>, KubernetesError> {
    resource.list(params).map_err(|error| invalid_request(LIST_PODS, error.to_string()))
}

/// Returns the selector for pods that are bound to a node.
pub(super) fn on(node: &str) -> String {
    format!("spec.nodeName={node}")
}

pub(super) fn all_pods() -> Path {
    Path::new("/api/v1/pods")
}
