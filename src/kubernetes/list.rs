//! Lists the pods of a node, completely or not at all.

use std::time::Duration;

use http::Request;
use kube::core::Request as Path;
use kube::core::params::ListParams;

use super::api_types::ListMetadata;
use super::connection::{ask, chunk, unreadable};
use super::items::Items;
use super::{Connection, KubernetesError};
use crate::model::Pod;

pub(super) const LIST_PODS: &str = "list the pods of all namespaces";
/// The page size of `kubectl`.
const PAGE: u32 = 500;

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
    place: &Path,
    fields: &str,
    limit: Duration,
) -> Result<Listed, KubernetesError> {
    let (mut pods, mut next, mut version) = (Vec::new(), None, None);
    loop {
        let (head, page) = page(connection, request(place, fields, next.as_deref())?, limit).await?;
        pods.extend(page);
        let first = version.get_or_insert_with(|| head.resource_version.clone());
        if *first != head.resource_version {
            return Err(unreadable(LIST_PODS, "its pages are of different moments".to_owned()));
        }
        let more = head.remaining_item_count.unwrap_or(0);
        match head.next.filter(|token| !token.is_empty()) {
            Some(token) => next = Some(token),
            None if more > 0 => return Err(unreadable(LIST_PODS, format!("{more} pods are missing"))),
            None => return Ok(Listed { pods, version: head.resource_version }),
        }
    }
}

async fn page(
    connection: &Connection,
    request: Request<Vec<u8>>,
    limit: Duration,
) -> Result<(ListMetadata, Vec<Pod>), KubernetesError> {
    let broken = |cause| unreadable(LIST_PODS, cause);
    let mut body = connection.open(LIST_PODS, request, limit).await?.into_body();
    let mut items = Items::default();
    while let Some(piece) = chunk(LIST_PODS, &mut body, limit).await? {
        items.feed(piece.as_ref()).map_err(broken)?;
    }
    let (head, pods) = items.finish().map_err(broken)?;
    Ok((head.metadata, pods))
}

fn request(place: &Path, fields: &str, next: Option<&str>) -> Result<Request<Vec<u8>>, KubernetesError> {
    let mut params = ListParams::default().fields(fields).limit(PAGE);
    params.continue_token = next.map(str::to_owned);
    place.list(&params).map_err(|error| ask(LIST_PODS, error.to_string()))
}

/// Returns the selector for pods that are bound to a node.
pub(super) fn on(node: &str) -> String {
    format!("spec.nodeName={node}")
}

pub(super) fn all_pods() -> Path {
    Path::new("/api/v1/pods")
}
