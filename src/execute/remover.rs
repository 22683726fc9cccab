//! The operations that change a node. A dry run has the same ones, without effect.
//!
//! A removal is never cancelled, and never sent twice at a time. It outlives the wait for it: until its answer
//! arrives or the connection ends, other removals of the object are refused. If a runtime loses a call, its object
//! cannot be removed until one of the two processes restarts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Archived, KnownLog, KubeletFile, LogError, LogFile, LogNames, LogRoots, RemovedLogs, RemovedStats};
use crate::cri::{CriError, InProgress, RuntimeReader, RuntimeWriter, UndoLease};
use crate::model::{ArchivedPod, ContainerId, Image, SandboxId};
use crate::observe::DirEntry;

/// How long a lease lasts that is deleted at once unless the connection breaks.
const LEASE: SignedDuration = SignedDuration::from_hours(1);

/// All operations that change a node. An object that no longer exists counts as success. There are no rechecks here.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each executor")]
pub enum Remover {
    Live {
        /// Removes objects of the runtime.
        writer: RuntimeWriter,
        roots: LogRoots,
    },
    /// Removes nothing, so that nothing is measured or verified afterwards (I8).
    Dry,
}

/// Makes the records of a removed image again, from the lease that keeps it.
///
/// # Errors
/// The runtime refuses it, or cannot be reached.
pub async fn restore(reader: &RuntimeReader, removals: &InProgress, lease: &UndoLease) -> Result<(), CriError> {
    RuntimeWriter::new(reader, removals).restore(lease).await
}

// === impl Remover ===

impl Remover {
    /// Returns whether nothing is removed.
    pub fn is_dry(&self) -> bool {
        matches!(self, Self::Dry)
    }

    /// Returns whether an earlier removal of the object with this id has no answer yet.
    pub(super) fn is_in_progress(&self, id: &str) -> bool {
        matches!(self, Self::Live { writer, .. } if writer.is_in_progress(id))
    }

    /// Stops a container, with `grace` before the kill.
    pub(super) async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CriError> {
        let Self::Live { writer, .. } = self else { return Ok(()) };
        writer.stop_container(id, grace).await
    }

