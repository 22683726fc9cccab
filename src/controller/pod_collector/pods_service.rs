//! The service: two monitors fill a store, and a pass over it follows at each interval.
//!
//! There is no pass while the pods or nodes cannot be watched: with an old list, the threshold of terminated pods
//! would delete more than it must.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::known_pods::{Store, StoreSink};
use super::{PodCollector, PodReport, WATCH, convert};
use crate::kubernetes::{ApiNode, ApiPod, ApiResource, Monitor, Timing};
use crate::metrics::ControllerMetrics;
use crate::pod_gc::PodsSnapshot;
use crate::serve::Health;

/// What the service waits for, and its loop.
const PODS: &str = "pods";
/// How long a pass may take: each pod has calls of its own, and their rate is limited.
const LONGEST_PASS: Duration = Duration::from_hours(6);

pub struct PodsService {
    collector: PodCollector,
    metrics: ControllerMetrics,
    health: Health,
}

// === impl PodsService ===

impl PodsService {
    /// Creates the service over this collector. It makes no call yet.
    pub fn new(collector: PodCollector) -> Self {
        Self { collector, metrics: ControllerMetrics::default(), health: Health::default() }
    }

    /// Sets where the service shows its passes.
    #[must_use]
    pub fn with_monitoring(self, metrics: &ControllerMetrics, health: &Health) -> Self {
        Self { metrics: metrics.clone(), health: health.clone(), ..self }
    }

    /// Runs until `stop`. Then the calls in flight end, and nothing new begins.
    pub async fn run(mut self, stop: CancellationToken) {
        let (store, mut known) = watch::channel(Store::default());
        let _monitors = self.follow(&Arc::new(store));
        let settings = self.collector.settings.clone();
        self.health.lacks(PODS, "waiting for the lists of pods and nodes");
        loop {
            // The reference to the store must not live across the pass.
            let ready = async { known.wait_for(|store| store.is_ready(settings.policy.require_watches)).await.is_ok() };
            tokio::select! {
                () = stop.cancelled() => return,
                is_ready = ready => if !is_ready { return },
            }
            self.health.has(PODS);
            self.health.progress().expect(PODS, Instant::now() + LONGEST_PASS);
            let server = self.collector.calls.connection.cluster().await;
            let snapshot = known.borrow().snapshot((self.collector.clock)(), server);
            let report = self.collector.pass(&snapshot, &stop).await;
            summarize(&snapshot, &report);
            if report.errors.is_empty() {
                self.metrics.pods_passed((self.collector.clock)());
            }
            // The wait for the watches has no limit.
            self.health.progress().forget(PODS);
            tokio::select! { () = stop.cancelled() => return, () = sleep(settings.interval) => {} }
        }
    }

    /// Starts the monitors. They end when the set is dropped.
    fn follow(&self, store: &Arc<watch::Sender<Store>>) -> JoinSet<()> {
        let lists = Arc::new(Semaphore::new(1));
        let monitor = |resource| self.monitor(&resource, &lists);
        let mut monitors = JoinSet::new();
        monitors.spawn(monitor(ApiResource::pods()).run(StoreSink::<ApiPod, _> {
            resource: "pods",
            store: Arc::clone(store),
            part: |store| &mut store.pods,
            key: |pod| &pod.metadata.uid,
            convert: convert::pod,
        }));
        monitors.spawn(monitor(ApiResource::nodes()).run(StoreSink::<ApiNode, _> {
            resource: "nodes",
            store: Arc::clone(store),
            part: |store| &mut store.nodes,
            key: |node| &node.metadata.name,
            convert: convert::node,
        }));
        monitors
    }

    fn monitor(&self, resource: &ApiResource, lists: &Arc<Semaphore>) -> Monitor {
        let calls = &self.collector.calls;
        let timing = Timing { answer: calls.answer, watch: WATCH, ..Timing::default() };
        Monitor::new(Arc::clone(&calls.connection), resource, timing, Arc::clone(lists))
    }
}

/// Logs one line for each pass that did something or missed something.
fn summarize(snapshot: &PodsSnapshot, report: &PodReport) {
    let PodReport { outcomes, kept, failures, errors, interrupted, .. } = report;
    let (pods, nodes) = (snapshot.pods.len(), snapshot.nodes.len());
    let (acts, kept, failures) = (outcomes.len(), kept.len(), failures.len());
    if acts + failures + errors.len() == 0 {
        tracing::debug!(pods, nodes, kept, "pass over the pods");
    } else {
        tracing::info!(pods, nodes, acts, kept, failures, ?errors, interrupted, "pass over the pods");
    }
}
