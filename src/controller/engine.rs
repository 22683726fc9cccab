//! What the workers share: the graph, the queue, the calls.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::ResourceFilter;
use super::calls::Calls;
use super::changes::Changes;
use super::check::Checked;
use super::outcome::{ClusterFailure, ClusterOutcome};
use super::queue::{QueueLength, WorkQueue};
use super::served::Served;
use super::waiting::Waiting;
use crate::kubernetes::Clock;
use crate::metrics::EngineFigures;
use crate::model::{ApiKind, Identity, ObjectMeta, Uid};
use crate::owners::{
    Brake, Effect, Event, Graph, Observed, OwnerGuards, Recent, ResourceId, UnavailableGroup, Verdict,
};

/// How many owners are remembered whose dependents were orphaned.
const ORPHANED: usize = 10_000;

/// The end of the names of groups whose objects are only measured, so they have no owners.
pub(super) const METRICS: &str = "metrics.k8s.io";

/// What a worker processes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Key {
    /// Check whether this object is to be deleted, or whether its foreground deletion can end.
    Check(Uid),
    /// The same for an owner that no monitor has shown. A monitor may show it before a worker comes to it, as the lists at
    /// the start do with nearly all owners; then nothing is to be checked.
    Verify(Uid),
    /// Remove this owner from its dependents, then its finalizer `orphan`.
    Orphan(Uid),
}

/// The state of the collection by owner references.
pub(super) struct Engine {
    pub(super) calls: Calls,
    pub(super) changes: Changes,
    pub(super) queue: WorkQueue<Key>,
    pub(super) guards: OwnerGuards,
    pub(super) clock: Clock,
    /// The resources whose objects are changed. The objects of the others are known, and hold their owners (G4).
    pub(super) filter: ResourceFilter,
    /// Monitors show each change. Without them the changes are made in waves, and shown to the graph after each wave.
    pub(super) has_monitors: bool,
    /// How many objects may still be changed.
    objects_left: AtomicUsize,
    /// Receives what was done.
    pub(super) report: Box<dyn Fn(Notice) + Send + Sync>,
    started: Instant,
    graph: Mutex<Graph>,
    served: Mutex<Arc<Served>>,
    brake: Mutex<Brake>,
    orphaned: Mutex<Recent<Uid>>,
    /// The objects that fail now, and since when.
    failures: Mutex<BTreeMap<Uid, (Instant, ClusterFailure)>>,
    waiting: Mutex<Waiting>,
    parked: Mutex<HashSet<Key>>,
    wave: Mutex<Wave>,
    resources: Mutex<Resources>,
    /// The definitions of custom resources, and whether each exists or was deleted.
    definitions: Mutex<HashMap<String, bool>>,
    /// A resource has its first list.
    listed: Notify,
}

/// What is decided and changed in one wave of a collection without monitors: all decisions come before the first change, so
/// that the result does not depend on their order.
#[derive(Default)]
pub(super) struct Wave {
    /// The objects to change.
    pub(super) decided: Vec<(Checked, Verdict)>,
    /// The owners whose dependents are to be released.
    pub(super) orphans: Vec<Uid>,
    /// What became of the objects, for the graph.
    pub(super) changes: Vec<Event>,
}

/// News for the log, for events and for the output of a command.
#[derive(Clone, Debug)]
pub(super) enum Notice {
    /// An action was carried out.
    Done(ClusterOutcome),
    /// An object failed for the first time, or for another cause than before.
    Failed(ClusterFailure),
    /// A reference names an owner in another namespace, or a namespaced owner of a cluster-scoped object.
    WrongNamespace(Identity, crate::model::OwnerReference),
    /// The kind of an owner is not served.
    NotServed(Identity, crate::model::OwnerReference),
    /// Deletions in a resource are paused: this one is the first.
    Paused(String, Identity),
    /// A foreground deletion waits for dependents for long; one of them.
    Stuck(Identity, Identity),
}

