//! One monitor for each resource that discovery shows: started, kept and stopped as discovery changes.
//!
//! What `--only`, `--ignore` and `--selector` leave out is watched too, because a dependent there holds the finalizer of its
//! owner (G4). With `--namespace` only that namespace is watched, for which the permissions there are enough.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::settings::{ControllerSettings, LISTS, WATCH};
use super::watch::filter::read_in;
use super::watch::resources::DEFINITIONS;
use super::watch::served::{Served, served};
use super::work::engine::Engine;
use crate::kubernetes::{ApiResource, Discovered, Follower, MetadataOnly, Monitor, MonitorEvent, Timing};
use crate::model::ApiKind;
use crate::owners::{Event, ResourceId};

/// The resources whose changes change what the API server serves.
const RESOURCES_OF_KINDS: [(&str, &str); 2] =
    [("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")];

/// How long discovery must lack a resource before its monitor stops. An API server that starts serves its custom resources
/// last; their objects must not be forgotten, because they may block or be dependents to release.
const UNSERVED_AFTER: Duration = Duration::from_mins(1);

pub(super) struct Monitors {
    engine: Arc<Engine>,
    timing: Timing,
    lists: Arc<Semaphore>,
    running: BTreeMap<ResourceId, Running>,
    /// Discovery is to be repeated soon.
    pub(super) kinds_changed: Arc<Notify>,
    /// The names of `--only` and `--ignore` that no resource had at the last discovery.
    unknown: Vec<String>,
}

struct Running {
    resource: ApiResource,
    task: JoinHandle<()>,
    /// Since when discovery lacks the resource.
    missing_since: Option<Instant>,
}

/// Shows the graph what one monitor sees.
struct GraphSink {
    engine: Arc<Engine>,
    id: ResourceId,
    kind: ApiKind,
    name: String,
    kinds_changed: Option<Arc<Notify>>,
    /// Its objects define custom resources.
    defines_custom: bool,
    is_listing: bool,
}

// === impl Monitors ===

impl Monitors {
    pub(super) fn new(engine: Arc<Engine>, settings: &ControllerSettings) -> Self {
        let timing = Timing { answer: settings.calls.answer, watch: WATCH, ..Timing::default() };
        let lists = Arc::new(Semaphore::new(LISTS));
        Self { engine, timing, lists, running: BTreeMap::new(), kinds_changed: Arc::default(), unknown: Vec::new() }
    }

    /// Follows a discovery. A group-version that failed keeps its monitors: what it serves is unknown, not deleted.
    pub(super) async fn follow(&mut self, found: &Discovered) {
        self.warn_of_names(found);
        let is_failed = |resource: &ApiResource| found.unavailable.iter().any(|(it, _)| *it == resource.api_version);
        let served = Served::from(found);
        let wanted = read_in(found, &self.engine.filter.namespace).filter(|it| served.is_of_its_kind(it));
        let wanted: BTreeMap<_, _> = wanted.map(|it| (self.engine.number(&it.group(), &it.resource), it)).collect();
        let mut ended = Vec::new();
        for (id, running) in &mut self.running {
            let now = wanted.get(id);
            let is_missing = now.is_none() && !is_failed(&running.resource);
            let is_replaced = now.is_some_and(|now| !running.shows(now));
            if is_replaced && !is_failed(&running.resource) || running.has_ended(is_missing) {
                ended.push(*id);
            }
        }
        for id in ended {
            self.stop(id, wanted.contains_key(&id)).await;
        }
        self.engine.set_served(served);
        for (id, resource) in wanted {
            if !self.running.contains_key(&id) {
                self.start(id, resource);
            }
        }
    }

    /// Logs names of `--only` and `--ignore` that no resource has, once.
    fn warn_of_names(&mut self, found: &Discovered) {
        let unknown = self.engine.filter.resources.unknown(&found.resources);
        if unknown != self.unknown {
            for name in &unknown {
                tracing::warn!(name, "the API server serves no such resource, which --only or --ignore names");
            }
            self.unknown = unknown;
        }
    }

