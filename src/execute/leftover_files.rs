//! Removes what is left over in the kubelet's directory, and what the runtime would collect.
//!
//! Each file is looked at again right before its removal, by the names from a directory of the kubelet, and no symlink and no
//! mount on the way is followed. Nothing is removed below the kubelet's `image_manager`: its records say which pods may use an image (I21).

use std::collections::HashSet;
use std::path::Path;

use tokio::time::Instant;

use super::action_result::{Done, ExecuteError};
use super::execution::Run;
use super::{KubeletFile, LogRoots};
use crate::cri::{Only, SnapshotUsages};
use crate::model::{LeftoverKind, PodSourceName, PodUid, is_checkpoint, is_termination_log, termination_logs};
use crate::plan::{Action, Refusal};

/// The kubelet's directories of pods and of checkpoints.
const PODS: &str = "pods";
const CHECKPOINTS: &str = "checkpoints";

impl Run<'_> {
    /// Removes what is left over.
    pub(super) async fn leftover(
        &self,
        action: &Action,
        kind: LeftoverKind,
        path: &Path,
    ) -> Result<Done, ExecuteError> {
        let directory = match kind {
            LeftoverKind::TerminationLog | LeftoverKind::PodDirectory => PODS,
            LeftoverKind::Checkpoint => CHECKPOINTS,
            _ => return Ok(Done::refused(Refusal::ForeignPath)),
        };
        let file = match KubeletFile::beneath(self.exec.options.kubelet_root.join(directory), path) {
            Ok(file) => file,
            Err(error) => return Done::refused_if_foreign(error),
        };
        match (file.names().as_deref(), &action.pod) {
            (Some([uid, "containers", container, name]), Some(pod))
                if kind == LeftoverKind::TerminationLog && *uid == pod.uid.as_str() && is_termination_log(name) =>
            {
                self.termination_log(&file, &pod.uid, container, name).await
            }
            (Some([uid]), Some(pod)) if kind == LeftoverKind::PodDirectory && *uid == pod.uid.as_str() => {
                self.pod_directory(&file, &pod.uid).await
            }
            (Some([name]), _) if kind == LeftoverKind::Checkpoint && is_checkpoint(name) => {
                self.checkpoint(&file).await
            }
            _ => Ok(Done::refused(Refusal::ForeignPath)),
        }
    }

    /// Removes the kubelet's directory of a pod of which the runtime has nothing. That the pod is deleted was confirmed just before.
    async fn pod_directory(&self, file: &KubeletFile, uid: &PodUid) -> Result<Done, ExecuteError> {
        if PodSourceName::may_hide(self.exec.pods.name(), uid) {
            let note = Some("it may be a static pod, of which only the kubelet has a list".to_owned());
            return Ok(Done { note, ..Done::refused(Refusal::PodNotProven) });
        }
        if self.is_in_runtime(uid).await? {
            return Ok(Done::refused(Refusal::HasContainers));
        }
        self.removed_files(self.exec.remover.remove_pod_directory(&self.exec.roots, file).await)
    }

    /// Removes the termination log of an instance that the runtime does not have. Each instance that it has must show that it
    /// has another one.
    async fn termination_log(
        &self,
        file: &KubeletFile,
        uid: &PodUid,
        container: &str,
        name: &str,
    ) -> Result<Done, ExecuteError> {
        match self.termination_logs(uid, container).await? {
            None => Ok(Done {
                note: Some("the runtime does not show the termination log of each instance".to_owned()),
                ..Done::refused(Refusal::StateChanged)
            }),
            Some(used) if used.contains(name) => Ok(Done::refused(Refusal::InUse)),
            Some(_) => self.removed_files(self.exec.remover.remove_kubelet_file(file, None).await),
        }
    }

    /// Returns the names of the termination logs that the instances of a container have mounted; `None` = not known of all, or
    /// there is no instance.
    async fn termination_logs(&self, uid: &PodUid, container: &str) -> Result<Option<HashSet<String>>, ExecuteError> {
        let containers = self.listed(Only::Pod(uid.clone())).await?;
        let directory = termination_logs(uid, container);
        let mut used = HashSet::new();
        for instance in containers.iter().filter(|one| one.name == container) {
            let Some(status) = self.exec.reader.container_status(&instance.id).await? else { continue };
            let log =
                status.mounted.iter().find(|path| path.parent().is_some_and(|parent| parent.ends_with(&directory)));
            let Some(name) = log.and_then(|path| path.file_name()?.to_str()) else { return Ok(None) };
            used.insert(name.to_owned());
        }
        Ok((!used.is_empty()).then_some(used))
    }

    /// Removes a checkpoint that was not written since the plan.
    async fn checkpoint(&self, file: &KubeletFile) -> Result<Done, ExecuteError> {
        match self.exec.roots.in_kubelet(file, LogRoots::entry_of_file).await {
            Ok(None) => Ok(Done::already_removed()),
            Ok(Some(known)) if !known.is_older(self.plan.taken_at) => Ok(Done::refused(Refusal::StateChanged)),
            Ok(Some(known)) => self.removed_files(self.exec.remover.remove_kubelet_file(file, Some(known)).await),
            Err(error) => Done::refused_if_foreign(error),
        }
    }

    /// Starts the collection of containerd, and looks whether it removed all that was unreferenced when the plan was made. What it
    /// leaves, it would leave each time.
    pub(super) async fn unreferenced(&self) -> Result<Done, ExecuteError> {
        self.exec.remover.collect_garbage(self.plan.taken_at).await?;
        if self.exec.remover.is_dry() {
            return Ok(self.removed(None));
        }
        let (no_sizes, at_once) = (SnapshotUsages::default(), Instant::now());
        let store = self.exec.reader.containerd_store(&no_sizes, false, at_once).await?;
        match store.unreferenced(self.plan.taken_at).count() {
            0 => Ok(self.removed(None)),
            left => Err(ExecuteError::Uncollected { left }),
        }
    }
}