/// The resources that were ever listed, by number.
#[derive(Debug, Default)]
struct Resources {
    names: Vec<(String, String)>,
    /// The resources without a complete list so far, since when.
    unlisted: HashMap<ResourceId, Instant>,
    /// The resources that cannot be listed or watched now, since when.
    failing: HashMap<ResourceId, Instant>,
    /// The unavailable group-versions of which no resource was ever known, since when.
    unknown_groups: HashMap<String, Instant>,
}

// === impl Resources ===

impl Resources {
    fn find_unknown_groups(&mut self, served: &Served) {
        let is_known = |group: &str| self.names.iter().any(|(known, _)| known == group);
        let is_unknown = |group: &&UnavailableGroup| {
            let name = group.api_version.split_once('/').map_or("", |(name, _)| name);
            !is_known(name) && !name.ends_with(METRICS)
        };
        let unknown = served.unavailable.iter().filter(is_unknown);
        let since = |group: &UnavailableGroup| {
            let known = self.unknown_groups.get(&group.api_version);
            known.copied().unwrap_or_else(Instant::now)
        };
        self.unknown_groups = unknown.map(|group| (group.api_version.clone(), since(group))).collect();
    }
}

// === impl Key ===

impl Key {
    /// Returns the object.
    pub(super) fn uid(&self) -> &Uid {
        let (Self::Check(uid) | Self::Verify(uid) | Self::Orphan(uid)) = self;
        uid
    }
}

// === impl Engine ===

impl Engine {
    pub(super) fn new(
        calls: Calls,
        changes: Changes,
        guards: OwnerGuards,
        clock: Clock,
        report: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Self {
        Self {
            calls,
            changes,
            queue: WorkQueue::default(),
            guards,
            clock,
            filter: ResourceFilter::default(),
            has_monitors: false,
            objects_left: AtomicUsize::new(usize::MAX),
            report: Box::new(report),
            started: Instant::now(),
            graph: Mutex::default(),
            served: Mutex::default(),
            brake: Mutex::default(),
            orphaned: Mutex::new(Recent::with_capacity(ORPHANED)),
            failures: Mutex::default(),
            waiting: Mutex::default(),
            parked: Mutex::default(),
            wave: Mutex::default(),
            resources: Mutex::default(),
            definitions: Mutex::default(),
            listed: Notify::new(),
        }
    }

    /// Applies one event to the graph and adds what is to be done to the queue.
    pub(super) fn apply(&self, event: Event) {
        self.apply_at(event, self.now());
    }

    /// Adds a key to the queue, in the share of the object's namespace (G5).
    pub(super) fn add(&self, key: Key) {
        let namespace = self.graph().namespace(key.uid());
        self.queue.add(namespace, key);
    }

    /// Applies what a read proves that began at `at`.
    pub(super) fn apply_at(&self, event: Event, at: Duration) {
        let effects = self.graph().apply(event, at);
        for effect in effects {
            match effect {
                Effect::TryDelete(uid) => self.add(Key::Check(uid)),
                Effect::Verify(uid) => self.add(Key::Verify(uid)),
                // The worker that proved the absence of one identity checks the next one.
                Effect::RetryDelete(_) => {}
                Effect::TryOrphan(uid) => self.add(Key::Orphan(uid)),
                Effect::WrongNamespace { dependent, reference } => {
                    (self.report)(Notice::WrongNamespace(dependent, reference));
                }
            }
        }
    }

    /// Applies the effect of a change of our own, after the wave. Monitors show it anyway, in its place among other changes.
    pub(super) fn changed(&self, event: Event) {
        if !self.has_monitors {
            self.wave().changes.push(event);
        }
    }

    /// Returns the time since the start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the wave that is under way.
    pub(super) fn wave(&self) -> MutexGuard<'_, Wave> {
        lock(&self.wave)
    }

    /// Applies what the API server shows of an object.
    pub(super) fn show(&self, kind: &ApiKind, resource: ResourceId, meta: ObjectMeta) {
        self.apply(Event::Seen(observed(kind, resource, meta)));
    }

