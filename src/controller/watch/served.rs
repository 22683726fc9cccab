//! What the API server serves, for the workers and the monitors.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kubernetes::{ApiResource, Discovered};
use crate::model::ApiKind;
use crate::owners::{ServedKind, ServedKinds, UnavailableGroup};

/// The last discovery that succeeded.
#[derive(Debug, Default, PartialEq)]
pub(in crate::controller) struct Served {
    pub(in crate::controller) kinds: ServedKinds,
    resources: HashMap<ApiKind, Arc<ApiResource>>,
    pub(in crate::controller) unavailable: Vec<UnavailableGroup>,
}

// === impl Served ===

impl Served {
    /// Returns the resource of a kind, which may be written in lower case.
    pub(in crate::controller) fn resource(&self, kind: &ApiKind) -> Option<&Arc<ApiResource>> {
        self.resources.get(&self.kinds.find(kind)?.kind)
    }

    /// Returns whether references of the kind of a resource mean this resource. Two resources may have one kind.
    pub(in crate::controller) fn is_of_its_kind(&self, resource: &ApiResource) -> bool {
        let meant = self.resources.get(&served(resource).kind);
        meant.is_some_and(|meant| meant.resource == resource.resource)
    }

    /// Says why a kind has no resource.
    pub(in crate::controller) fn why_not(&self, kind: &ApiKind) -> String {
        let cause = self.unavailable.iter().find(|group| *group.api_version == *kind.api_version);
        cause.map_or_else(|| format!("the API server does not serve {kind}"), ToString::to_string)
    }
}

impl From<&Discovered> for Served {
    fn from(found: &Discovered) -> Self {
        let kinds: Vec<_> = found.resources.iter().map(served).collect();
        let unavailable = found.unavailable.iter().cloned();
        let unavailable: Vec<_> =
            unavailable.map(|(api_version, cause)| UnavailableGroup { api_version, cause }).collect();
        let mut resources = HashMap::<_, Arc<ApiResource>>::new();
        // Of two resources of one kind, the one whose objects can exist.
        for resource in &found.resources {
            let known = resources.entry(served(resource).kind).or_insert_with(|| Arc::new(resource.clone()));
            if resource.is_collectable() && !known.is_collectable() {
                *known = Arc::new(resource.clone());
            }
        }
        Self { kinds: ServedKinds::new(&kinds, &unavailable), resources, unavailable }
    }
}

pub(in crate::controller) fn served(resource: &ApiResource) -> ServedKind {
    ServedKind {
        kind: ApiKind::new(&resource.api_version, &resource.kind),
        resource: resource.resource.clone(),
        namespaced: resource.namespaced,
    }
}
