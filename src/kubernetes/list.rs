//! Lists the objects of a resource, completely or not at all.

use std::time::Duration;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::Request as Path;
use kube::core::params::ListParams;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
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
    /// The version and the objects may be missing, as in the lists of some aggregated servers. Clients in Go do not notice.
    pub(super) may_be_bare: bool,
    /// The longest wait for one page.
    pub(super) limit: Duration,
}

/// A page of a list. kube's own type does not accept all that servers send.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    /// `None` = it has no such field.
    #[serde(default, deserialize_with = "present")]
    items: Option<Vec<T>>,
}

/// A server in Go writes `null` for an empty list.
fn present<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Some(Option::deserialize(deserializer)?.unwrap_or_default()))
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
    let kinds = kinds_of_lists(resource);
    let list = List { what: &what, kinds: &kinds.each_ref().map(|kind| &**kind), may_be_bare: true, limit };
    for _ in 0..RESTARTS {
        match list.whole::<T>(connection, ListParams::default().limit(LARGE_PAGE), &request).await {
            Err(error) if error.code() == Some(410) => {}
            listed => return listed.map(|listed| listed.items),
        }
    }
    Err(unreadable(&what, "its pages expire before the next one is read".to_owned()))
}

/// Returns what the kind of a list of any resource may be. Some aggregated servers send a plain `List`.
pub(super) fn kinds_of_lists(resource: &ApiResource) -> [String; 3] {
    ["PartialObjectMetadataList".to_owned(), format!("{}List", resource.kind), "List".to_owned()]
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
    let list = List { what: LIST_PODS, kinds: &["PodList"], may_be_bare: false, limit };
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
    /// Returns the newest version of the server's store, from a page with one object. `None` = the server has no versions.
    pub(super) async fn newest_version(
        &self,
        connection: &Connection,
        request: impl Fn(&ListParams) -> PageRequest,
    ) -> Result<Option<String>, KubernetesError> {
        let request = request(&ListParams::default().limit(1));
        let request = request.map_err(|error| invalid_request(self.what, error.to_string()))?;
        let page: Page<IgnoredAny> = connection.request(self.what, request, self.limit).await?;
        Ok(page.metadata.resource_version.filter(|version| !version.is_empty()))
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
            let body = match connection.bytes(self.what, request, self.limit).await {
                Err(KubernetesError::TooLarge { .. }) if shrink(&mut params) => continue,
                body => body?,
            };
            let page: Page<T> =
                serde_json::from_slice(&body).map_err(|error| unreadable(self.what, error.to_string()))?;
            grow(&mut params, most, body.len());
            drop(body);
            let (is_first, before) = (params.continue_token.is_none(), std::mem::take(&mut version));
            params.continue_token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            version = self.check(&page).map_err(|cause| unreadable(self.what, cause))?;
            if !is_first && before != version {
                return Err(unreadable(self.what, "its pages are of different moments".to_owned()));
            }
            hand_over(page.items.unwrap_or_default());
            if params.continue_token.is_none() {
                return Ok(version);
            }
        }
    }

    /// Checks a page and returns its version.
    fn check<T>(&self, page: &Page<T>) -> Result<String, String> {
        let head = &page.metadata;
        let version = head.resource_version.clone().unwrap_or_default();
        let is_whole = self.may_be_bare || !version.is_empty() && page.items.is_some();
        if !is_whole || !self.kinds.contains(&&*page.kind) {
            return Err(format!("not a {}", self.kinds.join(" or a ")));
        }
        let (token, more) = (head.continue_.as_deref().unwrap_or_default(), head.remaining_item_count.unwrap_or(0));
        if token.is_empty() && more > 0 {
            return Err(format!("{more} objects are missing"));
        }
        Ok(version)
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
