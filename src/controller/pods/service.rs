//! The service: two monitors fill a store, and a pass over it follows at each interval.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::store::{Store, StoreSink};
use super::{PodCollector, PodGcSettings, PodNotice, PodReport, convert};
use crate::kubernetes::{ApiResource, Clock, ClusterNode, ClusterPod, Connection, Form, Monitor, Timing};
use crate::pod_gc::PodsSnapshot;

/// The collection of pods as a service.
pub struct PodsService {
    collector: PodCollector,
}

// === impl PodsService ===

impl PodsService {
    /// Creates the service. It makes no call yet. `report` receives what was done at once, for the log and for metrics.
    pub fn new(
        connection: &Arc<Connection>,
        settings: PodGcSettings,
        clock: Clock,
        report: impl Fn(PodNotice<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self { collector: PodCollector::new(connection, settings, false, clock, report) }
    }

    /// Runs until `stop`. Then the calls in flight end, and nothing new begins.
    pub async fn run(mut self, stop: CancellationToken) {
        let (store, mut known) = watch::channel(Store::default());
        let _monitors = self.follow(&Arc::new(store));
        let settings = self.collector.settings.clone();
        loop {
            // The reference to the store must not live across the pass.
            let ready = async { known.wait_for(|store| store.is_ready(settings.policy.require_watches)).await.is_ok() };
            tokio::select! {
                () = stop.cancelled() => return,
                is_ready = ready => if !is_ready { return },
            }
            let server = self.collector.calls.connection.chosen_by().await;
            let snapshot = known.borrow().snapshot((self.collector.clock)(), server);
            let report = self.collector.pass(&snapshot, &stop).await;
            summarize(&snapshot, &report);
            tokio::select! { () = stop.cancelled() => return, () = sleep(settings.interval) => {} }
        }
    }

    /// Starts the monitors. They end when the set is dropped.
    fn follow(&self, store: &Arc<watch::Sender<Store>>) -> JoinSet<()> {
        let lists = Arc::new(Semaphore::new(1));
        let monitor = |resource| self.monitor(resource, &lists);
        let mut monitors = JoinSet::new();
        monitors.spawn(monitor(ApiResource::pods()).run(StoreSink::<ClusterPod, _> {
            resource: "pods",
            store: Arc::clone(store),
            part: |store| &mut store.pods,
            key: |pod| &pod.metadata.uid,
            convert: convert::pod,
            is_failing: false,
        }));
        monitors.spawn(monitor(ApiResource::nodes()).run(StoreSink::<ClusterNode, _> {
            resource: "nodes",
            store: Arc::clone(store),
            part: |store| &mut store.nodes,
            key: |node| &node.metadata.name,
            convert: convert::node,
            is_failing: false,
        }));
        monitors
    }

    fn monitor(&self, resource: ApiResource, lists: &Arc<Semaphore>) -> Monitor {
        let PodCollector { calls, settings, .. } = &self.collector;
        let timing = Timing { answer: calls.answer, watch: settings.watch, ..Timing::default() };
        let connection = Arc::clone(&calls.connection);
        Monitor { connection, resource, form: Form::Whole, timing, lists: Arc::clone(lists) }
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
