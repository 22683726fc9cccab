//! The directories of pods in the archive: each has a document of what is known of its pod, and goes with its last log file.

use std::ffi::{OsStr, OsString};

use super::dir::Dir;
use super::{LogError, LogRoots};
use crate::model::{ArchivedContainer, ArchivedPod, attempt_of_log};
use crate::observe::read_archived_pod;

/// The name of a document that is being written.
const NEW: &str = "pod.json.tmp";

// === impl LogRoots ===

impl LogRoots {
    /// Writes what is known of these pods to their documents, if their log files are in the archive. Returns why a document could not be
    /// written.
    ///
    /// # Errors
    /// The archive cannot be used.
    pub fn describe_pods(&self, pods: Vec<ArchivedPod>) -> Result<Vec<LogError>, LogError> {
        let root = self.policy.archive_root();
        let Some(archive) = self.open(&root)? else { return Ok(Vec::new()) };
        if !archive.is_private()? {
            return Err(LogError::foreign(root, "another user can write to it"));
        }
        Ok(pods.into_iter().filter_map(|pod| describe(&archive, pod).err()).collect())
    }
}

/// Writes the document of a pod, if there is anything new.
fn describe(archive: &Dir, pod: ArchivedPod) -> Result<(), LogError> {
    let Some(dir) = pod.dir() else { return Ok(()) };
    let Some(dir) = archive.enter(dir.as_ref())? else { return Ok(()) };
    let before = dir.open_file(ArchivedPod::FILE.as_ref()).ok().and_then(read_archived_pod);
    let pod = match before.clone() {
        Some(before) => pod.after(before, |container| has_files(&dir, container)),
        None => pod,
    };
    if before.as_ref() == Some(&pod) {
        return Ok(());
    }
    let failed = |error: serde_json::Error| LogError::io("write", &dir.path_of(ArchivedPod::FILE.as_ref()), error);
    dir.replace(ArchivedPod::FILE.as_ref(), NEW.as_ref(), &serde_json::to_vec_pretty(&pod).map_err(failed)?)
}

/// Returns whether the archive has a log file of an instance.
fn has_files(dir: &Dir, container: &ArchivedContainer) -> bool {
    let is_its = |name: &OsStr| name.to_str().and_then(attempt_of_log) == Some(container.attempt);
    let files = dir.enter(container.name.as_ref()).ok().flatten();
    files.and_then(|files| files.names(1, is_its).ok()).is_some_and(|found| !found.is_empty())
}

/// Removes what an interrupted removal left of deleted pods.
pub(super) fn remove_empty_pods(archive: &Dir, pods: &Dir) -> Result<(), LogError> {
    for name in archive.names(usize::MAX, |_| true)? {
        if pods.entry(&name)?.is_some() {
            continue;
        }
        let Ok(Some(pod)) = archive.enter(&name) else { continue };
        for container in pod.names(usize::MAX, |name| !is_document(name))? {
            // One with files stays.
            let _ = pod.unlink_dir(&container);
        }
        remove_if_empty(archive, &name, &pod)?;
    }
    Ok(())
}

/// Removes the directory of a pod that has no files any more.
pub(super) fn remove_if_empty(archive: &Dir, name: &OsStr, pod: &Dir) -> Result<(), LogError> {
    if !pod.names(1, |name| !is_document(name))?.is_empty() {
        return Ok(());
    }
    for document in [ArchivedPod::FILE, NEW].map(OsString::from) {
        if let Some(entry) = pod.entry(&document)? {
            pod.unlink(&document, entry)?;
        }
    }
    archive.unlink_dir(name).map(drop)
}

/// Returns whether a name is that of a document, and not that of a container.
pub(super) fn is_document(name: &OsStr) -> bool {
    name == ArchivedPod::FILE || name == NEW
}
