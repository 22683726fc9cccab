//! The service: discovery, monitors and workers until a signal stops it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::collect::object_rules;
use super::events::EventQueue;
use super::leader::Attention;
use super::monitors::Monitors;
use super::namespace_collector;
use super::settings::{ControllerSettings, WORKERS};
use super::watch::filter::ObjectFilter;
use super::work::engine::{Engine, Notice};
use super::work::outcome::ClusterOutcome;
use super::work::queue::{QueueLength, WorkQueue};
use crate::kubernetes::{Clock, Connection, EventWriter, discover};
use crate::metrics::ControllerMetrics;
use crate::model::{Backoff, Identity, Outage};
use crate::serve::{Health, Pages};

/// Kinds that change together are discovered once.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// The waits for an API server that cannot be discovered at the start.
const WAITS: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// What the service waits for, and a loop of it.
const DISCOVERY: &str = "discovery";
const LISTS: &str = "lists";
/// How long a discovery may take. One of an old API server has a call for each group, and some of them may not answer.
const LONGEST_DISCOVERY: Duration = Duration::from_mins(30);

type KeepChange = Box<dyn Fn(&ClusterOutcome) + Send + Sync>;

/// The collection by owner references as a service.
pub struct OwnersService {
    engine: Arc<Engine>,
    settings: ControllerSettings,
    events: EventWriter,
    metrics: ControllerMetrics,
    health: Health,
    /// The namespaces in deletion, if they are collected.
    deleted_namespaces: Option<UnboundedReceiver<Identity>>,
    /// What keeps each change of an object, if it is set.
    history: Arc<OnceLock<KeepChange>>,
}

// === impl OwnersService ===

impl OwnersService {
    /// Creates the service. It makes no call yet. A dry run makes all reads and no change, and logs what it would change.
    pub fn new(
        connection: &Arc<Connection>,
        settings: ControllerSettings,
        filter: impl Into<ObjectFilter>,
        dry_run: bool,
        clock: Clock,
    ) -> Self {
        let calls = Calls::new(Arc::clone(connection), &settings.calls, !settings.guards.strict_not_found, dry_run);
        let (queue, events) = EventQueue::new(Arc::clone(connection), clock);
        let (metrics, health) = (ControllerMetrics::of_service(), Health::default());
        let requests = metrics.clone();
        connection.observe(move |method, code, time| requests.requested(method.as_str(), code, time));
        let counted = metrics.clone();
        // A dry run changes nothing, events included.
        let queue = Some(queue).filter(|_| !dry_run);
        let history = Arc::<OnceLock<KeepChange>>::default();
        let kept = Arc::clone(&history);
        let report = move |notice| {
            if let (Notice::Done(outcome), Some(keep)) = (&notice, kept.get()) {
                keep(outcome);
            }
            announce(&notice, &counted, queue.as_ref());
        };
        let mut engine = Engine::new(calls, settings.guards.clone(), clock, report);
        engine.filter = filter.into();
        engine.queue = WorkQueue::timed(metrics.timings());
        let (sender, deleted_namespaces) = settings.namespaces.then(unbounded_channel).unzip();
        engine.deleted_namespaces = sender;
        Self { engine: Arc::new(engine), settings, events, metrics, health, deleted_namespaces, history }
    }

    /// Sets what keeps each change of an object.
    #[must_use]
    pub fn with_history(self, keep: impl Fn(&ClusterOutcome) + Send + Sync + 'static) -> Self {
        // Only this sets it, at most once.
        let _ = self.history.set(Box::new(keep));
        self
    }

    /// Returns the metrics, which are those of the whole process.
    pub fn metrics(&self) -> &ControllerMetrics {
        &self.metrics
    }

    pub fn pages(&self) -> Pages {
        let (engine, metrics) = (Arc::clone(&self.engine), self.metrics.clone());
        let text = move |format| metrics.text(format, &engine.figures());
        let engine = Arc::clone(&self.engine);
        let notes = Arc::new(move || engine.resources_left_out());
        Pages { metrics: Arc::new(text), health: self.health.clone(), notes, report: None }
    }

    /// Returns what shows what needs attention.
    pub fn attention(&self) -> Attention {
        let engine = Arc::clone(&self.engine);
        Arc::new(move || engine.attention())
    }

