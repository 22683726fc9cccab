//! The metrics of `kubegc controller run`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::definitions::*;
use super::registry::{Counters, Histograms, Labels, Metrics, number};
use super::text::Exposition;

/// The name of the queue in the metrics: that of kube-controller-manager's queue for the same keys.
const QUEUE: (&str, &str) = ("name", "garbage_collector_attempt_to_delete");
/// The bounds of the buckets for keys, in seconds, as in kube-controller-manager.
const QUEUE_BOUNDS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];
/// The bounds of the buckets for requests, in seconds, as in kube-controller-manager.
const API_BOUNDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// The status codes of an API server. Others count by their first digit, so that a server cannot add series.
const CODES: [(u16, &str); 15] = [
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (409, "409"),
    (410, "410"),
    (422, "422"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
    (504, "504"),
];
/// The same for the rest.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The methods of requests.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The reasons to delete pods.
const REASONS: [&str; 4] = ["terminated", "out-of-service", "orphaned", "unscheduled"];

/// The metrics of the controller. Clones share the values.
#[derive(Clone, Debug)]
pub struct ControllerMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: Metrics,
    discovery_errors: Counters,
    changes: Counters,
    unresolved: Counters,
    pods_deleted: Counters,
    pods_failed: Counters,
    timings: QueueTimings,
    requests: Counters,
    request_seconds: Histograms,
}

/// How long keys wait in the queue and are processed. Clones share the values.
#[derive(Clone, Debug)]
pub struct QueueTimings {
    queue: Histograms,
    work: Histograms,
}

/// What the collection by owner references has at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineFigures {
    /// Keys that are ready.
    pub ready: usize,
    /// Keys that are processed.
    pub processing: usize,
    /// Keys that wait after a failure.
    pub delayed: usize,
    /// Keys that became ready since the start.
    pub adds: u64,
    /// Keys that failed since the start.
    pub retries: u64,
    /// Objects in the graph.
    pub objects: usize,
    /// Resources without a complete list.
    pub unlisted: usize,
    /// Objects that wait until the API server serves or lists something else.
    pub parked: usize,
    /// Objects that fail now.
    pub failing: usize,
    /// Time since the first of the failures in a row, for the object that has failed for the longest time.
    pub longest_failure: Duration,
    /// Age of the oldest foreground deletion that waits for its dependents.
    pub longest_wait: Duration,
    /// Resources that the brake has paused.
    pub paused: usize,
}

// === impl ControllerMetrics ===

impl ControllerMetrics {
    /// Creates the metrics of a service: with those of its process.
    pub fn of_service() -> Self {
        let metrics = Self::default();
        metrics.0.metrics.add_process();
        metrics
    }

    /// Returns all metrics as text. `figures` = those of now.
    pub fn text(&self, format: Exposition, figures: &EngineFigures) -> String {
        self.show(figures);
        self.0.metrics.text(format)
    }

    /// Shows whether this process collects.
    pub fn leads(&self, leads: bool) {
        self.0.metrics.values.set(LEADER, f64::from(u8::from(leads)));
    }

    /// Shows whether the last load of the configuration succeeded. `at` = when it was loaded.
    pub fn reloaded(&self, at: Option<Timestamp>) {
        self.0.metrics.values.reloaded([CONTROLLER_RELOADED, CONTROLLER_RELOADED_AT], at);
    }

    /// Returns where the durations of keys are counted.
    pub fn timings(&self) -> QueueTimings {
        self.0.timings.clone()
    }

