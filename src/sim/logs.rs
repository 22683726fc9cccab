//! The log files that a runtime writes and the links that a kubelet makes, for a node that lives in a directory.
//!
//! Files are `NAMESPACE_NAME_UID/CONTAINER/ATTEMPT.log` beneath `pods`, links `POD_NAMESPACE_CONTAINER-ID.log` beneath
//! `containers`. Removing them is the collector's work, never the runtime's.

use std::io;
use std::path::{Path, PathBuf};

use super::SimError;
use super::node::Node;

/// The longest name of a link before its `.log`.
const LINK_NAME_BYTES: usize = 251;

/// Where log files and links lie.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogRoots {
    /// As `/var/log/pods`.
    pub pods: PathBuf,
    /// As `/var/log/containers`.
    pub containers: PathBuf,
}

/// Something to write.
#[derive(Debug)]
pub(super) enum LogEntry {
    /// A log file, relative to the pod log root or absolute, and a link to it.
    File { path: PathBuf, bytes: usize, link: Option<String> },
    /// A link that leads nowhere.
    Dangling { name: String, target: PathBuf },
}

// === impl LogRoots ===

impl LogRoots {
    pub(super) fn beneath(dir: &Path) -> Self {
        Self { pods: dir.join("pods"), containers: dir.join("containers") }
    }
}

// === impl LogEntry ===

impl LogEntry {
    pub(super) fn file(path: PathBuf) -> Self {
        Self::File { path, bytes: 0, link: None }
    }

    fn path(&self, roots: &LogRoots) -> PathBuf {
        match self {
            Self::File { path, .. } => roots.pods.join(path),
            Self::Dangling { name, .. } => roots.containers.join(name),
        }
    }

    fn write(&self, roots: &LogRoots) -> io::Result<()> {
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

    /// Writes what waits to be written; it goes on waiting while the node has no directory.
    pub(super) fn write_logs(&mut self) -> Result<(), SimError> {
        let (Some(unwritten), Some(roots)) = (&mut self.unwritten, &self.roots) else { return Ok(()) };
        for entry in unwritten.drain(..) {
            let failed = |source| SimError::WriteLog { path: entry.path(roots), source };
            entry.write(roots).map_err(failed)?;
        }
        Ok(())
    }
}

/// The verbs.
impl Node {
    /// The container just made has a log of this size.
    #[must_use]
    pub fn logging(mut self, size: usize) -> Self {
        if let Some(LogEntry::File { bytes, .. }) = self.unwritten.as_mut().and_then(|unwritten| unwritten.last_mut()) {
            *bytes = size;
        }
        self
    }

    /// The container just made also has a log that was rotated away.
    #[must_use]
    pub fn rotated(mut self) -> Self {
        if let Some(container) = self.containers.get(&self.cursor.container) {
            let mut path = container.log_path.clone().into_os_string();
            path.push(".20261120-120000.gz");
            self.will_write(LogEntry::file(path.into()));
        }
        self
    }

    /// Log files of a pod of which nothing else is left.
    #[must_use]
    pub fn orphan_logs(mut self, namespace: &str, name: &str, uid: &str) -> Self {
        let path = format!("{namespace}_{name}_{uid}/app/0.log");
        self.will_write(LogEntry::File { path: path.into(), bytes: 1000, link: None });
        self
    }

    /// A link to the log of a container that is gone, with its log.
    #[must_use]
    pub fn dangling_link(mut self, namespace: &str, pod: &str, container: &str, id: &str) -> Self {
        let name = link_name(pod, namespace, container, id);
        let target = format!("{namespace}_{pod}_gone/{container}/0.log").into();
        self.will_write(LogEntry::Dangling { name, target });
        self
    }
}

/// A link's name, cut as the kubelet cuts it.
pub(super) fn link_name(pod: &str, namespace: &str, container: &str, id: &str) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    name.truncate(name.floor_char_boundary(LINK_NAME_BYTES));
    name + ".log"
}

/// One line in the CRI's log format, filled up to a length.
fn text(bytes: usize) -> String {
    let line = "2026-11-21T12:00:00.000000000Z stdout F hello";
    let filling = bytes.saturating_sub(line.len() + 1);
    format!("{line}{}\n", ".".repeat(filling))
}
