//! What the workers share: the state of the collection, the queue, the calls.
//!
//! All state is behind one lock. It is never held across an await, and no function takes it twice: a caller that holds
//! [`Engine::state`] calls no other function of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout};

use super::outcome::{ClusterFailure, ClusterOutcome};
use super::queue::{QueueLength, WorkQueue};
use super::waiting::Waiting;
use super::waves::Waves;
use crate::controller::calls::Calls;
use crate::controller::watch::filter::ObjectFilter;
use crate::controller::watch::resources::Resources;
use crate::controller::watch::served::Served;
use crate::kubernetes::Clock;
use crate::metrics::EngineFigures;
use crate::model::{ApiKind, Identity, ObjectMeta, OwnerReference, Uid};
use crate::owners::{Brake, Effect, Event, Graph, Observed, OwnerGuards, Recent, ResourceId};

/// How many owners are remembered whose dependents were orphaned.
const ORPHANED: usize = 10_000;

/// How long a monitor may need to show the end of an object.
const UNPROVEN: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(in crate::controller) enum Key {
    /// Check whether this object is to be deleted, or whether its foreground deletion can end.
    Check(Uid),
    /// The same for an owner that no monitor has shown. A monitor may show it before a worker comes to it, as the lists at
    /// the start do with nearly all owners; then nothing is to be checked.
    Verify(Uid),
    /// Remove this owner from its dependents, then its finalizer `orphan`.
    Orphan(Uid),
}

pub(in crate::controller) struct Engine {
    pub(in crate::controller) calls: Calls,
    pub(in crate::controller) queue: WorkQueue<Key>,
    pub(in crate::controller) guards: OwnerGuards,
    pub(in crate::controller) clock: Clock,
    /// The objects that may be changed.
    pub(in crate::controller) filter: ObjectFilter,
    /// All decisions of a wave come before its first change, and the graph learns what was changed after the wave. Otherwise
    /// monitors show each change.
    pub(in crate::controller) is_in_waves: bool,
    /// Receives the namespaces in deletion, if they are collected.
    pub(in crate::controller) deleted_namespaces: Option<UnboundedSender<Identity>>,
    pub(super) report: Box<dyn Fn(Notice) + Send + Sync>,
    started: Instant,
    state: Mutex<State>,
    /// A resource has its first list.
    listed: Notify,
}

/// What changes as the collection goes on.
#[derive(Default)]
pub(in crate::controller) struct State {
    pub(in crate::controller) graph: Graph,
    pub(in crate::controller) brake: Brake,
    pub(super) orphaned: Recent<Uid, ORPHANED>,
    pub(in crate::controller) waiting: Waiting,
    pub(in crate::controller) resources: Resources,
    served: Arc<Served>,
    /// The objects that fail now, and since when.
    failures: BTreeMap<Uid, (Instant, ClusterFailure)>,
    parked: BTreeSet<Key>,
    /// The objects whose deletion was accepted and that no monitor has shown to end, since when.
    unproven: Vec<(Instant, Uid)>,
    pub(super) waves: Waves,
}

/// News for the log, for events and for the output of a command.
#[derive(Clone, Debug)]
pub(in crate::controller) enum Notice {
    Done(ClusterOutcome),
    /// An object failed for the first time, or for another cause than before.
    Failed(ClusterFailure),
    /// A reference names an owner in another namespace, or a namespaced owner of a cluster-scoped object.
    WrongNamespace(Identity, OwnerReference),
    NotServed(Identity, OwnerReference),
    /// Deletions in a resource are paused: this one is the first.
    Paused(String, Identity),
    /// A foreground deletion waits for dependents for long; one of them.
    Stuck(Identity, Identity),
}

// === impl Key ===

impl Key {
    pub(super) fn uid(&self) -> &Uid {
        let (Self::Check(uid) | Self::Verify(uid) | Self::Orphan(uid)) = self;
        uid
    }
}

// === impl Engine ===

impl Engine {
    pub(in crate::controller) fn new(
        calls: Calls,
        guards: OwnerGuards,
        clock: Clock,
        report: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Self {
        Self {
            calls,
            queue: WorkQueue::default(),
            guards,
            clock,
            filter: ObjectFilter::default(),
            is_in_waves: false,
            deleted_namespaces: None,
            report: Box::new(report),
            started: Instant::now(),
            state: Mutex::default(),
            listed: Notify::new(),
        }
    }

    /// Takes the lock of the state. No code panics while it holds the lock.
    pub(in crate::controller) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::controller) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Adds a key to the queue, in the share of the object's namespace (G5).
    pub(in crate::controller) fn add(&self, key: Key) {
        let namespace = self.state().graph.namespace(key.uid());
        self.queue.add(namespace, key);
    }

