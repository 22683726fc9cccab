//! The pods and nodes as their monitors show them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::kubernetes::{Follower, MonitorEvent};
use crate::pod_gc::{NodeMeta, PodMeta, PodsSnapshot};

#[derive(Debug, Default)]
pub(super) struct Store {
    /// By uid: a pod and a younger one of its name are two.
    pub(super) pods: Known<PodMeta>,
    pub(super) nodes: Known<NodeMeta>,
}

#[derive(Debug)]
pub(super) struct Known<T> {
    /// With the number of the list that showed each object last.
    objects: BTreeMap<String, (u64, Arc<T>)>,
    list: u64,
    is_listed: bool,
    is_watched: bool,
}

/// Puts what a monitor shows into the store.
pub(super) struct StoreSink<O, T> {
    pub(super) resource: &'static str,
    pub(super) store: Arc<watch::Sender<Store>>,
    pub(super) part: fn(&mut Store) -> &mut Known<T>,
    pub(super) key: fn(&O) -> &str,
    pub(super) convert: fn(&O) -> T,
}

// === impl Store ===

impl Store {
    /// Returns whether a pass may be made: both lists are complete, and with `current` nothing has failed since.
    pub(super) fn is_ready(&self, current: bool) -> bool {
        self.pods.is_ready(current) && self.nodes.is_ready(current)
    }

    /// Returns the store as a snapshot. The pods are shared with it.
    pub(super) fn snapshot(&self, taken_at: Timestamp, server: String) -> PodsSnapshot {
        let nodes = self.nodes.objects.values().map(|(_, node)| (**node).clone());
        let pods = self.pods.objects.values().map(|(_, pod)| Arc::clone(pod));
        PodsSnapshot { taken_at, server, pods: pods.collect(), nodes: nodes.collect() }
    }
}

// === impl Known ===

impl<T> Known<T> {
    fn is_ready(&self, current: bool) -> bool {
        self.is_listed && (self.is_watched || !current)
    }

    fn put(&mut self, key: &str, object: T) {
        self.objects.insert(key.to_owned(), (self.list, Arc::new(object)));
    }

    /// What the complete list did not show was deleted meanwhile.
    fn list_ends(&mut self) {
        let list = self.list;
        self.objects.retain(|_, (shown_by, _)| *shown_by == list);
        self.is_listed = true;
    }
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), list: 0, is_listed: false, is_watched: false }
    }
}

// === impl StoreSink ===

impl<O, T> StoreSink<O, T> {
    /// Wakes the service only if the objects become ready or stop to be: a list of many objects changes nothing for it.
    fn change(&self, change: impl FnOnce(&mut Known<T>)) {
        self.store.send_if_modified(|store| {
            let known = (self.part)(store);
            let before = (known.is_listed, known.is_watched);
            change(known);
            before != (known.is_listed, known.is_watched)
        });
    }
}

impl<O: Send, T: Send> Follower<O> for StoreSink<O, T> {
    fn show(&mut self, event: MonitorEvent<'_, O>) {
        match event {
            MonitorEvent::ListBegins => self.change(|known| known.list += 1),
            MonitorEvent::Seen(object) => self.change(|known| known.put((self.key)(&object), (self.convert)(&object))),
            MonitorEvent::Deleted(object) => self.change(|known| drop(known.objects.remove((self.key)(&object)))),
            MonitorEvent::ListEnds => self.change(Known::list_ends),
            MonitorEvent::Current => {}
            MonitorEvent::Failed(error, is_first) => {
                self.change(|known| known.is_watched = false);
                if is_first {
                    tracing::warn!(resource = self.resource, cause = %error, "cannot watch for now; retrying");
                }
            }
            MonitorEvent::Works => {
                self.change(|known| known.is_watched = true);
                tracing::info!(resource = self.resource, "watched");
            }
        }
    }
}
