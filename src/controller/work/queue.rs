//! The work queue: each key waits at most once, and is processed by one worker at a time.
//!
//! As in client-go, except that namespaces have their turns ([`ready`]): a key that is added while it is processed is processed again afterward, and a key that failed waits
//! with a back-off of its own.

mod ready;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::ready::{Ready, Share};
use crate::metrics::QueueTimings;
use crate::model::Backoff;

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_mins(5);
/// How many times the wait that a busy server wants a key waits at most.
const THROTTLED: u32 = 4;

/// Keys to process, in order.
#[derive(Debug)]
pub(in crate::controller) struct WorkQueue<K> {
    state: Mutex<State<K>>,
    /// A key is ready, or the moment of the next one has changed. Wakes one worker.
    ready: Notify,
    /// A key was processed.
    ended: Notify,
    timings: QueueTimings,
}

#[derive(Debug)]
struct State<K> {
    ready: Ready<K>,
    /// The keys that wait in `ready` or are to be processed again, and since when.
    dirty: HashMap<K, (Share, Instant)>,
    /// The keys that are processed, and since when.
    processing: HashMap<K, (Share, Instant)>,
    /// The keys that wait for a moment, by that moment and the order of their arrival.
    delayed: BTreeMap<(Instant, u64), (Share, K)>,
    due: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    arrivals: u64,
    totals: QueueTotals,
    is_closed: bool,
}

/// How many keys there were since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct QueueTotals {
    /// Became ready.
    pub(super) adds: u64,
    /// Failed, and are tried again.
    pub(super) retries: u64,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueueLength {
    pub ready: usize,
    pub processing: usize,
    pub delayed: usize,
}