    pub(super) async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let Self::Live { writer, .. } = self else { return Ok(()) };
        writer.remove_container(id).await
    }

    /// Stops a sandbox, which releases its network, and removes it.
    pub(super) async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let Self::Live { writer, .. } = self else { return Ok(()) };
        writer.stop_sandbox(id).await?;
        writer.remove_sandbox(id).await
    }

    /// Removes an image with all its tags, or one name of an artifact.
    pub(super) async fn remove_image(&self, image: &Image) -> Result<(), CriError> {
        let Self::Live { writer, .. } = self else { return Ok(()) };
        writer.remove_image_by(&image.id, image.artifact_digest().unwrap_or(image.id.as_str())).await
    }

    /// Takes a lease on the content of an image that is removed next.
    pub(super) async fn keep_for_undo(
        &self,
        image: &Image,
        pass: Timestamp,
        expires_at: Timestamp,
        has_pull_record: bool,
    ) -> Result<Option<UndoLease>, CriError> {
        let Self::Live { writer, .. } = self else { return Ok(None) };
        writer.keep_for_undo(image, pass, expires_at, has_pull_record).await.map(Some)
    }

    /// Deletes a lease. With `sync` it waits until containerd has removed what only the lease kept.
    pub(super) async fn delete_lease(&self, name: &str, sync: bool) -> Result<(), CriError> {
        let Self::Live { writer, .. } = self else { return Ok(()) };
        writer.delete_lease(name, sync).await
    }

    /// Starts the garbage collection of containerd and waits for it.
    pub(super) async fn collect_garbage(&self, now: Timestamp) -> Result<(), CriError> {
        let Self::Live { writer, .. } = self else { return Ok(()) };
        writer.collect_garbage(now + LEASE).await
    }

    /// Removes the log entries of a container. A dry run checks their paths beneath `checked` only.
    pub(super) async fn remove_container_logs(
        &self,
        checked: &LogRoots,
        logs: LogNames,
    ) -> Result<RemovedLogs, LogError> {
        match self {
            Self::Live { roots, .. } => roots.in_pods(move |roots| roots.remove_container_logs(&logs)).await,
            Self::Dry => checked.in_pods(move |roots| roots.check_container_logs(&logs)).await,
        }
    }

    /// Removes a directory of the pod log root with its content.
    pub(super) async fn remove_log_dir(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        let Self::Live { roots, .. } = self else { return Ok(RemovedStats::default()) };
        let name = name.to_owned();
        roots.in_pods(move |roots| roots.remove_dir(&name)).await
    }

    /// Removes a log file from the archive.
    pub(super) async fn remove_archived_log(&self, path: &Path) -> Result<RemovedStats, LogError> {
        let Self::Live { roots, .. } = self else { return Ok(RemovedStats::default()) };
        let path = path.to_owned();
        roots.in_pods(move |roots| roots.remove_archived(&path)).await
    }

    /// Gives each log file of a pod a name in the archive. `only` has the names of the pods' directories; `None` = all. Pods of the
    /// namespaces in `full` are left out.
    pub async fn archive_logs(
        &self,
        only: Option<BTreeSet<String>>,
        full: BTreeSet<String>,
    ) -> Result<Archived, LogError> {
        let Self::Live { roots, .. } = self else { return Ok(Archived::default()) };
        roots.in_pods(move |roots| roots.archive_logs(only, &full)).await
    }

    /// Writes what is known of pods beside their files in the archive. Returns why a document could not be written.
    pub async fn describe_pods(&self, pods: Vec<ArchivedPod>) -> Result<Vec<LogError>, LogError> {
        let Self::Live { roots, .. } = self else { return Ok(Vec::new()) };
        roots.in_pods(move |roots| roots.describe_pods(pods)).await
    }

    /// Removes a log file and its rotated files.
    pub(super) async fn remove_log_file(&self, file: LogFile) -> Result<RemovedStats, LogError> {
        let Self::Live { roots, .. } = self else { return Ok(RemovedStats::default()) };
        roots.in_pods(move |roots| roots.remove_logs(&file)).await
    }

    /// Removes one log file, if nothing needs it. A dry run only checks it, beneath `checked`.
    pub(super) async fn remove_log(
        &self,
        checked: &LogRoots,
        file: LogFile,
        known: KnownLog,
    ) -> Result<RemovedStats, LogError> {
        match self {
            Self::Live { roots, .. } => roots.in_pods(move |roots| roots.remove_log(&file, known)).await,
            Self::Dry => {
                checked.in_pods(move |roots| roots.check_log(&file, known).map(|_| RemovedStats::default())).await
            }
        }
    }

    /// Removes a file of the kubelet, if it is still the `known` one.
    pub(super) async fn remove_kubelet_file(
        &self,
        file: &KubeletFile,
        known: Option<DirEntry>,
    ) -> Result<RemovedStats, LogError> {
        let Self::Live { roots, .. } = self else { return Ok(RemovedStats::default()) };
        roots.in_kubelet(file, move |roots, file| roots.remove_file(file, known)).await
    }

    /// Removes the kubelet's directory of a pod. A dry run only checks it, beneath `checked`.
    pub(super) async fn remove_pod_directory(
        &self,
        checked: &LogRoots,
        file: &KubeletFile,
    ) -> Result<RemovedStats, LogError> {
        match self {
            Self::Live { roots, .. } => roots.in_kubelet(file, LogRoots::remove_pod_directory).await,
            Self::Dry => {
                checked.in_kubelet(file, LogRoots::check_pod_directory).await.map(|()| RemovedStats::default())
            }
        }
    }

    /// Removes a symlink of the container log root.
    pub(super) async fn remove_log_link(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        let Self::Live { roots, .. } = self else { return Ok(RemovedStats::default()) };
        let name = name.to_owned();
        roots.in_links(move |roots| roots.remove_link(&name)).await
    }
}
