//! The changes that garbage collection makes, as calls. Nothing else in this room writes, apart from the lease and events.
//!
//! Each change has a precondition: the uid and the version of the read from which it was made. Two collectors at once
//! waste calls and do no harm.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::calls::Calls;
use crate::kubernetes::{
    ApiNamespace, ApiResource, Cause, Connection, Deleted, Deletion, KubernetesError, PropagationPolicy, WriteTarget,
    delete_collection, delete_object, finalize_namespace, patch_object, patch_status,
};
use crate::model::{FOREGROUND, ObjectMeta, OwnerReference};
use crate::owners::Propagation;

/// Returns whether the foreground deletion of an object would wait for its dependents, by a dry run that changes nothing.
pub(super) async fn deletion_waits_for_dependents(
    connection: &Connection,
    target: WriteTarget<'_>,
    limit: Duration,
) -> Result<bool, KubernetesError> {
    let propagation = Some(PropagationPolicy::Foreground);
    let deletion = Deletion { propagation, dry_run: true, ..Deletion::default() };
    let answer = delete_object(connection, target, &deletion, limit).await?;
    Ok(matches!(answer, Deleted::Accepted(held) if held.has(FOREGROUND)))
}

// === impl Calls ===

impl Calls {
    pub(super) fn changes(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Does not count a change that had no effect.
    pub(super) fn take_back(&self) {
        self.made.fetch_sub(1, Ordering::Relaxed);
    }

    /// Deletes an object that has the uid of the target, and this version.
    pub(super) async fn delete(
        &self,
        target: WriteTarget<'_>,
        live: &ObjectMeta,
        version: &str,
        propagation: Propagation,
    ) -> Result<Deleted, KubernetesError> {
        let propagation = Some(match propagation {
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Orphan => PropagationPolicy::Orphan,
        });
        let deletion = Deletion { resource_version: Some(version.to_owned()), propagation, ..Deletion::default() };
        if !self.is_dry_run {
            self.save(target).await?;
        }
        let deleted = delete_object(&self.connection, target, &deletion, self.answer);
        self.make(deleted, || Deleted::Accepted(Box::new(live.clone()))).await
    }

    /// Replaces the owner references of the object that was read.
    pub(super) async fn set_references(
        &self,
        target: WriteTarget<'_>,
        live: &ObjectMeta,
        references: &[OwnerReference],
    ) -> Result<ObjectMeta, KubernetesError> {
        if let Some(cause) = live.unknown_owners() {
            // Those that were left out would be lost.
            return Err(Cause::InvalidRequest(cause).of(format!("change {:?}", target.name)));
        }
        let references = references.iter().map(written).collect();
        self.patch(target, live, "ownerReferences", references).await
    }

    /// Removes a finalizer of the object that was read.
    pub(super) async fn remove_finalizer(
        &self,
        target: WriteTarget<'_>,
        live: &ObjectMeta,
        finalizer: &str,
    ) -> Result<ObjectMeta, KubernetesError> {
        let rest: Vec<_> = live.finalizers.iter().filter(|known| *known != finalizer).collect();
        self.patch(target, live, "finalizers", json!(rest)).await
    }

    /// Deletes a pod without waiting for its kubelet. With `any_uid`, a later pod of its name is deleted too.
    pub(super) async fn delete_pod(&self, target: WriteTarget<'_>, any_uid: bool) -> Result<Deleted, KubernetesError> {
        let deletion = Deletion { any_uid, grace_seconds: Some(0), ..Deletion::default() };
        let deleted = delete_object(&self.connection, target, &deletion, self.answer);
        self.make(deleted, || Deleted::Unheld).await
    }

    /// Deletes all objects of a resource in a namespace.
    pub(super) async fn delete_collection(
        &self,
        resource: &ApiResource,
        namespace: &str,
    ) -> Result<(), KubernetesError> {
        self.make(delete_collection(&self.connection, resource, namespace, self.answer), || ()).await
    }

    /// Removes a finalizer from the `spec` of a namespace that was read.
    pub(super) async fn finalize(&self, namespace: &ApiNamespace, finalizer: &str) -> Result<(), KubernetesError> {
        self.make(finalize_namespace(&self.connection, namespace, finalizer, self.answer), || ()).await
    }

    /// Changes the status of a pod or a namespace. It is no change of what is collected, and not counted.
    pub(super) async fn patch_status(&self, target: WriteTarget<'_>, status: &Value) -> Result<(), KubernetesError> {
        if self.is_dry_run {
            return Ok(());
        }
        let _permit = self.permit().await?;
        patch_status(&self.connection, target, status, self.answer).await.map(drop)
    }

    /// Uid and version make the API server refuse a patch of another object, and of one that has changed since the read.
    async fn patch(
        &self,
        target: WriteTarget<'_>,
        live: &ObjectMeta,
        field: &str,
        value: Value,
    ) -> Result<ObjectMeta, KubernetesError> {
        let value = if value == json!([]) { Value::Null } else { value };
        let patched = patch_object(&self.connection, target, &live.version, (field, value), self.answer);
        self.make(patched, || live.clone()).await
    }

    /// Makes a change in its turn, and counts it. A dry run answers with what is unchanged.
    async fn make<T>(
        &self,
        change: impl Future<Output = Result<T, KubernetesError>>,
        unchanged: impl FnOnce() -> T,
    ) -> Result<T, KubernetesError> {
        if self.is_dry_run {
            return Ok(unchanged());
        }
        let _permit = self.permit().await?;
        let made = change.await;
        self.made.fetch_add(usize::from(made.is_ok()), Ordering::Relaxed);
        made
    }
}

fn written(reference: &OwnerReference) -> Value {
    let OwnerReference { kind, name, uid, controller, blocking } = reference;
    let mut fields = vec![("apiVersion", json!(kind.api_version)), ("kind", json!(kind.kind))];
    fields.extend([("name", json!(name)), ("uid", json!(uid))]);
    fields.extend(controller.map(|is| ("controller", is.into())));
    fields.extend(blocking.map(|is| ("blockOwnerDeletion", is.into())));
    fields.into_iter().collect()
}
