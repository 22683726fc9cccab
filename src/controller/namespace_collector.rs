//! The deletion of namespaces, as the namespace controller of kube-controller-manager 1.36 does it: deletes what is in a
//! namespace whose deletion has begun, shows in its conditions what is left, and ends the deletion when nothing is.
//!
//! Before the objects of a resource are deleted, the namespace is read again: a later one of its name has another uid (G2).

mod conditions;
mod content;
mod following;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::sleep;

use self::content::Content;
use super::controller_error::ControllerError;
use super::status::upstream_leader;
use super::watch::served::served;
use super::work::engine::Engine;
use super::work::outcome::{ClusterOutcome, ClusterResult};
use crate::kubernetes::{
    ApiNamespace, ApiResource, Cause, Discovered, KUBERNETES, KubernetesError, WriteTarget, discover,
};
use crate::model::{ApiKind, FOREGROUND, Identity, ORPHAN, ObjectMeta, Uid};
use crate::owners::{ActionWord, Propagation};

pub(super) use following::follow;

/// How long nothing is deleted after the deletion of a namespace: until then another API server may admit objects to it.
/// As in kube-controller-manager.
const SETTLES: Duration = Duration::from_secs(5);
/// Resources of one namespace at once. Ten namespaces leave most of the calls in flight to what else is collected.
const RESOURCES: usize = 2;
/// Why an object is deleted, or the deletion of a namespace ended.
const REASONS: (&str, &str) = ("namespace_in_deletion", "no_content_left");

/// How far the deletion of a namespace is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// Nothing is left to do.
    Ended,
    /// Content is left, whose finalizers or grace periods hold it.
    Waits,
    Failed,
}

pub(super) struct NamespaceCollector<'a> {
    engine: &'a Engine,
    /// No more objects may be changed.
    is_at_limit: AtomicBool,
}

/// Returns an error beside a kube-controller-manager, which deletes namespaces itself.
pub(super) async fn alone(engine: &Engine) -> Result<(), ControllerError> {
    let calls = &engine.calls;
    let leader = upstream_leader(&calls.connection, calls.answer, (engine.clock)()).await;
    match leader.map_err(|source| ControllerError::Upstream { source })? {
        Some(leader) if leader.is_active => Err(ControllerError::Beside { leader: leader.identity }),
        _ => Ok(()),
    }
}

// === impl NamespaceCollector ===

impl<'a> NamespaceCollector<'a> {
    pub(super) fn new(engine: &'a Engine) -> Self {
        Self { engine, is_at_limit: AtomicBool::new(false) }
    }

    /// Deletes what is in a namespace, and ends its deletion if nothing is left.
    pub(super) async fn collect(&self, object: &Identity) -> Progress {
        let failures = match self.pass(&object.name, &object.uid).await {
            Ok(None) => return self.recovered(object, Progress::Ended),
            Ok(Some(content)) if content.failures().next().is_none() => return self.recovered(object, Progress::Waits),
            Ok(Some(content)) => content.failures().collect::<Vec<_>>().join("; "),
            Err(error) => error.to_string(),
        };
        self.engine.failed(object.clone(), failures);
        Progress::Failed
    }

    fn recovered(&self, object: &Identity, progress: Progress) -> Progress {
        self.engine.recovered(&object.uid);
        progress
    }

    /// Returns what is left; `None` = the deletion has ended.
    async fn pass(&self, name: &str, uid: &Uid) -> Result<Option<Content>, KubernetesError> {
        let calls = &self.engine.calls;
        let Some(namespace) = self.read(name, uid).await? else { return Ok(None) };
        self.settle(&namespace).await;
        let found = discover(&calls.connection, calls.answer).await?;
        let content = self.delete_content(&namespace, &found).await;
        if self.leaves_some() && !content.is_empty() {
            return Ok(Some(content));
        }
        let is_held = namespace.finalizers.len() > 1 || !namespace.metadata.finalizers.is_empty();
        if is_held || !content.is_empty() {
            self.show(&namespace, &content).await?;
        }
        if !content.is_empty() {
            return Ok(Some(content));
        }
        self.finalize(name, uid).await.map(|()| None)
    }

