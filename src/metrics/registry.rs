//! The registry: creates each metric from its definition.

use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::definitions::Definition;
use super::text::{self, Exposition};
use super::values::{Labels, Values};

/// A counter with labels.
pub(super) type Counters = Family<Labels, Counter>;
/// A histogram with labels.
pub(super) type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of one process.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    registry: Mutex<Registry>,
    pub(super) values: Values,
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn new() -> Self {
        let (mut registry, values) = (Registry::default(), Values::default());
        registry.register_collector(Box::new(values.clone()));
        Self { registry: Mutex::new(registry), values }
    }

    /// Adds a metric that others fill.
    pub(super) fn add(&self, definition: Definition, metric: impl Metric) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register(definition.name, definition.help, metric);
    }

    /// Creates a counter that begins at 0 for each of these labels, so that its first increase is visible.
    pub(super) fn counters(&self, definition: Definition, begin: impl IntoIterator<Item = Labels>) -> Counters {
        let counters = Counters::default();
        begin.into_iter().for_each(|labels| drop(counters.get_or_create(&labels)));
        self.add(definition, counters.clone());
        counters
    }

    /// Returns all metrics as text.
    pub(super) fn text(&self, format: Exposition) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        drop(registry);
        match format {
            Exposition::OpenMetrics => text,
            Exposition::Prometheus => text::prometheus(&text),
        }
    }
}
