//! The metrics of a process: counters and histograms, which the library keeps, and values that are replaced as a whole:
//! gauges, and counters that another part of kubegc counts. A scrape sees all values of one plan or none of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::definitions::{Definition, MetricType};
use super::process::ProcessCollector;
use super::text::{self, Exposition};

/// The labels of a sample. Values are words of kubegc, which are known at compile time.
pub(super) type Labels = Vec<(&'static str, &'static str)>;
/// Labels whose values may also be names that a tenant chose. The library escapes them.
pub(super) type OwnedLabels = Vec<(&'static str, Cow<'static, str>)>;
pub(super) type Counters = Family<Labels, Counter>;
pub(super) type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of one process.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    registry: Mutex<Registry>,
    pub(super) values: Values,
}

/// The samples of a metric, by the part of kubegc that sets them.
type Parts = BTreeMap<&'static str, Vec<(OwnedLabels, f64)>>;

/// All such values of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(Arc<Mutex<BTreeMap<&'static str, (Definition, Parts)>>>);

// === impl Metrics ===

impl Metrics {
    pub(super) fn new() -> Self {
        let (mut registry, values) = (Registry::default(), Values::default());
        registry.register_collector(Box::new(values.clone()));
        Self { registry: Mutex::new(registry), values }
    }

    /// Adds the metrics of the process.
    pub(super) fn add_process(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(ProcessCollector::new()));
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

/// Converts a value to the type of metrics. Sizes below 8 PiB stay exact.
#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
pub(super) fn number(value: u64) -> f64 {
    value as f64
}

// === impl Values ===

impl Values {
    /// Replaces the samples of a metric that this part has set. Those of other parts stay.
    pub(super) fn replace<T: Into<Cow<'static, str>>>(
        &self,
        definition: Definition,
        part: &'static str,
        samples: impl IntoIterator<Item = (Vec<(&'static str, T)>, f64)>,
    ) {
        let owned = |labels: Vec<_>| labels.into_iter().map(|(name, value): (_, T)| (name, value.into())).collect();
        let samples = samples.into_iter().map(|(labels, value)| (owned(labels), value)).collect();
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, parts) = values.entry(definition.name).or_insert_with(|| (definition, Parts::new()));
        parts.insert(part, samples);
    }

    /// Sets whether the last load of the configuration succeeded, and when the last one did that succeeded.
    pub(super) fn reloaded(&self, [successful, last]: [Definition; 2], at: Option<Timestamp>) {
        self.set(successful, f64::from(u8::from(at.is_some())));
        if let Some(at) = at {
            self.set(last, at.as_duration().as_secs_f64());
        }
    }

    /// Sets a metric without labels.
    pub(super) fn set(&self, definition: Definition, value: f64) {
        self.replace(definition, "", [(Labels::new(), value)]);
    }
}

impl Collector for Values {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // The samples are copied: a slow encoder must not delay a pass.
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (definition, parts) in values.into_values() {
            let samples: Vec<_> = parts.into_values().flatten().collect();
            if !samples.is_empty() {
                encode_values(&mut encoder, definition, samples)?;
            }
        }
        Ok(())
    }
}

/// Writes a metric with its samples.
pub(super) fn encode_values(
    encoder: &mut DescriptorEncoder<'_>,
    definition: Definition,
    samples: impl IntoIterator<Item = (Vec<(&'static str, impl EncodeLabelValue)>, f64)>,
) -> fmt::Result {
    let is_counter = definition.of == MetricType::Counter;
    // As the registry does for other metrics.
    let help = format!("{}.", definition.help);
    let of = if is_counter { metrics::MetricType::Counter } else { metrics::MetricType::Gauge };
    let mut metric = encoder.encode_descriptor(definition.name, &help, None, of)?;
    for (labels, value) in samples {
        if labels.is_empty() {
            sample(&mut metric, is_counter, value)?;
        } else {
            sample(&mut metric.encode_family(&labels)?, is_counter, value)?;
        }
    }
    Ok(())
}

fn sample(metric: &mut MetricEncoder<'_>, is_counter: bool, value: f64) -> fmt::Result {
    if is_counter { metric.encode_counter::<NoLabelSet, f64, f64>(&value, None) } else { metric.encode_gauge(&value) }
}