    /// Counts a request to the API server. `code` = the status of the answer; `None` = there was none.
    pub fn requested(&self, method: &str, code: Option<u16>, duration: Duration) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("other");
        self.0.requests.get_or_create(&vec![("code", code.map_or("<error>", code_text)), ("method", method)]).inc();
        self.0.request_seconds.get_or_create(&vec![("verb", method)]).observe(duration.as_secs_f64());
    }

    pub fn discovery_failed(&self) {
        self.0.discovery_errors.get_or_create(&Labels::new()).inc();
    }

    /// Counts a change of an object.
    pub fn changed(&self, action: &'static str, result: &'static str) {
        self.0.changes.get_or_create(&vec![("action", action), ("result", result)]).inc();
    }

    /// Counts an owner reference that cannot be resolved.
    pub fn unresolved(&self, cause: &'static str) {
        self.0.unresolved.get_or_create(&vec![("cause", cause)]).inc();
    }

    pub fn pod_deleted(&self, reason: &'static str) {
        self.0.pods_deleted.get_or_create(&vec![("reason", reason)]).inc();
    }

    /// Counts a failed deletion of a pod.
    pub fn pod_failed(&self, reason: &'static str) {
        self.0.pods_failed.get_or_create(&vec![("reason", reason)]).inc();
    }

    /// Shows when a pass over the pods ended that could read everything.
    pub fn pods_passed(&self, at: Timestamp) {
        self.0.metrics.values.set(PODS_PASS_AT, at.as_duration().as_secs_f64());
    }

    fn show(&self, figures: &EngineFigures) {
        let values = &self.0.metrics.values;
        let count = |definition, value: usize| values.set(definition, number(value as u64));
        values.replace(QUEUE_DEPTH, "", [(vec![QUEUE], number(figures.ready as u64))]);
        values.replace(QUEUE_ADDS, "", [(vec![QUEUE], number(figures.adds))]);
        values.replace(QUEUE_RETRIES, "", [(vec![QUEUE], number(figures.retries))]);
        count(QUEUE_PROCESSING, figures.processing);
        count(QUEUE_DELAYED, figures.delayed);
        count(OBJECTS, figures.objects);
        count(UNLISTED, figures.unlisted);
        count(PARKED, figures.parked);
        count(FAILING, figures.failing);
        count(PAUSED, figures.paused);
        values.set(LONGEST_FAILURE, figures.longest_failure.as_secs_f64());
        values.set(LONGEST_WAIT, figures.longest_wait.as_secs_f64());
    }
}

impl Default for ControllerMetrics {
    /// Creates metrics that begin at 0.
    fn default() -> Self {
        let metrics = Metrics::new();
        metrics.values.replace(CONTROLLER_BUILD, "", [(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)]);
        metrics.values.set(LEADER, 0.0);
        let reasons = || REASONS.map(|reason| vec![("reason", reason)]);
        let timings = QueueTimings::default();
        metrics.add(QUEUE_SECONDS, timings.queue.clone());
        metrics.add(WORK_SECONDS, timings.work.clone());
        let request_seconds: Histograms = Family::new_with_constructor(|| Histogram::new(API_BOUNDS));
        metrics.add(API_SECONDS, request_seconds.clone());
        Self(Arc::new(Inner {
            discovery_errors: metrics.counters(DISCOVERY_ERRORS, [Labels::new()]),
            changes: metrics.counters(CHANGES, []),
            unresolved: metrics
                .counters(UNRESOLVED, ["wrong_namespace", "not_served"].map(|cause| vec![("cause", cause)])),
            pods_deleted: metrics.counters(PODS_DELETED, reasons()),
            pods_failed: metrics.counters(PODS_FAILED, reasons()),
            timings,
            requests: metrics.counters(API_REQUESTS, []),
            request_seconds,
            metrics,
        }))
    }
}

// === impl QueueTimings ===

impl QueueTimings {
    /// Counts how long a key was ready before its processing began.
    pub fn waited(&self, time: Duration) {
        self.queue.get_or_create(&vec![QUEUE]).observe(time.as_secs_f64());
    }

    /// Counts how long the processing of a key took.
    pub fn worked(&self, time: Duration) {
        self.work.get_or_create(&vec![QUEUE]).observe(time.as_secs_f64());
    }
}

impl Default for QueueTimings {
    fn default() -> Self {
        let of_keys = || -> Histograms { Family::new_with_constructor(|| Histogram::new(QUEUE_BOUNDS)) };
        Self { queue: of_keys(), work: of_keys() }
    }
}

fn code_text(code: u16) -> &'static str {
    let known = CODES.iter().find(|(known, _)| *known == code).map(|(_, text)| *text);
    let class = || CLASSES.get(usize::from(code / 100).checked_sub(1)?).copied();
    known.or_else(class).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server or a client sends adds no series without limit.
    #[test]
    fn requests_are_counted_by_known_methods_and_codes() {
        let metrics = ControllerMetrics::default();
        for (method, code) in
            [("GET", Some(200)), ("GET", Some(418)), ("PATCH", Some(999)), ("BREW", Some(0)), ("DELETE", None)]
        {
            metrics.requested(method, code, Duration::from_millis(30));
        }
        let text = metrics.text(Exposition::Prometheus, &EngineFigures::default());
        let mut series: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("rest_client_requests_total")).collect();
        series.sort_unstable();
        let expected = [
            "{code=\"200\",method=\"GET\"} 1",
            "{code=\"4xx\",method=\"GET\"} 1",
            "{code=\"<error>\",method=\"DELETE\"} 1",
            "{code=\"other\",method=\"PATCH\"} 1",
            "{code=\"other\",method=\"other\"} 1",
        ];
        assert_eq!(series, expected);
        assert!(text.contains("rest_client_request_duration_seconds_bucket{le=\"0.1\",verb=\"PATCH\"} 1"), "{text}");
    }
}
