//! Lists the objects of a resource, completely or not at all.

use std::time::Duration;

use http::{HeaderValue, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::Request as Path;
use kube::core::params::{ListParams, WatchParams};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;

use super::connection::{LARGEST_ANSWER_BYTES, built, parsed};
use super::metadata::{ACCEPT_LIST, ACCEPT_ONE, accepting};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError};

/// A page is parsed as a whole, and most nodes have at most 110 pods of some 15 KB. More pods a page need more memory,
/// fewer more requests.
const PAGES_OF_NODE: [u32; 2] = [50, 50];
/// The pages of any resource of a cluster: the first as in client-go. Each costs the server some milliseconds, so later ones are
/// larger: 100,000 objects take a third to a half less (`cargo bench --bench controller -- first`).
const PAGES: [u32; 2] = [500, 2000];
/// A page that takes longer is not followed by a larger one: the server reads large objects, of which it sends the metadata.
const QUICK: Duration = Duration::from_millis(100);
/// The longest list. A continue token expires sooner, and a server that always has a next page must not hold a permit.
const LONGEST_LIST: Duration = Duration::from_mins(10);
/// How often a list begins again because its continue token has expired.
const RESTARTS: usize = 3;
type Get = Request<Vec<u8>>;

/// An object of a list, with the fields that the caller needs.
pub trait Listed: DeserializeOwned + Send + 'static {
    /// Only its metadata are requested. Otherwise the whole object, of which the type takes what it needs.
    const METADATA_ONLY: bool;
}

/// An object of a watch, too.
pub trait Watched: Listed {
    /// Returns its resource version.
    fn resource_version(&self) -> &str;
}

/// Which objects are listed and watched, and what a page of them must be.
#[derive(Clone, Debug)]
pub(in crate::kubernetes) struct Listing {
    resource: ApiResource,
    /// Empty = the objects of all namespaces.
    namespace: String,
    /// Selects objects by their fields.
    fields: Option<String>,
    /// Selects objects by their labels.
    labels: Option<String>,
    /// As `pods (v1)`; completes "cannot list …" in errors.
    objects: String,
    /// The most objects of the first page, and of a later one.
    pages: [u32; 2],
    /// What the kind of a page may be, as `PodList`.
    kinds: Vec<String>,
    /// The version and the objects may be missing, as in the lists of some aggregated servers. Clients in Go do not notice.
    may_be_bare: bool,
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
pub async fn list_objects<T: Listed>(
    connection: &Connection,
    resource: &ApiResource,
    limit: Duration,
) -> Result<Vec<T>, KubernetesError> {
    Listing::all(resource).complete(connection, limit).await
}

// === impl Listing ===

impl Listing {
    /// All objects of a resource. Some aggregated servers send plain lists.
    pub(in crate::kubernetes) fn all(resource: &ApiResource) -> Self {
        let kinds = ["PartialObjectMetadataList".to_owned(), format!("{}List", resource.kind), "List".to_owned()];
        Self {
            resource: resource.clone(),
            namespace: String::new(),
            fields: None,
            labels: None,
            objects: format!("{} ({})", resource.resource, resource.api_version),
            pages: PAGES,
            kinds: kinds.to_vec(),
            may_be_bare: true,
        }
    }

    /// The objects of a resource in one namespace.
    pub(in crate::kubernetes) fn of_namespace(resource: &ApiResource, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::all(resource) }
    }

    /// Those of them that a selector of labels matches.
    pub(in crate::kubernetes) fn labeled(self, selector: Option<&str>) -> Self {
        Self { labels: selector.map(str::to_owned), ..self }
    }

    /// The one with this name.
    pub(super) fn named(self, name: &str) -> Self {
        Self { fields: Some(format!("metadata.name={name}")), ..self }
    }

    /// The pods that are bound to a node.
    pub(in crate::kubernetes) fn pods_of(node: &str) -> Self {
        Self {
            fields: Some(format!("spec.nodeName={node}")),
            objects: "the pods of all namespaces".to_owned(),
            pages: PAGES_OF_NODE,
            kinds: vec!["PodList".to_owned()],
            may_be_bare: false,
            ..Self::all(&ApiResource::pods())
        }
    }

    /// The pod of this name, if it is bound to the node.
    pub(in crate::kubernetes) fn pod_of(node: &str, namespace: &str, name: &str) -> Self {
        let fields = format!("spec.nodeName={node},metadata.name={name}");
        Self { fields: Some(fields), namespace: namespace.to_owned(), ..Self::pods_of(node) }
    }

    /// Completes "cannot …" in errors of a list.
    pub(super) fn list_text(&self) -> String {
        format!("list {}", self.objects)
    }

    /// Completes "cannot …" in errors of a watch.
    pub(in crate::kubernetes) fn watch_text(&self) -> String {
        format!("watch {}", self.objects)
    }

    /// Returns the request for a watch that lasts so long, from a version on.
    pub(in crate::kubernetes) fn watch<T: Listed>(&self, version: &str, lasts: Duration) -> Result<Get, Cause> {
        let seconds = u32::try_from(lasts.as_secs()).unwrap_or(u32::MAX).clamp(1, 290);
        let params = WatchParams { field_selector: self.fields.clone(), ..WatchParams::default().timeout(seconds) };
        let request = built(self.path()?.watch(&params, version))?;
        Ok(in_form::<T>(request, ACCEPT_ONE))
    }