    pub(super) fn graph(&self) -> MutexGuard<'_, Graph> {
        lock(&self.graph)
    }

    pub(super) fn brake(&self) -> MutexGuard<'_, Brake> {
        lock(&self.brake)
    }

    pub(super) fn orphaned(&self) -> MutexGuard<'_, Recent<Uid>> {
        lock(&self.orphaned)
    }

    pub(super) fn served(&self) -> Arc<Served> {
        Arc::clone(&lock(&self.served))
    }

    /// Takes over what the API server serves. If it has changed, the objects that waited for that are checked again.
    pub(super) fn set_served(&self, served: Served) {
        lock(&self.resources).find_unknown_groups(&served);
        let before = std::mem::replace(&mut *lock(&self.served), Arc::new(served));
        if *before != *self.served() {
            self.unpark(|_| true);
        }
    }

    fn unpark(&self, is_due: impl Fn(&Key) -> bool) {
        let due: Vec<_> = lock(&self.parked).extract_if(|key| is_due(key)).collect();
        for key in due {
            self.add(key);
        }
    }

    /// Processes a key again when the API server serves something else.
    pub(super) fn park(&self, key: &Key) {
        lock(&self.parked).insert(key.clone());
    }

    /// Returns how many objects wait until the API server serves something else.
    pub(super) fn parked(&self) -> usize {
        lock(&self.parked).len()
    }

    /// A key that is processed is not parked any more.
    pub(super) fn leave_park(&self, key: &Key) {
        lock(&self.parked).remove(key);
    }

    /// Returns the number of a resource.
    pub(super) fn number(&self, group: &str, resource: &str) -> ResourceId {
        let mut resources = lock(&self.resources);
        let is_it = |(known_group, known): &(String, String)| known_group == group && known == resource;
        let at = resources.names.iter().position(is_it).unwrap_or_else(|| {
            resources.names.push((group.to_owned(), resource.to_owned()));
            resources.names.len() - 1
        });
        // An API server with 65,536 resources has failed long before.
        ResourceId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    /// Returns the name of a resource, as `deployments.apps`.
    pub(super) fn name(&self, resource: ResourceId) -> String {
        match lock(&self.resources).names.get(usize::from(resource.0)) {
            Some((group, resource)) if group.is_empty() => resource.clone(),
            Some((group, resource)) => format!("{resource}.{group}"),
            None => "an unknown resource".to_owned(),
        }
    }

    /// Records that a resource has no complete list yet.
    pub(super) fn awaits_list(&self, resource: ResourceId) {
        lock(&self.resources).unlisted.entry(resource).or_insert_with(Instant::now);
    }

    /// Records that a resource has a complete list, or is not served any more.
    pub(super) fn has_list(&self, resource: ResourceId) {
        lock(&self.resources).unlisted.remove(&resource);
        self.listed.notify_waiters();
        // Its objects may have been parked because they were known in a version that is not served any more, and their
        // owners waited for them.
        self.unpark(|key| match self.graph().item(key.uid()) {
            Some(item) => item.is_deleting || item.resource == resource,
            None => true,
        });
    }

    /// Records that a resource cannot be listed or watched. Returns whether that is new.
    pub(super) fn monitor_fails(&self, resource: ResourceId) -> bool {
        let mut resources = lock(&self.resources);
        let is_new = !resources.failing.contains_key(&resource);
        resources.failing.entry(resource).or_insert_with(Instant::now);
        is_new
    }

    /// Records that a resource is listed and watched again, or is not followed any more. Returns whether it failed.
    pub(super) fn monitor_works(&self, resource: ResourceId) -> bool {
        lock(&self.resources).failing.remove(&resource).is_some()
    }

    /// Lists the resources that cannot be listed or watched now, and for how long.
    pub(super) fn failing_monitors(&self) -> Vec<(ResourceId, Duration)> {
        lock(&self.resources).failing.iter().map(|(id, since)| (*id, since.elapsed())).collect()
    }

    /// Records that a definition of custom resources exists, or was deleted.
    pub(super) fn defines(&self, name: &str, exists: bool) {
        lock(&self.definitions).insert(name.to_owned(), exists);
    }

    /// Returns whether a definition of custom resources exists. `None` = it was never shown.
    pub(super) fn has_definition(&self, name: &str) -> Option<bool> {
        lock(&self.definitions).get(name).copied()
    }

    /// Waits until each resource has a complete list, at most `limit`.
    pub(super) async fn all_listed(&self, limit: Duration) {
        let wait = async {
            loop {
                let listed = self.listed.notified();
                if self.unlisted().is_empty() {
                    return;
                }
                listed.await;
            }
        };
        // After the limit the others are collected without it.
        let _ = timeout(limit, wait).await;
    }

    /// Lists the resources without a complete list, and for how long.
    pub(super) fn unlisted(&self) -> Vec<(ResourceId, Duration)> {
        let resources = lock(&self.resources);
        let mut unlisted: Vec<_> = resources.unlisted.iter().map(|(id, since)| (*id, since.elapsed())).collect();
        unlisted.sort_by_key(|(id, _)| id.0);
        unlisted
    }

    /// Lists the group-versions that are unavailable and of which no resource was ever known, and for how long.
    pub(super) fn unknown_groups(&self) -> Vec<(String, Duration)> {
        let resources = lock(&self.resources);
        let groups = resources.unknown_groups.iter();
        let mut groups: Vec<_> = groups.map(|(group, since)| (group.clone(), since.elapsed())).collect();
        groups.sort();
        groups
    }

    /// Records a failure; the same cause is reported once.
    pub(super) fn failed(&self, object: Identity, cause: String) {
        let failure = ClusterFailure { object, cause };
        let mut failures = lock(&self.failures);
        let since = failures.get(&failure.object.uid).map_or_else(Instant::now, |(since, _)| *since);
        let before = failures.insert(failure.object.uid.clone(), (since, failure.clone()));
        drop(failures);
        if before.is_none_or(|(_, before)| before.cause != failure.cause) {
            (self.report)(Notice::Failed(failure));
        }
    }

    /// Records that a foreground deletion waits for these dependents, and reports one that waits for long.
    pub(super) fn waits(&self, owner: &Identity, dependents: &[Uid]) {
        if !self.waiting().note(&owner.uid) {
            return;
        }
        let dependent = dependents.iter().find_map(|uid| self.graph().item(uid));
        if let Some(dependent) = dependent {
            (self.report)(Notice::Stuck(owner.clone(), dependent.identity));
        }
    }

    /// Returns the figures of now, for metrics.
    pub(super) fn figures(&self) -> EngineFigures {
        let (QueueLength { ready, processing, delayed }, totals) = (self.queue.len(), self.queue.totals());
        // A statement of its own: the locks of the next one are held to its end.
        let (failing, longest_failure) = self.failing();
        EngineFigures {
            ready,
            processing,
            delayed,
            adds: totals.adds,
            retries: totals.retries,
            objects: self.graph().len(),
            unlisted: lock(&self.resources).unlisted.len(),
            parked: self.parked(),
            failing,
            longest_failure,
            longest_wait: self.waiting().longest(),
            paused: self.brake().paused().count(),
        }
    }

    /// Returns how many objects fail now, and for how long the one that fails the longest.
    pub(super) fn failing(&self) -> (usize, Duration) {
        let failures = lock(&self.failures);
        (failures.len(), failures.values().map(|(since, _)| since.elapsed()).max().unwrap_or_default())
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Forgets the failure of an object.
    pub(super) fn recovered(&self, uid: &Uid) {
        lock(&self.failures).remove(uid);
    }

    /// Lists the objects that fail now.
    pub(super) fn failures(&self) -> Vec<ClusterFailure> {
        lock(&self.failures).values().map(|(_, failure)| failure.clone()).collect()
    }

    /// Limits the number of objects that are changed.
    pub(super) fn limit_objects(&self, max: Option<usize>) {
        self.objects_left.store(max.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Takes one object from the limit. Returns false if the limit is reached.
    pub(super) fn may_change_one_more(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.objects_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Returns whether the limit on changed objects is reached.
    pub(super) fn is_exhausted(&self) -> bool {
        self.objects_left.load(Ordering::Relaxed) == 0
    }
}

/// Returns what a monitor of this kind shows.
pub(super) fn observed(kind: &ApiKind, resource: ResourceId, meta: ObjectMeta) -> Observed {
    Observed { kind: kind.clone(), resource, meta }
}

/// No code panics while it holds one of the locks, and none is held across an await.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
