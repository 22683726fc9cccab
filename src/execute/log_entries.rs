//! Removes log directories of deleted pods, leftover log files and dangling log symlinks.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::Instant;

use super::action_result::{Done, ExecuteError};
use super::execution::Run;
use super::{KnownLog, LogError, LogFile};
use crate::cri::Only;
use crate::host_path::{HostFs, Resolved};
use crate::model::{
    Container, ContainerId, ContainerState, EntryKind, LinkTarget, PodRef, PodUid, container_id_of_link,
    is_log_link_without_id, log_link_name, pod_uid_of_dir,
};
use crate::plan::{Action, Refusal, RemoveReason};

/// How long a list of containers counts while logs and links are removed.
const MOMENT: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Removes the log directory of a pod that has no sandbox or container in the runtime and, unless it is terminated, no
    /// directory of the kubelet (I11).
    pub(super) async fn log_dir(&self, action: &Action, path: &Path) -> Result<Done, ExecuteError> {
        let name = match self.exec.roots.dir_name(path) {
            Ok(name) => name,
            Err(error) => return Done::refused_if_foreign(error),
        };
        let looked_at = name.clone();
        match self.exec.roots.in_pods(move |roots| roots.kind_of_dir(&looked_at)).await {
            Ok(None) => return Ok(Done::already_removed()),
            Ok(Some(EntryKind::Directory)) => {}
            Ok(Some(_)) => return Ok(Done::refused(Refusal::ForeignPath)),
            Err(error) => return Done::refused_if_foreign(error),
        }
        let uid = pod_uid_of_dir(&name.to_string_lossy());
        let is_terminated = matches!(action.reason, RemoveReason::PodTerminal { .. });
        if !is_terminated && self.is_known_to_kubelet(&uid).await? {
            return Ok(Done::refused(Refusal::PodPresent));
        }
        if self.is_in_runtime(&uid).await? {
            return Ok(Done::refused(Refusal::HasContainers));
        }
        match self.exec.remover.remove_log_dir(&name).await {
            Ok(removed) => Ok(self.removed(Some(removed.bytes))),
            Err(error) => Done::refused_if_foreign(error),
        }
    }

    /// Removes the log of an instance that the runtime does not list, or for a limit one file alone. Unless the pod is deleted or terminated, the runtime must
    /// list a newer one of the container: without it the kubelet counts restarts from the name of the log.
    pub(super) async fn log_file(&self, action: &Action, path: &Path) -> Result<Done, ExecuteError> {
        if path.starts_with(self.exec.roots.policy.archive_root()) {
            return self.removed_files(self.exec.remover.remove_archived_log(path).await);
        }
        let (pod, of_pod, path) = (action.pod.as_ref(), action.pod.clone(), path.to_owned());
        let file = match self.exec.roots.in_pods(move |roots| roots.log_file(&path, of_pod.as_ref())).await {
            Ok(file) => file,
            Err(error) => return Done::refused_if_foreign(error),
        };
        let is_alone = matches!(action.reason, RemoveReason::OverLogLimit(_));
        let (Some(pod), Some((container, attempt)), true) = (pod, file.instance(), is_alone || file.is_current())
        else {
            return Ok(Done::refused(Refusal::ForeignPath));
        };
        let attempts = self.attempts(&pod.uid, container).await?;
        let is_of_pod = matches!(action.reason, RemoveReason::PodDeleted {} | RemoveReason::PodTerminal { .. });
        if is_alone {
            return self.log_over_limit(action, file, attempts.contains(&attempt)).await;
        }
        if attempts.contains(&attempt) {
            return Ok(Done::refused(Refusal::InUse));
        }
        if !is_of_pod && attempts.last().is_none_or(|newest| *newest < attempt) {
            return Ok(Done::refused(Refusal::StateChanged));
        }
        self.removed_files(self.exec.remover.remove_log_file(file).await)
    }

    /// Removes one log file that was not written since the plan, which has the age of the file in whole seconds.
    async fn log_over_limit(&self, action: &Action, file: LogFile, is_listed: bool) -> Result<Done, ExecuteError> {
        let age = action.age_seconds.and_then(|age| age.checked_sub(1)).map(SignedDuration::from_secs);
        let before = age.and_then(|age| self.plan.taken_at.checked_sub(age).ok());
        let (Some(before), Some(size)) = (before, action.size.reported) else {
            return Ok(Done::refused(Refusal::StateChanged));
        };
        let known = KnownLog { is_listed, size, before, planned_at: self.plan.taken_at };
        self.removed_files(self.exec.remover.remove_log(&self.exec.roots, file, known).await)
    }

    /// Returns the attempts of the instances of a container in the runtime. A list of the pod counts for a moment: a container
    /// may have thousands of such logs, and this pass removes one after the other.
    async fn attempts(&self, uid: &PodUid, container: &str) -> Result<BTreeSet<u32>, ExecuteError> {
        let containers = self.listed(Only::Pod(uid.clone())).await?;
        let is_left = |id: &ContainerId| !self.state().noted.containers.contains(id);
        let of_slot = containers.iter().filter(|one| one.name == container && is_left(&one.id));
        Ok(of_slot.map(|one| one.attempt).collect())
    }

    pub(super) async fn listed(&self, only: Only) -> Result<Arc<Vec<Container>>, ExecuteError> {
        let known = {
            let listed = &mut self.state().listed;
            listed.retain(|_, (at, _)| at.elapsed() < MOMENT);
            listed.get(&only).map(|(_, containers)| Arc::clone(containers))
        };
        if let Some(containers) = known {
            return Ok(containers);
        }
        let containers = Arc::new(self.exec.reader.containers(only.clone()).await?);
        self.state().listed.insert(only, (Instant::now(), Arc::clone(&containers)));
        Ok(containers)
    }

    /// Removes a dangling log symlink whose container exited or no longer exists. The symlink of a running container
    /// can also be dangling, between the two steps of a log rotation.
    pub(super) async fn log_link(&self, path: &Path) -> Result<Done, ExecuteError> {
        let name = match self.exec.roots.link_name(path) {
            Ok(name) => name,
            Err(error) => return Done::refused_if_foreign(error),
        };
        match self.link_target(&name).await {
            Ok(None) => return Ok(Done::already_removed()),
            Ok(Some(LinkTarget::Missing)) => {}
            Ok(Some(_)) => return Ok(Done::refused(Refusal::InUseLink)),
            Err(error) => return Done::refused_if_foreign(error),
        }
        if self.may_still_write(&name).await? {
            return Ok(Done::refused(Refusal::InUseLink));
        }
        match self.exec.remover.remove_log_link(&name).await {
            Ok(removed) => Ok(self.removed(Some(removed.bytes))),
            Err(error) => Done::refused_if_foreign(error),
        }
    }

    pub(super) async fn link_target(&self, name: &OsStr) -> Result<Option<LinkTarget>, LogError> {
        let name = name.to_owned();
        self.exec.roots.in_links(move |roots| roots.link_target(&name)).await
    }

    /// Returns whether the container of a symlink exists and has not exited. `false` if the name can be that of no container.
    async fn may_still_write(&self, link: &OsStr) -> Result<bool, ExecuteError> {
        let link = link.to_string_lossy();
        if is_log_link_without_id(&link) {
            return self.has_link_name(&link).await;
        }
        let Some(id) = container_id_of_link(&link) else { return Ok(false) };
        let status = self.exec.reader.container_status(&id).await?;
        let is_left = |id: &ContainerId| !self.state().noted.containers.contains(id);
        Ok(status.is_some_and(|status| status.state != ContainerState::Exited && is_left(&status.id)))
    }

    /// Returns whether a container that has not exited has a log symlink of this name.
    async fn has_link_name(&self, link: &str) -> Result<bool, ExecuteError> {
        let containers = self.listed(Only::All).await?;
        Ok(containers.iter().filter(|container| container.state != ContainerState::Exited).any(|container| {
            let name = |pod: &PodRef| log_link_name(&pod.name, &pod.namespace, &container.name, &container.id);
            container.pod.as_ref().is_some_and(|pod| name(pod) == link)
        }))
    }

    pub(super) async fn is_in_runtime(&self, uid: &PodUid) -> Result<bool, ExecuteError> {
        let reader = &self.exec.reader;
        let sandboxes = reader.sandboxes(Only::Pod(uid.clone())).await?;
        if sandboxes.iter().any(|sandbox| !self.state().noted.sandboxes.contains(&sandbox.id)) {
            return Ok(true);
        }
        let containers = reader.containers(Only::Pod(uid.clone())).await?;
        Ok(containers.iter().any(|container| !self.state().noted.containers.contains(&container.id)))
    }

    /// Returns whether the kubelet has a directory for a pod. The kubelet creates it before the log directory of the
    /// pod.
    async fn is_known_to_kubelet(&self, uid: &PodUid) -> Result<bool, ExecuteError> {
        let Some(pods) = self.exec.options.kubelet_pods.clone() else { return Ok(false) };
        let (place, path, uid) = (pods.clone(), pods.join(uid.as_str()), uid.clone());
        let found = self.exec.roots.host.run(&place, move |host| has_entry(host, &pods, uid.as_str())).await?;
        found.map_err(|source| ExecuteError::LookForPod { path: path.display().to_string(), source })
    }
}

/// Returns whether a directory of the host has an entry of any kind by this name. Symlinks in the path of the directory
/// are followed.
fn has_entry(host: &HostFs, directory: &Path, name: &str) -> io::Result<bool> {
    let Resolved::Exists(at) = host.resolve(directory)? else { return Ok(false) };
    match std::fs::symlink_metadata(at.join(name)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
