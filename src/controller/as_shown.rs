//! The deletion of an object as its monitor has shown it, without a live read.
//!
//! The condition of the deletion is the uid and the resource version that the monitor has shown. So the API server deletes
//! exactly the object that was decided about, or answers with a conflict; then the object is read. A dependent of deleted
//! owners costs one call instead of two.
//!
//! That needs an API server that checks the condition (G3). Those of Kubernetes do; of an aggregated one nothing is known, so
//! its objects are read first.
//!
//! All owners must be proven absent, and the object must have none of the two finalizers of garbage collection.

use std::sync::Arc;

use super::decision::{Checked, Next, unless_conflict};
use super::engine::Engine;
use super::resources::METRICS;
use crate::kubernetes::{ApiResource, KubernetesError};
use crate::model::{Identity, ObjectMeta};
use crate::owners::{DeleteReason, Item, Propagation, ShownVersion, Verdict, decide};

/// No owner waits for its dependents here, so the finalizers decide, and an object with one of ours is read.
const AS_SHOWN: Verdict =
    Verdict::Delete { propagation: Propagation::Background, unblock: false, reason: DeleteReason::OwnersAbsent };

/// The groups of Kubernetes without a dot. Those with one end in [`OF_KUBERNETES`]; aggregated APIs serve [`METRICS`].
const CORE_GROUPS: [&str; 6] = ["", "apps", "batch", "autoscaling", "policy", "extensions"];
const OF_KUBERNETES: &str = ".k8s.io";

// === impl Engine ===

impl Engine {
    /// Returns whether the API server of a resource is known to check the conditions of a deletion.
    fn checks_conditions(&self, resource: &ApiResource) -> bool {
        let group = resource.group();
        let is_built_in = CORE_GROUPS.contains(&&*group) || group.ends_with(OF_KUBERNETES) && !group.ends_with(METRICS);
        is_built_in || self.state().resources.has_definition(&format!("{}.{group}", resource.resource)) == Some(true)
    }

    /// Deletes an object whose owners are all proven absent already. `None` = the object must be read: not all are, or it
    /// is not as its monitor has shown it.
    pub(super) async fn delete_as_shown(
        &self,
        item: &Item,
        resource: &Arc<ApiResource>,
        namespace: &str,
    ) -> Result<Option<Next>, KubernetesError> {
        let shown = self.state().graph.shown_version(&item.identity.uid);
        let shown = shown.filter(|_| self.checks_conditions(resource));
        let Some(ShownVersion { version, owners }) = shown else { return Ok(None) };
        let Identity { name, uid, .. } = item.identity.clone();
        let version = version.to_string().into();
        let live = ObjectMeta { namespace: namespace.into(), name, uid, version, owners, ..ObjectMeta::default() };
        if self.decide_as_shown(&live) != Some(AS_SHOWN) {
            return Ok(None);
        }
        if let Some(next) = self.brakes(item, live.owners.iter().map(|owner| &owner.uid)) {
            return Ok(Some(next));
        }
        let checked = Checked { item: item.clone(), resource: Arc::clone(resource), live };
        let version = &checked.live.version;
        let deleted = self.calls.delete(checked.target(), &checked.live, version, Propagation::Background);
        let deleted = unless_conflict(checked.or_missing(deleted.await));
        self.brake_ends(item, &deleted);
        let Some(deleted) = deleted? else { return Ok(None) };
        self.deleted(&checked, Propagation::Background, DeleteReason::OwnersAbsent.into(), deleted);
        Ok(Some(Next::Done))
    }

    /// Decides without a call. `None` = the state of an owner is not known.
    fn decide_as_shown(&self, shown: &ObjectMeta) -> Option<Verdict> {
        let states = shown.owners.iter().map(|owner| self.known_state(&shown.namespace, owner));
        Some(decide(shown, &states.collect::<Option<Vec<_>>>()?, &[]))
    }
}