    /// Reads a namespace. `None` = there is nothing to do in it, or no such namespace any more.
    async fn read(&self, name: &str, uid: &Uid) -> Result<Option<ApiNamespace>, KubernetesError> {
        let found = self.engine.calls.read_namespace(name).await?;
        let is_ours = |it: &ApiNamespace| it.finalizers.iter().any(|finalizer| finalizer == KUBERNETES);
        Ok(found.filter(|it| it.metadata.uid == *uid && it.metadata.is_deleting() && is_ours(it)))
    }

    async fn settle(&self, namespace: &ApiNamespace) {
        let deleted = namespace.metadata.deletion_timestamp.unwrap_or_default();
        let since = (self.engine.clock)().duration_since(deleted).unsigned_abs();
        if !self.engine.calls.is_dry_run {
            sleep(SETTLES.saturating_sub(since)).await;
        }
    }

    /// Deletes the pods. When none is left, deletes everything else: what runs may need it until it ends (KEP-5080).
    async fn delete_content(&self, namespace: &ApiNamespace, found: &Discovered) -> Content {
        let is_content = |it: &&ApiResource| it.namespaced && it.is_preferred && it.can("delete");
        let (pods, others): (Vec<_>, Vec<_>) =
            found.resources.iter().filter(is_content).partition(|it| it.resource == "pods" && it.group().is_empty());
        let mut content = Content::new(&namespace.metadata.name, (self.engine.clock)(), &found.unavailable);
        for resources in [pods, others] {
            let deletions = resources.iter().map(|resource| async move {
                let left = self.delete_all(namespace, resource).await;
                (resource, left)
            });
            let mut deletions = stream::iter(deletions).buffered(RESOURCES);
            while let Some((resource, left)) = deletions.next().await {
                content.add(resource, left, self.leaves_some());
            }
            // A dry run shows all of it.
            if !content.is_deleted() && !self.engine.calls.is_dry_run {
                break;
            }
        }
        content
    }

    /// Deletes all objects of a resource and returns those that are left.
    async fn delete_all(
        &self,
        namespace: &ApiNamespace,
        resource: &ApiResource,
    ) -> Result<Vec<ObjectMeta>, KubernetesError> {
        let (calls, name) = (&self.engine.calls, &*namespace.metadata.name);
        if !resource.can("list") {
            return self.delete_unseen(namespace, resource).await.map(|()| Vec::new());
        }
        let found = self.list(resource, name).await?;
        // A deletion with `Background` replaces one that waits for its dependents or releases them: all of them go.
        let waits = |object: &ObjectMeta| object.has(FOREGROUND) || object.has(ORPHAN);
        let alive: Vec<_> = found.iter().filter(|object| !object.is_deleting() || waits(object)).collect();
        let wanted: Vec<_> = alive.iter().take_while(|_| self.may_change_one_more()).copied().collect();
        if wanted.is_empty() || self.read(name, &namespace.metadata.uid).await?.is_none() {
            return Ok(found);
        }
        let at_once = resource.can("deletecollection") && wanted.len() == alive.len() && calls.save.is_none();
        let deleted = if at_once {
            calls.delete_collection(resource, name).await
        } else {
            self.delete_each(resource, &wanted).await
        };
        let left = if calls.is_dry_run { found.clone() } else { self.list(resource, name).await? };
        self.report(&served(resource).kind, &wanted, &left);
        deleted.map(|()| left)
    }

