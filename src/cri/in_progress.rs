//! The removals in progress: sent, but not answered yet.
//!
//! A removal is never canceled, so it can outlive the wait for it and the pass that sent it. While it is in progress,
//! it is not sent again. After [`LOST_AFTER`] without an answer it counts as lost and may be sent again. A removal can
//! be repeated safely, and without a repetition the object would never be removed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A removal without an answer for this long counts as lost. A runtime needs far less time to delete an object.
const LOST_AFTER: Duration = Duration::from_hours(1);

/// The objects with a removal in progress, by id, with the time when the removal began. Clones share the map.
#[derive(Clone, Debug, Default)]
pub struct InProgress(Arc<Mutex<HashMap<String, Instant>>>);

/// One removal in progress. Dropping it ends the removal.
#[derive(Debug)]
pub struct Removal {
    all: InProgress,
    id: String,
    since: Instant,
}

// === impl InProgress ===

impl InProgress {
    /// Begins the removal of an object; `None` = a removal of it is already in progress.
    pub fn begin(&self, id: &str) -> Option<Removal> {
        let mut ids = self.ids();
        if is_in_progress(&ids, id) {
            return None;
        }
        let since = Instant::now();
        ids.insert(id.to_owned(), since);
        Some(Removal { all: self.clone(), id: id.to_owned(), since })
    }

    /// Returns whether a removal of this object is in progress.
    pub fn contains(&self, id: &str) -> bool {
        is_in_progress(&self.ids(), id)
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Removal ===

impl Drop for Removal {
    fn drop(&mut self) {
        let mut ids = self.all.ids();
        // A removal that counted as lost must not end the later removal of the same object.
        if ids.get(&self.id) == Some(&self.since) {
            ids.remove(&self.id);
        }
    }
}

fn is_in_progress(ids: &HashMap<String, Instant>, id: &str) -> bool {
    ids.get(id).is_some_and(|since| since.elapsed() < LOST_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_an_ended_or_lost_removal_is_resent() {
        let all = InProgress::default();
        let first = all.begin("c1").expect("nothing is in progress");
        assert!(all.begin("c1").is_none() && all.begin("c2").is_some());
        tokio::time::advance(LOST_AFTER.saturating_sub(Duration::from_secs(1))).await;
        assert!(all.contains("c1") && all.begin("c1").is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!all.contains("c1"));
        let second = all.begin("c1").expect("the first one is lost");
        drop(first);
        assert!(all.contains("c1"), "the second one is still in progress");
        drop(second);
        assert!(!all.contains("c1"));
    }
}
