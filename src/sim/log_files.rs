//! The log files of the runtime and the log symlinks of the kubelet, for a node with a directory.
//!
//! Files are `NAMESPACE_NAME_UID/CONTAINER/ATTEMPT.log` under `pods`. Symlinks are `POD_NAMESPACE_CONTAINER-ID.log`
//! under `containers`. The garbage collector deletes them, never the runtime.

use std::io;
use std::path::{Path, PathBuf};

use super::SimError;
use super::sim_node::Node;

/// The maximum length of a symlink name, in bytes without `.log`.
const LINK_NAME_BYTES: usize = 251;

/// The directories of the log files and symlinks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogPaths {
    /// Stands for `/var/log/pods`.
    pub pods: PathBuf,
    /// Stands for `/var/log/containers`.
    pub containers: PathBuf,
}

/// A log file or symlink to write.
#[derive(Clone, Debug)]
pub(super) enum LogEntry {
    /// A log file, relative to the pod log root or absolute, and the name of a symlink to it.
    File { path: PathBuf, bytes: usize, link: Option<String> },
    /// A dangling log symlink.
    Dangling { name: String, target: PathBuf },
}

// === impl LogPaths ===

impl LogPaths {
    pub(super) fn beneath(dir: &Path) -> Self {
        Self { pods: dir.join("pods"), containers: dir.join("containers") }
    }
}

// === impl LogEntry ===

impl LogEntry {
    pub(super) fn file(path: PathBuf) -> Self {
        Self::File { path, bytes: 0, link: None }
    }

    fn path(&self, roots: &LogPaths) -> PathBuf {
        match self {
            Self::File { path, .. } => roots.pods.join(path),
            Self::Dangling { name, .. } => roots.containers.join(name),
        }
    }

    fn write(&self, roots: &LogPaths) -> io::Result<()> {
        let path = self.path(roots);
        match self {
            Self::File { path: relative, .. } if relative.as_os_str().is_empty() => Ok(()),
            Self::File { bytes, link, .. } => {
                std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
                std::fs::write(&path, text(*bytes))?;
                let link = link.as_ref().map(|name| roots.containers.join(name));
                link.map_or(Ok(()), |link| std::os::unix::fs::symlink(&path, link))
            }
            Self::Dangling { target, .. } => std::os::unix::fs::symlink(roots.pods.join(target), path),
        }
    }
}

// === impl Node ===

impl Node {
    pub(super) fn will_write(&mut self, entry: LogEntry) {
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.push(entry);
        }
    }

    /// Writes the pending log entries. They remain pending while the node has no directory.
    pub(super) fn write_logs(&mut self) -> Result<(), SimError> {
        let (Some(unwritten), Some(roots)) = (&mut self.unwritten, &self.roots) else { return Ok(()) };
        for entry in unwritten.drain(..) {
            let failed = |source| SimError::WriteLog { path: entry.path(roots), source };
            entry.write(roots).map_err(failed)?;
        }
        Ok(())
    }
}

/// Builder methods for logs.
impl Node {
    /// Sets the size of the log of the last container, in bytes.
    #[must_use]
    pub fn logging(mut self, size: usize) -> Self {
        if let Some(LogEntry::File { bytes, .. }) = self.unwritten.as_mut().and_then(|unwritten| unwritten.last_mut()) {
            *bytes = size;
        }
        self
    }

    /// Adds a rotated log file to the last container.
    #[must_use]
    pub fn rotated(mut self) -> Self {
        if let Some(container) = self.containers.get(&self.cursor.container) {
            let mut path = container.log_path.clone().into_os_string();
            path.push(".20261120-120000.gz");
            self.will_write(LogEntry::file(path.into()));
        }
        self
    }

    /// Adds the log of an instance that the runtime lost, in the pod of the last sandbox. The next instance of this name has the
    /// next attempt number.
    #[must_use]
    pub fn lost(mut self, name: &str, size: usize) -> Self {
        let config = self.container_config(name, "");
        let directory = self.sandboxes.get(&self.cursor.sandbox).map(|sandbox| sandbox.log_directory.clone());
        if let Some(directory) = directory.filter(|directory| !directory.as_os_str().is_empty()) {
            self.will_write(LogEntry::File { path: directory.join(config.log_path), bytes: size, link: None });
        }
        self
    }

    /// Adds log files of a pod that has no other objects.
    #[must_use]
    pub fn orphan_logs(mut self, namespace: &str, name: &str, uid: &str) -> Self {
        let path = format!("{namespace}_{name}_{uid}/app/0.log");
        self.will_write(LogEntry::File { path: path.into(), bytes: 1000, link: None });
        self
    }

    /// Adds a symlink to the log of a container that does not exist. The log does not exist either.
    #[must_use]
    pub fn dangling_link(mut self, namespace: &str, pod: &str, container: &str, id: &str) -> Self {
        let name = link_name(pod, namespace, container, id);
        let target = format!("{namespace}_{pod}_gone/{container}/0.log").into();
        self.will_write(LogEntry::Dangling { name, target });
        self
    }
}

/// Returns the name of a symlink, truncated like in the kubelet.
pub(super) fn link_name(pod: &str, namespace: &str, container: &str, id: &str) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    name.truncate(name.floor_char_boundary(LINK_NAME_BYTES));
    name + ".log"
}

/// Returns one line in the CRI's log format, padded to this length in bytes.
fn text(bytes: usize) -> String {
    let line = "2026-11-21T12:00:00.000000000Z stdout F hello";
    let filling = bytes.saturating_sub(line.len() + 1);
    format!("{line}{}\n", ".".repeat(filling))
}
