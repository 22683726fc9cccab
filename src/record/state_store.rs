//! The store of an agent: what the process has learned, and the file that mirrors it.
//!
//! A change is made in the process first and is then written to the file, in a blocking thread and within a limit (I14).
//! SQLite blocks its thread, and a call on a frozen file system never returns. When the limit passes, the pass continues,
//! and no other call uses the file until the blocked one returns. What comes meanwhile waits. The blocked call itself notes
//! in the end what it wrote, so nothing is written twice.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::database::fault::Cause;
use super::database::mirror::{Mirror, lock};
use super::state::StoreState;
use super::store_error::StoreError;
use crate::host_path::{BoundedCalls, CallError};
use crate::model::Memory;

/// The limit of one call. A healthy disk needs milliseconds, and a lock of another program ends a call after some
/// seconds. The actions in progress at a shutdown and their records end within the limit of the shutdown.
pub const STORE_LIMIT: Duration = Duration::from_secs(10);

/// The memory of an agent and the history, in the process and in one SQLite file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    state: Arc<Mutex<StoreState>>,
    /// Locked by a thread for as long as its call takes. `None` = there is no file.
    pub(super) mirror: Option<Arc<Mutex<Mirror>>>,
    calls: BoundedCalls,
}

// === impl Store ===

impl Store {
    /// Opens the store for writing, within [`STORE_LIMIT`]. The caller holds the [`super::Lock`].
    ///
    /// Creates the directory (mode 0700) and the file (0600) if they do not exist. Renames a damaged file. Ends the runs of
    /// earlier processes that were killed. If the file cannot be used, the store works in memory.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_within(STORE_LIMIT, path).await
    }

    pub(super) async fn open_within(limit: Duration, path: &Path) -> Result<Self, StoreError> {
        let (state, mirror) = (Arc::default(), Arc::new(Mutex::new(Mirror::new(path))));
        let store = Self { path: path.to_owned(), state, mirror: Some(mirror), calls: BoundedCalls::new(limit) };
        if let Some(started) = store.in_thread(Mirror::start).await {
            started?;
        } else {
            lock(&store.state).lose_memory();
        }
        Ok(store)
    }

    /// Opens the store in the thread of the caller, without a limit.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_blocking(path: &Path) -> Result<Self, StoreError> {
        let (state, mut mirror) = (Arc::default(), Mirror::new(path));
        mirror.start(&state)?;
        let mirror = Some(Arc::new(Mutex::new(mirror)));
        Ok(Self { path: path.to_owned(), state, mirror, calls: BoundedCalls::new(STORE_LIMIT) })
    }

    /// Creates a store without a file, for a dry run and for tests.
    pub fn without_file(memory: Memory) -> Self {
        let mut state = StoreState::default();
        state.adopt(&Arc::new(memory));
        Self {
            path: PathBuf::new(),
            state: Arc::new(Mutex::new(state)),
            mirror: None,
            calls: BoundedCalls::new(STORE_LIMIT),
        }
    }

    /// Sets the limit of each call.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { calls: BoundedCalls::new(limit), ..self }
    }

    /// Changes what the process has learned, and writes it to the file before it returns. A kill loses only the records of
    /// the actions in progress (I10). If the file cannot be written, [`Self::fault`] says why.
    pub async fn change<T>(&self, change: impl FnOnce(&mut StoreState) -> T) -> T {
        let (changed, is_due) = self.apply(change);
        if is_due {
            self.in_thread(Mirror::catch_up).await;
        }
        changed
    }

    /// As [`Self::change`], in the thread of the caller and without a limit.
    pub fn change_blocking<T>(&self, change: impl FnOnce(&mut StoreState) -> T) -> T {
        let (changed, is_due) = self.apply(change);
        if let Some(mirror) = self.mirror.as_ref().filter(|_| is_due) {
            lock(mirror).catch_up(&self.state);
        }
        changed
    }

    /// Returns the memory for a pass at `taken_at`, as [`StoreState::recall`].
    pub fn recall(&self, taken_at: Timestamp, look: impl FnOnce() -> (SignedDuration, Timestamp)) -> Memory {
        lock(&self.state).recall(taken_at, look)
    }

    /// Returns when this memory began, if it has: the start of the first agent.
    pub fn begun_at(&self) -> Option<Timestamp> {
        lock(&self.state).memory().agent_started_at
    }

    /// Returns why the file does not have all that this process has learned; `None` = it has.
    pub fn fault(&self) -> Option<String> {
        lock(&self.state).fault(&self.path)
    }

    /// Returns the size of the file and of the log of its last writes, in bytes, within the limit; `None` = unavailable.
    pub async fn size_bytes(&self) -> Option<u64> {
        let path = self.path.clone();
        let log = PathBuf::from(format!("{}-wal", path.display()));
        let size = move || {
            let log = std::fs::metadata(log).map_or(0, |log| log.len());
            Some(std::fs::metadata(path).ok()?.len() + log)
        };
        self.calls.run(&self.path, size).await.ok().flatten()
    }

    /// Writes what the file does not have yet, and closes it, within the limit. A store that is only dropped closes its
    /// file in the caller's thread. Returns why the file does not have everything.
    pub async fn close(mut self) -> Option<String> {
        let ((), is_due) = self.apply(StoreState::retry);
        let (mirror, state) = (self.mirror.take()?, Arc::clone(&self.state));
        let close = move || {
            if is_due {
                lock(&mirror).catch_up(&state);
            }
            drop(mirror);
        };
        self.calls.run(&self.path, close).await.unwrap_or_else(|error| self.blocked(&error));
        self.fault()
    }

    /// Locks the mirror, for tests. A call waits until it is free, as for a disk that does not respond.
    #[cfg(test)]
    pub(super) fn mirror(&self) -> std::sync::MutexGuard<'_, Mirror> {
        lock(self.mirror.as_ref().expect("the store has a file"))
    }

    /// Changes what the process has learned. Returns whether the file is to be written.
    fn apply<T>(&self, change: impl FnOnce(&mut StoreState) -> T) -> (T, bool) {
        let mut state = lock(&self.state);
        let changed = change(&mut state);
        if self.mirror.is_none() {
            state.forget_unwritten();
        }
        (changed, state.is_due())
    }

    /// Calls `work` in a thread. Returns its result, if the file system responds within the limit.
    async fn in_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Mirror, &Mutex<StoreState>) -> T + Send + 'static,
    ) -> Option<T> {
        let (mirror, state) = (Arc::clone(self.mirror.as_ref()?), Arc::clone(&self.state));
        let done = self.calls.run(&self.path, move || work(&mut lock(&mirror), &state)).await;
        done.inspect_err(|error| self.blocked(error)).ok()
    }

    /// Notes that a call did not return. The cause of one that is still blocked is known, unless it returned just now.
    fn blocked(&self, error: &CallError) {
        let text = match error {
            CallError::StillBlocked { .. } if self.fault().is_some() => return,
            CallError::TimedOut { seconds, .. } => format!("file system did not respond within {seconds} s"),
            CallError::StillBlocked { .. } | CallError::Aborted { .. } => error.to_string(),
        };
        lock(&self.state).failed(&self.path, Cause { text, is_full: false });
    }
}
