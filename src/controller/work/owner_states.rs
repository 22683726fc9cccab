//! The states of the owners of an object: known without a call, or by a live read.

use super::engine::Engine;
use crate::controller::watch::served::Served;
use crate::kubernetes::{ApiResource, KubernetesError, is_path_segment};
use crate::model::{Identity, ObjectMeta, OwnerReference, cut_text};
use crate::owners::OwnerState;

// === impl Engine ===

impl Engine {
    /// Returns the state of each owner, in the order of the references.
    pub(super) async fn owner_states(
        &self,
        served: &Served,
        namespace: &str,
        live: &ObjectMeta,
    ) -> Result<Vec<OwnerState>, KubernetesError> {
        let mut states = Vec::new();
        // Nothing is decided by the owners of an object that names too many.
        for reference in live.owners.iter().filter(|_| live.left_out_owners == 0) {
            states.push(match self.known_state(namespace, reference) {
                Some(state) => state,
                None => self.owner_state(served, namespace, reference).await?,
            });
        }
        Ok(states)
    }

    async fn owner_state(
        &self,
        served: &Served,
        namespace: &str,
        reference: &OwnerReference,
    ) -> Result<OwnerState, KubernetesError> {
        let owner = match served.kinds.owner(reference, namespace) {
            Ok(owner) => owner,
            Err(state) => return Ok(state),
        };
        let Some(resource) = served.resource(&owner.kind) else { return Ok(OwnerState::KindNotServed) };
        Ok(match self.read_owner_once(resource, &owner).await? {
            OwnerState::Absent => self.absent(reference),
            state => state,
        })
    }

    /// Reads an owner, and remembers one that is absent.
    pub(super) async fn read_owner(
        &self,
        resource: &ApiResource,
        owner: &Identity,
    ) -> Result<OwnerState, KubernetesError> {
        let at = self.now();
        let live = self.calls.read(resource, &owner.namespace, &owner.name).await?;
        if let Some(live) = live.filter(|live| live.uid == owner.uid) {
            return Ok(OwnerState::of_existing(live.waits_for_dependents()));
        }
        self.state().graph.absent.insert(owner.clone(), at);
        Ok(OwnerState::Absent)
    }

    /// Returns the state of an owner that is known without a call. An owner without a name that objects can have is never
    /// requested (G2).
    pub(super) fn known_state(&self, namespace: &str, reference: &OwnerReference) -> Option<OwnerState> {
        if !is_path_segment(&reference.name) {
            let name = cut_text(&reference.name, 80);
            return Some(OwnerState::Unverified(format!("{name:?} is not an object name")));
        }
        self.is_known_absent(namespace, reference).then(|| self.absent(reference))
    }

    /// An owner that is absent in the cluster scope or in the namespace of the dependent.
    fn is_known_absent(&self, namespace: &str, reference: &OwnerReference) -> bool {
        let (state, now) = (self.state(), self.now());
        let is_absent = |namespace| state.graph.absent.proves(&reference.identity(namespace), now);
        is_absent("") || is_absent(namespace)
    }

    fn absent(&self, reference: &OwnerReference) -> OwnerState {
        if self.state().orphaned.touch(&reference.uid) { OwnerState::Orphaned } else { OwnerState::Absent }
    }
}
