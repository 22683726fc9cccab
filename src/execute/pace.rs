//! The pauses between the removals of images, by `images.pace`.

use std::time::Duration;

use tokio::time::sleep;

use super::execution::Run;
use crate::plan::{Kind, Pace, is_emergency};

/// How much longer a pause is while the disk is busy.
const BUSY: u32 = 4;
/// The disk is busy if no task got on for so much of the last ten seconds, because all waited for I/O.
const BUSY_PERCENT: f64 = 10.0;
/// A shorter removal does not show a busy runtime.
const SLOW: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RemovalTimes {
    quickest: Option<Duration>,
    last: Duration,
}

// === impl Run ===

impl Run<'_> {
    /// Waits between two removals of images, if the plan has a pause. A stop ends the wait, and so does a disk that is nearly
    /// full.
    pub(super) async fn pause_before(&self, kind: Kind) {
        let pause = self.plan.images.pace.map(Pace::pause).unwrap_or_default();
        let times = self.state().image_times;
        if kind != Kind::Image
            || pause.is_zero()
            || times.quickest.is_none()
            || self.exec.remover.is_dry()
            || self.is_emergency().await
        {
            return;
        }
        let is_busy = times.is_slower() || self.exec.disks.io_pressure().await.is_some_and(|full| full >= BUSY_PERCENT);
        let pause = if is_busy { pause * BUSY } else { pause };
        tracing::debug!(seconds = pause.as_secs(), is_busy, "pause before the next image");
        tokio::select! {
            () = sleep(pause) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn is_emergency(&self) -> bool {
        self.space.measure(self.exec).await.is_some_and(|disk| is_emergency(&disk))
    }
}

// === impl RemovalTimes ===

impl RemovalTimes {
    pub(super) fn add(&mut self, took: Duration) {
        self.last = took;
        self.quickest = Some(self.quickest.map_or(took, |quickest| quickest.min(took)));
    }

    /// Returns whether the last removal took much longer than the quickest.
    fn is_slower(self) -> bool {
        self.last >= SLOW && self.quickest.is_some_and(|quickest| self.last > quickest * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_removal_is_one_beside_quicker_ones() {
        let slower = |times: &[u64]| {
            let mut all = RemovalTimes::default();
            for millis in times {
                all.add(Duration::from_millis(*millis));
            }
            all.is_slower()
        };
        assert_eq!(
            [&[9000][..], &[10, 900], &[600, 1100], &[400, 1100], &[400, 1100, 400]].map(slower),
            [false, false, false, true, false]
        );
    }
}
