//! Which kinds the API server serves.
//!
//! Only kinds that discovery names exist, exactly or in lower case. The mapper of kube-controller-manager also
//! derives list kinds, so an owner of the kind `PodList` counts as absent there. Here the reference is a finding, and
//! the object is kept.

use std::collections::HashMap;

use super::OwnerState;
use super::cluster_snapshot::{ClusterSnapshot, ServedKind, UnavailableGroup};
use crate::model::{ApiKind, Identity, OwnerReference};

/// Finds the resource of a kind. Only kinds that the API server itself names are found, exactly or in lower case; a
/// client that also derives list kinds takes `PodList` for a kind whose objects are all absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedKinds {
    kinds: HashMap<ApiKind, ServedKind>,
    unavailable: HashMap<String, String>,
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

    /// Returns the owner that a reference of an object in `namespace` means, or the state of one that no read can find.
    pub fn owner(&self, reference: &OwnerReference, namespace: &str) -> Result<Identity, OwnerState> {
        if reference.uid.is_empty() {
            return Err(OwnerState::Unverified("the reference has no uid".to_owned()));
        }
        let Some(served) = self.kinds.get(&reference.kind) else {
            let cause = self.unavailable.get(&*reference.kind.api_version);
            return Err(cause.map_or(OwnerState::KindNotServed, |cause| OwnerState::Unverified(cause.clone())));
        };
        match (served.namespaced, namespace) {
            (true, "") => Err(OwnerState::Namespaced),
            (true, namespace) => Ok(reference.identity(namespace)),
            (false, _) => Ok(reference.identity("")),
        }
    }

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
