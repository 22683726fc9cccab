//! The log entries of one container: its log files and its log symlink.
//!
//! Both are removed in one call on one thread, because a removal waits for each such call. The call counts as one on the pod
//! log root: if the other root is on a disk that blocks, that costs one time-out too.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::{LogError, LogFile, LogRoots, RemovedStats};
use crate::model::PodRef;

/// What the log entries of a container are named by.
#[derive(Clone, Debug)]
pub struct LogNames {
    /// The log file, as the runtime reports it. Empty = the container has none.
    pub path: PathBuf,
    /// The pod whose log directory has the file; `None` = unknown.
    pub pod: Option<PodRef>,
    /// The log symlink, regardless of its target: its name contains the id of the container. `None` = its name is unknown.
    pub link: Option<PathBuf>,
}

/// The result for the log entries of a container.
#[derive(Debug, Default)]
pub struct RemovedLogs {
    pub stats: RemovedStats,
    /// The entries that kubegc must not remove, each with the reason.
    pub left: Vec<String>,
}

// === impl LogRoots ===

impl LogRoots {
    /// Removes the log files of a container, and then its symlink. Missing entries are success.
    pub fn remove_container_logs(&self, logs: &LogNames) -> Result<RemovedLogs, LogError> {
        self.each(logs, |file| self.remove_logs(file), |link| self.remove_link(link))
    }

    /// Checks the paths only: what a dry run does instead.
    pub fn check_container_logs(&self, logs: &LogNames) -> Result<RemovedLogs, LogError> {
        self.each(logs, |_| Ok(RemovedStats::default()), |_| Ok(RemovedStats::default()))
    }

    fn each(
        &self,
        logs: &LogNames,
        file: impl FnOnce(&LogFile) -> Result<RemovedStats, LogError>,
        link: impl FnOnce(&OsStr) -> Result<RemovedStats, LogError>,
    ) -> Result<RemovedLogs, LogError> {
        let mut removed = RemovedLogs::default();
        if !logs.path.as_os_str().is_empty() {
            removed.add(self.log_file(&logs.path, logs.pod.as_ref()).and_then(|found| file(&found)))?;
        }
        if let Some(path) = &logs.link {
            removed.add(self.link_name(path).and_then(|name| link(&name)))?;
        }
        Ok(removed)
    }
}

// === impl RemovedLogs ===

impl RemovedLogs {
    fn add(&mut self, result: Result<RemovedStats, LogError>) -> Result<(), LogError> {
        match result {
            Ok(stats) => self.stats += stats,
            Err(error) if error.is_foreign() => self.left.push(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
