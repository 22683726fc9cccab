//! What follows the check of one object, and the object that a change is for.

use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::{ApiResource, KubernetesError, WriteTarget};
use crate::model::{Identity, ObjectMeta, Uid};
use crate::owners::{Item, Verdict};

pub(in crate::controller) enum Next {
    /// Nothing, until an event says otherwise.
    Done,
    /// The check is repeated with a back-off: the object has changed meanwhile, or no monitor has shown it yet.
    Again,
    /// It is repeated later.
    Later(Duration),
    /// It is repeated when the API server serves or lists something else.
    Parked,
}

pub(in crate::controller) enum Decision {
    /// Nothing is changed.
    Next(Next),
    /// An object is changed.
    Change(Box<Checked>, Verdict),
    /// An object is deleted as its list or its monitor has shown it.
    AsShown(Box<Checked>),
    /// The dependents of this owner are released.
    Release(Uid),
}

pub(in crate::controller) struct Checked {
    pub(in crate::controller) item: Item,
    pub(super) resource: Arc<ApiResource>,
    pub(super) live: ObjectMeta,
}

// === impl Decision ===

impl From<Next> for Decision {
    fn from(next: Next) -> Self {
        Self::Next(next)
    }
}

// === impl Checked ===

impl Checked {
    /// Returns the object that was decided about. An answer never says where a change goes (G2).
    pub(super) fn target(&self) -> WriteTarget<'_> {
        target(&self.item.identity, &self.resource)
    }
}

/// Returns the target of a change of an object, by its identity in the graph.
pub(in crate::controller) fn target<'a>(identity: &'a Identity, resource: &'a ApiResource) -> WriteTarget<'a> {
    let Identity { name, uid, .. } = identity;
    WriteTarget { resource, namespace: namespace_in_path(identity, resource), name, uid }
}

/// Returns the namespace in the path of an object. A guess about a cluster-scoped owner has the namespace of its dependent.
pub(super) fn namespace_in_path<'a>(identity: &'a Identity, resource: &ApiResource) -> &'a str {
    if resource.namespaced { &identity.namespace } else { "" }
}

/// Returns the namespace to read an object in. `None` = it is a guess without the namespace that its kind needs.
pub(super) fn namespace<'a>(item: &'a Item, resource: &ApiResource) -> Option<&'a str> {
    let is_unknown = resource.namespaced && item.identity.is_cluster_scoped();
    (!is_unknown).then(|| namespace_in_path(&item.identity, resource))
}

/// Returns nothing if the object has changed since the read, and was not changed.
pub(super) fn unless_conflict<T>(made: Result<T, KubernetesError>) -> Result<Option<T>, KubernetesError> {
    match made {
        Err(error) if error.cause.is_conflict() || error.cause.is_of_another_uid() => Ok(None),
        made => made.map(Some),
    }
}
