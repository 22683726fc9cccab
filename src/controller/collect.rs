//! Collection from a shell: lists everything, processes what the graph names, and begins again until a whole round
//! changes nothing. It needs no watch.
//!
//! It works in waves: all decisions of a wave come before its first change, so the result does not depend on the
//! order of calls, and equals the prediction of `plan`. The service decides and changes object by object, and the end
//! of a foreground deletion waits for the dependents that are being checked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::decision::{Decision, Next};
use super::engine::{Engine, Key, Notice};
use super::served::{Served, served};
use super::settings::{LISTS, WORKERS};
use super::{ClusterFailure, ClusterOutcome, ClusterResult, ControllerError, ControllerSettings, ResourceFilter};
use crate::kubernetes::{ApiResource, Clock, Connection, discover, list_metadata};
use crate::model::{Identity, ObjectMeta, Uid};
use crate::owners::{Event, OwnerGuards, UnavailableGroup};

/// After so many failures of an object the others do not wait for it any longer: about 2.5 s.
const FAILURES: u32 = 9;
/// The wait for pods whose grace period has not ended.
const GRACE: Duration = Duration::from_secs(1);

/// How a collection is carried out.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// Nothing is changed.
    pub dry_run: bool,
    /// The most objects to change, where an owner and the dependents that are released count as one; `None` = no limit.
    pub max_objects: Option<usize>,
    /// When the collection ends, whatever is left.
    pub timeout: Duration,
}

/// What a collection did.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct ClusterReport {
    /// The type of the document.
    pub kind: ClusterReportKind,
    /// The version of the document, 1.
    pub version: u32,
    /// What was done, in order.
    pub outcomes: Vec<ClusterOutcome>,
    /// Objects in deletion that are still there, and what holds them.
    pub waiting: Vec<WaitingObject>,
    /// Objects whose check or change failed.
    pub failures: Vec<ClusterFailure>,
    /// What could not be read, so that garbage may be left.
    pub errors: Vec<String>,
    /// Rounds over all objects; the last one had nothing to do.
    pub rounds: u32,
    /// It was ended by its timeout or by a signal.
    pub interrupted: bool,
}

/// The type of the document.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub enum ClusterReportKind {
    /// A report of a collection.
    #[default]
    #[serde(rename = "kubegc.controller.report")]
    ClusterReport,
}

/// An object whose deletion has begun and not ended.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct WaitingObject {
    /// The object.
    pub object: Identity,
    /// The finalizers that hold it.
    pub finalizers: Vec<String>,
    /// The seconds that it may take to terminate, if it is a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<i64>,
}

/// One collection.
struct Collection {
    engine: Engine,
    settings: ControllerSettings,
    outcomes: Arc<Mutex<Vec<ClusterOutcome>>>,
    report: ClusterReport,
    until: Instant,
    stop: CancellationToken,
}

