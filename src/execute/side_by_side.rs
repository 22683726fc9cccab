//! Actions of different pods at the same time.
//!
//! A runtime answers several removals sooner than one after the other (`benches/removal.rs`). The order within a pod holds:
//! its next action begins when the last one has ended and is recorded (I10), and its sandboxes come after all containers.
//! Images are removed one at a time, because containerd collects behind one lock (containerd#11021), and logs too, because
//! they are on one disk.
//!
//! A pass begins with one removal at a time. Each quick answer permits one more, and a slow one takes that back. So a runtime
//! that hangs has no more removals in flight than without this module.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::ReportSink;
use super::execution::Run;
use crate::plan::{Action, Kind, Report};

/// The most removals in flight. More gain nothing on containerd: its own locks are the limit then.
const MOST_AT_ONCE: usize = 4;
/// A removal that takes longer is slow: an idle runtime needs some hundredths of it.
const SLOW: Duration = Duration::from_secs(1);

/// The permits for actions: each action in flight holds one.
struct Permits {
    free: Semaphore,
    /// The number of permits, free or held.
    count: Mutex<usize>,
    most: usize,
}

/// The reports to write. Reports that arrive during a write are written together after it.
pub(super) struct ReportQueue<'a, S> {
    sink: tokio::sync::Mutex<&'a mut S>,
    waiting: Mutex<Vec<Report>>,
}

// === impl Run ===

impl Run<'_> {
    /// Carries out actions of one kind.
    pub(super) async fn side_by_side(&self, actions: &[Action], queue: &ReportQueue<'_, impl ReportSink>) {
        let Some(kind) = actions.first().map(|action| action.target.kind()) else { return };
        let most = if matches!(kind, Kind::Container | Kind::Sandbox) { MOST_AT_ONCE } else { 1 };
        let permits = Permits::new(most);
        let in_order = async |lane: Vec<&Action>| {
            for action in lane {
                self.act_with_permit(action, &permits, queue).await;
            }
        };
        stream::iter(lanes(actions, most)).for_each_concurrent(most, in_order).await;
    }

    async fn act_with_permit(&self, action: &Action, permits: &Permits, queue: &ReportQueue<'_, impl ReportSink>) {
        let Ok(permit) = permits.free.acquire().await else { return };
        let kind = action.target.kind();
        self.pause_before(kind).await;
        let _entered = self.exec.gate.enter().await;
        if !self.may_begin(kind).await {
            return self.not_begun(kind);
        }
        let begun = Instant::now();
        let report = self.act(action).await;
        permits.give_back(permit, begun.elapsed());
        queue.write(report).await;
    }
}

// === impl Permits ===

impl Permits {
    fn new(most: usize) -> Self {
        Self { free: Semaphore::new(1), count: Mutex::new(1), most }
    }

    /// Returns a permit. `took` = how long its action took.
    fn give_back(&self, permit: SemaphorePermit<'_>, took: Duration) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if took < SLOW && *count < self.most {
            *count += 1;
            self.free.add_permits(1);
        } else if took >= SLOW && *count > 1 {
            *count -= 1;
            permit.forget();
        }
    }
}

// === impl ReportQueue ===

impl<'a, S: ReportSink> ReportQueue<'a, S> {
    pub(super) fn new(sink: &'a mut S) -> Self {
        Self { sink: tokio::sync::Mutex::new(sink), waiting: Mutex::default() }
    }

    /// Writes a report. It is written when this returns, by this call or by another one.
    pub(super) async fn write(&self, report: Report) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        let mut sink = self.sink.lock().await;
        let reports = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if !reports.is_empty() {
            sink.take(reports).await;
        }
    }
}

/// Groups the actions by pod, in the order of the first action of each. Where only one is in flight, the order is that of
/// the plan.
fn lanes(actions: &[Action], most: usize) -> Vec<Vec<&Action>> {
    if most == 1 {
        return vec![actions.iter().collect()];
    }
    let (mut lanes, mut of_pods) = (Vec::<Vec<&Action>>::new(), HashMap::new());
    for action in actions {
        let at = *of_pods.entry(action.pod.as_ref().map(|pod| &pod.uid)).or_insert(lanes.len());
        match lanes.get_mut(at) {
            Some(lane) => lane.push(action),
            None => lanes.push(vec![action]),
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn quick_answers_permit_more_removals_and_slow_ones_fewer() {
        let permits = Permits::new(3);
        let after = |took: Duration| {
            permits.give_back(permits.free.try_acquire().unwrap(), took);
            permits.free.available_permits()
        };
        assert_eq!([Duration::ZERO; 4].map(after), [2, 3, 3, 3]);
        assert_eq!([SLOW; 4].map(after), [2, 1, 1, 1]);
    }

    /// Waits in the first call until it may go on.
    struct Slow(Arc<Notify>, Vec<usize>);

    impl ReportSink for Slow {
        async fn take(&mut self, reports: Vec<Report>) {
            if self.1.is_empty() {
                self.0.notified().await;
            }
            self.1.push(reports.len());
        }
    }

    #[tokio::test]
    async fn reports_that_wait_are_written_together() {
        let report: Report = serde_json::from_value(serde_json::json!({
            "action": { "action": "remove_sandbox", "id": "s", "reason": "superseded" }, "outcome": "removed",
        }))
        .unwrap();
        let go_on = Arc::new(Notify::new());
        let mut sink = Slow(Arc::clone(&go_on), Vec::new());
        let queue = ReportQueue::new(&mut sink);
        let release = async { go_on.notify_one() };
        let take = || queue.write(report.clone());
        tokio::join!(take(), take(), take(), release);
        drop(queue);
        assert_eq!(sink.1, [1, 2]);
    }
}
