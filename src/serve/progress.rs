//! Whether the loops of the agent make progress: for the watchdog of the service manager, and for a liveness probe.
//!
//! Each loop sets the time by which it must move again, and moves it on with every step: an answer, a time-out, the end
//! of a wait. A loop whose time has passed hangs. The runtime, the disks and the API server cannot cause that, because
//! every wait for them has a limit (I14).

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep};

/// Beats within the limit of a loop: a busy machine may delay some of them.
const BEATS: u32 = 6;

/// The times by which the loops must move again. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<BTreeMap<&'static str, Instant>>>);

/// A loop that should have moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stalled {
    /// The loop or the pass.
    pub what: &'static str,
    /// How long ago it should have moved.
    pub overdue: Duration,
}

/// Removes the time of a loop, also when its work is dropped.
struct Watched<'a> {
    progress: &'a Progress,
    what: &'static str,
}

// === impl Progress ===

impl Progress {
    /// Sets the time by which `what` must move again. Replaces its previous time.
    pub fn expect(&self, what: &'static str, by: Instant) {
        self.times().insert(what, by);
    }

    /// Ends the expectation for `what`.
    pub fn forget(&self, what: &'static str) {
        self.times().remove(what);
    }

    /// Returns the loop that is overdue for the longest time; `None` = all make progress.
    pub fn stalled(&self, now: Instant) -> Option<Stalled> {
        let (what, by) = self.times().iter().map(|(what, by)| (*what, *by)).min_by_key(|(_, by)| *by)?;
        (by < now).then(|| Stalled { what, overdue: now - by })
    }

    /// Moves again and again while nothing blocks the thread for longer than `limit`. Never returns.
    pub async fn beat(&self, what: &'static str, limit: Duration) {
        let _watched = Watched { progress: self, what };
        loop {
            self.expect(what, Instant::now() + limit);
            sleep(limit / BEATS).await;
        }
    }

    /// Runs `work`, which must move at least once per `limit`. It moves when something that it waits for ends.
    pub async fn watch<T>(&self, what: &'static str, limit: Duration, work: impl Future<Output = T>) -> T {
        let _watched = Watched { progress: self, what };
        let moves = async {
            let mut work = pin!(work);
            poll_fn(|context| {
                self.expect(what, Instant::now() + limit);
                work.as_mut().poll(context)
            })
            .await
        };
        // A future in this collection is polled only when it was woken itself, not when a sibling of the caller was.
        let mut alone = FuturesUnordered::from_iter([moves]);
        match alone.next().await {
            Some(done) => done,
            None => std::future::pending().await,
        }
    }

    fn times(&self) -> MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Stalled ===

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has made no progress, overdue for {} s", self.what, self.overdue.as_secs())
    }
}

// === impl Watched ===

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.progress.forget(self.what);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn the_loop_overdue_the_longest_is_reported() {
        let (progress, start) = (Progress::default(), Instant::now());
        assert_eq!(progress.stalled(start), None);
        progress.expect("images", start + 2 * MINUTE);
        progress.expect("containers", start + MINUTE);
        assert_eq!(progress.stalled(start + MINUTE), None, "a time that is just reached is in time");
        let stalled = progress.stalled(start + 3 * MINUTE).unwrap();
        assert_eq!(stalled, Stalled { what: "containers", overdue: 2 * MINUTE });
        assert_eq!(stalled.to_string(), "containers has made no progress, overdue for 120 s");
        progress.forget("containers");
        assert_eq!(progress.stalled(start + 3 * MINUTE).unwrap().what, "images");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_progresses_is_never_overdue() {
        let progress = Progress::default();
        let steps = async {
            for _ in 0..100 {
                sleep(MINUTE / 2).await;
                assert_eq!(progress.stalled(Instant::now()), None);
            }
        };
        progress.watch("containers", MINUTE, steps).await;
        advance(100 * MINUTE).await;
        assert_eq!(progress.stalled(Instant::now()), None, "work that ended owes nothing");
    }

    /// The time goes on without a poll, as on a blocked thread.
    #[tokio::test(start_paused = true)]
    async fn a_beat_is_overdue_only_on_a_blocked_thread() {
        let progress = Progress::default();
        let free = async {
            sleep(10 * MINUTE).await;
            progress.stalled(Instant::now())
        };
        let stalled = tokio::select! {
            () = progress.beat("the thread", MINUTE) => panic!("it never ends"),
            stalled = free => stalled,
        };
        assert_eq!(stalled, None);
        let mut beat = pin!(progress.beat("the thread", MINUTE));
        assert!(beat.as_mut().now_or_never().is_none());
        let blocked_until = Instant::now() + MINUTE + Duration::from_secs(1);
        assert_eq!(progress.stalled(blocked_until).map(|stalled| stalled.what), Some("the thread"));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_overdue_although_its_siblings_move() {
        let progress = Progress::default();
        let hangs = progress.watch("images", MINUTE, pending::<()>());
        let moves = async {
            for _ in 0..61 {
                sleep(Duration::from_secs(1)).await;
            }
            progress.stalled(Instant::now())
        };
        let stalled = tokio::select! {
            () = hangs => None,
            stalled = moves => stalled,
        };
        assert_eq!(stalled.map(|stalled| stalled.what), Some("images"));
        assert_eq!(progress.stalled(Instant::now() + MINUTE), None, "work that was dropped owes nothing");
    }
}
