//! Resources without a list: which owners may have dependents there, so that their finalizers wait (G4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Identity, Uid};

/// The namespaces whose own lists succeeded, and the owners that the objects there name.
pub type OwnersByNamespace = BTreeMap<Arc<str>, BTreeSet<Uid>>;

/// A resource without a list, or an unavailable group-version of which no resource is known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Unlisted {
    /// As `deployments.apps`, or the group-version.
    pub name: String,
    /// Its objects have no namespace, so a namespaced object owns none of them.
    pub is_cluster_scoped: bool,
    /// What is known of single namespaces all the same.
    pub namespaces: OwnersByNamespace,
}

/// Names those of `unlisted` that may have dependents of an owner (G4).
pub fn unlisted_dependents<'a>(unlisted: impl IntoIterator<Item = &'a Unlisted>, owner: &Identity) -> Vec<String> {
    unlisted.into_iter().filter(|it| it.may_depend_on(owner)).map(|it| it.name.clone()).collect()
}

// === impl Unlisted ===

impl Unlisted {
    pub(super) fn may_be_in(&self, namespace: &str) -> bool {
        !self.is_cluster_scoped && !self.namespaces.contains_key(namespace)
    }

    /// Returns whether an object of it may name this owner.
    fn may_depend_on(&self, owner: &Identity) -> bool {
        let is_named = || self.namespaces.get(&owner.namespace).is_none_or(|owners| owners.contains(&owner.uid));
        owner.is_cluster_scoped() || !self.is_cluster_scoped && is_named()
    }
}
