//! Single files beneath a directory of the kubelet.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::dir::{Dir, DirEntry};
use super::roots::names_beneath;
use super::{LogError, LogRoots, RemovedStats};
use crate::model::EntryKind;

/// The highest number of bytes that are read of a file.
const LARGEST_BYTES: u64 = 1 << 20;

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

    /// Returns the directory that blocks if its disk does.
    pub fn root(&self) -> &Path {
        &self.root
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

    /// Returns a file of the kubelet with its content; `None` = it does not exist. A file of another kind is foreign.
    pub fn read_file(&self, file: &KubeletFile) -> Result<Option<(DirEntry, Vec<u8>)>, LogError> {
        let Some((dir, entry)) = self.find(file)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = dir.open_file(&file.name)?.take(LARGEST_BYTES).read_to_end(&mut text);
        read.map_err(|error| LogError::io("read", &dir.path_of(&file.name), error))?;
        Ok(Some((entry, text)))
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

    fn find(&self, file: &KubeletFile) -> Result<Option<(Dir, DirEntry)>, LogError> {
        let mut dir = self.open(&file.root)?;
        for name in &file.folders {
            dir = match dir {
                Some(parent) => parent.enter(name)?,
                None => return Ok(None),
            };
        }
        let Some(dir) = dir else { return Ok(None) };
        match dir.entry(&file.name)? {
            None => Ok(None),
            Some(entry) if entry.kind == EntryKind::File => Ok(Some((dir, entry))),
            Some(_) => Err(LogError::foreign(dir.path_of(&file.name), "it is not a file")),
        }
    }
}
