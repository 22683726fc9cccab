//! The operations that change a node, with two implementations: one removes, the other only records for a dry run.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{LogError, LogFile, LogRoots, RemovedStats};
use crate::cri::{CriError, RuntimeWriter};
use crate::model::{ContainerId, ImageId, SandboxId};

/// All operations that change a node. An object that no longer exists counts as success. There are no rechecks here.
/// Clones share their state.
#[expect(
    async_fn_in_trait,
    reason = "both implementations are in this crate, and a caller that spawns names one of them"
)]
pub trait Remover: Clone {
    /// Whether nothing is removed, so that nothing is measured or verified afterwards.
    const IS_DRY: bool;

    /// Returns whether an earlier removal of the object with this id has no answer yet.
    fn is_in_progress(&self, id: &str) -> bool;
    /// Stops a container, with `grace` before the kill.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CriError>;
    /// Removes a container.
    async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError>;
    /// Stops a sandbox and releases its network.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError>;
    /// Removes a sandbox.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError>;
    /// Removes an image with all its tags.
    async fn remove_image(&self, id: &ImageId) -> Result<(), CriError>;
    /// Removes a container's log file and its rotated files.
    async fn remove_logs(&self, file: &LogFile) -> Result<RemovedStats, LogError>;
    /// Removes a directory of the pod log root with its content.
    async fn remove_log_dir(&self, name: &OsStr) -> Result<RemovedStats, LogError>;
    /// Removes a symlink of the container log root.
    async fn remove_log_link(&self, name: &OsStr) -> Result<RemovedStats, LogError>;
}

/// Removes objects.
#[derive(Clone, Debug)]
pub struct LiveRemover {
    /// Removes objects of the runtime.
    pub writer: RuntimeWriter,
    /// Removes log entries.
    pub roots: LogRoots,
}

/// Removes nothing and records what would be removed. Clones share the records.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    notes: Arc<Mutex<Vec<String>>>,
}

// === impl LiveRemover ===

impl Remover for LiveRemover {
    const IS_DRY: bool = false;

    fn is_in_progress(&self, id: &str) -> bool {
        self.writer.is_in_progress(id)
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CriError> {
        self.writer.stop_container(id, grace).await
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        self.writer.remove_container(id).await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        self.writer.stop_sandbox(id).await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        self.writer.remove_sandbox(id).await
    }

    async fn remove_image(&self, id: &ImageId) -> Result<(), CriError> {
        self.writer.remove_image(id).await
    }

    async fn remove_logs(&self, file: &LogFile) -> Result<RemovedStats, LogError> {
        let file = file.clone();
        self.roots.in_pods(move |roots| roots.remove_logs(&file)).await
    }

    async fn remove_log_dir(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        let name = name.to_owned();
        self.roots.in_pods(move |roots| roots.remove_dir(&name)).await
    }

    async fn remove_log_link(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        let name = name.to_owned();
        self.roots.in_links(move |roots| roots.remove_link(&name)).await
    }
}

// === impl DryRun ===

impl DryRun {
    /// Returns the recorded operations in order, as `ACT WHAT`.
    #[cfg(test)]
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records an operation and returns an empty result.
    #[expect(clippy::unnecessary_wraps, reason = "the answer of the remover whose place it takes")]
    fn note<T: Default, E>(&self, act: &str, what: impl std::fmt::Display) -> Result<T, E> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{act} {what}"));
        Ok(T::default())
    }
}

impl Remover for DryRun {
    const IS_DRY: bool = true;

    fn is_in_progress(&self, _: &str) -> bool {
        false
    }

    async fn stop_container(&self, id: &ContainerId, _: Duration) -> Result<(), CriError> {
        self.note("stop container", id)
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        self.note("remove container", id)
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        self.note("stop sandbox", id)
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        self.note("remove sandbox", id)
    }

    async fn remove_image(&self, id: &ImageId) -> Result<(), CriError> {
        self.note("remove image", id)
    }

    async fn remove_logs(&self, file: &LogFile) -> Result<RemovedStats, LogError> {
        self.note("remove logs", file.path().display())
    }

    async fn remove_log_dir(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        self.note("remove log directory", name.display())
    }

    async fn remove_log_link(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        self.note("remove log link", name.display())
    }
}
