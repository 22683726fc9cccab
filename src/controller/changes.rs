//! The changes that garbage collection makes, as calls. Nothing else in this room writes, apart from the lease and events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::calls::Calls;
use crate::kubernetes::{
    Connection, Deleted, Deletion, KubernetesError, PropagationPolicy, WriteTarget, delete_object, patch_object,
    patch_status,
};
use crate::model::{FOREGROUND, ObjectMeta, OwnerReference};
use crate::owners::Propagation;

/// Makes the changes, or only counts them.
pub(super) struct Changes {
    mode: Mode,
    made: AtomicUsize,
}

/// What a change does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// Changes are made.
    Live,
    /// Nothing is changed: the cluster stays as it is.
    DryRun,
}

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

// === impl Mode ===

impl Mode {
    pub(super) fn of(dry_run: bool) -> Self {
        if dry_run { Self::DryRun } else { Self::Live }
    }
}

// === impl Changes ===

impl Changes {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, made: AtomicUsize::new(0) }
    }

    /// Returns the number of changes so far.
    pub(super) fn count(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Does not count a change that had no effect.
    pub(super) fn take_back(&self) {
        self.made.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether nothing is changed.
    pub(super) fn is_dry_run(&self) -> bool {
        self.mode == Mode::DryRun
    }

    /// Deletes an object that has the uid of the target, and this version.
    pub(super) async fn delete(
        &self,
        calls: &Calls,
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
        if self.mode == Mode::DryRun {
            return Ok(Deleted::Accepted(Box::new(live.clone())));
        }
        let _permit = calls.permit().await;
        self.counted(delete_object(&calls.connection, target, &deletion, calls.answer).await)
    }

    /// Replaces the owner references of the object that was read.
    pub(super) async fn set_references(
        &self,
        calls: &Calls,
        target: WriteTarget<'_>,
        live: &ObjectMeta,
        references: &[OwnerReference],
    ) -> Result<ObjectMeta, KubernetesError> {
        let references = references.iter().map(written).collect();
        self.patch(calls, target, live, "ownerReferences", references).await
    }

    /// Removes a finalizer of the object that was read.
    pub(super) async fn remove_finalizer(
        &self,
        calls: &Calls,
        target: WriteTarget<'_>,
        live: &ObjectMeta,
        finalizer: &str,
    ) -> Result<ObjectMeta, KubernetesError> {
        let rest: Vec<_> = live.finalizers.iter().filter(|known| *known != finalizer).collect();
        self.patch(calls, target, live, "finalizers", json!(rest)).await
    }

    /// Deletes a pod without waiting for its kubelet. With `any_uid`, a later pod of its name is deleted too.
    pub(super) async fn delete_pod(
        &self,
        calls: &Calls,
        target: WriteTarget<'_>,
        any_uid: bool,
    ) -> Result<Deleted, KubernetesError> {
        if self.mode == Mode::DryRun {
            return Ok(Deleted::Unheld);
        }
        let deletion = Deletion { any_uid, grace_seconds: Some(0), ..Deletion::default() };
        let _permit = calls.permit().await;
        self.counted(delete_object(&calls.connection, target, &deletion, calls.answer).await)
    }

    /// Changes the status of a pod.
    pub(super) async fn patch_pod_status(
        &self,
        calls: &Calls,
        target: WriteTarget<'_>,
        status: &Value,
    ) -> Result<(), KubernetesError> {
        if self.mode == Mode::DryRun {
            return Ok(());
        }
        let _permit = calls.permit().await;
        self.counted(patch_status(&calls.connection, target, status, calls.answer).await).map(drop)
    }

    /// Uid and version make the API server refuse a patch of another object, and of one that has changed since the read.
    async fn patch(
        &self,
        calls: &Calls,
        target: WriteTarget<'_>,
        live: &ObjectMeta,
        field: &str,
        value: Value,
    ) -> Result<ObjectMeta, KubernetesError> {
        if self.mode == Mode::DryRun {
            return Ok(live.clone());
        }
        let value = if value == json!([]) { Value::Null } else { value };
        let _permit = calls.permit().await;
        let patched = patch_object(&calls.connection, target, &live.version, (field, value), calls.answer);
        self.counted(patched.await)
    }

    fn counted<T>(&self, made: Result<T, KubernetesError>) -> Result<T, KubernetesError> {
        self.made.fetch_add(usize::from(made.is_ok()), Ordering::Relaxed);
        made
    }
}

/// Returns an owner reference as the API has it.
fn written(reference: &OwnerReference) -> Value {
    let OwnerReference { kind, name, uid, controller, blocking } = reference;
    let mut written = json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid});
    for (field, value) in [("controller", controller), ("blockOwnerDeletion", blocking)] {
        if let Some(value) = value {
            written[field] = (*value).into();
        }
    }
    written
}
