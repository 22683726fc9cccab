//! Log directories of pods that are gone, and log links that lead nowhere.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::action_result::{Done, ExecuteError};
use super::{LogError, Refusal, Remover, Run};
use crate::cri::Only;
use crate::host_path::{self, Resolved};
use crate::model::{ContainerId, ContainerState, EntryKind, LinkTarget, PodUid};
use crate::plan::{container_id_of_link, pod_uid_of_dir};

impl<H: Remover> Run<'_, H> {
    /// Removes a log directory of a pod of which nothing is in the runtime and which the kubelet does not know (I11).
    pub(super) async fn log_dir(&mut self, path: &Path) -> Result<Done, ExecuteError> {
        let name = match self.exec.roots.dir_name(path) {
            Ok(name) => name,
            Err(error) => return Done::refused_if_foreign(error),
        };
        let looked_at = name.clone();
        match self.exec.roots.in_pods(move |roots| roots.look_at_dir(&looked_at)).await {
            Ok(None) => return Ok(Done::gone()),
            Ok(Some(EntryKind::Directory)) => {}
            Ok(Some(_)) => return Ok(Done::refused(Refusal::ForeignPath)),
            Err(error) => return Done::refused_if_foreign(error),
        }
        let uid = pod_uid_of_dir(&name.to_string_lossy());
        if self.is_known_to_kubelet(&uid).await? {
            return Ok(Done::refused(Refusal::PodPresent));
        }
        if self.is_in_runtime(&uid).await? {
            return Ok(Done::refused(Refusal::HasContainers));
        }
        match self.exec.remover.remove_log_dir(&name).await {
            Ok(removed) => Ok(Self::removed(Some(removed.bytes))),
            Err(error) => Done::refused_if_foreign(error),
        }
    }

    /// Removes a link that leads nowhere and whose container ended or is gone: between the two steps of a rotation the
    /// link of a running container leads nowhere too.
    pub(super) async fn log_link(&mut self, path: &Path) -> Result<Done, ExecuteError> {
        let name = match self.exec.roots.link_name(path) {
            Ok(name) => name,
            Err(error) => return Done::refused_if_foreign(error),
        };
        match self.look_at_link(&name).await {
            Ok(None) => return Ok(Done::gone()),
            Ok(Some(LinkTarget::Missing)) => {}
            Ok(Some(_)) => return Ok(Done::refused(Refusal::InUseLink)),
            Err(error) => return Done::refused_if_foreign(error),
        }
        if self.may_still_write(&name).await? {
            return Ok(Done::refused(Refusal::InUseLink));
        }
        match self.exec.remover.remove_log_link(&name).await {
            Ok(removed) => Ok(Self::removed(Some(removed.bytes))),
            Err(error) => Done::refused_if_foreign(error),
        }
    }

    pub(super) async fn look_at_link(&self, name: &OsStr) -> Result<Option<LinkTarget>, LogError> {
        let name = name.to_owned();
        self.exec.roots.in_links(move |roots| roots.look_at_link(&name)).await
    }

    /// Says whether a link's container is there and has not ended. A name without an id tells of none.
    async fn may_still_write(&self, link: &OsStr) -> Result<bool, ExecuteError> {
        let Some(id) = container_id_of_link(&link.to_string_lossy()) else { return Ok(false) };
        let status = self.exec.reader.container_status(&id).await?;
        let is_left = |id: &ContainerId| !self.noted.containers.contains(id);
        Ok(status.is_some_and(|status| status.state != ContainerState::Exited && is_left(&status.id)))
    }

    async fn is_in_runtime(&self, uid: &PodUid) -> Result<bool, ExecuteError> {
        let reader = &self.exec.reader;
        let sandboxes = reader.sandboxes(Only::Pod(uid.clone())).await?;
        if sandboxes.iter().any(|sandbox| !self.noted.sandboxes.contains(&sandbox.id)) {
            return Ok(true);
        }
        let containers = reader.containers(Only::Pod(uid.clone())).await?;
        Ok(containers.iter().any(|container| !self.noted.containers.contains(&container.id)))
    }

    /// The kubelet makes a pod's own directory before the one for its logs.
    async fn is_known_to_kubelet(&self, uid: &PodUid) -> Result<bool, ExecuteError> {
        let Some(pods) = self.exec.options.kubelet_pods.clone() else { return Ok(false) };
        let (place, path) = (pods.clone(), pods.join(uid.as_str()));
        let (host_root, uid) = (self.exec.roots.host_root.clone(), uid.clone());
        let found = self.exec.roots.calls.run(&place, move || has_entry(&host_root, &pods, uid.as_str())).await?;
        found.map_err(|source| ExecuteError::LookForPod { path: path.display().to_string(), source })
    }
}

/// Says whether a directory of the host, links on the way included, has an entry of any kind by this name.
fn has_entry(host_root: &Path, directory: &Path, name: &str) -> io::Result<bool> {
    let Resolved::Exists(at) = host_path::resolve(host_root, directory)? else { return Ok(false) };
    match std::fs::symlink_metadata(at.join(name)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
