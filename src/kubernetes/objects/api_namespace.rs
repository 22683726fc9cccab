//! Namespaces: the live read of one, the conditions that show how its deletion goes on, and the end of that deletion.

use std::time::Duration;

use kube::core::params::PostParams;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::object::Object;
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::built;
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, read_object};
use crate::model::ObjectMeta;

/// What is in `spec.finalizers` of each namespace until its content is deleted.
pub const KUBERNETES: &str = "kubernetes";

/// A namespace as the API server has it.
#[derive(Clone, Debug)]
pub struct ApiNamespace {
    pub metadata: ObjectMeta,
    /// Those of `spec`, which hold the namespace after its deletion has begun.
    pub finalizers: Vec<String>,
    /// What its `status` says about the deletion.
    pub conditions: Vec<NamespaceCondition>,
    /// All its fields: the request that removes a finalizer replaces them.
    whole: Value,
}

/// A condition of a namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceCondition {
    /// As `NamespaceContentRemaining`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status changed last, as the API writes times.
    pub last_transition_time: String,
    pub reason: String,
    pub message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    finalizers: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<NamespaceCondition>>,
}

/// Reads a namespace from the server's store. `None` = the API server itself answers that it does not exist.
///
/// # Errors
///
/// Any other answer, and none: it proves nothing.
pub async fn read_namespace(
    connection: &Connection,
    name: &str,
    limit: Duration,
) -> Result<Option<ApiNamespace>, KubernetesError> {
    let whole = read_object(connection, &ApiResource::namespaces(), "", name, limit).await?;
    let of = |whole| ApiNamespace::of(whole).map_err(|cause| cause.of(format!("read namespace {name:?}")));
    whole.map(of).transpose()
}

/// Removes a finalizer from `spec`. The last one ends the deletion.
///
/// # Errors
///
/// The API server did not remove it, or gave no answer. A conflict (409) means that the namespace has changed since the read.
pub async fn finalize_namespace(
    connection: &Connection,
    namespace: &ApiNamespace,
    finalizer: &str,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let name = &namespace.metadata.name;
    let finalize = async {
        let (path, name) = ApiResource::namespaces().object("", name)?;
        let body = built(serde_json::to_vec(&namespace.without(finalizer)))?;
        let request = built(path.replace_subresource("finalize", &name, &PostParams::default(), body))?;
        connection.request::<serde::de::IgnoredAny>(request, limit).await.map(drop)
    };
    attempt(format!("finalize namespace {name:?}"), finalize).await
}

// === impl ApiNamespace ===

impl ApiNamespace {
    fn of(whole: Value) -> Result<Self, Cause> {
        let read = Object::<ObjectMeta, Spec, Status>::deserialize(&whole);
        let Object { metadata, spec, status, .. } = read.map_err(|error| Cause::Unreadable(error.to_string()))?;
        // Without a version the request would replace whatever there is.
        if metadata.version.is_empty() {
            return Err(Cause::another_object());
        }
        let (finalizers, conditions) = (spec.finalizers.unwrap_or_default(), status.conditions.unwrap_or_default());
        Ok(Self { metadata, finalizers, conditions, whole })
    }

    /// Lists as text its finalizers other than `kubernetes`, and the conditions that are true.
    pub fn held_by(&self) -> impl Iterator<Item = String> {
        let finalizers = self.finalizers.iter().filter(|finalizer| *finalizer != KUBERNETES);
        let finalizers = finalizers.map(|finalizer| format!("spec.finalizers: {finalizer}"));
        let conditions = self.conditions.iter().filter(|condition| condition.status == "True");
        finalizers.chain(conditions.map(|it| format!("{}: {}", it.kind, it.message)))
    }

    /// Returns all fields, without a finalizer.
    fn without(&self, finalizer: &str) -> Value {
        let mut whole = self.whole.clone();
        let rest = self.finalizers.iter().filter(|known| *known != finalizer);
        if let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("finalizers".to_owned(), json!(rest.collect::<Vec<_>>()));
        }
        whole
    }
}
