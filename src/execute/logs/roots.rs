//! The two log roots: checks of the paths beneath them, and removals there.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::dir::Dir;
use super::{LogError, RemovedStats, tree};
use crate::host_path::{HostFs, Resolved};
use crate::model::{
    EntryKind, LinkTarget, LogFacts, PodRef, attempt_of_log, is_compressing, is_current_log, log_file_name,
    pod_uid_of_dir,
};
use crate::observe::DirEntry;
use crate::observe::link_target;
use crate::plan::LogPolicy;

/// The two log roots, as configured and as the agent reaches them.
#[derive(Clone, Debug)]
pub struct LogRoots {
    /// The host. A root is one place, so a blocked disk costs one time-out, however many entries it has.
    pub host: HostFs,
    /// The two roots, as paths on the host.
    pub policy: LogPolicy,
}

/// What the plan and the runtime say of a log file that is to be removed by itself.
#[derive(Clone, Copy, Debug)]
pub struct KnownLog {
    /// Whether the runtime has its instance.
    pub is_listed: bool,
    /// Its size in the plan, in bytes.
    pub size: u64,
    /// It was last modified before this time.
    pub before: Timestamp,
    /// When the plan was made.
    pub planned_at: Timestamp,
}

/// A container's log file: its name, and the directories from the pod log root down to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogFile {
    folders: Vec<OsString>,
    name: OsString,
}

// === impl LogRoots ===

impl LogRoots {
    /// Creates the roots of the host whose root is mounted at `host_root`. They share no place with other parts of the
    /// agent: a removal may take long, and an observation must not wait for it.
    pub fn new(host_root: impl Into<PathBuf>, policy: LogPolicy) -> Self {
        Self { host: HostFs::new(host_root), policy }
    }

    /// Runs `work` on the pod log root in a blocking thread, within the limit.
    pub async fn in_pods<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        self.bounded(&self.policy.pods_root, work).await
    }

    /// Runs `work` on the container log root in a blocking thread, within the limit.
    pub async fn in_links<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        self.bounded(&self.policy.containers_root, work).await
    }

    /// Returns the name of a pod's log directory. The path must be the pod log root and one name.
    pub fn dir_name(&self, path: &Path) -> Result<OsString, LogError> {
        only_name(&self.policy.pods_root, path)
    }

    /// Returns the name of a log symlink. The path must be the container log root and one name.
    pub fn link_name(&self, path: &Path) -> Result<OsString, LogError> {
        only_name(&self.policy.containers_root, path)
    }

    /// Splits a container's log path, which begins with the pod log root as configured or as resolved. A path is
    /// foreign if it is empty or relative, contains `..`, or lies outside that root or in another pod's directory (I7).
    pub fn log_file(&self, path: &Path, pod: Option<&PodRef>) -> Result<LogFile, LogError> {
        let mut folders = match (names_beneath(&self.policy.pods_root, path), path.is_absolute()) {
            (Err(foreign), true) => names_beneath(&self.resolved_pods_root()?.ok_or(foreign)?, path)?,
            (names, _) => names?,
        };
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

    /// Removes a pod's log directory with its content. A missing directory is success.
    pub fn remove_dir(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        match self.pods()? {
            Some(root) => tree::remove_tree(&root, name),
            None => Ok(RemovedStats::default()),
        }
    }

    /// Removes a container's log files. Missing files are success.
    pub fn remove_logs(&self, file: &LogFile) -> Result<RemovedStats, LogError> {
        let dir = enter_all(self.pods()?, &file.folders)?;
        dir.map_or(Ok(RemovedStats::default()), |dir| tree::remove_logs(&dir, &file.name))
    }

    /// Removes one log file, without the rotated ones of its instance, and its name in the archive: else nothing would be freed. A missing
    /// file is success.
    pub fn remove_log(&self, file: &LogFile, known: KnownLog) -> Result<RemovedStats, LogError> {
        let Some((dir, mut entry)) = self.check_log(file, known)? else { return Ok(RemovedStats::default()) };
        if let Some((archive, name)) = self.archived(&file.folders, &file.name, entry)? {
            archive.unlink(&name, entry)?;
            // It has the bytes that are freed now.
            entry = dir.entry(&file.name)?.filter(|now| now.inode == entry.inode).unwrap_or(entry);
        }
        dir.unlink(&file.name, entry)
    }

    /// Returns a log file that may be removed by itself; `None` = it does not exist. A file that was written since the plan, that has
    /// another name too, or that its container needs is foreign.
    pub fn check_log(&self, file: &LogFile, known: KnownLog) -> Result<Option<(Dir, DirEntry)>, LogError> {
        let Some(dir) = enter_all(self.pods()?, &file.folders)? else { return Ok(None) };
        let (Some(entry), Some(name)) = (dir.entry(&file.name)?, file.name.to_str()) else { return Ok(None) };
        let has_another = || {
            Ok::<_, LogError>(
                entry.names != 1 && (entry.names != 2 || self.archived(&file.folders, &file.name, entry)?.is_none()),
            )
        };
        let what = if entry.kind != EntryKind::File || has_another()? {
            "it is not a file with one name"
        } else if entry.size > known.size || !entry.is_older(known.before) {
            "it was written since the plan"
        } else if !facts(&dir, name, known)?.permit_removal(name) {
            "its container needs it"
        } else {
            return Ok(Some((dir, entry)));
        };
        Err(LogError::foreign(dir.path_of(&file.name), what))
    }

    /// Removes a log symlink. An entry of another kind is an error. A missing entry is success.
    pub fn remove_link(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        match self.links()? {
            Some(root) => tree::remove_link(&root, name),
            None => Ok(RemovedStats::default()),
        }
    }

    /// Returns the kind of entry that the name of a pod's log directory has; `None` = no entry.
    pub fn kind_of_dir(&self, name: &OsStr) -> Result<Option<EntryKind>, LogError> {
        let Some(root) = self.pods()? else { return Ok(None) };
        Ok(root.entry(name)?.map(|entry| entry.kind))
    }

    /// Returns whether the target of a log symlink exists; `None` = no such entry. An entry that is not a symlink is
    /// foreign.
    pub fn link_target(&self, name: &OsStr) -> Result<Option<LinkTarget>, LogError> {
        let path = self.policy.containers_root.join(name);
        let Some(root) = self.links()? else { return Ok(None) };
        match root.entry(name)?.map(|entry| entry.kind) {
            None => Ok(None),
            Some(EntryKind::Symlink) => {
                let roots = [&*self.policy.pods_root, &*self.policy.containers_root];
                Ok(Some(link_target(&self.host, &path, roots)))
            }
            Some(_) => Err(LogError::foreign(path, "it is not a symbolic link")),
        }
    }

    /// Returns whether the pod log root is on the same disk as a directory of the host.
    pub fn is_on_disk_of(&self, directory: &Path) -> Result<bool, LogError> {
        let device =
            |path: &Path| std::fs::metadata(self.host.resolve(path)?.into_path()).map(|metadata| metadata.dev());
        let device = |path: &Path| device(path).map_err(|error| LogError::io("find the disk of", path, error));
        Ok(device(&self.policy.pods_root)? == device(directory)?)
    }

    pub(super) async fn bounded<T: Send + 'static>(
        &self,
        root: &Path,
        work: impl FnOnce(&Self) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let roots = self.clone();
        self.host.run(root, move |_| work(&roots)).await?
    }

    fn pods(&self) -> Result<Option<Dir>, LogError> {
        self.open(&self.policy.pods_root)
    }

    fn links(&self) -> Result<Option<Dir>, LogError> {
        self.open(&self.policy.containers_root)
    }

    /// Opens a root. `None` = it does not exist.
    pub(super) fn open(&self, root: &Path) -> Result<Option<Dir>, LogError> {
        self.resolve(root)?.map_or(Ok(None), |resolved| Dir::open(&resolved))
    }

    /// Resolves a configured root to a directory. The administrator chose its symlinks, so they are followed as on the
    /// host, including the root itself. Symlinks beneath the root are never followed (I7). `None` = it does not exist.
    pub(super) fn resolve(&self, root: &Path) -> Result<Option<PathBuf>, LogError> {
        let place = self.host.resolve(root).map_err(|error| LogError::io("resolve", root, error))?;
        match place {
            Resolved::Exists(path) if path == self.host.root() => {
                Err(LogError::foreign(root, "it cannot be a log root"))
            }
            Resolved::Exists(path) => Ok(Some(path)),
            Resolved::Missing(_) => Ok(None),
        }
    }

    /// Returns the pod log root without symlinks, as a path on the host. A runtime may report log paths beneath it.
    fn resolved_pods_root(&self) -> Result<Option<PathBuf>, LogError> {
        let resolved = self.resolve(&self.policy.pods_root)?;
        let beneath = resolved.as_deref().and_then(|path| path.strip_prefix(self.host.root()).ok());
        Ok(beneath.map(|path| Path::new("/").join(path)))
    }
}

