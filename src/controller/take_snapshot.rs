//! Takes a snapshot of a cluster: discovery, one list of metadata for each resource, one live read for each owner that
//! the lists leave doubtful.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::collect::object_rules::ObjectRules;
use super::controller_error::ControllerError;
use super::watch::filter::read_in;
use super::watch::namespaces::{list_in_namespaces, owners_in, waits_in};
use super::watch::served::{Served, served};
use crate::kubernetes::{
    ApiResource, Clock, Connection, Discovered, KubernetesError, discover, list_details_in, list_metadata_in,
    read_metadata, read_namespace,
};
use crate::model::{Identity, ObjectDetails, ObjectMeta, Uid};
use crate::owners::{
    ClusterSnapshot, ListedResource, OwnerAnswer, OwnerGuards, OwnerRead, OwnersByNamespace, doubtful_owners,
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
    /// Only what is in this namespace is listed, for which the permissions there are enough: an owner without a namespace is read
    /// by itself. Empty = everything is.
    pub namespace: String,
    /// The objects of these are selected too.
    pub rules: ObjectRules,
}

// === impl ClusterObserver ===

impl ClusterObserver {
    /// Creates an observer of the API server behind `connection`, for a plan under these guards.
    pub fn new(connection: Arc<Connection>, limits: ObserverLimits, clock: Clock, guards: &OwnerGuards) -> Self {
        Self {
            connection,
            limits,
            clock,
            trusts_any_404: !guards.strict_not_found,
            namespace: String::new(),
            rules: ObjectRules::default(),
        }
    }

    /// Takes a snapshot. `watch` receives the number of resources that are listed and that there are.
    pub async fn snapshot(&self, mut watch: impl FnMut(usize, usize)) -> Result<ClusterSnapshot, ControllerError> {
        let taken_at = (self.clock)();
        let found = discover(&self.connection, self.limits.answer).await;
        let found = found.map_err(|source| ControllerError::Discover { source })?;
        let server = self.connection.cluster().await;
        let resources = self.lists(&found, &mut watch).await;
        let known = Served::from(&found);
        let mut snapshot = ClusterSnapshot {
            taken_at,
            server,
            served: found.resources.iter().map(served).collect(),
            unavailable: known.unavailable.clone(),
            conditions: self.conditions(&resources).await,
            resources,
            owners: Vec::new(),
            selected: BTreeMap::new(),
            rule_errors: Vec::new(),
        };
        match self.rules.select(&self.connection, &self.namespace, taken_at, self.limits.answer).await {
            Ok(selection) => {
                snapshot.rule_errors = selection.errors;
                snapshot.selected = selection.objects.into_iter().map(|it| (it.meta.uid, it.reason)).collect();
            }
            Err(error) => snapshot.rule_errors.push(error.to_string()),
        }
        snapshot.owners = self.reads(&known, &snapshot).await;
        Ok(snapshot)
    }

    /// Returns the uids of the objects that a selector of labels matches, and which resources cannot be listed.
    pub async fn labeled(&self, selector: &str) -> Result<(HashSet<Uid>, Vec<String>), ControllerError> {
        let found = discover(&self.connection, self.limits.answer).await;
        let found = found.map_err(|source| ControllerError::Discover { source })?;
        let lists = read_in(&found, &self.namespace).map(|resource| {
            list_metadata_in(&self.connection, resource, &self.namespace, Some(selector), self.limits.answer)
        });
        let lists: Vec<_> = stream::iter(lists).buffered(self.limits.lists).collect().await;
        let (mut uids, mut errors) = (HashSet::new(), Vec::new());
        for list in lists {
            match list {
                Ok(objects) => uids.extend(objects.into_iter().map(|object| object.uid)),
                Err(error) => errors.push(error.to_string()),
            }
        }
        Ok((uids, errors))
    }