    /// Deletes all objects of a resource that cannot be listed. Their number is unknown, and none can be saved.
    async fn delete_unseen(&self, namespace: &ApiNamespace, resource: &ApiResource) -> Result<(), KubernetesError> {
        let (calls, name) = (&self.engine.calls, &*namespace.metadata.name);
        if calls.save.is_some() || self.engine.is_limited() {
            let cause = "they cannot be listed, so that they are neither counted for --max nor saved";
            let what = format!("delete all {} ({}) in namespace {name:?}", resource.resource, resource.api_version);
            return Err(Cause::InvalidRequest(cause.to_owned()).of(what));
        }
        if self.read(name, &namespace.metadata.uid).await?.is_none() {
            return Ok(());
        }
        calls.delete_collection(resource, name).await
    }

    /// Lists a resource in a namespace. A resource of discovery that cannot be listed has no objects.
    async fn list(&self, resource: &ApiResource, namespace: &str) -> Result<Vec<ObjectMeta>, KubernetesError> {
        match self.engine.calls.list_in(resource, namespace).await {
            Err(error) if matches!(error.cause.code(), Some(404 | 405)) => Ok(Vec::new()),
            listed => listed,
        }
    }

    async fn delete_each(&self, resource: &ApiResource, objects: &[&ObjectMeta]) -> Result<(), KubernetesError> {
        for object in objects {
            let ObjectMeta { namespace, name, uid, version, .. } = object;
            let target = WriteTarget { resource, namespace, name, uid };
            match self.engine.calls.delete(target, object, version, Propagation::Background).await {
                // The list that follows shows what has become of it.
                Err(error) if !matches!(error.cause.code(), Some(404 | 409)) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether objects are left that another run would delete.
    fn leaves_some(&self) -> bool {
        self.engine.calls.is_dry_run || self.is_at_limit.load(Ordering::Relaxed)
    }

    fn may_change_one_more(&self) -> bool {
        let may = self.engine.may_change_one_more();
        self.is_at_limit.fetch_or(!may, Ordering::Relaxed);
        may
    }

    fn report(&self, kind: &ApiKind, deleted: &[&ObjectMeta], left: &[ObjectMeta]) {
        let left: HashMap<_, _> = left.iter().map(|object| (&object.uid, object)).collect();
        for object in deleted {
            let result = match left.get(&object.uid) {
                _ if self.engine.calls.is_dry_run => ClusterResult::DryRun,
                None => ClusterResult::Removed,
                Some(now) if now.is_deleting() => ClusterResult::Accepted,
                Some(_) => continue,
            };
            let propagation = Some(Propagation::Background);
            self.done(ActionWord::Delete, object.identity(kind), propagation, REASONS.0, result);
        }
    }

    fn done(
        &self,
        action: ActionWord,
        object: Identity,
        propagation: Option<Propagation>,
        reason: &str,
        result: ClusterResult,
    ) {
        self.engine.done(ClusterOutcome {
            action,
            object,
            propagation,
            owners: Vec::new(),
            reason: reason.to_owned(),
            result,
        });
    }

    /// Shows in the conditions of the namespace what is left.
    async fn show(&self, namespace: &ApiNamespace, content: &Content) -> Result<(), KubernetesError> {
        let now = (self.engine.clock)();
        let Some(conditions) = conditions::changed(&namespace.conditions, content, now) else { return Ok(()) };
        let (resource, metadata) = (ApiResource::namespaces(), &namespace.metadata);
        let target = WriteTarget { resource: &resource, namespace: "", name: &metadata.name, uid: &metadata.uid };
        self.engine.calls.patch_status(target, &json!({ "conditions": conditions })).await
    }

    /// Removes the finalizer of a namespace without content.
    async fn finalize(&self, name: &str, uid: &Uid) -> Result<(), KubernetesError> {
        let calls = &self.engine.calls;
        let Some(namespace) = self.read(name, uid).await? else { return Ok(()) };
        if !self.may_change_one_more() {
            return Ok(());
        }
        calls.finalize(&namespace, KUBERNETES).await?;
        let result = if calls.is_dry_run { ClusterResult::DryRun } else { ClusterResult::Changed };
        let object = namespace.metadata.identity(&served(&ApiResource::namespaces()).kind);
        self.done(ActionWord::EndNamespace, object, None, REASONS.1, result);
        Ok(())
    }
}
