//! Changes objects of the API server: deletions, and patches of metadata and of a pod's status.
//!
//! Every change can have a precondition, so two writers at once waste calls and do no harm.

use std::time::Duration;

use http::Request;
use kube::core::Request as Path;
pub use kube::core::params::PropagationPolicy;
use kube::core::params::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::connection::built;
use super::metadata::{ACCEPT_LIST, ACCEPT_ONE, accepting};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, MetadataOnly};
use crate::model::{ObjectMeta, Uid};

/// One object of a resource.
#[derive(Clone, Copy, Debug)]
pub struct WriteTarget<'a> {
    pub resource: &'a ApiResource,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    /// The uid. An object with another one is not changed: it is not the one that was decided about.
    pub uid: &'a Uid,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// The object may have another uid: a later object of the same name is deleted too.
    pub any_uid: bool,
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
    /// The answer shows nothing that holds the object. It may be there still: only a read or an event proves its end.
    Unheld,
    /// The deletion has begun; finalizers, a grace period or the content of a namespace hold the object.
    Accepted(Box<ObjectMeta>),
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
    let delete = async {
        let (path, name) = target.object()?;
        let request = built(path.delete(&name, &deletion.params(target)?))?;
        // A `Status`, or the object as it is now.
        let answer: MetadataOnly = connection.request(accepting(request, ACCEPT_ONE), limit).await?;
        if answer.kind == "Status" {
            return Ok(Deleted::Unheld);
        }
        let now = target.now(answer, deletion.any_uid)?;
        Ok(if now.is_held() { Deleted::Accepted(Box::new(now)) } else { Deleted::Unheld })
    };
    attempt(target.what("delete"), delete).await
}

/// Deletes all objects of a resource in one namespace, with the policy `Background`. Each one's finalizers hold it.
///
/// # Errors
///
/// The API server did not delete all of them, or gave no answer. An answer that is too large proves neither.
pub async fn delete_collection(
    connection: &Connection,
    resource: &ApiResource,
    namespace: &str,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let delete = async {
        if namespace.is_empty() || !resource.namespaced {
            return Err(Cause::InvalidRequest("it would delete the objects of all namespaces".to_owned()));
        }
        let propagation_policy = Some(PropagationPolicy::Background);
        let params = DeleteParams { propagation_policy, ..DeleteParams::default() };
        let path = Path::new(resource.path(namespace)?);
        let request = built(path.delete_collection(&params, &ListParams::default()))?;
        connection.request::<IgnoredAny>(accepting(request, ACCEPT_LIST), limit).await.map(drop)
    };
    let what = format!("delete all {} ({}) in namespace {namespace:?}", resource.resource, resource.api_version);
    attempt(what, delete).await
}

/// Changes a field of an object's metadata with a merge patch, and returns its metadata afterward. `version` is that of
/// the read from which the value was made.
///
/// # Errors
///
/// The API server did not change it, or gave no answer. A conflict (409) means that the object has changed since.
pub async fn patch_object(
    connection: &Connection,
    target: WriteTarget<'_>,
    version: &str,
    (field, value): (&str, Value),
    limit: Duration,
) -> Result<ObjectMeta, KubernetesError> {
    let change = async {
        if version.is_empty() {
            return Err(unknown("version"));
        }
        let patch = json!({"metadata": {"uid": target.uid, "resourceVersion": version, field: value}});
        let (path, name) = target.object()?;
        changed(connection, target, path.patch(&name, &PatchParams::default(), &Patch::Merge(patch)), limit).await
    };
    attempt(target.what("change"), change).await
}

/// Changes the status of an object with a strategic merge patch, which only built-in types have.
///
/// # Errors
///
/// As [`patch_object`].
pub async fn patch_status(
    connection: &Connection,
    target: WriteTarget<'_>,
    status: &Value,
    limit: Duration,
) -> Result<ObjectMeta, KubernetesError> {
    let patch = Patch::Strategic(json!({"metadata": {"uid": target.uid}, "status": status}));
    let change = async {
        let (path, name) = target.object()?;
        let request = path.patch_subresource("status", &name, &PatchParams::default(), &patch);
        changed(connection, target, request, limit).await
    };
    attempt(target.what("change the status of"), change).await
}

async fn changed(
    connection: &Connection,
    target: WriteTarget<'_>,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    limit: Duration,
) -> Result<ObjectMeta, Cause> {
    target.now(connection.request(accepting(built(request)?, ACCEPT_ONE), limit).await?, false)
}

// === impl WriteTarget ===

impl WriteTarget<'_> {
    /// Returns the request for the object and its escaped name. Without a uid nothing is changed (G2).
    fn object(&self) -> Result<(Path, String), Cause> {
        if self.uid.is_empty() {
            return Err(unknown("uid"));
        }
        self.resource.object(self.namespace, self.name)
    }

    /// Returns the metadata of an answer that is about this object.
    fn now(&self, answer: MetadataOnly, any_uid: bool) -> Result<ObjectMeta, Cause> {
        let is_it = answer.is(self.resource, self.namespace, self.name);
        if is_it && (any_uid || answer.metadata.uid == *self.uid) {
            return Ok(answer.metadata);
        }
        Err(Cause::another_object())
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} {} {:?} ({})", self.resource.resource, self.name, self.resource.api_version)
    }
}

// === impl Deletion ===

impl Deletion {
    fn params(&self, target: WriteTarget<'_>) -> Result<DeleteParams, Cause> {
        let resource_version = self.resource_version.clone();
        if resource_version.as_deref() == Some("") {
            return Err(unknown("version"));
        }
        let uid = (!self.any_uid).then(|| target.uid.to_string());
        let has_any = uid.is_some() || resource_version.is_some();
        Ok(DeleteParams {
            dry_run: self.dry_run,
            grace_period_seconds: self.grace_seconds,
            propagation_policy: self.propagation.clone(),
            preconditions: has_any.then_some(Preconditions { uid, resource_version }),
        })
    }
}

/// An API server ignores an empty precondition.
fn unknown(field: &str) -> Cause {
    Cause::InvalidRequest(format!("its {field} is unknown"))
}
