//! An object as the API returns it: its head, and the parts that the caller needs. The parser skips all other fields.
//!
//! `k8s_openapi` has types for the whole objects. They hold what most of a pod is, such as `managedFields` as JSON values,
//! environments and probes. The memory for a page of pods would be many times as large.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kubernetes::{ApiResource, Listed, Watched};
use crate::model::{ObjectMeta, latest_time};

/// An object. Without a part only its metadata are requested in lists and watches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[serde(bound = "M: Default + Deserialize<'de>, S: Default + Deserialize<'de>, T: Default + Deserialize<'de>")]
pub struct Object<M, S = IgnoredAny, T = IgnoredAny> {
    /// Empty in a list.
    pub(in crate::kubernetes) api_version: String,
    /// Empty in a list.
    pub(in crate::kubernetes) kind: String,
    /// The metadata. An object without them has no uid, and counts for nothing.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: M,
    /// What is read of its settings.
    pub spec: S,
    /// What is read of its status.
    pub status: T,
}

/// An object, reduced to its metadata.
pub type MetadataOnly = Object<ObjectMeta>;

/// Labels or annotations.
pub(in crate::kubernetes) type Texts = BTreeMap<String, String>;

/// The metadata of an object, with those annotations and labels that the caller needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[serde(bound = "A: Default + Deserialize<'de>, L: Default + Deserialize<'de>")]
pub struct Head<A = IgnoredAny, L = IgnoredAny> {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub(in crate::kubernetes) resource_version: String,
    /// How often its settings were changed, from 1 on. API servers before 1.33 do not count it for pods.
    pub generation: Option<i64>,
    /// When it was created.
    #[serde(deserialize_with = "latest_time")]
    pub creation_timestamp: Option<Timestamp>,
    /// When its deletion is to be complete.
    #[serde(deserialize_with = "latest_time")]
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period of its deletion, in seconds.
    pub deletion_grace_period_seconds: Option<i64>,
    pub finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<Owner>>,
    #[serde(deserialize_with = "null_is_default")]
    pub(in crate::kubernetes) annotations: A,
    #[serde(deserialize_with = "null_is_default")]
    pub labels: L,
}

/// What a head has of an owner reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner {
    pub kind: String,
    pub name: String,
    pub uid: String,
    controller: Option<bool>,
}

/// A part of an object that may be unreadable: it must not hide the other objects of a list.
#[derive(Clone, Debug)]
pub struct Readable<P>(pub Result<P, (String, Vec<String>)>);

fn null_is_default<'de, D: Deserializer<'de>, M: Default + Deserialize<'de>>(from: D) -> Result<M, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The metadata of an object, whatever else they have.
pub trait Metadata {
    /// Returns the namespace, the name and the resource version.
    fn key(&self) -> [&str; 3];

    /// Returns whether the object has a uid.
    fn has_uid(&self) -> bool;
}

impl Metadata for ObjectMeta {
    fn key(&self) -> [&str; 3] {
        [&self.namespace, &self.name, &self.version]
    }

    fn has_uid(&self) -> bool {
        !self.uid.is_empty()
    }
}

impl<A, L> Metadata for Head<A, L> {
    fn key(&self) -> [&str; 3] {
        [&self.namespace, &self.name, &self.resource_version]
    }

    fn has_uid(&self) -> bool {
        !self.uid.is_empty()
    }
}

// === impl Object ===

impl<M, S, T> Listed for Object<M, S, T>
where
    Self: DeserializeOwned + Send + 'static,
{
    const METADATA_ONLY: bool = size_of::<(S, T)>() == 0;
}

impl<M: Metadata, S, T> Watched for Object<M, S, T>
where
    Self: Listed,
{
    fn resource_version(&self) -> &str {
        let [_, _, version] = self.metadata.key();
        version
    }
}

impl<M: Metadata, S, T> Object<M, S, T> {
    /// Returns whether an answer is about the object that was requested. Any other answer counts for nothing (G2).
    pub(in crate::kubernetes) fn is(&self, resource: &ApiResource, namespace: &str, name: &str) -> bool {
        let [of, found, _] = self.metadata.key();
        self.has_kind(resource) && (of, found) == (namespace, name) && self.metadata.has_uid()
    }

    /// An answer with metadata only does not show the kind of the object.
    fn has_kind(&self, resource: &ApiResource) -> bool {
        let is_metadata = self.kind == "PartialObjectMetadata" && self.api_version.starts_with("meta.k8s.io/");
        is_metadata || self.kind == resource.kind && self.api_version == resource.api_version
    }
}

// === impl Head ===

impl<A, L> Head<A, L> {
    /// Returns the owner that controls the object.
    pub(super) fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }
}

// === impl Readable ===

impl<P: Default> Default for Readable<P> {
    fn default() -> Self {
        Self(Ok(P::default()))
    }
}

/// One that cannot be read has the cause and its fields.
impl<'de, P: DeserializeOwned> Deserialize<'de> for Readable<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let part = Value::deserialize(from)?;
        let fields = part.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect();
        Ok(Self(serde_json::from_value(part).map_err(|error| (error.to_string(), fields))))
    }
}