    /// Returns by uid what people ask about these objects, with these labels. To read that of all objects with the snapshot would
    /// need some times its memory.
    pub async fn details(
        &self,
        objects: &[&Identity],
        labels: &[String],
    ) -> Result<BTreeMap<Uid, ObjectDetails>, ControllerError> {
        let unread = |source| ControllerError::Discover { source };
        let found = discover(&self.connection, self.limits.answer).await.map_err(unread)?;
        let uids: HashSet<_> = objects.iter().map(|object| &object.uid).collect();
        let kinds: HashSet<_> = objects.iter().map(|object| &object.kind).collect();
        let resources = read_in(&found, &self.namespace).filter(|resource| kinds.contains(&served(resource).kind));
        let lists = resources.map(|resource| {
            let of = |uid: &Uid| uids.contains(uid);
            list_details_in(&self.connection, resource, &self.namespace, (labels, of), self.limits.answer)
        });
        let lists: Vec<_> = stream::iter(lists).buffered(self.limits.lists).try_collect().await.map_err(unread)?;
        Ok(lists.into_iter().flatten().collect())
    }

    async fn lists(&self, found: &Discovered, watch: &mut impl FnMut(usize, usize)) -> Vec<ListedResource> {
        let wanted: Vec<_> = read_in(found, &self.namespace).collect();
        let lists = wanted.iter().map(|resource| self.list(resource));
        let mut lists = stream::iter(lists).buffered(self.limits.lists);
        let mut listed = Vec::new();
        while let Some(list) = lists.next().await {
            listed.push(list);
            watch(listed.len(), wanted.len());
        }
        let ends: BTreeSet<_> = namespaces_in_deletion(&listed).map(|namespace| Arc::clone(&namespace.name)).collect();
        let objects = listed.iter().flat_map(|it| it.objects.as_ref().into_iter().flatten());
        let deleted = objects.filter(|object| object.is_deleting());
        let mut waiting: BTreeSet<_> = deleted.filter_map(|it| waits_in(&it.namespace, &it.finalizers)).collect();
        waiting.extend(ends.iter().cloned());
        let is_unlisted = |(_, it): &(&&ApiResource, &mut ListedResource)| it.objects.cause().is_some();
        let (resources, unlisted): (Vec<&ApiResource>, Vec<_>) =
            wanted.iter().zip(&mut listed).filter(is_unlisted).map(|(resource, it)| (*resource, it)).unzip();
        let known = list_in_namespaces(&self.connection, &resources, &waiting, self.limits.answer).await;
        for (it, known) in unlisted.into_iter().zip(known) {
            it.namespaces = owners_in(&known);
            let content = known.into_iter().filter(|(namespace, _)| ends.contains(namespace));
            it.content = content.flat_map(|(_, objects)| objects).map(as_in_documents).collect();
        }
        listed
    }

    /// Returns by uid what the namespaces in deletion themselves show of what holds them.
    async fn conditions(&self, listed: &[ListedResource]) -> BTreeMap<Uid, Vec<String>> {
        let reads = namespaces_in_deletion(listed).map(|namespace| async move {
            let read = read_namespace(&self.connection, &namespace.name, self.limits.answer).await;
            let shown = read.map(|read| read.map(|read| read.held_by().collect()).unwrap_or_default());
            (namespace.uid.clone(), shown.unwrap_or_else(|error| vec![error.to_string()]))
        });
        stream::iter(reads).buffered(self.limits.reads).filter(|(_, shown)| ready(!shown.is_empty())).collect().await
    }

    async fn list(&self, resource: &ApiResource) -> ListedResource {
        let (connection, namespace, limit) = (&self.connection, &self.namespace, self.limits.answer);
        let objects = list_metadata_in(connection, resource, namespace, None, limit).await;
        let objects = objects.map(|objects| objects.into_iter().map(as_in_documents).collect()).into();
        let (namespaces, content) = (OwnersByNamespace::new(), Vec::new());
        ListedResource { served: served(resource), objects, namespaces, content }
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

fn namespaces_in_deletion(listed: &[ListedResource]) -> impl Iterator<Item = &ObjectMeta> {
    let namespaces = listed.iter().filter(|it| it.served.kind.is_namespace());
    namespaces.flat_map(|it| it.objects.as_ref().into_iter().flatten()).filter(|it| it.is_deleting())
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
