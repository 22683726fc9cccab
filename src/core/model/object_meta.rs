//! The metadata of an object of a cluster: one shape for what the API server sends, for what decides about the object, and
//! for snapshots as documents. It reads the names of the API and those of a document.
//!
//! A time that a tenant can write, and that no type of ours can hold, concerns its own object only: the API server stores
//! times of any year, and none may make a list unreadable (G5).

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::odd_entries::{KeptOwners, MOST_OWNERS, finalizers, or_default};
use super::{ApiKind, Identity, OwnerReference, Uid, count_text};

/// The finalizer of garbage collection that releases the dependents.
pub const ORPHAN: &str = "orphan";
/// The finalizer of garbage collection that waits for the dependents.
pub const FOREGROUND: &str = "foregroundDeletion";

/// The annotation of `kubectl apply`, which has the whole object.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The metadata of an object that decide about it. Nothing else of an object is kept.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct ObjectMeta {
    /// Empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// The name.
    #[schemars(required)]
    pub name: Arc<str>,
    /// The uid.
    #[schemars(required)]
    pub uid: Uid,
    /// The version of the object, for preconditions. Documents do not have it.
    #[serde(rename = "resourceVersion", skip_serializing)]
    #[schemars(skip)]
    pub version: Box<str>,
    /// When its deletion is to be complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period of its deletion, in seconds. Documents do not have it.
    #[serde(rename = "deletionGracePeriodSeconds", skip_serializing)]
    #[schemars(skip)]
    pub grace_seconds: Option<i64>,
    /// Its finalizers, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Its owner references, in order, at most 200 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerReference>,
    /// How many owner references are not kept: they are too many, too long, or cannot be read. Nothing is decided about such
    /// an object, and its references are not changed.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out_owners: usize,
}

/// What people ask about an object, and what decides nothing. It is read on request only: a service may know a million objects.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct ObjectDetails {
    /// Its labels, of those that were asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The client that changed it last, as the API server knows it (`managedFields`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_manager: Option<String>,
}

/// The metadata as the API or a document has them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(deserialize_with = "or_default")]
    namespace: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    name: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    uid: Uid,
    #[serde(rename = "resourceVersion", deserialize_with = "or_default")]
    version: Box<str>,
    #[serde(alias = "deletionTimestamp", deserialize_with = "latest_time")]
    deletion_timestamp: Option<Timestamp>,
    #[serde(rename = "deletionGracePeriodSeconds", deserialize_with = "or_default")]
    grace_seconds: Option<i64>,
    #[serde(deserialize_with = "finalizers")]
    finalizers: Vec<String>,
    #[serde(alias = "ownerReferences")]
    owners: KeptOwners,
    left_out_owners: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl<'de> Deserialize<'de> for ObjectMeta {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        let KeptOwners { kept: owners, omitted } = written.owners;
        Ok(Self {
            namespace: written.namespace,
            name: written.name,
            uid: written.uid,
            version: written.version,
            deletion_timestamp: written.deletion_timestamp,
            grace_seconds: written.grace_seconds,
            finalizers: written.finalizers,
            owners,
            left_out_owners: omitted.saturating_add(written.left_out_owners),
        })
    }
}

// === impl ObjectMeta ===

impl ObjectMeta {
    /// Returns the identity of this object of a kind.
    pub fn identity(&self, kind: &ApiKind) -> Identity {
        let Self { namespace, name, uid, .. } = self;
        Identity { kind: kind.clone(), namespace: Arc::clone(namespace), name: Arc::clone(name), uid: uid.clone() }
    }

    /// Returns whether it has a finalizer.
    pub fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|known| known == finalizer)
    }

    /// Says why nothing is decided by its owners. `None` = all owner references are known.
    pub fn unknown_owners(&self) -> Option<String> {
        left_out_owners(self.left_out_owners)
    }

    /// Returns whether its deletion has begun.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns whether its foreground deletion waits for its dependents.
    pub fn waits_for_dependents(&self) -> bool {
        self.is_deleting() && self.has(FOREGROUND)
    }

    /// Returns whether something keeps it after its deletion has begun: finalizers, a grace period, or what only the
    /// resource knows. A namespace has no finalizers in its metadata, and no grace period.
    pub fn is_held(&self) -> bool {
        !self.finalizers.is_empty() || self.grace_seconds.map_or(self.is_deleting(), |grace| grace > 0)
    }

    /// Returns the number that its version is. `None` if the number would be written in another way.
    pub fn version_number(&self) -> Option<NonZeroU64> {
        self.version.parse().ok().filter(|_| self.version.starts_with(|first: char| matches!(first, '1'..='9')))
    }
}