// === impl WorkQueue ===

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    pub(in crate::controller) fn timed(timings: QueueTimings) -> Self {
        Self { timings, ..Self::default() }
    }

    /// Leaves workers to the other shares, whatever one has to do.
    pub(in crate::controller) fn share_out(&self, workers: usize) {
        self.state().ready.share_out(workers);
    }

    /// Adds a key. A key that waits after a failure becomes ready at once.
    pub(super) fn add(&self, share: Share, key: K) {
        self.state().add(share, key, Ready::push);
        self.ready.notify_one();
    }

    /// Adds a key that is processed before the others of its share that are ready.
    pub(super) fn add_first(&self, share: Share, key: K) {
        self.state().add(share, key, Ready::push_first);
        self.ready.notify_one();
    }

    /// Returns the next key, when there is one. `None` = the queue is closed.
    pub(in crate::controller) async fn next(&self) -> Option<K> {
        loop {
            let changed = self.ready.notified();
            let due = {
                let mut state = self.state();
                if state.is_closed {
                    return None;
                }
                if let Some((key, waited)) = state.take(Instant::now()) {
                    self.timings.waited(waited);
                    return Some(key);
                }
                state.next_due()
            };
            match due {
                None => changed.await,
                Some(due) => tokio::select! { biased; () = changed => {}, () = sleep_until(due) => {} },
            }
        }
    }

    /// Ends the processing of a key. Its earlier failures are forgotten.
    pub(super) fn done(&self, key: &K) {
        let mut state = self.state();
        state.failures.remove(key);
        self.end(state, key);
    }

    /// Ends the processing of a key that failed. It is ready again after its back-off, and not before `at_least`.
    pub(super) fn fail(&self, key: &K, at_least: Duration) {
        self.try_again(key, |backoff| backoff.max(at_least));
    }

    /// Ends the processing of a key that failed because the server has too many requests. Its back-off remains near the wait
    /// that the server wants: the server is free again before a back-off of minutes ends.
    pub(super) fn throttled(&self, key: &K, wait: Duration) {
        self.try_again(key, |backoff| backoff.clamp(wait, wait * THROTTLED));
    }

    fn try_again(&self, key: &K, wait: impl FnOnce(Duration) -> Duration) {
        let mut state = self.state();
        let failures = state.failures.entry(key.clone()).or_default();
        let wait = wait(Backoff::new(FIRST, LONGEST).after(*failures).wait());
        *failures += 1;
        state.totals.retries += 1;
        state.delay(key.clone(), Instant::now() + wait);
        self.end(state, key);
    }

    /// Ends the processing of a key that is not processed again before `wait` is over or it is added again. Its earlier
    /// failures are forgotten.
    pub(super) fn defer(&self, key: &K, wait: Duration) {
        let mut state = self.state();
        state.failures.remove(key);
        state.delay(key.clone(), Instant::now() + wait);
        self.end(state, key);
    }

    /// Ends the processing of a key without a result. Its earlier failures still count, until [`Self::done`].
    pub(in crate::controller) fn pause(&self, key: &K) {
        self.end(self.state(), key);
    }

    /// Forgets a key that waits for a moment, and its failures: its object ended. One that is ready finds that out.
    pub(super) fn forget(&self, key: &K) {
        let mut state = self.state();
        state.failures.remove(key);
        if let Some(at) = state.due.remove(key) {
            state.delayed.remove(&at);
        }
        state.shrink();
    }

    /// Returns whether a key is ready or being processed, or has failed fewer than `failures` times and is tried again.
    pub(in crate::controller) fn is_pending(&self, key: &K, failures: u32) -> bool {
        let state = self.state();
        let is_retried = || state.due.contains_key(key) && state.failures.get(key).is_some_and(|it| *it < failures);
        state.dirty.contains_key(key) || state.processing.contains_key(key) || is_retried()
    }

    /// Waits until no key is ready or being processed, and each that waits has failed `failures` times or was deferred.
    pub(in crate::controller) async fn settled(&self, failures: u32) {
        loop {
            let ended = self.ended.notified();
            if self.state().is_settled(failures) {
                return;
            }
            ended.await;
        }
    }

    /// Ends [`Self::next`]: no key is handed out any more.
    pub(in crate::controller) fn close(&self) {
        self.state().is_closed = true;
        self.ready.notify_waiters();
    }

    pub(in crate::controller) fn len(&self) -> QueueLength {
        let state = self.state();
        let (ready, processing, delayed) = (state.ready.len(), state.processing.len(), state.delayed.len());
        QueueLength { ready, processing, delayed }
    }

    /// Returns the number of keys since the start.
    pub(super) fn totals(&self) -> QueueTotals {
        self.state().totals
    }

    fn end(&self, mut state: MutexGuard<'_, State<K>>, key: &K) {
        let worked = state.end(key);
        drop(state);
        if let Some(time) = worked {
            self.timings.worked(time);
        }
        self.ready.notify_one();
        self.ended.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = State {
            ready: Ready::default(),
            dirty: HashMap::new(),
            processing: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            arrivals: 0,
            totals: QueueTotals::default(),
            is_closed: false,
        };
        Self { state: Mutex::new(state), ready: Notify::new(), ended: Notify::new(), timings: QueueTimings::default() }
    }
}

// === impl State ===

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, share: Share, key: K, push: fn(&mut Ready<K>, Share, K)) {
        if let Some(at) = self.due.remove(&key) {
            self.delayed.remove(&at);
        }
        if self.dirty.contains_key(&key) {
            return;
        }
        self.dirty.insert(key.clone(), (share.clone(), Instant::now()));
        self.totals.adds += 1;
        if !self.processing.contains_key(&key) {
            push(&mut self.ready, share, key);
        }
    }

    /// Returns the next key, and for how long it was ready.
    fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let (share, key) = entry.remove();
            self.due.remove(&key);
            self.add(share, key, Ready::push);
        }
        let (share, key) = self.ready.take()?;
        let since = self.dirty.remove(&key).map_or(now, |(_, since)| since);
        self.processing.insert(key.clone(), (share, now));
        Some((key, now.saturating_duration_since(since)))
    }

    /// Returns how long the processing took. `None` = the key was not processed.
    fn end(&mut self, key: &K) -> Option<Duration> {
        let processed = self.processing.remove(key);
        if let Some((share, _)) = &processed {
            self.ready.end(share);
            // One that was not processed is in `ready` already.
            if let Some((share, _)) = self.dirty.get(key) {
                self.ready.push(share.clone(), key.clone());
            }
        }
        self.shrink();
        processed.map(|(_, since)| since.elapsed())
    }

    /// Gives the memory of tables back that were large once.
    fn shrink(&mut self) {
        shrink(&mut self.dirty);
        shrink(&mut self.processing);
        shrink(&mut self.due);
        shrink(&mut self.failures);
    }

    /// A key that is to be processed again anyway does not wait.
    fn delay(&mut self, key: K, until: Instant) {
        if self.dirty.contains_key(&key) || self.due.contains_key(&key) {
            return;
        }
        // A key of a wave is not processed any more. Waves are not shared out.
        let share = self.processing.get(&key).map(|(share, _)| share.clone()).unwrap_or_default();
        self.arrivals += 1;
        self.due.insert(key.clone(), (until, self.arrivals));
        self.delayed.insert((until, self.arrivals), (share, key));
    }

    fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }

    fn is_settled(&self, failures: u32) -> bool {
        let has_failed = |key: &K| self.failures.get(key).is_none_or(|count| *count >= failures);
        self.ready.is_empty() && self.processing.is_empty() && self.delayed.values().all(|(_, key)| has_failed(key))
    }
}

