//! Live reads of nodes right before their pods are deleted. The answers of a second serve all pods of a node.
//!
//! A pass over thousands of pods takes minutes, and a node may be repaired meanwhile (kubernetes#141887).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::pod_gc::NodeAnswer;

const FRESH: Duration = Duration::from_secs(1);

/// An answer, and when its read began. The lock is held during a read, so that others wait for its answer.
type Slot = Arc<tokio::sync::Mutex<Option<(Instant, NodeAnswer)>>>;

#[derive(Debug, Default)]
pub(super) struct NodeReads(Mutex<HashMap<String, Slot>>);

// === impl NodeReads ===

impl NodeReads {
    pub(super) fn clear(&self) {
        self.slots().clear();
    }

    /// Returns the last answer about a node, or that of `read` if it is not fresh.
    pub(super) async fn get(&self, node: &str, read: impl Future<Output = NodeAnswer>) -> NodeAnswer {
        let slot = Arc::clone(self.slots().entry(node.to_owned()).or_default());
        let mut known = slot.lock().await;
        match &*known {
            Some((at, answer)) if at.elapsed() <= FRESH => answer.clone(),
            _ => {
                let at = Instant::now();
                let answer = read.await;
                *known = Some((at, answer.clone()));
                answer
            }
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<String, Slot>> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
