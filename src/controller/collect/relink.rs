//! Relinks objects to owners that have new uids, as after a restore from a backup: in an owner reference, the uid of the object
//! that has its name replaces the old one.
//!
//! Nothing proves that an object of the same name is the same owner, so this is for a person to decide. It makes no object
//! live shorter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{CollectOptions, ends_at};
use crate::controller::calls::Calls;
use crate::controller::controller_error::ControllerError;
use crate::controller::settings::ControllerSettings;
use crate::controller::settings::WORKERS;
use crate::controller::watch::served::Served;
use crate::controller::work::decision::target;
use crate::controller::work::outcome::{ClusterFailure, ClusterOutcome, ClusterResult};
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError, discover};
use crate::model::{Identity, ObjectMeta, OwnerReference, Uid};
use crate::owners::{ActionWord, ClusterPlan, OwnerFinding};

/// How often the change of an object begins again because it was changed meanwhile. A kubelet writes the status of its pods.
const CONFLICTS: usize = 5;

#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct RelinkReport {
    /// The address of the API server, and the credentials.
    pub server: String,
    pub references: Vec<RelinkedReference>,
    pub failures: Vec<ClusterFailure>,
    /// What could not be read, so that references may be lacking.
    pub errors: Vec<String>,
    /// It was ended by its timeout or by a signal.
    pub interrupted: bool,
}

/// An owner reference whose owner has another uid.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RelinkedReference {
    /// The object with the reference.
    pub object: Identity,
    /// The object that has the name of the owner.
    pub owner: Identity,
    /// The uid that the reference had.
    pub old_uid: Uid,
    pub result: RelinkResult,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RelinkResult {
    /// It has the new uid.
    Relinked,
    DryRun,
    /// The object does not exist any more, or has not this reference any more.
    ReferenceChanged,
    /// The object is in deletion.
    InDeletion,
    /// The owner has yet another uid, or does not exist any more.
    OwnerChanged,
    /// The owner is in deletion.
    OwnerInDeletion,
    /// The object has another reference to the owner. A collection drops this one, because that owner exists.
    AlreadyReferenced,
}

struct Relink<'o> {
    calls: Calls,
    served: Served,
    options: &'o CollectOptions,
    /// Objects whose change has begun.
    begun: AtomicUsize,
}

/// Relinks what a plan shows with an owner that has another uid. Objects are not saved. `keep` receives each change.
pub async fn relink(
    connection: Arc<Connection>,
    plan: &ClusterPlan,
    settings: &ControllerSettings,
    options: &CollectOptions,
    stop: CancellationToken,
    keep: impl Fn(&ClusterOutcome),
) -> Result<RelinkReport, ControllerError> {
    let found = discover(&connection, settings.calls.answer).await;
    let found = found.map_err(|source| ControllerError::Discover { source })?;
    let (server, errors) = (plan.server.clone(), plan.errors.clone());
    let calls = Calls::new(connection, &settings.calls, !settings.guards.strict_not_found, options.dry_run);
    let end = stop.child_token();
    let (calls, served, begun) = (calls.until(end.clone()), Served::from(&found), AtomicUsize::new(0));
    let relink = Relink { calls, served, options, begun };
    let objects = plan.stale_references().map(|(object, stale)| {
        let (relink, keep) = (&relink, &keep);
        async move {
            let ended = relink.object(object, &stale).await;
            ended.iter().flatten().filter_map(RelinkedReference::outcome).for_each(|outcome| keep(&outcome));
            (object, ended)
        }
    });
    let ended = stream::iter(objects).buffered(WORKERS).collect::<Vec<_>>();
    let ended = tokio::select! {
        ended = ended => ended,
        never = ends_at(Instant::now() + options.timeout, &end) => match never {},
    };
    let mut report = RelinkReport { server, errors, ..RelinkReport::default() };
    for (object, end) in ended {
        match end {
            Ok(references) => report.references.extend(references),
            Err(KubernetesError { cause: Cause::Ended, .. }) => report.interrupted = true,
            Err(error) => {
                report.failures.push(ClusterFailure { object: object.clone(), cause: error.to_string() });
            }
        }
    }
    Ok(report)
}

// === impl RelinkedReference ===

