//! The account of the disks, which is taken beside the passes: no removal waits for a walk.

use std::sync::{Arc, Mutex, PoisonError};

use super::Cycle;
use super::planning::{PassKind, Planned};
use crate::model::Seen;
use crate::observe::Part;
use crate::page::Contents;
use crate::plan::{Scope, disk_account};
use crate::store::{disk_by_pod, leftovers};

/// What the last account showed; `None` = none was taken yet. Clones share it.
pub type LastAccount = Arc<Mutex<Option<Contents>>>;

// === impl Cycle ===

impl Cycle {
    /// Observes what fills the disks, and shows it. Returns whether it did: without the store of the runtime it shows nothing, and
    /// under disk pressure it does not observe them, because its walks would delay removals.
    pub async fn take_account(&self) -> bool {
        if self.pressure().await.is_some() {
            return false;
        }
        let planned = Box::pin(self.planned(PassKind::Regular(Scope::All), Part::DISKS.into()));
        let Planned { snapshot, plan, .. } = planned.await;
        let (Seen::Seen(_), Ok(account)) = (&snapshot.store, disk_account(&snapshot, &plan)) else {
            return false;
        };
        let by_pod = disk_by_pod(&snapshot);
        self.store.change(|state| state.trace_images(&snapshot)).await;
        self.metrics.account(&account, &plan.disks);
        self.metrics.contents(&by_pod.namespaces, &leftovers(&snapshot));
        if let Some(last) = &self.last_account {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Contents::new(account, by_pod));
        }
        true
    }

    /// Sets where the last account is shown. The service then takes accounts.
    #[must_use]
    pub fn with_account(self, last_account: &LastAccount) -> Self {
        Self { last_account: Some(Arc::clone(last_account)), ..self }
    }

    /// Returns the bytes that unused images would reclaim, as of the last account; `None` = none was taken yet.
    pub fn reclaimable_bytes(&self) -> Option<u64> {
        let last = self.last_account.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|contents| contents.reclaimable_bytes)
    }

    /// Returns whether the service takes accounts.
    pub fn has_account(&self) -> bool {
        self.last_account.is_some()
    }
}
