//! What the API server serves, for the workers and the monitors.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kubernetes::{ApiResource, Discovered};
use crate::owners::{ApiKind, ServedKind, ServedKinds, UnavailableGroup};

/// The last discovery that succeeded.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Served {
    pub(super) kinds: ServedKinds,
    resources: HashMap<ApiKind, Arc<ApiResource>>,
    pub(super) unavailable: Vec<UnavailableGroup>,
}

// === impl Served ===

impl Served {
    /// Returns the resource of a kind, which may be written in lower case.
    pub(super) fn resource(&self, kind: &ApiKind) -> Option<&Arc<ApiResource>> {
        self.resources.get(&self.kinds.find(kind)?.kind)
    }
}

impl From<&Discovered> for Served {
    fn from(found: &Discovered) -> Self {
        let kinds: Vec<_> = found.resources.iter().map(served).collect();
        let unavailable = found.unavailable.iter().cloned();
        let unavailable: Vec<_> =
            unavailable.map(|(api_version, cause)| UnavailableGroup { api_version, cause }).collect();
        let resources = found.resources.iter().map(|resource| (served(resource).kind, Arc::new(resource.clone())));
        Self { kinds: ServedKinds::new(&kinds, &unavailable), resources: resources.collect(), unavailable }
    }
}

/// Returns the kind of a resource.
pub(super) fn served(resource: &ApiResource) -> ServedKind {
    ServedKind {
        kind: ApiKind::new(&resource.api_version, &resource.kind),
        resource: resource.resource.clone(),
        namespaced: resource.namespaced,
    }
}
