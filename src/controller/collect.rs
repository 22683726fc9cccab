//! Collection from a shell: lists everything, processes what the graph names, and begins again until a whole round
//! changes nothing. It needs no watch.
//!
//! It works in waves ([`wave`]). The service decides and changes object by object, and the end of a foreground deletion
//! waits for the dependents that are being checked.

mod janitor;
pub(super) mod object_rules;
mod relink;
mod rule_brake;
mod wave;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::relink::{RelinkReport, RelinkResult, RelinkedReference, relink};
use self::wave::{Wave, WaveEnd};
use super::calls::Calls;
use super::controller_error::ControllerError;
use super::namespace_collector::{NamespaceCollector, alone};
use super::saved::SaveOptions;
use super::settings::{ControllerSettings, LISTS, WORKERS};
use super::watch::filter::{ObjectFilter, read_in};
use super::watch::namespaces::{list_in_namespaces, owners_in, waits_in};
use super::watch::resources::DEFINITIONS;
use super::watch::served::{Served, served};
use super::work::engine::{Engine, Notice};
use super::work::outcome::{ClusterFailure, ClusterOutcome, ClusterResult};
use crate::kubernetes::{ApiResource, Clock, Connection, discover, list_metadata_in};
use crate::model::{Identity, ObjectMeta};
use crate::owners::{ActionWord, Event, OwnerGuards, UnavailableGroup};

/// The wait for pods whose grace period has not ended.
const GRACE: Duration = Duration::from_secs(1);

/// How a collection is carried out.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// Nothing is changed.
    pub dry_run: bool,
    /// The most objects to change, where an owner and the dependents that are released count as one; `None` = no limit.
    pub max_objects: Option<usize>,
    /// When the collection ends, whatever is left. Default 60 s.
    pub timeout: Duration,
    /// The objects that may be changed. Of a namespace, only what is in it is listed, for which the permissions there are enough.
    pub only: ObjectFilter,
    /// Each object is saved before it is deleted. Default: it is not.
    pub save: Option<SaveOptions>,
}

impl Default for CollectOptions {
    fn default() -> Self {
        let timeout = Duration::from_mins(1);
        Self { dry_run: false, max_objects: None, timeout, only: ObjectFilter::default(), save: None }
    }
}

#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct ClusterReport {
    /// The address of the API server, and the credentials.
    pub server: String,
    pub outcomes: Vec<ClusterOutcome>,
    /// Objects in deletion that are still there, and what holds them.
    pub waiting: Vec<WaitingObject>,
    pub failures: Vec<ClusterFailure>,
    /// What could not be read, so that garbage may be left.
    pub errors: Vec<String>,
    /// Rounds over all objects; the last one had nothing to do.
    pub rounds: u32,
    /// It was ended by its timeout or by a signal.
    pub interrupted: bool,
}

/// An object whose deletion has begun and not ended.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct WaitingObject {
    pub object: Identity,
    pub finalizers: Vec<String>,
    /// The seconds that it may take to terminate, if it is a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<i64>,
}

struct Collection {
    engine: Engine,
    settings: ControllerSettings,
    outcomes: Arc<Mutex<Vec<ClusterOutcome>>>,
    report: ClusterReport,
}

