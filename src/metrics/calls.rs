//! The calls to the runtime.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use std::time::Duration;

use super::registry::{Counters, Histograms};

/// The bounds of the buckets, in seconds: a list of a small node takes a millisecond, a removal minutes.
const BOUNDS: [f64; 10] = [0.002, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 120.0, 600.0];

/// Counts calls by method. Clones share the counts.
#[derive(Clone, Debug)]
pub struct CriCalls {
    pub(super) errors: Counters,
    pub(super) seconds: Histograms,
}

/// A call in progress. A call that is dropped without an end had no answer in time.
#[derive(Debug)]
pub struct CallTimer<'a> {
    calls: &'a CriCalls,
    method: &'static str,
    begun: tokio::time::Instant,
    has_ended: bool,
}

// === impl CriCalls ===

impl CriCalls {
    pub fn begin(&self, method: &'static str) -> CallTimer<'_> {
        CallTimer { calls: self, method, begun: tokio::time::Instant::now(), has_ended: false }
    }

    /// Records the end of a call. `failure` is the word for its cause.
    fn ended(&self, method: &'static str, after: Duration, failure: Option<&'static str>) {
        self.seconds.get_or_create(&vec![("method", method)]).observe(after.as_secs_f64());
        if let Some(cause) = failure {
            self.errors.get_or_create(&vec![("method", method), ("cause", cause)]).inc();
        }
    }
}

impl Default for CriCalls {
    fn default() -> Self {
        Self { errors: Counters::default(), seconds: Family::new_with_constructor(|| Histogram::new(BOUNDS)) }
    }
}

// === impl CallTimer ===

impl CallTimer<'_> {
    /// Ends the call. `failure` is the word for its cause.
    pub fn end(mut self, failure: Option<&'static str>) {
        self.has_ended = true;
        self.calls.ended(self.method, self.begun.elapsed(), failure);
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.calls.ended(self.method, self.begun.elapsed(), Some("timeout"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{AgentMetrics, Exposition};

    #[tokio::test(start_paused = true)]
    async fn a_call_is_counted_with_duration_and_failure_cause() {
        let metrics = AgentMetrics::default();
        let calls = metrics.calls();
        calls.begin("Version").end(None);
        calls.begin("Version").end(Some("runtime"));
        let limit = Duration::from_secs(2);
        let hang = async {
            let _timer = calls.begin("Status");
            std::future::pending::<()>().await;
        };
        assert!(tokio::time::timeout(limit, hang).await.is_err());
        let text = metrics.text(Exposition::Prometheus);
        for sample in [
            "kubegc_cri_call_duration_seconds_count{method=\"Version\"} 2",
            "kubegc_cri_call_errors_total{method=\"Version\",cause=\"runtime\"} 1",
            "kubegc_cri_call_duration_seconds_sum{method=\"Status\"} 2.0",
            "kubegc_cri_call_errors_total{method=\"Status\",cause=\"timeout\"} 1",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
        }
    }
}
