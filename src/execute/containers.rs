//! Removes containers and sandboxes. The order for a container is: stop a container in state unknown, delete its log files, delete its log symlink,
//! remove the container.
//!
//! The container is last, as in the kubelet, because only its status contains the log path. If an earlier step fails,
//! the next pass can repeat it. Log files that are not in the log directory of the pod (I7) are kept and do not prevent
//! the removal of the container.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::action_result::{Done, ExecuteError};
use super::execution::Run;
use super::space::POLL;
use super::{LogNames, RemovedLogs, RemovedStats};
use crate::cri::Only;
use crate::model::{ContainerId, ContainerState, LinkTarget, PodRef, SandboxId, SandboxState, log_link_name};
use crate::plan::{Action, Measure, Refusal, Target};

/// The time between the stop signal and the kill, for a container in state unknown: the minimum of the kubelet.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The longest total wait of a pass for removals by other clients. They take a few milliseconds, on a busy node a second.
/// A removal that hangs in the runtime is left to the next pass.
const MOST_AWAITED: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Removes a container that is still in the planned state (I1).
    pub(super) async fn container(
        &self,
        action: &Action,
        id: &ContainerId,
        name: &str,
        planned: ContainerState,
    ) -> Result<Done, ExecuteError> {
        let Some(status) = self.exec.reader.container_status(id).await? else {
            // Lists may keep showing a container whose status is not found (kubernetes#72325).
            return self.link_of_missing(action.pod.as_ref(), name, id).await;
        };
        // The plan depends on the pod. A status with another pod belongs to another container.
        let is_of_pod = status.pod.as_ref().map(|pod| &pod.uid) == action.pod.as_ref().map(|pod| &pod.uid);
        if status.state != planned || status.state == ContainerState::Running || status.id != *id || !is_of_pod {
            let note = if is_of_pod {
                let [was, is]: [&str; 2] = [planned.into(), status.state.into()];
                format!("it was {was}, and is {is} now")
            } else {
                "it belongs to another pod than in the plan".to_owned()
            };
            return Ok(Done { note: Some(note), ..Done::refused(Refusal::StateChanged) });
        }
        if status.state == ContainerState::Unknown {
            self.exec.remover.stop_container(id, STOP_GRACE).await?;
        }
        let pod = status.pod.or_else(|| action.pod.clone());
        let link = self.link_path(pod.as_ref(), name, id);
        let logs = LogNames { path: status.log_path, pod, link };
        let RemovedLogs { stats, left } = if matches!(action.target, Target::RemoveContainer { keeps_logs: true, .. }) {
            RemovedLogs::default()
        } else {
            self.exec.remover.remove_container_logs(&self.exec.roots, logs).await?
        };
        match self.exec.remover.remove_container(id).await {
            Err(error) if error.is_removal_in_progress() && self.is_soon_removed(id).await => {
                return Ok(Done::already_removed());
            }
            result => result?,
        }
        if self.exec.remover.is_dry() {
            self.state().noted.containers.insert(id.clone());
        }
        self.state().layers.add_logs(stats.bytes);
        Ok(Done { note: (!left.is_empty()).then(|| left.join("; ")), ..self.removed_container(id, stats) })
    }

    /// Returns whether another client, such as the kubelet, completes its removal of this container while this pass
    /// still waits for such removals. A removal of kubegc without an answer is not waited for.
    async fn is_soon_removed(&self, id: &ContainerId) -> bool {
        while self.state().others_awaited < MOST_AWAITED && !self.exec.remover.is_in_progress(id.as_str()) {
            let begun = Instant::now();
            if let Ok(None) = self.exec.reader.container_status(id).await {
                return true;
            }
            tokio::time::sleep(POLL).await;
            self.state().others_awaited += begun.elapsed();
        }
        false
    }

    /// Returns the result of the removal of a container.
    fn removed_container(&self, id: &ContainerId, logs: RemovedStats) -> Done {
        let freed_bytes = self.state().layers.size(id).map(|size| size + logs.bytes);
        let measure = if freed_bytes.is_some() { Measure::Estimated } else { Measure::Unknown };
        Done { freed_bytes, measure, ..self.removed(None) }
    }

    /// Cleans up after a container that no longer exists: removes its log symlink if that is dangling. The path of its
    /// log files is no longer known.
    async fn link_of_missing(&self, pod: Option<&PodRef>, name: &str, id: &ContainerId) -> Result<Done, ExecuteError> {
        let link = self.link_path(pod, name, id).and_then(|path| self.exec.roots.link_name(&path).ok());
        if let Some(link) = link
            && let Ok(Some(LinkTarget::Missing)) = self.link_target(&link).await
        {
            self.exec.remover.remove_log_link(&link).await?;
        }
        Ok(Done::already_removed())
    }

    fn link_path(&self, pod: Option<&PodRef>, name: &str, id: &ContainerId) -> Option<PathBuf> {
        let pod = pod.filter(|pod| !pod.name.is_empty())?;
        let link = log_link_name(&pod.name, &pod.namespace, name, id);
        Some(self.exec.roots.policy.containers_root.join(link))
    }

    /// Removes a sandbox that is not ready and has no containers (I1). The removal of a sandbox also removes its
    /// containers, so the containers are listed last, right before it.
    pub(super) async fn sandbox(&self, id: &SandboxId) -> Result<Done, ExecuteError> {
        let reader = &self.exec.reader;
        let sandboxes = reader.sandboxes(Only::Sandbox(id.clone())).await?;
        let Some(sandbox) = sandboxes.into_iter().find(|sandbox| sandbox.id == *id) else {
            return Ok(Done::already_removed());
        };
        if sandbox.state == SandboxState::Ready {
            return Ok(Done::refused(Refusal::Ready));
        }
        let containers = reader.containers(Only::Sandbox(id.clone())).await?;
        if containers.iter().any(|container| !self.state().noted.containers.contains(&container.id)) {
            return Ok(Done::refused(Refusal::HasContainers));
        }
        self.exec.remover.remove_sandbox(id).await?;
        if self.exec.remover.is_dry() {
            self.state().noted.sandboxes.insert(id.clone());
        }
        Ok(self.removed(None))
    }
}
