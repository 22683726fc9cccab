//! Lists the objects of a resource, completely or not at all.

use std::time::Duration;

use http::Request;
use kube::core::params::ListParams;
use kube::core::{ObjectList, Request as Path};
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::Instant;

use super::api_types::ApiPod;
use super::connection::{LARGEST_ANSWER_BYTES, invalid_request, unreadable};
use super::metadata::ACCEPT_LIST;
use super::{ApiResource, Connection, Form, KubernetesError, Watched};
use crate::model::Pod;

const LIST_PODS: &str = "list the pods of all namespaces";
/// A page is parsed as a whole, and most nodes have at most 110 pods of some 15 KB. More pods a page need more memory,
/// fewer more requests.
const PAGE: u32 = 50;
/// The page of any resource of a cluster, as in client-go.
pub(super) const LARGE_PAGE: u32 = 500;
/// The longest list. A continue token expires sooner, and a server that always has a next page must not hold a permit.
const LONGEST_LIST: Duration = Duration::from_mins(10);
/// How often a list begins again because its continue token has expired.
const RESTARTS: usize = 3;

/// The request for a page.
type PageRequest = Result<Request<Vec<u8>>, kube::core::request::Error>;

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

/// Lists all objects of a resource, past the server's cache.
///
/// # Errors
///
/// The list is not complete.
pub async fn list_objects<T: Watched>(
    connection: &Connection,
    resource: &ApiResource,
    form: Form,
    limit: Duration,
) -> Result<Vec<T>, KubernetesError> {
    let what = format!("list {} ({})", resource.resource, resource.api_version);
    let request = page_requests(resource, form, &what)?;
    let whole = format!("{}List", resource.kind);
    let list = List { what: &what, kinds: &["PartialObjectMetadataList", &whole], limit };
    for _ in 0..RESTARTS {
        match list.whole::<T>(connection, ListParams::default().limit(LARGE_PAGE), &request).await {
            Err(error) if error.code() == Some(410) => {}
            listed => return listed.map(|listed| listed.items),
        }
    }
    Err(unreadable(&what, "its pages expire before the next one is read".to_owned()))
}

/// Returns what makes the requests for the pages of a list of all objects. `what` completes "cannot …" in errors.
pub(super) fn page_requests(
    resource: &ApiResource,
    form: Form,
    what: &str,
) -> Result<impl Fn(&ListParams) -> PageRequest + use<>, KubernetesError> {
    let path = resource.all(what)?;
    Ok(move |params: &ListParams| path.list(params).map(|request| form.request(request, ACCEPT_LIST)))
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
    let mut pods = Vec::new();
    // Each page is reduced before the next one is requested.
    let reduce = |page: Vec<ApiPod>| pods.extend(page.into_iter().map(ApiPod::into_pod));
    let version = list.pages(connection, params, request, reduce).await?;
    let items = pods.into_iter().collect::<Result<_, _>>().map_err(|cause| unreadable(LIST_PODS, cause))?;
    Ok(Listed { items, version })
}

// === impl List ===

impl List<'_> {
    /// Returns the newest version of the server's store, from a page with one object.
    pub(super) async fn newest_version(
        &self,
        connection: &Connection,
        request: impl Fn(&ListParams) -> PageRequest,
    ) -> Result<String, KubernetesError> {
        let request = request(&ListParams::default().limit(1));
        let request = request.map_err(|error| invalid_request(self.what, error.to_string()))?;
        let page: ObjectList<IgnoredAny> = connection.request(self.what, request, self.limit).await?;
        page.metadata.resource_version.ok_or_else(|| unreadable(self.what, "it has no version".to_owned()))
    }

    /// Requests all pages and returns their objects. If one page fails, there is no list.
    pub(super) async fn whole<T: Clone + DeserializeOwned>(
        &self,
        connection: &Connection,
        params: ListParams,
        request: impl Fn(&ListParams) -> PageRequest,
    ) -> Result<Listed<T>, KubernetesError> {
        let mut items = Vec::new();
        let version = self.pages(connection, params, request, |page| items.extend(page)).await?;
        Ok(Listed { items, version })
    }

    /// Requests all pages, hands over the objects of each, and returns the resource version, which all pages have. If one
    /// page fails, what was handed over is no list. A page that is too large is requested again with fewer objects, so that
    /// large objects of one tenant do not stop the list (G5).
    pub(super) async fn pages<T: Clone + DeserializeOwned>(
        &self,
        connection: &Connection,
        mut params: ListParams,
        request: impl Fn(&ListParams) -> PageRequest,
        mut hand_over: impl FnMut(Vec<T>),
    ) -> Result<String, KubernetesError> {
        let (mut version, most, begun) = (String::new(), params.limit, Instant::now());
        loop {
            if begun.elapsed() > LONGEST_LIST {
                return Err(unreadable(self.what, format!("no end of the list within {LONGEST_LIST:?}")));
            }
            let request = request(&params).map_err(|error| invalid_request(self.what, error.to_string()))?;
            let body = match connection.bytes_once(self.what, request, self.limit).await {
                Err(KubernetesError::TooLarge { .. }) if shrink(&mut params) => continue,
                body => body?,
            };
            let page: ObjectList<T> =
                serde_json::from_slice(&body).map_err(|error| unreadable(self.what, error.to_string()))?;
            grow(&mut params, most, body.len());
            drop(body);
            params.continue_token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            self.check(&page, &mut version).map_err(|cause| unreadable(self.what, cause))?;
            hand_over(page.items);
            if params.continue_token.is_none() {
                return Ok(version);
            }
        }
    }

    /// Checks a page against the version of the pages before it.
    fn check<T: Clone>(&self, page: &ObjectList<T>, version: &mut String) -> Result<(), String> {
        let head = &page.metadata;
        let found = head.resource_version.as_ref();
        let found = found.filter(|found| !found.is_empty() && self.kinds.contains(&&*page.types.kind));
        let found = found.ok_or_else(|| format!("not a {}", self.kinds.join(" or a ")))?;
        if !version.is_empty() && version != found {
            return Err("its pages are of different moments".to_owned());
        }
        let (token, more) = (head.continue_.as_deref().unwrap_or_default(), head.remaining_item_count.unwrap_or(0));
        if token.is_empty() && more > 0 {
            return Err(format!("{more} objects are missing"));
        }
        version.clone_from(found);
        Ok(())
    }
}

/// Asks for fewer objects per page. Returns false if there is already one.
fn shrink(params: &mut ListParams) -> bool {
    let before = params.limit.unwrap_or(LARGE_PAGE);
    params.limit = Some((before / 4).max(1));
    before > 1
}

/// Asks for more objects per page after a small one, up to `most`.
fn grow(params: &mut ListParams, most: Option<u32>, bytes: usize) {
    if bytes < LARGEST_ANSWER_BYTES / 8 && params.limit != most {
        params.limit = params.limit.map(|limit| limit.saturating_mul(2)).min(most);
    }
}

/// Returns the selector for pods that are bound to a node.
pub(super) fn on(node: &str) -> String {
    format!("spec.nodeName={node}")
}

pub(super) fn all_pods() -> Path {
    Path::new("/api/v1/pods")
}
