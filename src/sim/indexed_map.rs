//! A map of objects by id, with lookup by unique prefix and by pod without a scan of all objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use tonic::Status;

/// The label with the pod's uid.
pub(super) const POD_UID: &str = "io.kubernetes.pod.uid";

/// An object that an [`IndexedMap`] can contain.
pub(crate) trait Labeled {
    /// Returns the labels as the runtime lists them. They must not change while the object is in the map.
    fn labels(&self) -> &HashMap<String, String>;
}

/// Objects by id.
#[derive(Clone, Debug)]
pub(crate) struct IndexedMap<T> {
    /// The kind of the objects, for error messages.
    kind: &'static str,
    items: BTreeMap<String, T>,
    pods: HashMap<String, BTreeSet<String>>,
}

// === impl IndexedMap ===

impl<T: Labeled> IndexedMap<T> {
    pub(super) fn of(kind: &'static str) -> Self {
        Self { kind, items: BTreeMap::new(), pods: HashMap::new() }
    }

    pub(super) fn put(&mut self, id: &str, item: T) {
        if let Some(uid) = item.labels().get(POD_UID) {
            self.pods.entry(uid.clone()).or_default().insert(id.to_owned());
        }
        self.items.insert(id.to_owned(), item);
    }

    pub(super) fn take(&mut self, id: &str) -> Option<T> {
        let item = self.items.remove(id)?;
        if let Some(uid) = item.labels().get(POD_UID)
            && let Some(ids) = self.pods.get_mut(uid)
        {
            ids.remove(id);
            if ids.is_empty() {
                self.pods.remove(uid);
            }
        }
        Some(item)
    }

    /// Returns the full id for an id or a unique prefix.
    pub(super) fn resolve(&self, id: &str) -> Result<String, Status> {
        let not_found = || Status::not_found(format!("{} {id:?} not found", self.kind));
        if id.is_empty() {
            return Err(not_found());
        }
        let from = (Bound::Included(id), Bound::Unbounded);
        let mut matching = self.items.range::<str, _>(from).map(|(id, _)| id).take_while(|found| found.starts_with(id));
        let first = matching.next().ok_or_else(not_found)?;
        if first != id && matching.next().is_some() {
            return Err(Status::unknown(format!("several {}s begin with {id:?}", self.kind)));
        }
        Ok(first.clone())
    }

    /// Returns the object with this full id.
    pub(crate) fn get(&self, id: &str) -> Option<&T> {
        self.items.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.items.get_mut(id)
    }

    /// Returns the object with this full id or unique prefix.
    pub(crate) fn find(&self, id: &str) -> Result<&T, Status> {
        let whole = self.resolve(id)?;
        self.items.get(&whole).ok_or_else(|| Status::not_found(whole))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &String> {
        self.items.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.values()
    }

    /// Returns the objects with the label of this pod.
    pub(crate) fn of_pod(&self, uid: &str) -> impl Iterator<Item = &T> {
        self.pods.get(uid).into_iter().flatten().filter_map(|id| self.items.get(id))
    }
}
