//! Lists the objects of a resource, completely or not at all.

use std::time::Duration;

use http::Request;
use kube::core::params::ListParams;
use kube::core::{ObjectList, Request as Path};
use serde::de::DeserializeOwned;

use super::api_types::ApiPod;
use super::connection::{invalid_request, unreadable};
use super::{Connection, KubernetesError};
use crate::model::Pod;

const LIST_PODS: &str = "list the pods of all namespaces";
/// A page is parsed as a whole, and most nodes have at most 110 pods of some 15 KB. More pods a page need more memory,
/// fewer more requests.
const PAGE: u32 = 100;

/// All selected objects at one resource version.
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    /// The resource version of the list. A watch from this version misses nothing.
    pub(super) version: String,
}

/// A list to request: which objects, and what the page of an answer must be.
pub(super) struct List<'a> {
    /// Completes "cannot …" in errors.
    pub(super) what: &'a str,
    /// What the kind of a page may be, as `PodList`.
    pub(super) kinds: &'a [&'a str],
    /// The longest wait for one page.
    pub(super) limit: Duration,
}

/// Lists the pods that `fields` selects, past the server's cache.
pub(super) async fn pods_at(
    connection: &Connection,
    resource: &Path,
    fields: &str,
    limit: Duration,
) -> Result<Listed<Pod>, KubernetesError> {
    let params = ListParams::default().fields(fields).limit(PAGE);
    let list = List { what: LIST_PODS, kinds: &["PodList"], limit };
    let request = |params: &ListParams| resource.list(params);
    let Listed { items, version } = list.pages::<ApiPod>(connection, params, request).await?;
    let pods = items.into_iter().map(ApiPod::into_pod).collect::<Result<_, _>>();
    Ok(Listed { items: pods.map_err(|cause| unreadable(LIST_PODS, cause))?, version })
}

// === impl List ===

impl List<'_> {
    /// Requests all pages. They have one resource version. If one page fails, there is no list.
    pub(super) async fn pages<T: Clone + DeserializeOwned>(
        &self,
        connection: &Connection,
        mut params: ListParams,
        request: impl Fn(&ListParams) -> Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Listed<T>, KubernetesError> {
        let mut listed = Listed { items: Vec::new(), version: String::new() };
        loop {
            let request = request(&params).map_err(|error| invalid_request(self.what, error.to_string()))?;
            let page: ObjectList<T> = connection.request_once(self.what, request, self.limit).await?;
            params.continue_token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            listed.add(page, self.kinds).map_err(|cause| unreadable(self.what, cause))?;
            if params.continue_token.is_none() {
                return Ok(listed);
            }
        }
    }
}

// === impl Listed ===

impl<T: Clone> Listed<T> {
    /// Adds a page.
    fn add(&mut self, page: ObjectList<T>, kinds: &[&str]) -> Result<(), String> {
        let head = page.metadata;
        let version = head.resource_version.filter(|version| !version.is_empty() && kinds.contains(&&*page.types.kind));
        let version = version.ok_or_else(|| format!("not a {}", kinds.join(" or a ")))?;
        if !self.version.is_empty() && self.version != version {
            return Err("its pages are of different moments".to_owned());
        }
        let (token, more) = (head.continue_.unwrap_or_default(), head.remaining_item_count.unwrap_or(0));
        if token.is_empty() && more > 0 {
            return Err(format!("{more} objects are missing"));
        }
        self.version = version;
        self.items.extend(page.items);
        Ok(())
    }
}

/// Returns the selector for pods that are bound to a node.
pub(super) fn on(node: &str) -> String {
    format!("spec.nodeName={node}")
}

pub(super) fn all_pods() -> Path {
    Path::new("/api/v1/pods")
}
