//! The metadata of any object: complete lists, and the live read of one object.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, header};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::list::{Listed, Listing};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::objects::object::{MetadataOnly, Object};
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError};
use crate::model::{Identity, LAST_APPLIED, ObjectDetails, ObjectMeta, Uid};

/// Only metadata, and whole objects from a server that does not know that form.
pub(super) const ACCEPT_ONE: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
pub(super) const ACCEPT_LIST: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");

/// An object with what rules of the operator see of it, besides its metadata.
#[derive(Clone, Debug, Default)]
pub struct LabeledObject {
    /// The metadata. An object without them has no uid, and counts for nothing.
    pub meta: ObjectMeta,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// All annotations, without that of `kubectl apply`, which has the whole object.
    pub annotations: BTreeMap<String, String>,
    /// When it was created, by the clock of the API server. `None` = unknown.
    pub created_at: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for LabeledObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let metadata = Object::<Value>::deserialize(from)?.metadata;
        let texts = |field| {
            let entries = metadata.get(field).and_then(Value::as_object).into_iter().flatten();
            let entries = entries.filter(|(key, _)| *key != LAST_APPLIED);
            entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        };
        let (labels, annotations) = (texts("labels"), texts("annotations"));
        let created_at = ObjectDetails::of_api(&metadata, &[]).created_at;
        Ok(Self { labels, annotations, created_at, meta: ObjectMeta::deserialize(metadata).unwrap_or_default() })
    }
}

impl Listed for LabeledObject {
    const METADATA_ONLY: bool = true;
}

/// Lists the metadata of all objects of a resource, past the server's cache: of one namespace, or of all of them if that is empty;
/// of those that a selector of labels matches, if there is one.
pub async fn list_metadata_in(
    connection: &Connection,
    resource: &ApiResource,
    namespace: &str,
    selector: Option<&str>,
    limit: Duration,
) -> Result<Vec<ObjectMeta>, KubernetesError> {
    let listing = Listing::of_namespace(resource, namespace).labeled(selector);
    let add = |(all, texts): &mut (Vec<_>, HashSet<_>), page: Vec<MetadataOnly>| {
        all.extend(page.into_iter().map(|object| sharing(object.metadata, texts)));
    };
    listing.gather(connection, limit, add).await.map(|(all, _)| all)
}

/// Returns metadata in which the texts that many objects have are in memory once.
fn sharing(mut meta: ObjectMeta, texts: &mut HashSet<Arc<str>>) -> ObjectMeta {
    let owners = meta.owners.iter_mut();
    let of_owners = owners.flat_map(|it| [&mut it.kind.api_version, &mut it.kind.kind, &mut it.name]);
    for text in of_owners.chain([&mut meta.namespace]) {
        match texts.get(text) {
            Some(known) => *text = Arc::clone(known),
            None => drop(texts.insert(Arc::clone(text))),
        }
    }
    meta
}

/// Returns whether a selector of labels matches an object with this name and uid, in the server's store.
pub async fn has_labels(
    connection: &Connection,
    resource: &ApiResource,
    object: &Identity,
    selector: &str,
    limit: Duration,
) -> Result<bool, KubernetesError> {
    let listing = Listing::of_namespace(resource, &object.namespace).labeled(Some(selector)).named(&object.name);
    let found = listing.complete::<MetadataOnly>(connection, limit).await?;
    Ok(found.iter().any(|found| found.metadata.uid == object.uid))
}

/// Lists the details of the objects that `of` selects. The labels among them are these.
pub async fn list_details_in(
    connection: &Connection,
    resource: &ApiResource,
    namespace: &str,
    (labels, of): (&[String], impl Fn(&Uid) -> bool + Sync),
    limit: Duration,
) -> Result<Vec<(Uid, ObjectDetails)>, KubernetesError> {
    let add = |details: &mut Vec<_>, page: Vec<Object<Value>>| {
        let listed = page.into_iter().filter_map(|Object { metadata, .. }| {
            let uid = metadata.get("uid").and_then(Value::as_str).map(Uid::new).filter(|uid| of(uid))?;
            Some((uid, ObjectDetails::of_api(&metadata, labels)))
        });
        details.extend(listed);
    };
    Listing::of_namespace(resource, namespace).gather(connection, limit, add).await
}

/// As [`list_metadata_in`], with what rules see of each object, page by page: a tenant can write much of it. If the list is not
/// complete, what was handed over is no list.
pub async fn each_labeled_in(
    connection: &Connection,
    resource: &ApiResource,
    namespace: &str,
    limit: Duration,
    hand_over: impl FnMut(Vec<LabeledObject>),
) -> Result<(), KubernetesError> {
    Listing::of_namespace(resource, namespace).pages(connection, limit, hand_over).await.map(drop)
}

/// Reads the metadata of one object from the server's store. `None` = the API server itself answers that it does not
/// exist.
///
/// # Errors
///
/// Any other answer, and none: it proves nothing.
pub async fn read_metadata(
    connection: &Connection,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
    limit: Duration,
) -> Result<Option<ObjectMeta>, KubernetesError> {
    let is = |found: &MetadataOnly| found.is(resource, namespace, name);
    let read = find(connection, resource, (namespace, name), Some(ACCEPT_ONE), is, limit);
    Ok(attempt(what(resource, name), read).await?.map(|found| found.metadata))
}

/// Reads one whole object, as [`read_metadata`].
///
/// # Errors
///
/// Any other answer, and none: it proves nothing.
pub async fn read_object(
    connection: &Connection,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
    limit: Duration,
) -> Result<Option<Value>, KubernetesError> {
    let is = |found: &Value| MetadataOnly::deserialize(found).is_ok_and(|head| head.is(resource, namespace, name));
    attempt(what(resource, name), find(connection, resource, (namespace, name), None, is, limit)).await
}

fn what(resource: &ApiResource, name: &str) -> String {
    format!("read {} {name:?} ({})", resource.resource, resource.api_version)
}

/// Reads one object in a form, whole without one. An answer counts only if it is that object.
pub(in crate::kubernetes) async fn find<T: DeserializeOwned>(
    connection: &Connection,
    resource: &ApiResource,
    (namespace, name): (&str, &str),
    form: Option<HeaderValue>,
    is: impl Fn(&T) -> bool,
    limit: Duration,
) -> Result<Option<T>, Cause> {
    let request = form.into_iter().fold(resource.get(namespace, name)?, accepting);
    match connection.request::<T>(request, limit).await {
        Ok(found) if is(&found) => Ok(Some(found)),
        Ok(_) => Err(Cause::another_object()),
        Err(cause) if cause.proves_absence(resource, name) => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Sets the forms that an answer may have.
pub(super) fn accepting(mut request: Request<Vec<u8>>, form: HeaderValue) -> Request<Vec<u8>> {
    request.headers_mut().insert(header::ACCEPT, form);
    request
}