// === impl ObjectDetails ===

impl ObjectDetails {
    /// Reads the details from the metadata of the API, with these labels. What cannot be read is left out.
    pub fn of_api(metadata: &Value, labels: &[String]) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let label = |name: &String| Some((name.clone(), text(metadata.get("labels")?.get(name)?)?));
        let entries = metadata.get("managedFields").and_then(Value::as_array).into_iter().flatten();
        let changes = entries.filter_map(|it| Some((time(it.get("time")?)?, text(it.get("manager")?)?)));
        Self {
            labels: labels.iter().filter_map(label).collect(),
            created_at: metadata.get("creationTimestamp").and_then(time),
            last_manager: changes.max_by_key(|(at, _)| *at).map(|(_, manager)| manager),
        }
    }
}

/// Says why nothing is decided by the owners of an object, so many of whose references are not kept. `None` = all are.
pub fn left_out_owners(count: usize) -> Option<String> {
    let owners = count_text(count, "owner reference");
    (count > 0).then(|| {
        format!(
            "{owners} more than are read: at most {MOST_OWNERS} of an object, and none that is invalid or longer than names are"
        )
    })
}

/// Reads a time. `None` = there is none, or it cannot be read.
///
/// # Errors
///
/// The text is not JSON.
pub fn known_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(time(&Value::deserialize(from)?))
}

/// Reads a time whose presence counts. One that cannot be read is the latest: a deletion with a grace period of thousands
/// of years ends then. `None` = there is none.
///
/// # Errors
///
/// The text is not JSON.
pub fn latest_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(if value.is_null() { None } else { Some(time(&value).unwrap_or(Timestamp::MAX)) })
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> ObjectMeta {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn only_a_canonical_number_is_a_version() {
        let number = |version: &str| ObjectMeta { version: version.into(), ..ObjectMeta::default() }.version_number();
        assert_eq!(number("1"), NonZeroU64::new(1));
        assert_eq!(number("18446744073709551615"), NonZeroU64::new(u64::MAX));
        for other in ["", "0", "+5", "007", "-1", "5a", " 5", "18446744073709551616"] {
            assert_eq!(number(other), None, "{other:?}");
        }
    }

    /// A reference of an aggregated API may lack fields. It must not make the list of all objects unreadable (G5).
    #[test]
    fn an_incomplete_owner_reference_is_read() {
        let meta = read(&json!({ "name": "a", "ownerReferences": [{ "kind": "ConfigMap" }] }));
        assert!(meta.owners.iter().all(|owner| owner.uid.is_empty() && owner.name.is_empty()));
        assert_eq!(meta.owners.len(), 1);
    }

    #[test]
    fn details_are_those_that_were_asked_for() {
        let metadata = json!({
            "labels": {"app": "web", "team": "a"}, "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                {"manager": "helm", "time": "2026-01-03T00:00:00Z"}, {"manager": "kubectl", "time": "2026-01-02T00:00:00Z"},
                {"manager": 7, "time": "2026-01-09T00:00:00Z"}, {"manager": "odd", "time": "+12026-01-09"}, "text",
            ],
        });
        let details = ObjectDetails::of_api(&metadata, &["team".to_owned(), "absent".to_owned()]);
        assert_eq!(details.labels, BTreeMap::from([("team".to_owned(), "a".to_owned())]));
        assert_eq!(details.last_manager.as_deref(), Some("helm"));
        assert_eq!(details.created_at, "2026-01-01T00:00:00Z".parse().ok());
        assert_eq!(ObjectDetails::of_api(&json!({"labels": 7}), &["a".to_owned()]), ObjectDetails::default());
    }

    #[test]
    fn api_objects_and_documents_are_read_alike() {
        let of_api = read(&json!({
            "namespace": "ns1", "name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"},
            "finalizers": ["orphan"], "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o",
                "uid": "ou", "controller": null, "blockOwnerDeletion": true}],
        }));
        assert_eq!(read(&serde_json::to_value(&of_api).unwrap()), of_api);
        let owner = of_api.owners.first().unwrap();
        assert_eq!((&*owner.kind.api_version, owner.controller, owner.blocking), ("apps/v1", None, Some(true)));
        assert!(of_api.is_deleting() && of_api.has(ORPHAN));
    }
}
