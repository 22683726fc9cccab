//! What is left in a namespace after its objects were deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::kubernetes::{ApiResource, KubernetesError};
use crate::model::ObjectMeta;

pub(super) struct Content {
    namespace: String,
    now: Timestamp,
    /// The group-versions whose resources are unknown, and why.
    pub(super) undiscovered: Vec<(String, String)>,
    /// What could not be listed or deleted.
    pub(super) undeleted: Vec<String>,
    /// By resource, as `pods.`: how many objects are left.
    pub(super) objects: BTreeMap<String, usize>,
    /// By finalizer: how many objects it holds.
    pub(super) finalizers: BTreeMap<String, usize>,
}

// === impl Content ===

impl Content {
    pub(super) fn new(namespace: &str, now: Timestamp, undiscovered: &[(String, String)]) -> Self {
        Self {
            namespace: namespace.to_owned(),
            now,
            undiscovered: undiscovered.to_vec(),
            undeleted: Vec::new(),
            objects: BTreeMap::new(),
            finalizers: BTreeMap::new(),
        }
    }

    /// Adds what is left of a resource. An object that nothing holds should not be there, unless it was not deleted.
    pub(super) fn add(
        &mut self,
        resource: &ApiResource,
        left: Result<Vec<ObjectMeta>, KubernetesError>,
        leaves_some: bool,
    ) {
        let left = match left {
            Ok(left) if left.is_empty() => return,
            Ok(left) => left,
            Err(error) => return self.undeleted.push(error.to_string()),
        };
        for finalizer in left.iter().flat_map(|object| &object.finalizers) {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        let group = resource.group();
        self.objects.insert(format!("{}.{group}", resource.resource), left.len());
        let ends_later = |it: &ObjectMeta| it.deletion_timestamp.is_some_and(|at| at > self.now);
        if !leaves_some && !left.iter().any(|object| !object.finalizers.is_empty() || ends_later(object)) {
            let version =
                if group.is_empty() { format!("/{}", resource.api_version) } else { resource.api_version.clone() };
            self.undeleted.push(format!(
                "unexpected items still remain in namespace: {} for gvr: {version}, Resource={}",
                self.namespace, resource.resource
            ));
        }
    }

    /// Returns whether all objects so far are deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.objects.is_empty() && self.undeleted.is_empty()
    }

    /// Returns whether the namespace is proven to be empty.
    pub(super) fn is_empty(&self) -> bool {
        self.is_deleted() && self.undiscovered.is_empty()
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let unknown = self.undiscovered.iter().map(|(version, cause)| format!("{version}: {cause}"));
        unknown.chain(self.undeleted.iter().cloned())
    }
}
