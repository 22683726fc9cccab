//! Takes a snapshot of a cluster: discovery, one list of metadata for each resource, one live read for each owner that
//! the lists leave doubtful.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::ControllerError;
use crate::kubernetes::{
    ApiResource, Clock, Connection, Discovered, KubernetesError, ObjectMetadata, discover, list_metadata, read_metadata,
};
use crate::owners::{
    ClusterSnapshot, ClusterSnapshotKind, FOREGROUND, Identity, Kind, Listed, ObjectMeta, OwnerAnswer, OwnerRead,
    OwnerReference, ServedKind, ServedKinds, Uid, UnavailableGroup, doubtful_owners,
};

/// Limits on requests to the API server.
#[derive(Clone, Debug)]
pub struct Limits {
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
    limits: Limits,
    clock: Clock,
}

// === impl ClusterObserver ===

impl ClusterObserver {
    /// Creates an observer of the API server behind `connection`.
    pub fn new(connection: Arc<Connection>, limits: Limits, clock: Clock) -> Self {
        Self { connection, limits, clock }
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
        let server = self.connection.chosen_by().await;
        let resources = self.lists(&found, &mut watch).await;
        let unavailable = found.unavailable.iter().cloned();
        let mut snapshot = ClusterSnapshot {
            kind: ClusterSnapshotKind::ClusterSnapshot,
            version: 1,
            taken_at,
            server,
            served: found.resources.iter().map(served).collect(),
            unavailable: unavailable.map(|(api_version, cause)| UnavailableGroup { api_version, cause }).collect(),
            resources,
            owners: Vec::new(),
        };
        snapshot.owners = self.reads(&found, &snapshot).await;
        Ok(snapshot)
    }

    async fn lists(&self, found: &Discovered, watch: &mut impl FnMut(usize, usize)) -> Vec<Listed> {
        let wanted: Vec<_> = found.resources.iter().filter(|it| it.is_preferred && it.is_collectable()).collect();
        let lists = wanted.iter().map(|resource| self.list(resource));
        let mut lists = stream::iter(lists).buffered(self.limits.lists);
        let mut listed = Vec::new();
        while let Some(list) = lists.next().await {
            listed.push(list);
            watch(listed.len(), wanted.len());
        }
        listed
    }

    async fn list(&self, resource: &ApiResource) -> Listed {
        let objects = list_metadata(&self.connection, resource, self.limits.answer).await;
        Listed {
            served: served(resource),
            objects: objects.map(|objects| objects.into_iter().map(meta).collect()).into(),
        }
    }

    async fn reads(&self, found: &Discovered, snapshot: &ClusterSnapshot) -> Vec<OwnerRead> {
        let kinds = ServedKinds::from(snapshot);
        let by_kind: HashMap<_, _> = found.resources.iter().map(|resource| (served(resource).kind, resource)).collect();
        let resource = |owner: &Identity| by_kind.get(&kinds.find(&owner.kind)?.kind).copied();
        let owners = doubtful_owners(snapshot).into_iter();
        let reads = owners.filter_map(|owner| Some((resource(&owner)?, owner)));
        let reads = reads.map(|(resource, owner)| self.read(resource, owner));
        stream::iter(reads).buffered(self.limits.reads).collect().await
    }

    async fn read(&self, resource: &ApiResource, owner: Identity) -> OwnerRead {
        let Identity { namespace, name, .. } = &owner;
        let read = read_metadata(&self.connection, resource, namespace, name, self.limits.answer).await;
        let answer = answer(&owner, read);
        OwnerRead { owner, read_at: (self.clock)(), answer }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(30), lists: 8, reads: 32 }
    }
}

fn answer(owner: &Identity, read: Result<Option<ObjectMetadata>, KubernetesError>) -> OwnerAnswer {
    match read {
        Err(error) => OwnerAnswer::Unavailable(error.to_string()),
        Ok(None) => OwnerAnswer::NotFound,
        Ok(Some(found)) if Uid::new(&found.uid) != owner.uid => OwnerAnswer::OtherUid(Uid::new(&found.uid)),
        Ok(Some(found)) => OwnerAnswer::Exists {
            waits_for_dependents: found.deletion_timestamp.is_some()
                && found.finalizers.iter().any(|finalizer| finalizer == FOREGROUND),
        },
    }
}

fn served(resource: &ApiResource) -> ServedKind {
    ServedKind {
        kind: Kind::new(&resource.api_version, &resource.kind),
        resource: resource.resource.clone(),
        namespaced: resource.namespaced,
    }
}

fn meta(object: ObjectMetadata) -> ObjectMeta {
    let owner = |owner: crate::kubernetes::OwnerReferenceMetadata| OwnerReference {
        kind: Kind::new(&owner.api_version, &owner.kind),
        name: owner.name.into(),
        uid: Uid::new(&owner.uid),
        controller: owner.controller,
        blocking: owner.block_owner_deletion,
    };
    ObjectMeta {
        namespace: object.namespace.into(),
        name: object.name.into(),
        uid: Uid::new(&object.uid),
        deletion_timestamp: object.deletion_timestamp,
        finalizers: object.finalizers,
        owners: object.owner_references.into_iter().map(owner).collect(),
    }
}
