//! The metrics of `kubegc controller run`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::definitions::*;
use super::registry::{Counters, Labels, Metrics, number};
use super::text::Exposition;

/// The name of the queue in the metrics.
const QUEUE: (&str, &str) = ("name", "garbage_collector");
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

    /// Counts a discovery that failed.
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

    /// Counts a deleted pod.
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
        Self(Arc::new(Inner {
            discovery_errors: metrics.counters(DISCOVERY_ERRORS, [Labels::new()]),
            changes: metrics.counters(CHANGES, []),
            unresolved: metrics
                .counters(UNRESOLVED, ["wrong_namespace", "not_served"].map(|cause| vec![("cause", cause)])),
            pods_deleted: metrics.counters(PODS_DELETED, reasons()),
            pods_failed: metrics.counters(PODS_FAILED, reasons()),
            metrics,
        }))
    }
}
