//! Single files beneath a directory of the kubelet, and its directories of pods.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::dir::Dir;
use super::roots::{enter_all, names_beneath};
use super::{LogError, LogRoots, RemovedStats, tree};
use crate::model::EntryKind;
use crate::observe::{DirEntry, Obstacle, mount_points, obstacle};

/// A file of the kubelet: a directory of the host, and the names from there.
#[derive(Clone, Debug)]
pub struct KubeletFile {
    root: PathBuf,
    folders: Vec<OsString>,
    name: OsString,
}

// === impl KubeletFile ===

impl KubeletFile {
    /// Splits a path into a root and the names from there. The path must begin with the root.
    pub fn beneath(root: PathBuf, path: &Path) -> Result<Self, LogError> {
        let mut folders = names_beneath(&root, path)?;
        let name = folders.pop().ok_or_else(|| LogError::foreign(path, "it is the directory itself"))?;
        Ok(Self { root, folders, name })
    }

    /// Returns the names from the root, if all are text.
    pub fn names(&self) -> Option<Vec<&str>> {
        self.folders.iter().chain([&self.name]).map(|name| name.to_str()).collect()
    }
}

// === impl LogRoots ===

impl LogRoots {
    /// Runs `work` on a file of the kubelet in a blocking thread, within the limit.
    pub async fn in_kubelet<T: Send + 'static>(
        &self,
        file: &KubeletFile,
        work: impl FnOnce(&Self, &KubeletFile) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let (here, file) = (file.clone(), file.clone());
        self.bounded(&here.root, move |roots| work(roots, &file)).await
    }

    /// Returns the entry of a file of the kubelet; `None` = it does not exist. A file of another kind is foreign.
    pub fn entry_of_file(&self, file: &KubeletFile) -> Result<Option<DirEntry>, LogError> {
        Ok(self.find(file)?.map(|(_, entry)| entry))
    }

    /// Removes a file of the kubelet, if it is still the `known` one. A missing file is success, and one of another kind is
    /// foreign.
    pub fn remove_file(&self, file: &KubeletFile, known: Option<DirEntry>) -> Result<RemovedStats, LogError> {
        match self.find(file)? {
            None => Ok(RemovedStats::default()),
            Some((dir, entry)) if known.is_some_and(|known| known != entry) => {
                Err(LogError::foreign(dir.path_of(&file.name), "it was written a moment ago"))
            }
            Some((dir, entry)) => dir.unlink(&file.name, entry),
        }
    }

    /// Checks that the directory of a pod can be removed. A missing one can.
    pub fn check_pod_directory(&self, file: &KubeletFile) -> Result<(), LogError> {
        let pod = self.open(&file.root)?.map_or(Ok(None), |root| root.enter(&file.name))?;
        let Some(pod) = pod else { return Ok(()) };
        let found = mount_points(&self.host).and_then(|mounts| obstacle(&self.host, &mounts, pod.as_open()));
        match found.map_err(|error| LogError::io("look at", pod.as_open().path(), error))? {
            Some(Obstacle { at, what }) => Err(LogError::foreign(at, what)),
            None => Ok(()),
        }
    }

    /// Removes the directory of a pod with its content. A missing directory is success.
    pub fn remove_pod_directory(&self, file: &KubeletFile) -> Result<RemovedStats, LogError> {
        self.check_pod_directory(file)?;
        match self.open(&file.root)? {
            Some(root) => tree::remove_tree(&root, &file.name),
            None => Ok(RemovedStats::default()),
        }
    }

    fn find(&self, file: &KubeletFile) -> Result<Option<(Dir, DirEntry)>, LogError> {
        let Some(dir) = enter_all(self.open(&file.root)?, &file.folders)? else { return Ok(None) };
        match dir.entry(&file.name)? {
            None => Ok(None),
            Some(entry) if entry.kind == EntryKind::File => Ok(Some((dir, entry))),
            Some(_) => Err(LogError::foreign(dir.path_of(&file.name), "it is not a file")),
        }
    }
}
