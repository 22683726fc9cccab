//! Changes objects of the API server: deletions, and patches of metadata and of a pod's status.
//!
//! Every change can have a precondition, so two writers at once waste calls and do no harm.

use std::time::Duration;

use http::Request;
use kube::core::Request as Path;
pub use kube::core::params::PropagationPolicy;
use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde::Deserialize;
use serde_json::Value;

use super::connection::invalid_request;
use super::metadata::{ACCEPT_ONE, accepting};
use super::{ApiResource, Connection, KubernetesError, MetadataOnly, ObjectMetadata};

/// One object of a resource.
#[derive(Clone, Copy, Debug)]
pub struct WriteTarget<'a> {
    /// The resource.
    pub resource: &'a ApiResource,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// The object must have this uid, if set. Without it, a later object of the same name is deleted.
    pub uid: Option<String>,
    /// The object must have this version, if set.
    pub resource_version: Option<String>,
    /// What the API server does with the dependents; `None` = the default of the resource.
    pub propagation: Option<PropagationPolicy>,
    /// `Some(0)` deletes a pod without waiting for its kubelet.
    pub grace_seconds: Option<u32>,
    /// The API server checks everything and changes nothing.
    pub dry_run: bool,
}

/// What the API server did.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// The object does not exist any more.
    Gone,
    /// The deletion has begun; finalizers or a grace period hold the object.
    Accepted(Box<ObjectMetadata>),
}

/// The answer to a deletion: a `Status`, or the object as it is now.
#[derive(Deserialize)]
struct Answer {
    kind: String,
    #[serde(default)]
    metadata: ObjectMetadata,
}

/// Deletes an object.
///
/// # Errors
///
/// The API server did not delete it, or gave no answer. A conflict (409) means that a precondition failed.
pub async fn delete_object(
    connection: &Connection,
    target: WriteTarget<'_>,
    deletion: &Deletion,
    limit: Duration,
) -> Result<Deleted, KubernetesError> {
    let what = target.what("delete");
    let request = target.path().delete(target.name, &deletion.params());
    let request = request.map_err(|error| invalid_request(&what, error.to_string()))?;
    let answer: Answer = connection.request(&what, accepting(request, ACCEPT_ONE), limit).await?;
    let is_gone = answer.kind == "Status" || !answer.metadata.is_held();
    Ok(if is_gone { Deleted::Gone } else { Deleted::Accepted(Box::new(answer.metadata)) })
}

/// Changes fields of an object with a merge patch, and returns its metadata afterward. The patch must contain the
/// resource version of the read from which it was made.
///
/// # Errors
///
/// The API server did not change it, or gave no answer. A conflict (409) means that the object has changed since.
pub async fn patch_object(
    connection: &Connection,
    target: WriteTarget<'_>,
    patch: &Value,
    limit: Duration,
) -> Result<ObjectMetadata, KubernetesError> {
    let request = target.path().patch(target.name, &PatchParams::default(), &Patch::Merge(patch));
    changed(connection, &target.what("change"), request, limit).await
}

/// Changes the status of an object with a strategic merge patch, which only built-in types have. The patch must contain
/// the uid.
///
/// # Errors
///
/// As [`patch_object`].
pub async fn patch_status(
    connection: &Connection,
    target: WriteTarget<'_>,
    patch: &Value,
    limit: Duration,
) -> Result<ObjectMetadata, KubernetesError> {
    let patch = Patch::Strategic(patch);
    let request = target.path().patch_subresource("status", target.name, &PatchParams::default(), &patch);
    changed(connection, &target.what("change the status of"), request, limit).await
}

async fn changed(
    connection: &Connection,
    what: &str,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    limit: Duration,
) -> Result<ObjectMetadata, KubernetesError> {
    let request = request.map_err(|error| invalid_request(what, error.to_string()))?;
    let answer: MetadataOnly = connection.request(what, accepting(request, ACCEPT_ONE), limit).await?;
    Ok(answer.metadata)
}

/// Creates a core v1 event.
///
/// # Errors
///
/// The API server did not create it, or gave no answer.
pub async fn create_event(
    connection: &Connection,
    namespace: &str,
    event: &Value,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let what = format!("create an event in namespace {namespace}");
    let body = serde_json::to_vec(event).map_err(|error| invalid_request(&what, error.to_string()))?;
    let path = Path::new(format!("/api/v1/namespaces/{namespace}/events"));
    let request = path.create(&PostParams::default(), body);
    let request = request.map_err(|error| invalid_request(&what, error.to_string()))?;
    connection.request::<serde::de::IgnoredAny>(&what, request, limit).await.map(drop)
}

// === impl WriteTarget ===

impl WriteTarget<'_> {
    fn path(&self) -> Path {
        Path::new(self.resource.path(self.namespace))
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} {} {:?} ({})", self.resource.resource, self.name, self.resource.api_version)
    }
}

// === impl Deletion ===

impl Deletion {
    fn params(&self) -> DeleteParams {
        let preconditions = Preconditions { uid: self.uid.clone(), resource_version: self.resource_version.clone() };
        let has_any = preconditions.uid.is_some() || preconditions.resource_version.is_some();
        DeleteParams {
            dry_run: self.dry_run,
            grace_period_seconds: self.grace_seconds,
            propagation_policy: self.propagation.clone(),
            preconditions: has_any.then_some(preconditions),
        }
    }
}

// === impl ObjectMetadata ===

impl ObjectMetadata {
    /// Returns whether finalizers or a grace period keep an object whose deletion has begun.
    pub fn is_held(&self) -> bool {
        !self.finalizers.is_empty() || self.deletion_grace_period_seconds.is_some_and(|grace| grace > 0)
    }
}