/// Collects until nothing is left to do. `watch` receives each outcome at once.
pub async fn collect(
    connection: Arc<Connection>,
    settings: ControllerSettings,
    options: &CollectOptions,
    clock: Clock,
    stop: CancellationToken,
    watch: impl Fn(&ClusterOutcome) + Send + Sync + 'static,
) -> Result<ClusterReport, ControllerError> {
    let begun = Instant::now();
    let outcomes = Arc::<Mutex<Vec<_>>>::default();
    let kept = Arc::clone(&outcomes);
    let report = move |notice| {
        if let Notice::Done(outcome) = notice {
            watch(&outcome);
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    let (end, server) = (stop.child_token(), connection.cluster().await);
    let calls = Calls::new(connection, &settings.calls, !settings.guards.strict_not_found, options.dry_run);
    let calls = calls.until(end.clone()).saving(options.save.clone());
    // The brake is for services: a person sees the plan before.
    let guards = OwnerGuards { brake_count: 0, ..settings.guards.clone() };
    let mut engine = Engine::new(calls, guards, clock, report);
    engine.is_in_waves = true;
    engine.filter = options.only.clone();
    engine.limit_objects(options.max_objects);
    engine.queue.share_out(WORKERS);
    let report = ClusterReport { server, ..ClusterReport::default() };
    let collection = Collection { engine, settings, outcomes, report };
    tokio::select! {
        report = collection.run(options.dry_run) => report,
        never = ends_at(begun + options.timeout, &end) => match never {},
    }
}

async fn ends_at(until: Instant, end: &CancellationToken) -> Infallible {
    sleep_until(until).await;
    end.cancel();
    pending().await
}

// === impl Collection ===

impl Collection {
    async fn run(mut self, dry_run: bool) -> Result<ClusterReport, ControllerError> {
        let end = self.engine.calls.end.clone();
        if self.settings.namespaces {
            tokio::select! { alone = alone(&self.engine) => alone?, () = end.cancelled() => {} }
        }
        loop {
            let before = self.engine.calls.changes();
            tokio::select! {
                listed = self.list() => listed?,
                () = end.cancelled() => {}
            }
            self.report.rounds += 1;
            let mut ended = self.work(dry_run).await;
            if self.settings.namespaces && ended != WaveEnd::Interrupted {
                tokio::select! { () = self.namespaces() => {}, () = end.cancelled() => ended = WaveEnd::Interrupted }
            }
            // Only at first: what their controllers create again at once must not hold up the end.
            if self.report.rounds == 1 && ended != WaveEnd::Interrupted {
                self.report.errors.extend(object_rules::once(&self.engine, &self.settings.rules).await);
                ended = if end.is_cancelled() { WaveEnd::Interrupted } else { ended };
            }
            self.report.interrupted = ended == WaveEnd::Interrupted;
            let is_idle = self.engine.calls.changes() == before;
            if dry_run || ended != WaveEnd::Idle || is_idle && !self.awaits_termination() {
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
        let Self { engine, settings, report, outcomes } = self;
        let found = discover(&engine.calls.connection, settings.calls.answer).await;
        let found = found.map_err(|source| ControllerError::Discover { source })?;
        let now = Served::from(&found);
        (report.errors, report.waiting) = (Vec::new(), Vec::new());
        report.errors.extend(now.unavailable.iter().map(UnavailableGroup::to_string));
        engine.set_served(now);
        let namespace = &*engine.filter.namespace;
        let (connection, limit) = (&engine.calls.connection, settings.calls.answer);
        let lists = read_in(&found, namespace).map(|resource| async move {
            (resource, list_metadata_in(connection, resource, namespace, None, limit).await)
        });
        let mut lists = stream::iter(lists).buffered(LISTS);
        let (mut ids, mut unlisted, mut waiting) = (Vec::new(), Vec::new(), BTreeSet::new());
        while let Some((resource, list)) = lists.next().await {
            match list {
                Ok(objects) => {
                    take_back(engine, outcomes, &objects);
                    show(engine, resource, objects, &mut report.waiting, &mut waiting);
                }
                Err(error) => {
                    let id = engine.number(&resource.group(), &resource.resource);
                    engine.state().resources.awaits_list(id, resource.namespaced);
                    report.errors.push(error.to_string());
                    ids.push(id);
                    unlisted.push(resource);
                }
            }
        }
        let known = list_in_namespaces(connection, &unlisted, &waiting, limit).await;
        ids.into_iter()
            .zip(known)
            .for_each(|(id, known)| engine.state().resources.lists_namespaces(id, owners_in(&known)));
        Ok(())
    }

    /// Works in waves until nothing is left to do. A dry run changes nothing, so its first wave is its last one.
    async fn work(&self, dry_run: bool) -> WaveEnd {
        loop {
            let ended = Wave::run(&self.engine).await;
            if dry_run || ended != WaveEnd::Worked {
                return ended;
            }
        }
    }

    /// Ends the deletions of the namespaces that the last list has shown.
    async fn namespaces(&self) {
        let collector = NamespaceCollector::new(&self.engine);
        let objects = self.report.waiting.iter().map(|waiting| &waiting.object);
        for namespace in objects.filter(|object| object.kind.is_namespace()) {
            collector.collect(namespace).await;
        }
    }

    /// Returns whether an object that this collection deleted only needs its grace period to end. Nothing else ends by
    /// itself: a namespace can wait for the finalizers of its content.
    fn awaits_termination(&self) -> bool {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = outcomes.iter().filter(|it| it.result == ClusterResult::Accepted);
        let ours: HashSet<_> = accepted.map(|it| &it.object.uid).collect();
        let ends = |waiting: &WaitingObject| waiting.finalizers.is_empty() && waiting.grace_seconds.is_some();
        self.report.waiting.iter().any(|waiting| ends(waiting) && ours.contains(&waiting.object.uid))
    }
}

/// A list shows what was deleted in the round before: the report has no deletion that did not happen.
fn take_back(engine: &Engine, outcomes: &Mutex<Vec<ClusterOutcome>>, listed: &[ObjectMeta]) {
    let disproven: HashMap<_, _> =
        listed.iter().filter(|it| engine.disproves(&it.uid)).map(|it| (&it.uid, it.is_deleting())).collect();
    if disproven.is_empty() {
        return;
    }
    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    outcomes.retain_mut(|outcome| match disproven.get(&outcome.object.uid) {
        Some(true) => {
            outcome.result = ClusterResult::Accepted;
            true
        }
        is_deleting => is_deleting.is_none() || outcome.action != ActionWord::Delete,
    });
}

/// Shows the graph all objects of a resource, and names those whose deletion others hold up.
fn show(
    engine: &Engine,
    resource: &ApiResource,
    objects: Vec<ObjectMeta>,
    waiting: &mut Vec<WaitingObject>,
    namespaces: &mut BTreeSet<Arc<str>>,
) {
    let (kind, id) = (served(resource).kind, engine.number(&resource.group(), &resource.resource));
    let defines = engine.name(id) == DEFINITIONS;
    engine.apply(Event::ListBegins(id));
    for object in objects {
        let grace = object.grace_seconds.filter(|grace| *grace > 0);
        if defines {
            engine.state().resources.defines(&object.name, true);
        }
        if object.is_deleting() {
            let (object, finalizers) = (object.identity(&kind), object.finalizers.clone());
            namespaces.extend(waits_in(&object.namespace, &finalizers));
            if engine.filter.leaves_out(resource, &object).is_none() {
                waiting.push(WaitingObject { object, finalizers, grace_seconds: grace });
            }
        }
        engine.show(&kind, id, object);
    }
    engine.apply(Event::ListEnds(id));
    engine.has_list(id);
}
