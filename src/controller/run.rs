//! The service: discovery, monitors and workers until a signal stops it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::changes::{Changes, Mode};
use super::engine::{Engine, Notice};
use super::events::{ClusterEvents, EventQueue};
use super::monitors::Monitors;
use super::settings::at_once;
use super::{ControllerSettings, QueueLength, ResourceFilter};
use crate::kubernetes::{Clock, Connection, discover};
use crate::model::Backoff;

/// Kinds that change together are discovered once.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// The waits for an API server that cannot be discovered at the start.
const WAITS: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// The collection by owner references as a service.
pub struct OwnersService {
    engine: Arc<Engine>,
    settings: ControllerSettings,
    filter: ResourceFilter,
    events: ClusterEvents,
}

// === impl OwnersService ===

impl OwnersService {
    /// Creates the service. It makes no call yet.
    pub fn new(
        connection: &Arc<Connection>,
        settings: ControllerSettings,
        filter: ResourceFilter,
        clock: Clock,
    ) -> Self {
        let calls = Calls::new(Arc::clone(connection), &settings.calls, !settings.guards.strict_not_found);
        let (events, queue) = ClusterEvents::new(Arc::clone(connection), clock);
        let report = move |notice| announce(&notice, &queue);
        let mut engine = Engine::new(calls, Changes::new(Mode::Live), settings.guards.clone(), clock, report);
        engine.has_monitors = true;
        Self { engine: Arc::new(engine), settings, filter, events }
    }

    /// Runs until `stop`. Then the calls in flight end, and nothing new begins.
    pub async fn run(self, stop: CancellationToken) {
        let Self { engine, settings, filter, events } = self;
        let mut monitors = Monitors::new(Arc::clone(&engine), &settings, filter);
        let mut tasks = JoinSet::new();
        tasks.spawn(events.run(stop.clone()));
        let follow = async {
            first_discovery(&engine, &mut monitors, &settings).await;
            tracing::info!(resources = monitors.names().len(), "monitoring");
            let begun = Instant::now();
            engine.all_listed(settings.first_lists).await;
            let unlisted: Vec<_> = engine.unlisted().into_iter().map(|(id, _)| engine.name(id)).collect();
            tracing::info!(objects = engine.graph().len(), ?unlisted, elapsed = ?begun.elapsed(), "collecting");
            for _ in 0..at_once(settings.workers) {
                let engine = Arc::clone(&engine);
                tasks.spawn(async move { engine.work().await });
            }
            discover_again(&engine, &mut monitors, &settings).await;
        };
        tokio::select! { () = follow => {}, () = stop.cancelled() => {} }
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

async fn first_discovery(engine: &Engine, monitors: &mut Monitors, settings: &ControllerSettings) {
    let (mut waits, mut is_known) = (WAITS, false);
    loop {
        match discover(&engine.calls.connection, settings.calls.answer).await {
            Ok(found) => return monitors.follow(&found).await,
            Err(error) => {
                if !std::mem::replace(&mut is_known, true) {
                    tracing::warn!(cause = %error, "waiting for the API server");
                }
                sleep(waits.fail()).await;
            }
        }
    }
}

/// Repeats the discovery at its interval, and soon after a kind has changed.
async fn discover_again(engine: &Engine, monitors: &mut Monitors, settings: &ControllerSettings) {
    let (changed, mut is_failing) = (Arc::clone(&monitors.kinds_changed), false);
    loop {
        tokio::select! {
            () = sleep(settings.discovery) => {}
            () = changed.notified() => sleep(DEBOUNCE).await,
        }
        match discover(&engine.calls.connection, settings.calls.answer).await {
            Ok(found) => {
                monitors.follow(&found).await;
                is_failing = false;
            }
            // The monitors go on with what was served before.
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                tracing::warn!(cause = %error, "what the API server serves is not known for now");
            }
            Err(_) => {}
        }
    }
}

/// Logs one line for each act, and for each condition that needs attention.
fn announce(notice: &Notice, events: &EventQueue) {
    match notice {
        Notice::Done(done) => {
            let (object, uid) = (done.object.to_string(), done.object.uid.to_string());
            let propagation = done.propagation.map(|policy| policy.to_string());
            tracing::info!(action = %done.action, object, uid, propagation, reason = done.reason, result = %done.result);
        }
        Notice::Failed(failure) => {
            tracing::warn!(object = %failure.object, cause = failure.cause, "failed, will be tried again");
        }
        Notice::WrongNamespace(object, owner) => {
            tracing::warn!(%object, owner = %owner.name, kind = %owner.kind, "the owner is not in this namespace");
        }
        Notice::NotServed(object, owner) => {
            tracing::debug!(%object, owner = %owner.name, kind = %owner.kind, "the kind of the owner is not served");
        }
        Notice::Paused(resource) => tracing::error!(
            resource,
            "paused: the owners of many objects were never seen alive; `kubegc controller plan` shows these objects, and \
             `kubegc controller collect` deletes them"
        ),
    }
    events.send(notice);
}
