//! Determines which pods are deleted (I2, I11) and which are terminated.

pub(super) mod gaps;
pub(super) mod list_sanity;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::document::reason::{KeepReason, RemoveReason};
use super::policy::Policy;
use super::policy::guards::Guards;
use crate::model::{Pod, PodList, PodRef, PodSourceName, PodUid, Seen, Snapshot};
use list_sanity::why_untrusted;

/// The pods of the list, by uid. Several may have the same: [`Pod::is`] says why.
pub(super) struct ListedPods<'a>(HashMap<&'a PodUid, Vec<&'a Pod>>);

/// The facts about all pods, by uid.
pub(super) struct Pods<'a> {
    list: &'a Seen<PodList>,
    listed: ListedPods<'a>,
    running: HashSet<&'a PodUid>,
    existing: Option<HashSet<&'a PodUid>>,
    dirs: Seen<HashSet<&'a PodUid>>,
    /// Whether every RUNNING container and READY sandbox was listed. False only if such a part of a list is missing
    /// (I2).
    all_that_runs: bool,
    absent_since: HashMap<&'a PodUid, Timestamp>,
    orphaned_since: &'a BTreeMap<PodUid, Timestamp>,
    untrusted: Option<KeepReason>,
    guards: &'a Guards,
    evicts_terminated: bool,
    now: Timestamp,
}

/// The state of one pod.
pub(super) enum PodStatus {
    /// The pod is in the list.
    Exists {
        /// Whether the pod is terminated.
        terminated: bool,
    },
    /// The pod is in no list, and it is proven deleted.
    Deleted,
    /// The pod is in no list, or there is no list, and whether the pod exists is unknown. The value is the reason.
    Unknown(KeepReason),
    /// The pod is missing or terminated, but a guard keeps its objects. The value is the reason.
    Guarded(KeepReason),
}

/// Whether a step requires a complete list. The kubelet's sandbox step does not (1.36).
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Completeness {
    Required,
    NotRequired,
}

// === impl ListedPods ===

impl<'a> ListedPods<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut pods = HashMap::<_, Vec<_>>::new();
        for pod in snapshot.pods.as_ref().into_iter().flat_map(|list| &list.pods) {
            pods.entry(&pod.uid).or_default().push(pod);
        }
        Self(pods)
    }

    /// Returns the pod of an object of the runtime.
    pub fn find(&self, pod: &PodRef) -> Option<&'a Pod> {
        self.0.get(&pod.uid)?.iter().copied().find(|listed| listed.is(pod))
    }

    /// Returns whether a pod has this uid, whatever its name.
    fn has(&self, uid: &PodUid) -> bool {
        self.0.contains_key(uid)
    }
}

// === impl Pods ===

impl<'a> Pods<'a> {
    pub fn new(snapshot: &'a Snapshot, policy: &'a Policy) -> Self {
        let absent = &snapshot.memory.absent_since;
        Self {
            list: &snapshot.pods,
            listed: ListedPods::new(snapshot),
            running: snapshot.running_pods(),
            existing: snapshot.existing_pods(),
            all_that_runs: snapshot.list_bytes.shows_all_that_runs(),
            dirs: snapshot.pod_dirs.result().map(|dirs| dirs.iter().collect()).into(),
            orphaned_since: &snapshot.memory.orphaned_since,
            absent_since: absent.iter().map(|absence| (&absence.uid, absence.since)).collect(),
            untrusted: why_untrusted(snapshot, &policy.guards),
            guards: &policy.guards,
            evicts_terminated: policy.evicts_terminated_pods(),
            now: snapshot.taken_at,
        }
    }

    /// Returns the state of a pod; `None` = of an object without pod labels.
    pub fn status(&self, pod: Option<&PodRef>, completeness: Completeness) -> PodStatus {
        let no_pod = PodRef::default();
        let pod = pod.unwrap_or(&no_pod);
        let list = match self.list.result() {
            Ok(list) => list,
            Err(cause) => return PodStatus::Unknown(KeepReason::PodsNotSeen { cause: cause.to_owned() }),
        };
        if self.listed.has(&pod.uid) {
            // A pod of that uid with another name proves no deletion, and its phase is not the one of this pod (I2).
            let is_terminal = self.listed.find(pod).is_some_and(|listed| listed.phase.is_terminal());
            let terminated = is_terminal && (list.complete || completeness == Completeness::NotRequired);
            return self.present(&pod.uid, terminated);
        }
        if !list.complete && (self.needs_proof() || completeness == Completeness::Required) {
            return PodStatus::Unknown(KeepReason::PodsIncomplete {
                source: list.source.clone(),
                cause: missing(list),
            });
        }
        if !self.all_that_runs {
            return PodStatus::Unknown(KeepReason::ListIncomplete { list: "containers".to_owned() });
        }
        if !self.needs_proof() {
            return PodStatus::Deleted;
        }
        self.unproven(list, pod).map_or(PodStatus::Deleted, PodStatus::Guarded)
    }

    /// Returns whether a pod is missing in this snapshot. I11 also requires that it is missing for some time. `None` =
    /// this snapshot does not show it.
    pub fn is_missing(&self, uid: &PodUid) -> Option<bool> {
        if self.running.contains(uid) || self.listed.has(uid) {
            return Some(false);
        }
        let is_sure = self.all_that_runs && self.untrusted.is_none();
        let complete = self.list.as_ref().is_some_and(|list| list.complete) && is_sure;
        let dirs = self.dirs.as_ref().filter(|_| complete)?;
        Some(!dirs.contains(uid))
    }