    /// As [`Self::add`], before what the namespace has to do already.
    fn add_first(&self, key: Key) {
        let namespace = self.state().graph.namespace(key.uid());
        self.queue.add_first(namespace, key);
    }

    /// Applies one event to the graph and adds what is to be done to the queue.
    pub(in crate::controller) fn apply(&self, event: Event) {
        self.apply_at(event, self.now());
    }

    /// Applies what a read proves that began at `at`.
    pub(super) fn apply_at(&self, event: Event, at: Duration) {
        let is_proof = matches!(event, Event::ProvenAbsent(_));
        let (effects, ended) = {
            let mut state = self.state();
            (state.graph.apply(event, at), state.graph.take_ended())
        };
        for uid in &ended {
            self.forget(uid);
        }
        for effect in effects {
            match effect {
                // A proof does not count for long, and only so many are remembered.
                Effect::TryDelete(uid) if is_proof => self.add_first(Key::Check(uid)),
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

    /// Forgets what waits and fails of an object that ended.
    fn forget(&self, uid: &Uid) {
        let keys = [Key::Check, Key::Verify, Key::Orphan].map(|key| key(uid.clone()));
        {
            let State { parked, failures, waiting, .. } = &mut *self.state();
            for key in &keys {
                parked.remove(key);
            }
            failures.remove(uid);
            waiting.end(uid);
        }
        for key in &keys {
            self.queue.forget(key);
        }
    }

    pub(in crate::controller) fn show(&self, kind: &ApiKind, resource: ResourceId, meta: ObjectMeta) {
        if let Some(deleted) = self.deleted_namespaces.as_ref().filter(|_| meta.is_deleting() && kind.is_namespace()) {
            // The receiver lives as long as the service.
            let _ = deleted.send(meta.identity(kind));
        }
        self.apply(Event::Seen(observed(kind, resource, meta)));
    }

    pub(super) fn item(&self, uid: &Uid) -> Option<crate::owners::Item> {
        self.state().graph.item(uid)
    }

    /// Returns the name of a resource, as `deployments.apps`.
    pub(in crate::controller) fn name(&self, resource: ResourceId) -> String {
        self.state().resources.name(resource)
    }

    pub(in crate::controller) fn number(&self, group: &str, resource: &str) -> ResourceId {
        self.state().resources.number(group, resource)
    }
}

// === impl Engine: discovery and lists ===

impl Engine {
    pub(super) fn served(&self) -> Arc<Served> {
        Arc::clone(&self.state().served)
    }

    /// Takes over what the API server serves. If it has changed, the objects that waited for that are checked again.
    pub(in crate::controller) fn set_served(&self, served: Served) {
        let is_same = {
            let mut state = self.state();
            state.resources.discovered(&served);
            let before = std::mem::replace(&mut state.served, Arc::new(served));
            *before == *state.served
        };
        if !is_same {
            self.unpark(|_, _| true);
        }
    }

    /// Records that a resource has a complete list, or is not served any more.
    pub(in crate::controller) fn has_list(&self, resource: ResourceId) {
        self.state().resources.has_list(resource);
        self.listed.notify_waiters();
        // Its objects may have been parked because they were known in a version that is not served any more, and their
        // owners waited for them.
        self.unpark(|graph, key| {
            graph.item(key.uid()).is_none_or(|item| item.is_deleting || item.resource == resource)
        });
    }

    fn unpark(&self, is_due: impl Fn(&Graph, &Key) -> bool) {
        let due: Vec<_> = {
            let State { graph, parked, .. } = &mut *self.state();
            parked.extract_if(.., |key| is_due(graph, key)).collect()
        };
        for key in due {
            self.add(key);
        }
    }

    /// Processes a key again when the API server serves something else.
    pub(super) fn park(&self, key: &Key) {
        self.state().parked.insert(key.clone());
    }

    /// A key that is processed is not parked any more.
    pub(super) fn leave_park(&self, key: &Key) {
        self.state().parked.remove(key);
    }

    /// Waits until each resource has a complete list, at most `limit`.
    pub(in crate::controller) async fn all_listed(&self, limit: Duration) {
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

    /// Lists the names of the resources without a complete list, and for how long.
    pub(in crate::controller) fn unlisted(&self) -> Vec<(String, Duration)> {
        self.state().resources.unlisted()
    }
}

// === impl Engine: what fails and waits (G6) ===

impl Engine {
    /// Records a failure; the same cause is reported once, of namespaces for the first of those that have it now.
    pub(in crate::controller) fn failed(&self, object: Identity, cause: String) {
        let failure = ClusterFailure { object, cause };
        let is_known = {
            let failures = &mut self.state().failures;
            let is_same = |(_, known): &(_, ClusterFailure)| known.cause == failure.cause;
            let is_known = failures.get(&failure.object.uid).is_some_and(is_same)
                || failure.object.kind.is_namespace() && failures.values().any(is_same);
            let since = failures.get(&failure.object.uid).map_or_else(Instant::now, |(since, _)| *since);
            failures.insert(failure.object.uid.clone(), (since, failure.clone()));
            is_known
        };
        if !is_known {
            (self.report)(Notice::Failed(failure));
        }
    }

    pub(in crate::controller) fn done(&self, outcome: ClusterOutcome) {
        (self.report)(Notice::Done(outcome));
    }

    pub(in crate::controller) fn recovered(&self, uid: &Uid) {
        self.state().failures.remove(uid);
    }

    pub(in crate::controller) fn failures(&self) -> Vec<ClusterFailure> {
        self.state().failures.values().map(|(_, failure)| failure.clone()).collect()
    }

    /// Records that a foreground deletion waits, for so long, for these dependents, and reports one that waits for long.
    pub(super) fn waits(&self, owner: &Identity, waited: Duration, dependents: &[Uid]) {
        let dependent = {
            let State { graph, waiting, .. } = &mut *self.state();
            let is_due = waiting.note(&owner.uid, waited);
            dependents.iter().filter(|_| is_due).find_map(|uid| graph.item(uid))
        };
        if let Some(dependent) = dependent {
            (self.report)(Notice::Stuck(owner.clone(), dependent.identity));
        }
    }

    /// Remembers an object whose deletion was accepted. Only its monitor shows that it ended.
    pub(super) fn is_unproven(&self, uid: &Uid) {
        self.state().unproven.push((Instant::now(), uid.clone()));
    }

    /// Checks the objects again whose deletion was accepted long ago. Those that ended are not in the graph any more; a server
    /// that accepted the deletion and ignored it has the others still.
    pub(in crate::controller) fn check_unproven(&self) {
        let due: Vec<_> = self.state().unproven.extract_if(.., |(since, _)| since.elapsed() >= UNPROVEN).collect();
        for (_, uid) in due {
            self.add(Key::Check(uid));
        }
    }

    pub(in crate::controller) fn figures(&self) -> EngineFigures {
        let (QueueLength { ready, processing, delayed }, totals) = (self.queue.len(), self.queue.totals());
        let state = self.state();
        let (failing, longest_failure) = state.failing();
        EngineFigures {
            ready,
            processing,
            delayed,
            adds: totals.adds,
            retries: totals.retries,
            objects: state.graph.len(),
            unlisted: state.resources.unlisted().len(),
            parked: state.parked(),
            failing,
            longest_failure,
            longest_wait: state.waiting.longest(),
            paused: state.brake.paused().count(),
        }
    }
}

// === impl State ===

impl State {
    /// Returns how many objects fail now, and for how long the one with the first failure.
    pub(in crate::controller) fn failing(&self) -> (usize, Duration) {
        let longest = self.failures.values().map(|(since, _)| since.elapsed()).max();
        (self.failures.len(), longest.unwrap_or_default())
    }

    /// Lists some of the objects that fail now.
    pub(in crate::controller) fn first_failures(&self, count: usize) -> impl Iterator<Item = &ClusterFailure> {
        self.failures.values().take(count).map(|(_, failure)| failure)
    }

    /// Lists some of the objects that wait until the API server serves something else.
    pub(in crate::controller) fn first_parked(&self, count: usize) -> Vec<Identity> {
        let items = self.parked.iter().filter_map(|key| self.graph.item(key.uid()));
        items.map(|item| item.identity).take(count).collect()
    }

    /// Returns how many objects wait until the API server serves something else.
    pub(in crate::controller) fn parked(&self) -> usize {
        self.parked.len()
    }
}

pub(in crate::controller) fn observed(kind: &ApiKind, resource: ResourceId, meta: ObjectMeta) -> Observed {
    Observed { kind: kind.clone(), resource, meta }
}