    fn page<T: Listed>(&self, params: &ListParams) -> Result<Get, Cause> {
        let request = built(self.path()?.list(params))?;
        Ok(in_form::<T>(request, ACCEPT_LIST))
    }

    fn path(&self) -> Result<Path, Cause> {
        self.resource.path(&self.namespace).map(Path::new)
    }

    /// Returns the newest version of the server's store, from a page with one object. `None` = the server has no versions.
    pub(in crate::kubernetes) async fn newest_version<T: Listed>(
        &self,
        connection: &Connection,
        limit: Duration,
    ) -> Result<Option<String>, KubernetesError> {
        let page = async { connection.request(self.page::<T>(&ListParams::default().limit(1))?, limit).await };
        let page: Page<IgnoredAny> = attempt(self.list_text(), page).await?;
        Ok(page.metadata.resource_version.filter(|version| !version.is_empty()))
    }

    /// Returns all objects, or none if one page fails. `limit` is the longest wait for one page. A list whose continue token has
    /// expired begins again.
    pub(in crate::kubernetes) async fn complete<T: Listed>(
        &self,
        connection: &Connection,
        limit: Duration,
    ) -> Result<Vec<T>, KubernetesError> {
        self.gather(connection, limit, |all: &mut Vec<T>, page| all.extend(page)).await
    }

    /// As [`Self::complete`], and returns what `add` keeps of each page.
    pub(super) async fn gather<T: Listed, A: Default>(
        &self,
        connection: &Connection,
        limit: Duration,
        add: impl Fn(&mut A, Vec<T>),
    ) -> Result<A, KubernetesError> {
        for _ in 0..RESTARTS {
            let mut all = A::default();
            match self.pages(connection, limit, |page| add(&mut all, page)).await {
                Err(error) if error.cause.code() == Some(410) => {}
                listed => return listed.map(|_| all),
            }
        }
        Err(Cause::Unreadable("its pages expire before the next one is read".to_owned()).of(self.list_text()))
    }

    /// Requests all pages, hands over the objects of each, and returns the resource version, which all pages have: a watch
    /// from it misses nothing. If one page fails, what was handed over is no list. A page that is too large is requested
    /// again with fewer objects, so that large objects of one tenant do not stop the list (G5).
    pub(in crate::kubernetes) async fn pages<T: Listed>(
        &self,
        connection: &Connection,
        limit: Duration,
        hand_over: impl FnMut(Vec<T>),
    ) -> Result<String, KubernetesError> {
        attempt(self.list_text(), self.try_pages(connection, limit, hand_over)).await
    }

    async fn try_pages<T: Listed>(
        &self,
        connection: &Connection,
        limit: Duration,
        mut hand_over: impl FnMut(Vec<T>),
    ) -> Result<String, Cause> {
        let (field_selector, label_selector) = (self.fields.clone(), self.labels.clone());
        let mut params = ListParams { field_selector, label_selector, ..ListParams::default().limit(self.pages[0]) };
        let (mut version, begun) = (String::new(), Instant::now());
        loop {
            if begun.elapsed() > LONGEST_LIST {
                return Err(Cause::Unreadable(format!("no end of the list within {LONGEST_LIST:?}")));
            }
            let sent = Instant::now();
            let body = match connection.bytes(self.page::<T>(&params)?, limit).await {
                Err(Cause::TooLarge(_)) if shrink(&mut params) => continue,
                body => body?,
            };
            let page: Page<T> = parsed(&body)?;
            grow(&mut params, self.pages[1], body.len(), sent.elapsed());
            drop(body);
            let (is_first, before) = (params.continue_token.is_none(), std::mem::take(&mut version));
            params.continue_token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            version = self.check(&page).map_err(Cause::Unreadable)?;
            if !is_first && before != version {
                return Err(Cause::Unreadable("its pages are of different moments".to_owned()));
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
        if !is_whole || !self.kinds.contains(&page.kind) {
            return Err(format!("not a {}", self.kinds.join(" or a ")));
        }
        let (token, more) = (head.continue_.as_deref().unwrap_or_default(), head.remaining_item_count.unwrap_or(0));
        if token.is_empty() && more > 0 {
            return Err(format!("{more} objects are missing"));
        }
        Ok(version)
    }
}

fn in_form<T: Listed>(request: Get, metadata: HeaderValue) -> Get {
    if T::METADATA_ONLY { accepting(request, metadata) } else { request }
}

/// Takes fewer objects per page. Returns false if there is already one.
fn shrink(params: &mut ListParams) -> bool {
    let before = params.limit.unwrap_or(PAGES[0]);
    params.limit = Some((before / 4).max(1));
    before > 1
}

/// Takes more objects per page after a small and quick one, up to `most`.
fn grow(params: &mut ListParams, most: u32, bytes: usize, took: Duration) {
    if bytes < LARGEST_ANSWER_BYTES / 8 && took < QUICK {
        params.limit = params.limit.map(|limit| limit.saturating_mul(2).min(most));
    }
}