// === impl LogFile ===

impl LogFile {
    /// Returns the container and the attempt in its path, if that is `POD/CONTAINER/ATTEMPT.log`, rotated or not.
    pub fn instance(&self) -> Option<(&str, u32)> {
        let [_, container] = self.folders.as_slice() else { return None };
        Some((container.to_str()?, attempt_of_log(self.name.to_str()?)?))
    }

    /// Returns whether it is not rotated.
    pub fn is_current(&self) -> bool {
        self.name.to_str().is_some_and(is_current_log)
    }

    /// Returns its path beneath the pod log root, for messages.
    pub fn path(&self) -> PathBuf {
        self.folders.iter().chain([&self.name]).collect()
    }
}

/// Returns what the directory of a log file shows of it.
fn facts(dir: &Dir, name: &str, known: KnownLog) -> Result<LogFacts, LogError> {
    let attempt = attempt_of_log(name);
    let current = attempt.map(log_file_name).map_or(Ok(None), |current| dir.entry(current.as_ref()))?;
    let since = known.planned_at.checked_sub(LogFacts::COMPRESSION).unwrap_or(Timestamp::MIN);
    let is_young = |form: &str| Ok::<_, LogError>(dir.entry(form.as_ref())?.map(|entry| !entry.is_older(since)));
    let is_compressing = is_compressing(name, is_young)?;
    let newer = dir.names(1, |other| other.to_str().and_then(attempt_of_log) > attempt)?;
    Ok(LogFacts {
        is_listed: known.is_listed,
        has_current: current.is_some_and(|entry| entry.kind == EntryKind::File),
        is_compressing,
        has_newer: !newer.is_empty(),
    })
}

/// Enters directories, each in the one before it. `None` = one does not exist.
pub(super) fn enter_all(dir: Option<Dir>, names: &[OsString]) -> Result<Option<Dir>, LogError> {
    names.iter().try_fold(dir, |dir, name| dir.map_or(Ok(None), |dir| dir.enter(name)))
}

/// Returns the single name that follows the root in a path.
fn only_name(root: &Path, path: &Path) -> Result<OsString, LogError> {
    let mut names = names_beneath(root, path)?;
    match (names.pop(), names.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(LogError::foreign(path, "it is not directly beneath its root")),
    }
}

/// Returns the names that follow the root in a path. It does not look for symlinks: the code that opens the names does
/// not follow them.
pub(super) fn names_beneath(root: &Path, path: &Path) -> Result<Vec<OsString>, LogError> {
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