/// Each time at most an eighth of a table is in use, so that many keys are moved once.
fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.len() < table.capacity() / 8 {
        table.shrink_to(table.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{ControllerMetrics, EngineFigures, Exposition};

    #[tokio::test(start_paused = true)]
    async fn a_key_added_while_processed_is_processed_again() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        queue.add("ns1".into(), "b");
        queue.add("ns1".into(), "a");
        assert_eq!(queue.next().await, Some("a"));
        queue.add("ns1".into(), "a");
        assert_eq!(queue.next().await, Some("b"), "one worker at a time has a key");
        assert_eq!(queue.len(), QueueLength { ready: 0, processing: 2, delayed: 0 });
        queue.done(&"a");
        assert_eq!(queue.next().await, Some("a"));
        queue.done(&"a");
        queue.done(&"b");
        assert_eq!(queue.len(), QueueLength::default());
    }

    /// A wave ends keys that no worker processes any more.
    #[tokio::test(start_paused = true)]
    async fn a_ready_key_that_ends_is_not_handed_out_twice() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        queue.done(&"a");
        assert_eq!(queue.len(), QueueLength { ready: 1, processing: 0, delayed: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn ready_keys_and_failures_are_counted_once() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        queue.add("ns1".into(), "a");
        assert_eq!(queue.totals(), QueueTotals { adds: 1, retries: 0 });
        queue.next().await;
        queue.fail(&"a", Duration::ZERO);
        queue.next().await;
        queue.done(&"a");
        assert_eq!(queue.totals(), QueueTotals { adds: 2, retries: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_the_queue_and_in_processing_is_counted() {
        let metrics = ControllerMetrics::default();
        let queue = WorkQueue::timed(metrics.timings());
        queue.add("ns1".into(), "a");
        tokio::time::advance(Duration::from_secs(2)).await;
        queue.next().await;
        queue.add("ns1".into(), "a");
        tokio::time::advance(Duration::from_secs(3)).await;
        queue.done(&"a");
        tokio::time::advance(Duration::from_secs(4)).await;
        queue.next().await;
        let text = metrics.text(Exposition::Prometheus, &EngineFigures::default());
        let name = "{name=\"garbage_collector_attempt_to_delete\"}";
        // It was added again when its processing began.
        for sample in
            ["queue_duration_seconds_sum 9.0", "queue_duration_seconds_count 2", "work_duration_seconds_sum 3.0"]
        {
            let (metric, value) = sample.split_once(' ').unwrap();
            assert!(text.contains(&format!("workqueue_{metric}{name} {value}\n")), "{sample}\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_tried_again_soon_however_often_it_refuses() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        for _ in 0..30 {
            let begun = Instant::now();
            assert_eq!(queue.next().await, Some("a"));
            assert!(begun.elapsed() <= Duration::from_secs(4), "{:?}", begun.elapsed());
            queue.throttled(&"a", Duration::from_secs(1));
        }
        let begun = Instant::now();
        queue.next().await;
        assert!(begun.elapsed() >= Duration::from_secs(1), "the wait that the server wants");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_doubles_the_wait_and_success_forgets_it() {
        let (queue, begun) = (WorkQueue::default(), Instant::now());
        queue.add("ns1".into(), "a");
        let mut waits = Vec::new();
        for _ in 0..4 {
            assert_eq!(queue.next().await, Some("a"));
            waits.push(begun.elapsed().as_millis());
            queue.fail(&"a", Duration::ZERO);
        }
        assert_eq!(waits, [0, 5, 15, 35]);
        assert_eq!(queue.next().await, Some("a"));
        queue.done(&"a");
        queue.add("ns1".into(), "a");
        queue.next().await;
        let again = Instant::now();
        queue.fail(&"a", Duration::ZERO);
        queue.next().await;
        assert_eq!(again.elapsed(), FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn the_back_off_honors_the_server_within_limits() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        for wanted in [Duration::from_secs(7), Duration::ZERO] {
            queue.next().await;
            let begun = Instant::now();
            queue.fail(&"a", wanted);
            queue.next().await;
            assert_eq!(begun.elapsed(), wanted.max(FIRST * 2_u32.pow(u32::from(wanted.is_zero()) * 2)));
            queue.fail(&"a", Duration::ZERO);
        }
        for _ in 0..30 {
            queue.next().await;
            queue.fail(&"a", Duration::ZERO);
        }
        let begun = Instant::now();
        queue.next().await;
        assert_eq!(begun.elapsed(), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn an_added_key_does_not_wait_any_longer() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        queue.next().await;
        queue.defer(&"a", LONGEST);
        let begun = Instant::now();
        queue.add("ns1".into(), "a");
        assert_eq!((queue.next().await, begun.elapsed()), (Some("a"), Duration::ZERO));
        queue.done(&"a");
        assert_eq!(queue.len(), QueueLength::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_settles_with_failed_and_deferred_keys() {
        let (queue, begun) = (WorkQueue::default(), Instant::now());
        queue.add("ns1".into(), "fails");
        queue.add("ns1".into(), "deferred");
        let work = async {
            while let Some(key) = queue.next().await {
                match key {
                    "fails" => queue.fail(&key, Duration::ZERO),
                    _ => queue.defer(&key, LONGEST),
                }
            }
        };
        let wait = async {
            queue.settled(4).await;
            queue.close();
        };
        tokio::join!(work, wait);
        assert_eq!(begun.elapsed().as_millis(), 35, "the fourth failure");
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_key_keeps_failures_and_is_not_pending() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        queue.next().await;
        queue.fail(&"a", Duration::ZERO);
        assert!(queue.is_pending(&"a", 2) && !queue.is_pending(&"a", 1));
        queue.next().await;
        assert!(queue.is_pending(&"a", 1));
        queue.pause(&"a");
        assert!(!queue.is_pending(&"a", 2));
        let begun = Instant::now();
        queue.fail(&"a", Duration::ZERO);
        queue.next().await;
        assert_eq!(begun.elapsed(), FIRST * 2);
        queue.defer(&"a", LONGEST);
        assert!(!queue.is_pending(&"a", 9), "it waits for something else");
    }

    #[tokio::test(start_paused = true)]
    async fn many_keys_leave_no_memory() {
        let queue = WorkQueue::default();
        (0..100_000).for_each(|key| queue.add("ns1".into(), key));
        for _ in 0..100_000 {
            let key = queue.next().await.unwrap();
            if key % 2 == 0 { queue.done(&key) } else { queue.fail(&key, LONGEST) }
        }
        assert_eq!(queue.len(), QueueLength { ready: 0, processing: 0, delayed: 50_000 });
        (0..100_000).for_each(|key| queue.forget(&key));
        assert_eq!(queue.len(), QueueLength::default());
        let state = queue.state();
        let tables =
            [state.dirty.capacity(), state.processing.capacity(), state.due.capacity(), state.failures.capacity()];
        assert!(tables.iter().all(|capacity| *capacity < 100), "{tables:?}");
        assert!(state.ready.is_empty() && state.delayed.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_hands_out_nothing() {
        let queue = WorkQueue::default();
        queue.add("ns1".into(), "a");
        queue.close();
        assert_eq!(queue.next().await, None::<&str>);
    }
}
