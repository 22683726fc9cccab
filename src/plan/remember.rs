//! What a pass teaches.

use crate::model::{Memory, Snapshot};

/// The memory after this snapshot.
pub fn remember(snapshot: &Snapshot) -> Memory {
    snapshot.memory.clone()
}
