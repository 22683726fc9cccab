//! The identity of an object, and the reference of a dependent to its owner.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The uid of an object. The API server accepts any text that is not empty; nearly always it is a UUID.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Uid(Compact);

/// A UUID in its usual form takes 16 bytes; every other text is kept as it is.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Compact {
    Uuid([u8; 16]),
    Text(Arc<str>),
}

/// An apiVersion and a kind, as in an owner reference.
#[derive(Clone, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ApiKind {
    /// As `apps/v1`, or `v1` for the core group.
    #[serde(alias = "apiVersion", default)]
    #[schemars(required)]
    pub api_version: Arc<str>,
    /// As `ReplicaSet`.
    #[serde(default)]
    #[schemars(required)]
    pub kind: Arc<str>,
}

/// What identifies one object in the cluster.
#[derive(Clone, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
pub struct Identity {
    /// The version and the kind.
    #[serde(flatten)]
    pub kind: ApiKind,
    /// Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The uid.
    pub uid: Uid,
}

/// One entry of `metadata.ownerReferences`, with all its fields, so that it can be written back unchanged.
/// An aggregated API may leave some out: that holds this object, and must not make the list unreadable (G5).
#[derive(Clone, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
pub struct OwnerReference {
    /// The version and the kind of the owner, as the dependent writes them.
    #[serde(flatten)]
    pub kind: ApiKind,
    /// The name of the owner.
    #[serde(default)]
    #[schemars(required)]
    pub name: Arc<str>,
    /// The uid of the owner.
    #[serde(default)]
    #[schemars(required)]
    pub uid: Uid,
    /// Whether the owner is the managing controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the dependent blocks the foreground deletion of the owner.
    #[serde(default, alias = "blockOwnerDeletion", skip_serializing_if = "Option::is_none")]
    pub blocking: Option<bool>,
}

// === impl Uid ===

impl Uid {
    /// Creates a uid from its text.
    pub fn new(text: &str) -> Self {
        Self(parse(text).map_or_else(|| Compact::Text(text.into()), Compact::Uuid))
    }

    /// Returns whether the object has no uid. All such objects have equal uids.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Compact::Text(text) if text.is_empty())
    }
}

/// Reads a UUID in lower case with four hyphens; only this form can be printed back unchanged.
fn parse(text: &str) -> Option<[u8; 16]> {
    let mut digits = [0; 32];
    let mut filled = digits.iter_mut();
    for (at, byte) in text.bytes().enumerate() {
        match (at, byte) {
            (8 | 13 | 18 | 23, b'-') => {}
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => *filled.next()? = byte - b'0',
            (_, b'a'..=b'f') => *filled.next()? = byte - b'a' + 10,
            _ => return None,
        }
    }
    if filled.next().is_some() {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        let [high, low] = pair;
        *byte = high << 4 | low;
    }
    Some(bytes)
}

/// No uid.
impl Default for Uid {
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            Compact::Text(text) => return f.write_str(text),
            Compact::Uuid(bytes) => bytes,
        };
        // In one piece: each request and each line of the log has some.
        let mut text = String::with_capacity(36);
        for (at, byte) in bytes.iter().enumerate() {
            text.extend(matches!(at, 4 | 6 | 8 | 10).then_some('-'));
            text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()));
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer).map(|text| Self::new(&text))
    }
}

impl JsonSchema for Uid {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

// === impl ApiKind ===

impl ApiKind {
    pub fn new(api_version: &str, kind: &str) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// Returns whether it is the kind of namespaces.
    pub fn is_namespace(&self) -> bool {
        (&*self.api_version, &*self.kind) == ("v1", "Namespace")
    }

    /// Returns the group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// As kubectl writes it: `ReplicaSet.v1.apps`, `Pod.v1`.
impl fmt::Display for ApiKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.api_version.split_once('/') {
            Some((group, version)) => write!(f, "{}.{version}.{group}", self.kind),
            None => write!(f, "{}.{}", self.kind, self.api_version),
        }
    }
}

// === impl Identity ===

impl Identity {
    /// Returns whether the object has no namespace.
    pub fn is_cluster_scoped(&self) -> bool {
        self.namespace.is_empty()
    }

    /// Returns whether both have the same namespace and name.
    pub fn is_named_as(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }

    /// Returns whether a reference of an object in `namespace` means exactly this object. A namespaced owner has only
    /// dependents of its own namespace.
    pub fn is_meant_by(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let in_reach = self.is_cluster_scoped() || *self.namespace == *namespace;
        in_reach && self.uid == reference.uid && self.name == reference.name && self.kind == reference.kind
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{}/{}", self.kind, self.name),
            namespace => write!(f, "{}/{} in namespace {namespace}", self.kind, self.name),
        }
    }
}

// === impl OwnerReference ===

impl OwnerReference {
    /// Returns the bytes of its text.
    pub(super) fn text_bytes(&self) -> usize {
        let Self { kind: ApiKind { api_version, kind }, name, uid, .. } = self;
        let uid = if let Compact::Text(text) = &uid.0 { text.len() } else { size_of::<Uid>() };
        api_version.len() + kind.len() + name.len() + uid
    }

    /// Returns whether the dependent blocks the foreground deletion of the owner.
    pub fn blocks(&self) -> bool {
        self.blocking == Some(true)
    }

    /// Ends that the dependent blocks the owner. What was not written stays so.
    pub fn unblock(&mut self) {
        self.blocking = self.blocking.map(|_| false);
    }

    /// Returns the identity of the owner if it lies in `namespace`, which is empty for a cluster-scoped owner.
    pub fn identity(&self, namespace: &str) -> Identity {
        Identity {
            kind: self.kind.clone(),
            namespace: namespace.into(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_prints_as_it_was_written() {
        for text in [
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6BA7B810-9dad-11d1-80b4-00c04fd430c8",
            "6ba7b8109dad11d180b400c04fd430c8",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8a",
            "not-a-uuid",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert_ne!(Uid::new("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), Uid::new("6BA7B810-9dad-11d1-80b4-00c04fd430c8"));
    }

    #[test]
    fn a_uuid_needs_no_memory_of_its_own() {
        assert!(matches!(Uid::new("6ba7b810-9dad-11d1-80b4-00c04fd430c8").0, Compact::Uuid(_)));
        assert_eq!(size_of::<Uid>(), 24);
    }
}