/// Collects until nothing is left to do. `watch` receives each outcome at once.
///
/// # Errors
///
/// Discovery failed. Everything else is in the report.
pub async fn collect(
    connection: Arc<Connection>,
    settings: ControllerSettings,
    options: &CollectOptions,
    clock: Clock,
    stop: CancellationToken,
    watch: impl Fn(&ClusterOutcome) + Send + Sync + 'static,
) -> Result<ClusterReport, ControllerError> {
    let outcomes = Arc::<Mutex<Vec<_>>>::default();
    let kept = Arc::clone(&outcomes);
    let report = move |notice| {
        if let Notice::Done(outcome) = notice {
            watch(&outcome);
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    let calls = Calls::new(connection, &settings.calls, !settings.guards.strict_not_found, options.dry_run);
    // The brake is for services: a person sees the plan before.
    let guards = OwnerGuards { brake_count: 0, ..settings.guards.clone() };
    let mut engine = Engine::new(calls, guards, clock, report);
    engine.is_in_waves = true;
    engine.limit_objects(options.max_objects);
    engine.queue.share_out(WORKERS);
    let until = Instant::now() + options.timeout;
    let report = ClusterReport { version: 1, ..ClusterReport::default() };
    let collection = Collection { engine, settings, outcomes, report, until, stop };
    collection.run(options.dry_run).await
}

// === impl Collection ===

impl Collection {
    async fn run(mut self, dry_run: bool) -> Result<ClusterReport, ControllerError> {
        loop {
            let before = self.engine.calls.changes();
            self.list().await?;
            self.report.rounds += 1;
            self.report.interrupted = !self.work(dry_run).await;
            let is_idle = self.engine.calls.changes() == before;
            let ends = dry_run || self.report.interrupted || self.engine.is_exhausted();
            if ends || is_idle && !self.awaits_termination() {
                break;
            }
            if is_idle {
                sleep(GRACE).await;
            }
        }
        self.report.failures = self.engine.failures();
        self.report.outcomes = std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(self.report)
    }

    /// Shows the graph all objects. A resource that cannot be listed is an error in the report.
    async fn list(&mut self) -> Result<(), ControllerError> {
        let Self { engine, settings, report, .. } = self;
        let found = discover(&engine.calls.connection, settings.calls.answer).await;
        let found = found.map_err(|source| ControllerError::Discover { source })?;
        let now = Served::from(&found);
        (report.errors, report.waiting) = (Vec::new(), Vec::new());
        report.errors.extend(now.unavailable.iter().map(UnavailableGroup::to_string));
        engine.set_served(now);
        let everything = ResourceFilter::default();
        let wanted = found.resources.iter().filter(|resource| everything.selects(resource));
        let (connection, limit) = (&engine.calls.connection, settings.calls.answer);
        let lists = wanted.map(|resource| async move { (resource, list_metadata(connection, resource, limit).await) });
        let mut lists = stream::iter(lists).buffered(LISTS);
        while let Some((resource, list)) = lists.next().await {
            match list {
                Ok(objects) => show(engine, resource, objects, &mut report.waiting),
                Err(error) => {
                    let id = engine.number(&resource.group(), &resource.resource);
                    engine.state().resources.awaits_list(id);
                    report.errors.push(error.to_string());
                }
            }
        }
        Ok(())
    }

    /// Decides and changes in waves until nothing is left to do. Returns false if the time is up or a signal came before
    /// that; the calls in flight have ended then.
    async fn work(&self, dry_run: bool) -> bool {
        loop {
            let Some(wave) = self.decide().await else { return false };
            if wave.is_empty() {
                return true;
            }
            let (releases, changes): (Vec<_>, Vec<_>) =
                wave.into_iter().partition(|decision| matches!(decision, Decision::Release(_)));
            self.carry_out(changes).await;
            self.carry_out(releases).await;
            let mut changed = self.engine.end_wave();
            changed.sort_by_cached_key(uid);
            for change in changed {
                self.engine.apply(change);
            }
            if dry_run || self.engine.is_exhausted() {
                return true;
            }
        }
    }

    /// Checks the objects in the queue until it is settled, and returns what was decided. `None` = the time is up, or a
    /// signal came.
    async fn decide(&self) -> Option<Vec<Decision>> {
        let decided = Mutex::new(Vec::new());
        let work = || async {
            while let Some(key) = self.engine.queue.next().await {
                if let Some(decision) = self.engine.decide(&key).await {
                    decided.lock().unwrap_or_else(PoisonError::into_inner).push(decision);
                    self.engine.queue.pause(&key);
                }
            }
        };
        let mut workers = std::pin::pin!(join_all((0..WORKERS).map(|_| work())));
        let is_settled = tokio::select! {
            _ = &mut workers => false,
            () = self.engine.queue.settled(FAILURES) => true,
            () = self.ended() => {
                self.engine.queue.close();
                workers.await;
                false
            }
        };
        let decided = std::mem::take(&mut *decided.lock().unwrap_or_else(PoisonError::into_inner));
        is_settled.then_some(decided)
    }

    /// Carries out decisions. After the end of the time none begins.
    async fn carry_out(&self, decisions: Vec<Decision>) {
        let changes = decisions.into_iter().map(|decision| async move {
            let key = match &decision {
                Decision::Change(checked, _) => Key::Check(checked.item.identity.uid.clone()),
                Decision::Release(owner) => Key::Orphan(owner.clone()),
                Decision::Next(_) => return,
            };
            let decision = if self.has_ended() { Next::Done.into() } else { decision };
            self.engine.carry_out(&key, decision).await;
        });
        stream::iter(changes).buffer_unordered(WORKERS).collect::<()>().await;
    }

    async fn ended(&self) {
        tokio::select! { () = sleep_until(self.until) => {}, () = self.stop.cancelled() => {} }
    }

    fn has_ended(&self) -> bool {
        self.stop.is_cancelled() || Instant::now() >= self.until
    }

    /// Returns whether an object that this collection deleted only needs its grace period to end. Nothing else ends by
    /// itself: a namespace can wait for the finalizers of its content.
    fn awaits_termination(&self) -> bool {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = |waiting: &WaitingObject| {
            outcomes.iter().any(|it| it.result == ClusterResult::Accepted && it.object.uid == waiting.object.uid)
        };
        let ends = |waiting: &WaitingObject| waiting.finalizers.is_empty() && waiting.grace_seconds.is_some();
        self.report.waiting.iter().any(|waiting| ends(waiting) && is_ours(waiting))
    }
}

/// Shows the graph all objects of a resource, and names those whose deletion others hold up.
fn show(engine: &Engine, resource: &ApiResource, objects: Vec<ObjectMeta>, waiting: &mut Vec<WaitingObject>) {
    let (kind, id) = (served(resource).kind, engine.number(&resource.group(), &resource.resource));
    engine.apply(Event::ListBegins(id));
    for object in objects {
        if object.is_deleting() {
            waiting.push(WaitingObject {
                object: object.identity(&kind),
                finalizers: object.finalizers.clone(),
                grace_seconds: object.grace_seconds.filter(|grace| *grace > 0),
            });
        }
        engine.show(&kind, id, object);
    }
    engine.apply(Event::ListEnds(id));
    engine.has_list(id);
}

fn uid(change: &Event) -> Option<Uid> {
    match change {
        Event::Seen(observed) => Some(observed.meta.uid.clone()),
        Event::Deleted(_, identity) | Event::ProvenAbsent(identity) => Some(identity.uid.clone()),
        Event::ListBegins(_) | Event::ListEnds(_) | Event::Unserved(_) | Event::Dropped(_) | Event::Interrupted => None,
    }
}
