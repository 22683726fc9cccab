//! Calls to file systems off the async threads, within a limit.
//!
//! A mount whose server is gone answers no system call, not even to a signal. A thread that is caught in one cannot be
//! ended, so there is never more than one for each place: the next call waits for it as long as it is in time, and after
//! that is refused at once until the hung one returns. The threads are those of tokio's blocking pool. A runtime that is
//! dropped waits for them, so the process must end its runtime with `shutdown_background`, as `cli::live::block_on` does.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::ObserveError;

/// The places that are looked at. Clones share them.
#[derive(Clone, Debug)]
pub struct Aside {
    limit: Duration,
    spots: Arc<Mutex<HashMap<PathBuf, Arc<Spot>>>>,
}

/// One place.
#[derive(Debug, Default)]
struct Spot {
    turn: Arc<tokio::sync::Mutex<()>>,
    hangs: AtomicBool,
}

/// A look under way. However it ends, the place is free again.
struct Turn {
    spot: Arc<Spot>,
    _lock: OwnedMutexGuard<()>,
}

// === impl Aside ===

impl Aside {
    /// Looks that take at most `limit` each, the wait for the one before included.
    pub fn new(limit: Duration) -> Self {
        Self { limit, spots: Arc::default() }
    }

    /// Runs `look`, which looks at `path`, and waits for it.
    pub async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ObserveError> {
        let spot = self.spot(path);
        if spot.hangs.load(Ordering::SeqCst) {
            return Err(ObserveError::StillHangs { path: path.to_owned() });
        }
        let hangs = || ObserveError::Hangs { path: path.to_owned(), seconds: self.limit.as_secs() };
        let broken = |source| ObserveError::Look { path: path.to_owned(), source };
        let turn = timeout(self.limit, Arc::clone(&spot.turn).lock_owned()).await.map_err(|_| hangs())?;
        let (to, mut answer) = oneshot::channel();
        let turn = Turn { spot: Arc::clone(&spot), _lock: turn };
        let thread = move || {
            let _back = turn;
            let _sent = to.send(look());
        };
        tokio::task::spawn_blocking(thread);
        if let Ok(answer) = timeout(self.limit, &mut answer).await {
            return answer.map_err(|_| broken(io::Error::other("the look ended without an answer")));
        }
        spot.hangs.store(true, Ordering::SeqCst);
        // The thread may have answered between the limit and the mark, and would not come back to lift it.
        match answer.try_recv() {
            Ok(answer) => {
                spot.hangs.store(false, Ordering::SeqCst);
                Ok(answer)
            }
            Err(_) => Err(hangs()),
        }
    }

    fn spot(&self, path: &Path) -> Arc<Spot> {
        let mut spots = self.spots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(spots.entry(path.to_owned()).or_default())
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        self.spot.hangs.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A look that hangs until the test lets it go, and tells when it has come back.
    struct Hung {
        release: mpsc::Sender<()>,
        look: Option<Box<dyn FnOnce() + Send>>,
    }

    fn hung() -> Hung {
        let (release, held) = mpsc::channel();
        Hung { release, look: Some(Box::new(move || held.recv().unwrap())) }
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_given_up_and_not_begun_again_until_it_comes_back() {
        let aside = Aside::new(Duration::from_millis(50));
        let mut hung = hung();
        let error = aside.run("/mnt/dead".as_ref(), hung.look.take().unwrap()).await.unwrap_err();
        assert!(matches!(error, ObserveError::Hangs { .. }), "{error}");

        let begun = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&begun);
        let error = aside.run("/mnt/dead".as_ref(), move || mark.store(true, Ordering::SeqCst)).await.unwrap_err();
        assert!(matches!(error, ObserveError::StillHangs { .. }), "{error}");
        assert!(!begun.load(Ordering::SeqCst), "no second thread hangs at the same place");
        assert_eq!(aside.run("/mnt/alive".as_ref(), || 7).await.unwrap(), 7, "other places are looked at");

        hung.release.send(()).unwrap();
        let back = async {
            while aside.run("/mnt/dead".as_ref(), || ()).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), back).await.expect("the place is looked at again");
    }

    #[tokio::test]
    async fn two_looks_at_one_place_take_turns() {
        let aside = Aside::new(Duration::from_secs(10));
        let (hung, other) = (hung(), aside.clone());
        let look = hung.look.unwrap();
        let first = tokio::spawn(async move { other.run("/mnt/x".as_ref(), look).await });
        let begun = async {
            while aside.spot("/mnt/x".as_ref()).turn.try_lock().is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), begun).await.expect("the first look holds the turn");
        let (other, release) = (aside.clone(), hung.release);
        let second = tokio::spawn(async move { other.run("/mnt/x".as_ref(), || "second").await });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        assert_eq!(second.await.unwrap().unwrap(), "second");
    }

    #[tokio::test]
    async fn a_look_that_panics_is_an_error() {
        let aside = Aside::new(Duration::from_secs(10));
        let error = aside.run("/mnt/x".as_ref(), || assert_eq!(1, 2, "on purpose")).await.unwrap_err();
        assert!(matches!(error, ObserveError::Look { .. }), "{error}");
    }
}
