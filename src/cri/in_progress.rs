//! Which removals are in progress: sent, and not answered yet.
//!
//! A removal is never cancelled, so it can outlive the wait for it and the pass that sent it. Meanwhile it is not sent
//! again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ids of the objects with a removal in progress. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct InProgress(Arc<Mutex<HashSet<String>>>);

/// One removal in progress. It ends when this is dropped.
#[derive(Debug)]
pub struct Removal {
    all: InProgress,
    id: String,
}

// === impl InProgress ===

impl InProgress {
    /// Begins the removal of an object; `None` = one is in progress already.
    pub fn begin(&self, id: &str) -> Option<Removal> {
        self.ids().insert(id.to_owned()).then(|| Removal { all: self.clone(), id: id.to_owned() })
    }

    /// Says whether a removal of this object is in progress.
    pub fn contains(&self, id: &str) -> bool {
        self.ids().contains(id)
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Removal ===

impl Drop for Removal {
    fn drop(&mut self) {
        self.all.ids().remove(&self.id);
    }
}