    fn start(&mut self, id: ResourceId, resource: &ApiResource) {
        let defines_kinds = RESOURCES_OF_KINDS.contains(&(&*resource.group(), &*resource.resource));
        let sink = GraphSink {
            engine: Arc::clone(&self.engine),
            id,
            kind: served(resource).kind,
            name: self.engine.name(id),
            kinds_changed: defines_kinds.then(|| Arc::clone(&self.kinds_changed)),
            defines_custom: self.engine.name(id) == DEFINITIONS,
            is_listing: true,
        };
        let connection = Arc::clone(&self.engine.calls.connection);
        let monitor = Monitor::new(connection, resource, self.timing.clone(), Arc::clone(&self.lists));
        let monitor = monitor.within(resource, &self.engine.filter.namespace);
        self.engine.state().resources.awaits_list(id, resource.namespaced);
        let task = tokio::spawn(monitor.run::<MetadataOnly>(sink));
        self.running.insert(id, Running { resource: resource.clone(), task, missing_since: None });
    }

    /// Stops a monitor. What it showed is unverified from now on, unless another version of the resource follows.
    async fn stop(&mut self, id: ResourceId, is_served: bool) {
        let Some(Running { resource, task, .. }) = self.running.remove(&id) else { return };
        task.abort();
        // It shows nothing any more after this.
        let _ = task.await;
        self.engine.state().resources.works(id);
        if !is_served {
            tracing::info!(resource = self.engine.name(id), version = resource.api_version, "no longer served");
            // The API server deletes all objects of a definition before the definition itself.
            let name = self.engine.name(id);
            let is_dropped = self.engine.state().resources.has_definition(&name) == Some(false);
            self.engine.apply(if is_dropped { Event::Dropped(id) } else { Event::Unserved(id) });
            self.engine.has_list(id);
        }
    }

    /// Returns the names of the resources that are monitored, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.running.keys().map(|id| self.engine.name(*id)).collect();
        names.sort();
        names
    }
}

impl Drop for Monitors {
    fn drop(&mut self) {
        self.running.values().for_each(|running| running.task.abort());
    }
}

// === impl Running ===

impl Running {
    fn shows(&self, now: &ApiResource) -> bool {
        let ApiResource { api_version, kind, namespaced, .. } = &self.resource;
        (api_version, kind, namespaced) == (&now.api_version, &now.kind, &now.namespaced)
    }

    /// Records whether discovery lacks the resource, and returns whether it has for so long that the resource is not served any more.
    fn has_ended(&mut self, is_missing: bool) -> bool {
        if !is_missing {
            self.missing_since = None;
            return false;
        }
        self.missing_since.get_or_insert_with(Instant::now).elapsed() >= UNSERVED_AFTER
    }
}

// === impl GraphSink ===

impl GraphSink {
    /// While the resource is listed at the start, its objects are no news.
    fn notify_of_kinds(&self) {
        if let Some(changed) = self.kinds_changed.as_ref().filter(|_| !self.is_listing) {
            changed.notify_one();
        }
    }

    fn defines(&self, name: &str, exists: bool) {
        if self.defines_custom {
            self.engine.state().resources.defines(name, exists);
        }
    }
}

impl Follower<MetadataOnly> for GraphSink {
    fn show(&mut self, event: MonitorEvent<'_, MetadataOnly>) {
        match event {
            MonitorEvent::ListBegins => self.engine.apply(Event::ListBegins(self.id)),
            MonitorEvent::Seen(MetadataOnly { metadata, .. }) => {
                self.defines(&metadata.name, true);
                self.engine.show(&self.kind, self.id, metadata);
                self.notify_of_kinds();
            }
            MonitorEvent::Deleted(MetadataOnly { metadata, .. }) => {
                self.defines(&metadata.name, false);
                self.engine.apply(Event::Deleted(self.id, metadata.identity(&self.kind)));
                self.notify_of_kinds();
            }
            MonitorEvent::ListEnds => {
                self.engine.apply(Event::ListEnds(self.id));
                self.engine.has_list(self.id);
                self.is_listing = false;
            }
            MonitorEvent::Current => {}
            MonitorEvent::Failed(error, _) => {
                self.engine.apply(Event::Interrupted);
                let is_new = self.engine.state().resources.fails(self.id);
                if is_new {
                    tracing::warn!(resource = self.name, cause = %error, "cannot monitor for now; retrying");
                }
            }
            MonitorEvent::Works => {
                let failed = self.engine.state().resources.works(self.id);
                if failed {
                    tracing::info!(resource = self.name, "monitored again");
                }
            }
        }
    }
}