impl RelinkedReference {
    /// Returns the change of the object; `None` = there was none.
    fn outcome(&self) -> Option<ClusterOutcome> {
        let Self { object, owner, old_uid, result } = self;
        (*result == RelinkResult::Relinked).then(|| ClusterOutcome {
            action: ActionWord::Relink,
            object: object.clone(),
            propagation: None,
            owners: vec![format!("{}/{} (uid {} instead of {old_uid})", owner.kind.kind, owner.name, owner.uid)],
            reason: "owner_has_another_uid".to_owned(),
            result: ClusterResult::Changed,
        })
    }
}

// === impl Relink ===

impl Relink<'_> {
    async fn object(
        &self,
        object: &Identity,
        stale: &[&OwnerFinding],
    ) -> Result<Vec<RelinkedReference>, KubernetesError> {
        let resource = self.resource(object)?;
        let mut conflicts = 0;
        while self.options.only.leaves_out(resource, object).is_none() && self.may_change(0) {
            match self.change(object, resource, stale).await {
                Err(error) if conflicts < CONFLICTS && self.is_changed(&error, resource, object) => {
                    conflicts += 1;
                    self.begun.fetch_sub(1, Ordering::Relaxed);
                }
                ended => return ended,
            }
        }
        Ok(Vec::new())
    }

    fn resource(&self, object: &Identity) -> Result<&ApiResource, KubernetesError> {
        let not_served = || Cause::Unreadable(self.served.why_not(&object.kind)).of(format!("relink {object}"));
        self.served.resource(&object.kind).map(|resource| &**resource).ok_or_else(not_served)
    }

    /// Returns whether one more object may be changed, or counts that the change of one begins.
    fn may_change(&self, begins: usize) -> bool {
        let begun = self.begun.fetch_add(begins, Ordering::Relaxed);
        self.options.max_objects.is_none_or(|max| begun < max)
    }

    /// Returns whether the object is not the one that was read any more.
    fn is_changed(&self, error: &KubernetesError, resource: &ApiResource, object: &Identity) -> bool {
        let is_refused = error.cause.is_conflict() || error.cause.is_of_another_uid();
        is_refused || self.calls.proves_absence(error, resource, &object.name)
    }

    /// Reads the object and the owners, and changes the object that was read.
    async fn change(
        &self,
        object: &Identity,
        resource: &ApiResource,
        stale: &[&OwnerFinding],
    ) -> Result<Vec<RelinkedReference>, KubernetesError> {
        let live = self.read(object, resource).await?.filter(|live| live.uid == object.uid).unwrap_or_default();
        let (mut owners, mut references) = (live.owners.clone(), Vec::new());
        for OwnerFinding { reference, found, .. } in stale {
            let Some(owner) = found.as_deref() else { continue };
            let result = self.set_uid(&live, &mut owners, reference, owner).await?;
            let (object, owner, old_uid) = (object.clone(), owner.clone(), reference.uid.clone());
            references.push(RelinkedReference { object, owner, old_uid, result });
        }
        if owners == live.owners {
            return Ok(references);
        }
        if !self.may_change(1) {
            return Ok(Vec::new());
        }
        self.calls.set_references(target(object, resource), &live, &owners).await?;
        Ok(references)
    }

    /// Sets the uid in exactly this reference, if the owner is as the plan shows it.
    async fn set_uid(
        &self,
        live: &ObjectMeta,
        owners: &mut [OwnerReference],
        reference: &OwnerReference,
        owner: &Identity,
    ) -> Result<RelinkResult, KubernetesError> {
        let is_referenced = owners.iter().any(|known| known.uid == owner.uid);
        let Some(known) = owners.iter_mut().find(|known| *known == reference) else {
            return Ok(RelinkResult::ReferenceChanged);
        };
        if live.is_deleting() {
            return Ok(RelinkResult::InDeletion);
        }
        if is_referenced {
            return Ok(RelinkResult::AlreadyReferenced);
        }
        let now = self.read(owner, self.resource(owner)?).await?.filter(|now| now.uid == owner.uid);
        Ok(match now {
            None => RelinkResult::OwnerChanged,
            Some(now) if now.is_deleting() => RelinkResult::OwnerInDeletion,
            Some(_) => {
                known.uid = owner.uid.clone();
                if self.calls.is_dry_run { RelinkResult::DryRun } else { RelinkResult::Relinked }
            }
        })
    }

    async fn read(&self, object: &Identity, resource: &ApiResource) -> Result<Option<ObjectMeta>, KubernetesError> {
        let target = target(object, resource);
        self.calls.read(resource, target.namespace, target.name).await
    }
}
