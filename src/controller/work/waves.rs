//! What a collection in waves remembers beside the graph. A service has monitors instead, which show each change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::engine::Engine;
use crate::kubernetes::{ApiResource, KubernetesError};
use crate::model::{Identity, Uid};
use crate::owners::{Event, OwnerState, VALID};

/// A read of an owner: when it began, and what it shows.
type OwnerRead = Arc<OnceCell<(Duration, OwnerState)>>;

#[derive(Default)]
pub(super) struct Waves {
    /// What became of the objects of a wave, for the graph.
    events: Vec<Event>,
    /// The owners that were read in this wave: each once, and not once for each dependent.
    owners: HashMap<Identity, OwnerRead>,
    /// The objects whose deletion was accepted in this round. The lists of the next one show whether they ended.
    accepted: HashSet<Uid>,
    /// Those that a later list has shown. They are read before and after each other deletion.
    disproven: HashSet<Uid>,
    /// How many objects may still be changed; `None` = no limit.
    objects_left: Option<usize>,
}

// === impl Waves ===

impl Waves {
    /// Returns the read of an owner. One that is too old to prove something is forgotten (G1).
    fn owner(&mut self, owner: &Identity, now: Duration) -> OwnerRead {
        let read = self.owners.entry(owner.clone()).or_default();
        if read.get().is_some_and(|(at, _)| *at + VALID < now) {
            *read = OwnerRead::default();
        }
        Arc::clone(read)
    }
}

// === impl Engine ===

impl Engine {
    /// Keeps the effect of a change of our own, until the wave ends. Monitors show it anyway, in its place among other
    /// changes.
    pub(super) fn changed(&self, event: Event) {
        if self.is_in_waves {
            self.state().waves.events.push(event);
        }
    }

    /// Shows the graph the effects of the changes since the last wave, in an order that does not depend on that of the calls.
    pub(in crate::controller) fn end_wave(&self) {
        let mut events = {
            let waves = &mut self.state().waves;
            waves.owners.clear();
            std::mem::take(&mut waves.events)
        };
        events.sort_by_cached_key(uid);
        for event in events {
            self.apply(event);
        }
    }

    /// Remembers an object whose deletion the API server has accepted, and that nothing holds.
    pub(super) fn accepted(&self, object: &Identity) {
        self.state().waves.accepted.insert(object.uid.clone());
        self.changed(Event::Removed(object.clone()));
    }

    /// Takes what a list shows after the round before. Returns whether the deletion of the object was accepted in that
    /// round.
    pub(in crate::controller) fn disproves(&self, uid: &Uid) -> bool {
        let waves = &mut self.state().waves;
        let is_known = waves.accepted.remove(uid);
        if is_known {
            waves.disproven.insert(uid.clone());
        }
        is_known
    }

    /// Returns whether a list has shown an object after its deletion was accepted.
    pub(super) fn is_disproven(&self, uid: &Uid) -> bool {
        self.state().waves.disproven.contains(uid)
    }

    /// Reads an owner, unless it was read in this wave. Several workers wait for one read.
    pub(super) async fn read_owner_once(
        &self,
        resource: &ApiResource,
        owner: &Identity,
    ) -> Result<OwnerState, KubernetesError> {
        if !self.is_in_waves {
            return self.read_owner(resource, owner).await;
        }
        let read = self.state().waves.owner(owner, self.now());
        let found = read.get_or_try_init(async || {
            let state = match self.read_owner(resource, owner).await {
                Err(error) if self.is_broken(resource) => OwnerState::Unverified(error.to_string()),
                state => state?,
            };
            Ok((self.now(), state))
        });
        found.await.map(|(_, state)| state.clone())
    }

    /// Returns whether a resource could not be listed in this round. A read that fails, too, is not repeated: the round would
    /// wait for a back-off of seconds, and the next one reads the object again.
    pub(super) fn is_broken(&self, resource: &ApiResource) -> bool {
        let id = self.number(&resource.group(), &resource.resource);
        self.is_in_waves && self.state().resources.lacks_list(id)
    }
}

// === impl Engine: the limit on changed objects ===

impl Engine {
    /// Limits the number of objects that are changed.
    pub(in crate::controller) fn limit_objects(&self, max: Option<usize>) {
        self.state().waves.objects_left = max;
    }

    /// Returns whether the number of objects that are changed is limited.
    pub(in crate::controller) fn is_limited(&self) -> bool {
        self.state().waves.objects_left.is_some()
    }

    /// Takes one object from the limit. Returns false if the limit is reached.
    pub(in crate::controller) fn may_change_one_more(&self) -> bool {
        match &mut self.state().waves.objects_left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    /// Gives an object back that was not changed.
    pub(super) fn may_change_another(&self) {
        if let Some(left) = &mut self.state().waves.objects_left {
            *left += 1;
        }
    }

    /// Returns whether the limit is reached, when so many objects more are changed.
    pub(in crate::controller) fn is_exhausted_after(&self, more: usize) -> bool {
        self.state().waves.objects_left.is_some_and(|left| left <= more)
    }
}

fn uid(change: &Event) -> Option<Uid> {
    match change {
        Event::Seen(observed) => Some(observed.meta.uid.clone()),
        Event::Deleted(_, identity) | Event::ProvenAbsent(identity) | Event::Removed(identity) => {
            Some(identity.uid.clone())
        }
        Event::ListBegins(_) | Event::ListEnds(_) | Event::Unserved(_) | Event::Dropped(_) | Event::Interrupted => None,
    }
}
