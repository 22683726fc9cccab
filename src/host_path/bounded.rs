//! Runs file-system calls in blocking threads, within a limit.
//!
//! A call to a mount whose server is down, or to a frozen file system, blocks without end, and no signal interrupts it.
//! A blocked thread cannot be ended, so there is at most one per place. The next call waits for it until the limit.
//! Later calls are refused at once until the blocked call returns. The threads are those of tokio's blocking pool.
//! Dropping a runtime waits for them, so the process ends its runtime with `shutdown_background` (`cli/input/session.rs`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
#[cfg(not(test))]
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

#[cfg(test)]
use crate::testing::in_memory::spawn_blocking;

/// The default limit of one call, enough to read a directory or remove a tree of some thousand entries.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs file-system calls with a limit and at most one thread per place. Clones share the places.
#[derive(Clone, Debug)]
pub struct BoundedCalls {
    limit: Duration,
    places: Arc<Mutex<HashMap<PathBuf, Arc<PlaceState>>>>,
}

/// A call that did not return a result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The limit passed. The call continues in its thread.
    #[error("cannot access {}: file system did not respond within {seconds} s; the call continues", place.display())]
    TimedOut { place: PathBuf, seconds: u64 },
    /// An earlier call to the same place has not returned since its limit passed, so this one was not started.
    #[error("cannot access {}: an earlier call is still blocked in the file system", place.display())]
    StillBlocked { place: PathBuf },
    /// The call panicked, or the async runtime shut down before it started.
    #[error("cannot access {}: the call ended without a result", place.display())]
    Aborted { place: PathBuf },
}

#[derive(Debug, Default)]
struct PlaceState {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// When the limit of the call in progress passes.
    overdue_at: Mutex<Option<Instant>>,
}

/// A call in progress. Dropping it frees the place, for every outcome of the call.
struct InProgress {
    state: Arc<PlaceState>,
    _lock: OwnedMutexGuard<()>,
}

// === impl BoundedCalls ===

impl Default for BoundedCalls {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl BoundedCalls {
    /// Creates calls that take at most `limit` each, after a wait of at most `limit` for the previous call.
    pub fn new(limit: Duration) -> Self {
        Self { limit, places: Arc::default() }
    }

    /// Returns the same calls with another limit. The places are shared.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self { limit, ..self.clone() }
    }

    /// Runs `call` in a thread and waits for its result. `place` names the mount, root or directory that may block. It
    /// is not each file in it, because each place may take the limit once.
    ///
    /// # Errors
    /// The limit passed, an earlier call to `place` is still blocked, or `call` panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        place: &Path,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let state = self.state(place);
        if state.is_overdue() {
            return Err(CallError::StillBlocked { place: place.to_owned() });
        }
        let timed_out = || CallError::TimedOut { place: place.to_owned(), seconds: self.limit.as_secs() };
        let lock = loop {
            match timeout(self.limit, Arc::clone(&state.lock).lock_owned()).await {
                Ok(lock) => break lock,
                Err(_) if state.is_overdue() => return Err(timed_out()),
                // Others had the place, each within the limit: it works.
                Err(_) => {}
            }
        };
        *state.overdue_at() = Instant::now().checked_add(self.limit);
        let in_progress = InProgress { state, _lock: lock };
        let thread = spawn_blocking(move || {
            let _until_it_returns = in_progress;
            call()
        });
        let returned = timeout(self.limit, thread).await.map_err(|_| timed_out())?;
        returned.map_err(|_| CallError::Aborted { place: place.to_owned() })
    }

    fn state(&self, place: &Path) -> Arc<PlaceState> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(place.to_owned()).or_default())
    }
}

// === impl PlaceState ===

impl PlaceState {
    fn overdue_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.overdue_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the call in progress has passed its limit.
    fn is_overdue(&self) -> bool {
        self.overdue_at().is_some_and(|at| at <= Instant::now())
    }
}

// === impl InProgress ===

impl Drop for InProgress {
    fn drop(&mut self) {
        *self.state.overdue_at() = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// The longest wait of a test.
    const BOUND: Duration = Duration::from_secs(30);

    /// Returns a call that blocks until the test sends the release.
    fn blocked() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (release, held) = mpsc::channel();
        (release, move || held.recv().unwrap())
    }

    #[tokio::test]
    async fn no_second_call_starts_until_a_blocked_call_returns() {
        let calls = BoundedCalls::new(Duration::from_millis(50));
        let (release, call) = blocked();
        let error = calls.run("/mnt/dead".as_ref(), call).await.unwrap_err();
        assert!(matches!(error, CallError::TimedOut { .. }), "{error}");

        let started = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&started);
        let error = calls.run("/mnt/dead".as_ref(), move || mark.store(true, Ordering::SeqCst)).await.unwrap_err();
        assert!(matches!(error, CallError::StillBlocked { .. }), "{error}");
        assert!(!started.load(Ordering::SeqCst), "no second thread blocks at the same place");
        let others = calls.with_limit(BOUND);
        assert_eq!(others.run("/mnt/alive".as_ref(), || 7).await.unwrap(), 7, "other places are accessible");

        release.send(()).unwrap();
        let accessible = async {
            while calls.run("/mnt/dead".as_ref(), || ()).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(BOUND, accessible).await.expect("the place is accessible again");
    }

    #[tokio::test]
    async fn clones_refuse_a_place_blocked_by_another_clone() {
        let calls = BoundedCalls::new(Duration::from_millis(50));
        let (release, call) = blocked();
        calls.clone().run("/mnt/dead".as_ref(), call).await.unwrap_err();
        let error = calls.run("/mnt/dead".as_ref(), || ()).await.unwrap_err();
        assert!(matches!(error, CallError::StillBlocked { .. }), "{error}");
        release.send(()).unwrap();
    }

    #[tokio::test]
    async fn calls_to_one_place_run_sequentially() {
        let calls = BoundedCalls::new(BOUND);
        let ((release, call), other) = (blocked(), calls.clone());
        let first = tokio::spawn(async move { other.run("/mnt/x".as_ref(), call).await });
        let started = async {
            while calls.state("/mnt/x".as_ref()).lock.try_lock().is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(BOUND, started).await.expect("the first call holds the lock");
        let other = calls.clone();
        let second = tokio::spawn(async move { other.run("/mnt/x".as_ref(), || "second").await });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        assert_eq!(second.await.unwrap().unwrap(), "second");
    }

    #[tokio::test]
    async fn a_call_that_panics_is_an_error() {
        let calls = BoundedCalls::new(BOUND);
        let error = calls.run("/mnt/x".as_ref(), || assert_eq!(1, 2, "on purpose")).await.unwrap_err();
        assert!(matches!(error, CallError::Aborted { .. }), "{error}");
        assert!(calls.run("/mnt/x".as_ref(), || ()).await.is_ok());
    }
}
