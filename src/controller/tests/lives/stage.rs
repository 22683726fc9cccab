//! What the parts of one life share: its record, and the troubles that come.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use super::script::{KINDS, Reply, Served, Serving, Sort};
use crate::testing::lives::Record;

/// The stage of a life. All clones are one.
#[derive(Clone)]
pub(super) struct Stage(Arc<Mutex<Acts>>);

/// What happens to the process.
pub(super) struct Acts {
    pub(super) record: Record,
    pub(super) served: Served,
    pub(super) troubles: Vec<(Sort, Reply)>,
    /// After so many requests the process is killed, at one that has an effect or not.
    pub(super) kill: Option<(usize, bool)>,
    pub(super) killed: Arc<Notify>,
    /// The number of all requests.
    pub(super) requests: usize,
}

// === impl Stage ===

impl Stage {
    pub(super) fn new() -> Self {
        let (troubles, kill, killed, requests) = Default::default();
        let (record, served) = (Record::default(), [Serving::Works; KINDS.len()]);
        Self(Arc::new(Mutex::new(Acts { record, served, troubles, kill, killed, requests })))
    }

    pub(super) fn acts(&self) -> MutexGuard<'_, Acts> {
        self.0.lock().unwrap()
    }

    pub(super) fn log(&self, line: impl Display) {
        self.acts().record.log(line);
    }

    pub(super) fn fault(&self, fault: String) {
        self.acts().record.fault(fault);
    }

    /// Returns the next trouble of a request.
    pub(super) fn trouble(&self, sort: Sort) -> Option<Reply> {
        let troubles = &mut self.acts().troubles;
        let at = troubles.iter().position(|(of, _)| *of == sort)?;
        Some(troubles.remove(at).1)
    }
}
