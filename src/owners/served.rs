//! Which kinds the API server serves.
//!
//! Only kinds that discovery names exist, exactly or in lower case. The mapper of kube-controller-manager also
//! derives list kinds, so an owner of the kind `PodList` counts as absent there. Here the reference is a finding, and
//! the object is kept.

use std::collections::HashMap;

use super::cluster_snapshot::{ClusterSnapshot, ServedKind, UnavailableGroup};
use crate::model::{ApiKind, Identity, OwnerReference};

/// Finds the resource of a kind. Only kinds that the API server itself names are found, exactly or in lower case; a
/// client that also derives list kinds takes `PodList` for a kind whose objects are all absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedKinds {
    kinds: HashMap<ApiKind, ServedKind>,
    unavailable: HashMap<String, String>,
}

/// What an owner reference of an object means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Meaning {
    /// This object.
    Object(Identity),
    /// The kind is not served.
    NotServed,
    /// A cluster-scoped object has a namespaced owner, so no namespace is known.
    Namespaced,
    /// Whether the kind is served is unknown; the cause.
    Unavailable(String),
}

// === impl ServedKinds ===

impl ServedKinds {
    /// Creates the table of what the API server serves, and of the group-versions for which this is unknown.
    pub fn new(served: &[ServedKind], unavailable: &[UnavailableGroup]) -> Self {
        let lower = |served: &ServedKind| ApiKind::new(&served.kind.api_version, &served.kind.kind.to_lowercase());
        // The exact form overrides the lower-case form of another kind.
        let lower = served.iter().map(|served| (lower(served), served.clone()));
        let exact = served.iter().map(|served| (served.kind.clone(), served.clone()));
        let unavailable = unavailable.iter();
        Self {
            kinds: lower.chain(exact).collect(),
            unavailable: unavailable.map(|group| (group.api_version.clone(), group.cause.clone())).collect(),
        }
    }

    /// Returns what the owner reference of an object in `namespace` means.
    pub fn meaning(&self, reference: &OwnerReference, namespace: &str) -> Meaning {
        let Some(served) = self.kinds.get(&reference.kind) else {
            let cause = self.unavailable.get(&*reference.kind.api_version);
            return cause.map_or(Meaning::NotServed, |cause| Meaning::Unavailable(cause.clone()));
        };
        match (served.namespaced, namespace) {
            (true, "") => Meaning::Namespaced,
            (true, namespace) => Meaning::Object(reference.identity(namespace)),
            (false, _) => Meaning::Object(reference.identity("")),
        }
    }

    /// Returns the kind as the API server serves it.
    pub fn find(&self, kind: &ApiKind) -> Option<&ServedKind> {
        self.kinds.get(kind)
    }

    /// Returns the versions in which a kind of the same group and name is served.
    pub fn other_versions(&self, kind: &ApiKind) -> Vec<&ApiKind> {
        let is_other = |known: &&ApiKind| known.group() == kind.group() && known.kind == kind.kind && *known != kind;
        let mut others: Vec<_> = self.kinds.keys().filter(is_other).collect();
        others.sort();
        others
    }
}

impl From<&ClusterSnapshot> for ServedKinds {
    fn from(snapshot: &ClusterSnapshot) -> Self {
        Self::new(&snapshot.served, &snapshot.unavailable)
    }
}
