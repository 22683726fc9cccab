//! What holds a finalizer of garbage collection (G4): a dependent to which nothing can be done now, and a resource that may
//! have dependents that are not known. Both are reported as failures of the owner.

use std::time::Duration;

use super::decision::Next;
use super::engine::{Engine, Key};
use crate::controller::watch::served::Served;
use crate::model::{Identity, Uid};
use crate::owners::{Dependent, Item};

/// A dependent that failed more often does not delay the end of a foreground deletion, unless it blocks.
const FAILURES: u32 = 10;
/// The wait for dependents that are being checked.
const DEPENDENTS: Duration = Duration::from_millis(10);
/// The interval of the checks for resources that were never listed.
const RECHECK: Duration = Duration::from_secs(1);

// === impl Engine ===

impl Engine {
    /// Returns whether a dependent holds its owner, and reports the first one that does.
    pub(super) fn is_held<'a>(&self, owner: &Identity, dependents: impl IntoIterator<Item = &'a Dependent>) -> bool {
        let served = self.served();
        let held = dependents.into_iter().find_map(|Dependent { item, .. }| {
            let mut all = self.state().graph.others_of(&item.identity.uid);
            all.push(item.identity.clone());
            all.into_iter().find_map(|it| Some(format!("its dependent {it}: {}", self.out_of_reach(&served, &it)?)))
        });
        held.map(|cause| self.failed(owner.clone(), cause)).is_some()
    }

    /// Says why an object is left as it is. `None` = it is not.
    fn out_of_reach(&self, served: &Served, object: &Identity) -> Option<String> {
        match served.resource(&object.kind) {
            None => Some(served.why_not(&object.kind)),
            Some(resource) => self.filter.leaves_out(resource, object).map(str::to_owned),
        }
    }

    /// Returns whether a resource may have dependents of this owner that are not known, and reports it. In a service the wait
    /// for them is limited by the guard `orphan_wait`, because a resource that is broken for good must not hold every owner:
    /// a dependent that appears later loses its reference. A single collection does not see it, so its wait has no end.
    pub(in crate::controller) fn lacks_lists(&self, owner: &Identity) -> Option<Next> {
        let limit = self.guards.orphan_wait;
        let wait = if self.is_in_waves && !limit.is_zero() { Duration::MAX } else { limit };
        let names = self.state().resources.unlisted_dependents(owner, wait);
        if names.is_empty() {
            return None;
        }
        self.failed(owner.clone(), format!("its dependents are not all known: {} not listed yet", names.join(", ")));
        Some(Next::Later(RECHECK))
    }

    /// Returns what a foreground deletion waits for that nothing blocks any more, without a call. The dependents come
    /// first: one that does not block is deleted because its owner waits, which it does not any more without the finalizer.
    pub(super) fn delays_end(&self, owner: &Item) -> Option<Next> {
        if !owner.waits_for_dependents {
            return None;
        }
        let uid = &owner.identity.uid;
        // A dependent that blocks is another reason to wait.
        if self.state().graph.any_dependent(uid, |_, blocking| blocking) {
            return None;
        }
        // This is the check of an object that names itself.
        let is_pending = |it: &Uid| it != uid && self.queue.is_pending(&Key::Check(it.clone()), FAILURES);
        if self.state().graph.any_dependent(uid, |it, _| is_pending(it)) {
            return Some(Next::Later(DEPENDENTS));
        }
        self.lacks_lists(&owner.identity)
    }
}
