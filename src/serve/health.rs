//! Whether a process works: its loops move, and its sources have answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{Progress, Stalled};

/// The health of a process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    progress: Progress,
}

#[derive(Debug, Default)]
struct State {
    missing: BTreeMap<&'static str, String>,
    notes: BTreeMap<&'static str, String>,
}

// === impl Health ===

impl Health {
    /// Creates the health of a process whose loops record their progress here.
    pub fn of(progress: Progress) -> Self {
        Self { progress, ..Self::default() }
    }

    /// Returns where the loops record their progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Records that something is missing. The process is not ready until [`Self::has`].
    pub fn lacks(&self, what: &'static str, cause: impl Into<String>) {
        self.state().missing.insert(what, cause.into());
    }

    /// Records that something is there.
    pub fn has(&self, what: &'static str) {
        self.state().missing.remove(what);
    }

    /// Shows a fact on the page about readiness.
    pub fn note(&self, what: &'static str, text: impl Into<String>) {
        self.state().notes.insert(what, text.into());
    }

    /// Returns the loop without progress. `None` = the process is alive.
    pub fn stalled(&self) -> Option<Stalled> {
        self.progress.stalled(Instant::now())
    }

    /// Returns a line for each missing source. Empty = the process is ready.
    pub fn missing(&self) -> Vec<String> {
        lines(&self.state().missing)
    }

    /// Returns a line for each fact.
    pub fn notes(&self) -> Vec<String> {
        lines(&self.state().notes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lines(facts: &BTreeMap<&'static str, String>) -> Vec<String> {
    facts.iter().map(|(what, text)| format!("{what}: {text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_nothing_is_missing() {
        let health = Health::default();
        health.lacks("runtime", "waiting");
        health.lacks("runtime", "no such socket");
        health.note("lease", "standby");
        assert_eq!(health.missing(), ["runtime: no such socket"]);
        health.has("runtime");
        assert_eq!((health.missing(), health.notes()), (Vec::new(), vec!["lease: standby".to_owned()]));
    }
}
