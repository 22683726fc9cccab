//! The two log roots: which paths lie beneath them, and the removals there.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;

use super::folder::Folder;
use super::{Erased, LogError, tree};
use crate::model::{LinkTarget, PodRef};
use crate::plan::{LogPolicy, pod_uid_of_dir};

/// Where logs lie, as the runtime names it and as we reach it.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRoots {
    /// Where the host's root is mounted; `/` unless the agent runs in a container.
    pub host_root: PathBuf,
    /// The two roots, by their paths on the host.
    pub policy: LogPolicy,
}

/// A container's log file: the directories from the pod log root down to it, and its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogFile {
    folders: Vec<OsString>,
    name: OsString,
}

// === impl LogRoots ===

impl LogRoots {
    /// The name of a pod's log directory, if the path is the pod log root and one name.
    pub fn dir_name(&self, path: &Path) -> Result<OsString, LogError> {
        only_name(&self.policy.pods_root, path)
    }

    /// The name of a log link, if the path is the container log root and one name.
    pub fn link_name(&self, path: &Path) -> Result<OsString, LogError> {
        only_name(&self.policy.containers_root, path)
    }

    /// Takes a container's log path apart. Empty, relative, with `..` in it, not beneath the pod log root, or beneath
    /// another pod's directory: foreign (I7).
    pub fn log_file(&self, path: &Path, pod: Option<&PodRef>) -> Result<LogFile, LogError> {
        let mut folders = names_beneath(&self.policy.pods_root, path)?;
        let name = folders.pop().unwrap_or_default();
        let Some(dir) = folders.first() else {
            return Err(LogError::foreign(path, "it is not in a pod's log directory"));
        };
        let uid = pod_uid_of_dir(&dir.to_string_lossy());
        if pod.is_some_and(|pod| pod.uid != uid) {
            return Err(LogError::foreign(path, "it is in another pod's log directory"));
        }
        Ok(LogFile { folders, name })
    }

    /// Removes a pod's log directory with all that is in it. Nothing there is success.
    pub fn remove_dir(&self, name: &OsStr) -> Result<Erased, LogError> {
        match self.pods()? {
            Some(root) => tree::remove_tree(&root, name),
            None => Ok(Erased::default()),
        }
    }

    /// Removes a container's log files. Nothing there is success.
    pub fn remove_logs(&self, file: &LogFile) -> Result<Erased, LogError> {
        let mut folder = self.pods()?;
        for name in &file.folders {
            folder = match folder {
                Some(parent) => parent.enter(name)?,
                None => return Ok(Erased::default()),
            };
        }
        folder.map_or(Ok(Erased::default()), |mut folder| tree::remove_logs(&mut folder, &file.name))
    }

    /// Removes a log link, which must be one. Nothing there is success.
    pub fn remove_link(&self, name: &OsStr) -> Result<Erased, LogError> {
        match Folder::open(&self.on_host(&self.policy.containers_root))? {
            Some(root) => tree::remove_link(&root, name),
            None => Ok(Erased::default()),
        }
    }

    /// What the name of a pod's log directory stands for; `None` = nothing.
    pub fn look_at_dir(&self, name: &OsStr) -> Result<Option<crate::model::EntryKind>, LogError> {
        let Some(root) = self.pods()? else { return Ok(None) };
        Ok(root.look(name)?.map(|entry| entry.kind))
    }

    /// Where a log link leads; `None` = there is no such entry. Something else than a link is foreign.
    pub fn look_at_link(&self, name: &OsStr) -> Result<Option<LinkTarget>, LogError> {
        let path = self.policy.containers_root.join(name);
        let Some(root) = Folder::open(&self.on_host(&self.policy.containers_root))? else { return Ok(None) };
        match root.look(name)?.map(|entry| entry.kind) {
            None => Ok(None),
            Some(crate::model::EntryKind::Symlink) => Ok(Some(self.target_of(&path))),
            Some(_) => Err(LogError::foreign(path, "it is not a symbolic link")),
        }
    }

    /// Follows a link as the host would, which within a container means beneath the mount of the host's root.
    fn target_of(&self, path: &Path) -> LinkTarget {
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_IN_ROOT);
        let host = nix::fcntl::open(&self.host_root, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        let target = match host.and_then(|host| openat2(host, path, how)) {
            // Kernels before 5.6 and some sandboxes have no openat2; on the host itself an open does the same.
            Err(Errno::ENOSYS | Errno::EPERM) if self.host_root == Path::new("/") => {
                openat(AT_FDCWD, path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
            }
            other => other,
        };
        match target {
            Ok(_) => LinkTarget::Exists,
            Err(Errno::ENOENT) => LinkTarget::Missing,
            Err(_) => LinkTarget::Unknown,
        }
    }

    fn pods(&self) -> Result<Option<Folder>, LogError> {
        Folder::open(&self.on_host(&self.policy.pods_root))
    }

    /// Where a path of the host is for us.
    fn on_host(&self, path: &Path) -> PathBuf {
        self.host_root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// The one name by which a path goes beyond its root.
fn only_name(root: &Path, path: &Path) -> Result<OsString, LogError> {
    let mut names = names_beneath(root, path)?;
    match (names.pop(), names.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(LogError::foreign(path, "it is not directly beneath its root")),
    }
}

/// The names by which a path goes beyond its root. Links are not looked at: whoever walks the names does not follow them.
fn names_beneath(root: &Path, path: &Path) -> Result<Vec<OsString>, LogError> {
    let rest = path.strip_prefix(root).ok().filter(|_| root.is_absolute());
    let names = rest.and_then(|rest| rest.components().map(normal).collect());
    names.ok_or_else(|| LogError::foreign(path, "it is not beneath its root"))
}

fn normal(component: Component<'_>) -> Option<OsString> {
    match component {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    }
}