    /// Runs until `stop`. Then the calls in flight end, and nothing new begins.
    pub async fn run(self, stop: CancellationToken) {
        let Self { engine, settings, events, metrics, health, deleted_namespaces, .. } = self;
        let mut monitors = Monitors::new(Arc::clone(&engine), &settings);
        let mut tasks = JoinSet::new();
        tasks.spawn(events.run(stop.clone()));
        let is_listed = CancellationToken::new();
        let follow = async {
            health.lacks(DISCOVERY, "waiting for the API server");
            let mut discovery =
                Discovery { engine: &engine, monitors: &mut monitors, metrics: &metrics, outage: Outage::default() };
            discovery.first().await;
            health.has(DISCOVERY);
            health.lacks(LISTS, "waiting for the first list of each resource");
            tracing::info!(resources = discovery.monitors.names().len(), "monitoring");
            let begun = Instant::now();
            engine.all_listed(settings.first_lists).await;
            health.has(LISTS);
            let unlisted: Vec<_> = engine.unlisted().into_iter().map(|(name, _)| name).collect();
            let objects = engine.state().graph.len();
            tracing::info!(objects, ?unlisted, elapsed = ?begun.elapsed(), "collecting");
            engine.queue.share_out(WORKERS);
            for _ in 0..WORKERS {
                let engine = Arc::clone(&engine);
                tasks.spawn(async move { engine.work().await });
            }
            let namespaces = OptionFuture::from(
                deleted_namespaces.map(|deleted| Box::pin(namespace_collector::follow(&engine, deleted, &health))),
            );
            is_listed.cancel();
            tokio::join!(discovery.repeat(settings.discovery, &health), namespaces);
        };
        // What it deletes at the stop ends in order.
        let by_rules = async {
            tokio::select! {
                () = is_listed.cancelled() => object_rules::follow(&engine, &settings.rules, &health, &stop).await,
                () = stop.cancelled() => {}
            }
        };
        let until_stop = async {
            tokio::select! { () = follow => {}, () = stop.cancelled() => {} }
        };
        tokio::join!(until_stop, by_rules);
        engine.queue.close();
        // A worker makes a few calls for one object.
        let limit = settings.calls.answer * 2;
        if timeout(limit, async { while tasks.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!(seconds = limit.as_secs(), "calls in flight did not end in time");
        }
        let QueueLength { ready, delayed, .. } = engine.queue.len();
        tracing::info!(ready, delayed, "stopped");
    }
}

/// Discovers what the API server serves, and lets the monitors follow it.
struct Discovery<'a> {
    engine: &'a Engine,
    monitors: &'a mut Monitors,
    metrics: &'a ControllerMetrics,
    outage: Outage,
}

// === impl Discovery ===

impl Discovery<'_> {
    /// Repeats the first discovery until it succeeds.
    async fn first(&mut self) {
        let mut waits = WAITS;
        while !self.again("waiting for the API server").await {
            sleep(waits.fail()).await;
        }
    }

    /// Repeats the discovery at its interval, and soon after a kind has changed.
    async fn repeat(&mut self, interval: Duration, health: &Health) {
        let changed = Arc::clone(&self.monitors.kinds_changed);
        loop {
            health.progress().expect(DISCOVERY, Instant::now() + interval + LONGEST_DISCOVERY);
            tokio::select! {
                biased;
                () = sleep(interval) => {}
                () = changed.notified() => sleep(DEBOUNCE).await,
            }
            self.engine.check_unproven();
            self.again("the resources of the API server are unknown for now").await;
        }
    }

    /// Returns whether it succeeded. Otherwise the monitors go on with what was served before.
    async fn again(&mut self, fault: &str) -> bool {
        let calls = &self.engine.calls;
        let found = discover(&calls.connection, calls.answer).await;
        if let Some(error) = self.outage.begins(found.as_ref().err()) {
            tracing::warn!(cause = %error, "{fault}");
        }
        match &found {
            Ok(found) => self.monitors.follow(found).await,
            Err(_) => self.metrics.discovery_failed(),
        }
        found.is_ok()
    }
}

/// Counts and logs each act, and each condition that needs attention.
fn announce(notice: &Notice, metrics: &ControllerMetrics, events: Option<&EventQueue>) {
    match notice {
        Notice::Done(done) => metrics.changed(done.action.into(), done.result.into()),
        Notice::WrongNamespace(..) => metrics.unresolved("wrong_namespace"),
        Notice::NotServed(..) => metrics.unresolved("not_served"),
        // Gauges show these.
        Notice::Failed(_) | Notice::Paused(..) | Notice::Stuck(..) => {}
    }
    match notice {
        Notice::Done(done) => {
            let (object, uid) = (done.object.to_string(), done.object.uid.to_string());
            let propagation = done.propagation.map(|policy| policy.to_string());
            tracing::info!(action = %done.action, object, uid, propagation, reason = done.reason, result = %done.result);
        }
        Notice::Failed(failure) => {
            tracing::warn!(object = %failure.object, cause = failure.cause, "failed; retrying after a back-off");
        }
        Notice::WrongNamespace(object, owner) => {
            let fault = if object.is_cluster_scoped() {
                "the owner is namespaced, and the object is not"
            } else {
                "the owner is not in this namespace"
            };
            tracing::warn!(%object, owner = %owner.name, kind = %owner.kind, "{fault}");
        }
        Notice::NotServed(object, owner) => {
            tracing::debug!(%object, owner = %owner.name, kind = %owner.kind, "the kind of the owner is not served");
        }
        Notice::Stuck(owner, dependent) => {
            tracing::warn!(object = %owner, %dependent, "the foreground deletion waits for its dependents");
        }
        Notice::Paused(resource, _) => tracing::error!(
            resource,
            "paused: the owners of many objects were never seen alive; `kubegc controller plan` shows these objects, and \
             `kubegc controller collect` deletes them"
        ),
    }
    if let Some(events) = events {
        events.send(notice);
    }
}
