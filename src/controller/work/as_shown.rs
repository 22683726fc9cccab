//! The deletion of an object as its monitor or a list has shown it, without a live read.
//!
//! The condition of the deletion is the uid and the resource version that was shown. So the API server deletes
//! exactly the object that was decided about, or answers with a conflict; then the object is read. A dependent of deleted
//! owners costs one call instead of two.
//!
//! That needs an API server that checks the condition (G3). Those of Kubernetes do; of an aggregated one nothing is known, so
//! its objects are read first.
//!
//! All owners must be proven absent, and the object must have none of the two finalizers of garbage collection.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::decision::{Checked, Decision, Next, unless_conflict};
use super::engine::Engine;
use crate::controller::settings::WORKERS;
pub(super) use crate::controller::watch::resources::METRICS;
use crate::controller::watch::served::{Served, served};
use crate::kubernetes::{ApiResource, Cause, KubernetesError};
use crate::model::{Identity, ObjectMeta, Uid};
use crate::owners::{DeleteReason, Item, OwnerState, Propagation, ShownVersion, VALID, Verdict, decide};

/// No owner waits for its dependents here, so the finalizers decide, and an object with one of ours is read.
const AS_SHOWN: Verdict =
    Verdict::Delete { propagation: Propagation::Background, unblock: false, reason: DeleteReason::OwnersAbsent };

/// The groups of Kubernetes without a dot. Those with one end in [`OF_KUBERNETES`]; aggregated APIs serve [`METRICS`].
const CORE_GROUPS: [&str; 6] = ["", "apps", "batch", "autoscaling", "policy", "extensions"];
const OF_KUBERNETES: &str = ".k8s.io";

pub(in crate::controller) struct SelectedObject {
    pub(in crate::controller) resource: Arc<ApiResource>,
    pub(in crate::controller) meta: ObjectMeta,
    /// The name of the rule, or the annotation.
    pub(in crate::controller) rule: String,
    /// Why, for people.
    pub(in crate::controller) reason: String,
}

// === impl Engine ===

impl Engine {
    /// Returns whether the API server of a resource is known to check the conditions of a deletion.
    fn checks_conditions(&self, resource: &ApiResource) -> bool {
        let group = resource.group();
        let is_built_in = CORE_GROUPS.contains(&&*group) || group.ends_with(OF_KUBERNETES) && !group.ends_with(METRICS);
        is_built_in || self.state().resources.has_definition(&format!("{}.{group}", resource.resource)) == Some(true)
    }

    /// Returns whether the answer to the deletion of an object counts until the next list: its API server checks conditions,
    /// no other object has its uid, and no list has disproven an answer.
    pub(super) fn is_trusted(&self, resource: &ApiResource, uid: &Uid) -> bool {
        self.checks_conditions(resource) && !self.is_disproven(uid) && !self.is_shared(uid)
    }

    fn is_shared(&self, uid: &Uid) -> bool {
        !self.state().graph.others_of(uid).is_empty()
    }

    /// Decides about an object as it was shown. `None` = the object must be read: not all of its owners are proven absent.
    pub(super) async fn decide_as_shown(
        &self,
        served: &Served,
        item: &Item,
        resource: &Arc<ApiResource>,
        namespace: &str,
    ) -> Result<Option<Decision>, KubernetesError> {
        let shown = self.state().graph.shown_version(&item.identity.uid);
        let shown = shown.filter(|_| self.is_trusted(resource, &item.identity.uid));
        let Some(ShownVersion { version, owners }) = shown else { return Ok(None) };
        let Identity { name, uid, .. } = item.identity.clone();
        let version = version.to_string().into();
        let live = ObjectMeta { namespace: namespace.into(), name, uid, version, owners, ..ObjectMeta::default() };
        let states = self.states_as_shown(served, &live).await?;
        let is_garbage = states.is_some_and(|states| decide(&live, &states, &[]) == AS_SHOWN);
        let checked = is_garbage.then(|| Checked { item: item.clone(), resource: Arc::clone(resource), live });
        Ok(checked.map(|checked| Decision::AsShown(Box::new(checked))))
    }

    /// Returns the states of the owners. `None` = one is not known. A wave reads each owner once, so it reads them for this
    /// too; in a service the read of the object comes first, which may name others.
    async fn states_as_shown(
        &self,
        served: &Served,
        shown: &ObjectMeta,
    ) -> Result<Option<Vec<OwnerState>>, KubernetesError> {
        if !self.is_in_waves {
            let states = shown.owners.iter().map(|owner| self.known_state(&shown.namespace, owner));
            return Ok(states.collect());
        }
        let begun = self.now();
        let states = self.owner_states(served, &shown.namespace, shown).await?;
        Ok(Some(states).filter(|_| self.now().saturating_sub(begun) <= VALID))
    }

    /// Deletes the objects that rules select, until `end`. Then the deletions in flight end, and no other begins.
    pub(in crate::controller) async fn delete_all_selected(
        &self,
        objects: Vec<SelectedObject>,
        end: &CancellationToken,
    ) {
        let deletions = objects.into_iter().map(|selected| self.delete_selected(selected));
        let deletions = stream::iter(deletions).take_until(end.cancelled());
        deletions.buffer_unordered(WORKERS).collect::<()>().await;
    }

    /// Deletes an object that a rule selects, as it was listed. One that has changed since is left for the next time, and so is
    /// one that no list or monitor has shown as this object.
    async fn delete_selected(&self, selected: SelectedObject) {
        let SelectedObject { resource, meta: live, reason, .. } = selected;
        let identity = live.identity(&served(&resource).kind);
        let item = self.item(&identity.uid).filter(|item| item.identity == identity && !item.is_deleting);
        let Some(item) = item.filter(|_| !self.is_shared(&identity.uid)) else { return };
        if self.filter.leaves_out(&resource, &identity).is_some() {
            return;
        }
        match self.has_labels(&resource, &identity).await {
            Ok(true) if self.may_change_one_more() => {}
            Ok(_) => return,
            Err(error) => return self.failed(identity, error.to_string()),
        }
        let checked = Checked { item, resource, live };
        let propagation = Propagation::Background;
        let deleted = self.calls.delete(checked.target(), &checked.live, &checked.live.version, propagation).await;
        match unless_conflict(checked.or_missing(deleted)) {
            Ok(Some(deleted)) => {
                self.recovered(&identity.uid);
                self.confirm_and_report(&checked, propagation, &reason, deleted).await;
            }
            Ok(None) | Err(KubernetesError { cause: Cause::Ended, .. }) => self.may_change_another(),
            Err(error) => self.failed(identity, error.to_string()),
        }
    }

    /// Deletes an object as it was shown. `None` = it is not as it was shown.
    pub(super) async fn delete_as_shown(&self, checked: Checked) -> Result<Option<Next>, KubernetesError> {
        let Checked { item, live, .. } = &checked;
        if !self.may_change_one_more() {
            return Ok(Some(Next::Done));
        }
        if let Some(next) = self.brakes(item, live.owners.iter().map(|owner| &owner.uid)) {
            return Ok(Some(next));
        }
        let deleted = self.calls.delete(checked.target(), live, &live.version, Propagation::Background);
        let deleted = unless_conflict(checked.or_missing(deleted.await));
        self.brake_ends(item, &deleted);
        let Some(deleted) = deleted? else {
            self.may_change_another();
            return Ok(None);
        };
        self.deleted(&checked, Propagation::Background, DeleteReason::OwnersAbsent.into(), deleted);
        Ok(Some(Next::Done))
    }
}
