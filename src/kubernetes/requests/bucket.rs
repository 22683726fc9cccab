//! The rate of requests.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket that hands out the moment of the next request.
#[derive(Debug)]
pub struct Bucket {
    interval: Duration,
    burst: Duration,
    /// When the bucket was or is empty of requests.
    next: Instant,
}

// === impl Bucket ===

impl Bucket {
    /// Creates a bucket that permits this many requests at once, and then one per interval.
    pub fn full(interval: Duration, burst: u32) -> Self {
        let (burst, now) = (interval.saturating_mul(burst), Instant::now());
        Self { interval, burst, next: now.checked_sub(burst).unwrap_or(now) }
    }

    /// Takes a request, and returns when it may be made.
    pub fn take(&mut self, now: Instant) -> Instant {
        // Requests that were not made are saved up, at most a burst of them.
        let earliest = now.checked_sub(self.burst).unwrap_or(now);
        self.next = self.next.max(earliest) + self.interval;
        self.next.max(now)
    }

    /// Takes a request if it may be made now.
    pub fn try_take(&mut self, now: Instant) -> bool {
        let before = self.next;
        let is_free = self.take(now) <= now;
        if !is_free {
            self.next = before;
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_then_one_request_per_interval() {
        let mut bucket = Bucket::full(Duration::from_millis(10), 3);
        let now = Instant::now();
        let waits: Vec<_> = (0..6).map(|_| (bucket.take(now) - now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 10, 20, 30]);
        let later = now + Duration::from_secs(1);
        assert_eq!(bucket.take(later), later);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_may_not_be_made_now_is_not_counted() {
        let mut bucket = Bucket::full(Duration::from_millis(10), 2);
        let begun = Instant::now();
        let taken = [0, 0, 0, 9, 10, 19, 20].map(|millis| bucket.try_take(begun + Duration::from_millis(millis)));
        assert_eq!(taken, [true, true, false, false, true, false, true]);
    }
}