    /// Returns for how long a pod is missing; 0 if that is not known.
    pub fn missing_for(&self, uid: &PodUid) -> Duration {
        self.absent_since.get(uid).map(|since| super::times::age(self.now, *since)).unwrap_or_default()
    }

    /// Returns whether a pod that has only a directory of the kubelet is proven deleted, or why not. `None` = the pod may exist: it
    /// is listed, something of it runs, or the list is not complete.
    pub fn of_directory(&self, uid: &PodUid) -> Option<Result<(), KeepReason>> {
        let list = self.list.as_ref().filter(|_| self.existing.as_ref().is_some_and(|pods| !pods.contains(uid)))?;
        if !self.needs_proof() || !has_kubelet(list) || PodSourceName::may_hide(&list.source, uid) {
            return Some(Err(KeepReason::PodNotConfirmable { source: list.source.clone() }));
        }
        let reason = self.untrusted.clone().or_else(|| self.too_recent(self.orphaned_since.get(uid).copied()));
        Some(reason.map_or(Ok(()), Err))
    }

    /// Returns the name of the pod source.
    pub fn source(&self) -> String {
        self.list.as_ref().map_or_else(String::new, |list| list.source.clone())
    }

    /// Returns whether deletions must be proven. Otherwise absence from the list is enough, as in the kubelet, which
    /// manages the pods itself.
    fn needs_proof(&self) -> bool {
        !self.guards.gone_after.is_zero()
    }

    /// Returns the state of a pod in the list. A terminated pod is not evicted while something of it runs, or while the
    /// runtime's lists, which would show that, are not trusted.
    fn present(&self, uid: &PodUid, terminated: bool) -> PodStatus {
        if !(terminated && self.evicts_terminated && self.needs_proof()) {
            return PodStatus::Exists { terminated };
        }
        match &self.untrusted {
            _ if self.running.contains(uid) => PodStatus::Guarded(KeepReason::PodStillRuns {}),
            Some(reason) => PodStatus::Guarded(reason.clone()),
            None => PodStatus::Exists { terminated },
        }
    }

    /// Returns why the runtime's lists are not trusted, if so (I12).
    pub fn why_untrusted(&self) -> Option<&KeepReason> {
        self.untrusted.as_ref()
    }

    /// Returns why a pod may not be deleted although a complete list does not contain it, if so (I11).
    fn unproven(&self, list: &PodList, pod: &PodRef) -> Option<KeepReason> {
        let uid = &pod.uid;
        if self.running.contains(uid) {
            return Some(KeepReason::PodStillRuns {});
        }
        match self.dirs.result() {
            Ok(dirs) if dirs.contains(uid) => return Some(KeepReason::PodDirExists {}),
            Err(cause) => return Some(KeepReason::PodDirsNotSeen { cause: cause.to_owned() }),
            Ok(_) => {}
        }
        // This does not change with time: the recheck would refuse the removal in every pass.
        if !list.confirms.can_look_up(pod) {
            return Some(KeepReason::PodNotConfirmable { source: list.source.clone() });
        }
        if self.untrusted.is_some() {
            return self.untrusted.clone();
        }
        self.too_recent(self.absent_since.get(uid).copied())
    }

    /// Returns why a pod that is missing since this time does not count as deleted yet, if so.
    fn too_recent(&self, since: Option<Timestamp>) -> Option<KeepReason> {
        let long_enough = since.is_some_and(|since| super::times::age(self.now, since) >= self.guards.gone_after);
        let gone_after_seconds = super::times::seconds(self.guards.gone_after);
        (!long_enough).then_some(KeepReason::PodMissing { absent_since: since, gone_after_seconds })
    }
}

// === impl PodStatus ===

impl PodStatus {
    /// Returns why a pass removes all dead objects of the pod, if it does.
    pub fn removes_dead(&self, policy: &Policy) -> Option<RemoveReason> {
        match self {
            Self::Deleted => Some(RemoveReason::PodDeleted {}),
            Self::Exists { terminated: true } if policy.evicts_terminated_pods() => Some(policy.of_terminated_pod()),
            _ => None,
        }
    }

    /// Returns whether a guard keeps the pod's objects.
    pub fn is_guarded(&self) -> bool {
        matches!(self, Self::Guarded(_))
    }

    /// Returns the guard that keeps the pod's objects, if so.
    pub fn guard(self) -> Option<KeepReason> {
        match self {
            Self::Guarded(reason) => Some(reason),
            _ => None,
        }
    }
}

// === impl Policy ===

impl Policy {
    /// Returns the reason to remove an object of a terminated pod.
    pub(in crate::plan) fn of_terminated_pod(&self) -> RemoveReason {
        RemoveReason::PodTerminal { pressure: !self.containers.evict_terminated_pods }
    }
}

/// Returns whether a list is that of a kubelet or of the API server. The runtime knows nothing of pods that do not run.
fn has_kubelet(list: &PodList) -> bool {
    [PodSourceName::KubeApi, PodSourceName::Kubelet].into_iter().any(|name| name.is_in(&list.source))
}

/// Returns why pods may be missing in a list, by source.
fn missing(list: &PodList) -> String {
    let causes =
        list.sources.iter().filter_map(|source| Some(format!("{}: {}", source.name, source.missing.as_ref()?)));
    causes.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
