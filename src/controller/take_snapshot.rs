//! Takes a snapshot of a cluster: discovery, one list of metadata for each resource, one live read for each owner that
//! the lists leave doubtful.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::watch::namespaces::{owners_in_namespaces, waits_in};
use super::watch::served::{Served, served};
use super::{ControllerError, ResourceFilter};
use crate::kubernetes::{
    ApiResource, Clock, Connection, Discovered, KubernetesError, discover, list_metadata_in, read_metadata,
};
use crate::model::{Identity, ObjectMeta};
use crate::owners::{
    ClusterSnapshot, ClusterSnapshotKind, ListedResource, OwnerAnswer, OwnerGuards, OwnerRead, OwnersByNamespace,
    doubtful_owners,
};

/// Limits on requests to the API server.
#[derive(Clone, Debug)]
pub struct ObserverLimits {
    /// The longest wait for one answer. Default 30 s.
    pub answer: Duration,
    /// Lists in flight at once. Default 8.
    pub lists: usize,
    /// Live reads in flight at once. Default 32.
    pub reads: usize,
}

/// Reads a cluster. It changes nothing.
pub struct ClusterObserver {
    connection: Arc<Connection>,
    limits: ObserverLimits,
    clock: Clock,
    /// Any 404 proves that an owner is absent, as in kube-controller-manager.
    trusts_any_404: bool,
    /// The namespace of the lists; empty = all, and what has no namespace.
    namespace: String,
}

// === impl ClusterObserver ===

impl ClusterObserver {
    /// Creates an observer of the API server behind `connection`, for a plan under these guards.
    pub fn new(connection: Arc<Connection>, limits: ObserverLimits, clock: Clock, guards: &OwnerGuards) -> Self {
        Self { connection, limits, clock, trusts_any_404: !guards.strict_not_found, namespace: String::new() }
    }

    /// Lists only what is in a namespace, for which the permissions there are enough. An owner without a namespace is read by itself.
    #[must_use]
    pub fn within(self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.unwrap_or_default().to_owned(), ..self }
    }

    /// Takes a snapshot. `watch` receives the number of resources that are listed and that there are.
    ///
    /// # Errors
    ///
    /// Discovery failed. A resource that cannot be listed is unavailable in the snapshot.
    pub async fn snapshot(&self, mut watch: impl FnMut(usize, usize)) -> Result<ClusterSnapshot, ControllerError> {
        let taken_at = (self.clock)();
        let found = discover(&self.connection, self.limits.answer).await;
        let found = found.map_err(|source| ControllerError::Discover { source })?;
        let server = self.connection.cluster().await;
        let resources = self.lists(&found, &mut watch).await;
        let known = Served::from(&found);
        let mut snapshot = ClusterSnapshot {
            kind: ClusterSnapshotKind::ClusterSnapshot,
            version: 1,
            taken_at,
            server,
            served: found.resources.iter().map(served).collect(),
            unavailable: known.unavailable.clone(),
            resources,
            owners: Vec::new(),
        };
        snapshot.owners = self.reads(&known, &snapshot).await;
        Ok(snapshot)
    }

    async fn lists(&self, found: &Discovered, watch: &mut impl FnMut(usize, usize)) -> Vec<ListedResource> {
        let everything = ResourceFilter::default();
        let is_within = |resource: &&ApiResource| resource.namespaced || self.namespace.is_empty();
        let wanted = found.resources.iter().filter(|resource| everything.selects(resource));
        let wanted: Vec<_> = wanted.filter(is_within).collect();
        let lists = wanted.iter().map(|resource| self.list(resource));
        let mut lists = stream::iter(lists).buffered(self.limits.lists);
        let mut listed = Vec::new();
        while let Some(list) = lists.next().await {
            listed.push(list);
            watch(listed.len(), wanted.len());
        }
        let objects = listed.iter().flat_map(|it| it.objects.as_ref().into_iter().flatten());
        let deleted = objects.filter(|object| object.is_deleting());
        let waiting: BTreeSet<_> = deleted.filter_map(|it| waits_in(&it.namespace, &it.finalizers)).collect();
        let is_unlisted = |(_, it): &(&&ApiResource, &mut ListedResource)| it.objects.cause().is_some();
        let (resources, unlisted): (Vec<&ApiResource>, Vec<_>) =
            wanted.iter().zip(&mut listed).filter(is_unlisted).map(|(resource, it)| (*resource, it)).unzip();
        let known = owners_in_namespaces(&self.connection, &resources, &waiting, self.limits.answer).await;
        for (it, namespaces) in unlisted.into_iter().zip(known) {
            it.namespaces = namespaces;
        }
        listed
    }

    async fn list(&self, resource: &ApiResource) -> ListedResource {
        let objects = list_metadata_in(&self.connection, resource, &self.namespace, self.limits.answer).await;
        ListedResource {
            served: served(resource),
            objects: objects.map(|objects| objects.into_iter().map(as_in_documents).collect()).into(),
            namespaces: OwnersByNamespace::new(),
        }
    }

    async fn reads(&self, served: &Served, snapshot: &ClusterSnapshot) -> Vec<OwnerRead> {
        let owners = doubtful_owners(snapshot).into_iter();
        let reads = owners.filter_map(|owner| Some((served.resource(&owner.kind)?, owner)));
        let reads = reads.map(|(resource, owner)| self.read(resource, owner));
        stream::iter(reads).buffered(self.limits.reads).collect().await
    }

    async fn read(&self, resource: &ApiResource, owner: Identity) -> OwnerRead {
        let Identity { namespace, name, .. } = &owner;
        let read = read_metadata(&self.connection, resource, namespace, name, self.limits.answer).await;
        let answer = match read {
            Err(error) if error.cause.is_any_404() && self.trusts_any_404 => OwnerAnswer::NotFound,
            read => answer(&owner, read),
        };
        OwnerRead { owner, read_at: (self.clock)(), answer }
    }
}

impl Default for ObserverLimits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(30), lists: 8, reads: 32 }
    }
}

/// A snapshot may have a million objects, so it keeps what its document has.
fn as_in_documents(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { version: Box::default(), grace_seconds: None, ..meta }
}

fn answer(owner: &Identity, read: Result<Option<ObjectMeta>, KubernetesError>) -> OwnerAnswer {
    match read {
        Err(error) if error.cause.is_of_request() => OwnerAnswer::NotRequested(error.to_string()),
        Err(error) if error.cause.is_any_404() => {
            OwnerAnswer::Unavailable(format!("{error}; this names another object, so it proves nothing"))
        }
        Err(error) => OwnerAnswer::Unavailable(error.to_string()),
        Ok(None) => OwnerAnswer::NotFound,
        Ok(Some(found)) if found.uid != owner.uid => OwnerAnswer::OtherUid(found.uid),
        Ok(Some(found)) => OwnerAnswer::Exists { waits_for_dependents: found.waits_for_dependents() },
    }
}
