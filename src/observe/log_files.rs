//! Lists the two log roots. `pod_logs` and `log_lines` read the files, for a command.
//!
//! Names that are not UTF-8 are skipped. A kubelet never creates one, no plan can contain one, and kubegc removes
//! entries only by name. So they are never removed and never counted.

mod archived_logs;
mod listed_logs;
mod log_events;
mod log_lines;
mod log_tree;
mod pod_logs;
mod sparse;

use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::Path;

use jiff::Timestamp;

use super::ObserveError;
use crate::host_path::{HostFs, Resolved};
use crate::model::{EntryKind, LinkTarget, LogDir, LogLink};

pub use archived_logs::{Archive, read_archived_pod};
pub use log_events::LogEvents;
pub use log_lines::{LogLine, LogLines, LogQuery, LogStream};
pub use log_tree::{LogFiles, MOST_LOG_FILES};
pub use pod_logs::{LogFile, LogWatch, LoggedContainer, MOST_BYTES as MOST_COPIED_BYTES, PodLogs};

/// Returns every entry of the pod log root, of any type, sorted by name.
pub fn dirs(root: &Path) -> Result<Vec<LogDir>, ObserveError> {
    let mut dirs: Vec<LogDir> = entries(root)?.into_iter().map(dir).collect();
    dirs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(dirs)
}

/// Returns the `*.log` entries of the container log root, sorted by name. Each link is followed beneath the host's
/// root.
pub fn links(host: &HostFs, root: &Path, pods_root: &Path) -> Result<Vec<LogLink>, ObserveError> {
    let mut names: Vec<String> = entries(root)?.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| name.strip_suffix(".log").is_some());
    names.sort();
    let within = Path::new("/").join(root.strip_prefix(host.root()).unwrap_or(root));
    let link = |name: String| LogLink { target: link_target(host, &within.join(&name), [pods_root, &within]), name };
    Ok(names.into_iter().map(link).collect())
}

/// Follows a link over every hop, as the kubelet's stat does. The target is missing only if some hop does not exist. A
/// loop, a file on the way, or a directory without permission proves nothing.
///
/// An agent in a container sees only those directories of the host that are mounted in it, and of these the log roots for sure. A
/// path elsewhere may be on a disk that is not mounted there, as that of Docker's logs: its absence proves nothing.
pub fn link_target(host: &HostFs, path: &Path, log_roots: [&Path; 2]) -> LinkTarget {
    if host.is_agents() {
        return host
            .exists(path)
            .map_or(LinkTarget::Unknown, |exists| if exists { LinkTarget::Exists } else { LinkTarget::Missing });
    }
    let is_in = |root: &Path, missing: &Path| {
        host.resolve(root).ok().and_then(Resolved::existing).is_some_and(|root| missing.starts_with(root))
    };
    match host.resolve(path) {
        Ok(Resolved::Exists(_)) => LinkTarget::Exists,
        Ok(Resolved::Missing(at)) if log_roots.iter().any(|root| is_in(root, &at)) => LinkTarget::Missing,
        Ok(Resolved::Missing(_)) | Err(_) => LinkTarget::Unknown,
    }
}

/// Returns the entries of a directory with their names. A directory that no longer exists is empty. Any other failure
/// is an error, also half-way, because a partial list would look like a complete one (I2).
pub fn entries(directory: &Path) -> Result<Vec<(String, DirEntry)>, ObserveError> {
    let failed = |source| ObserveError::List { path: directory.to_owned(), source };
    let read = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed)?,
    };
    let entries: Vec<DirEntry> = read.collect::<Result<_, _>>().map_err(failed)?;
    Ok(entries.into_iter().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry))).collect())
}

/// An entry that can be listed but not inspected gets the kind `Other`, which kubegc never removes.
fn dir((name, entry): (String, DirEntry)) -> LogDir {
    let metadata = entry.metadata().ok();
    let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
    LogDir {
        name,
        entry: metadata.as_ref().map(Metadata::file_type).map_or(EntryKind::Other, kind),
        modified_at: modified.and_then(|at| Timestamp::try_from(at).ok()),
        size_bytes: None,
    }
}

fn kind(of: FileType) -> EntryKind {
    if of.is_dir() {
        EntryKind::Directory
    } else if of.is_file() {
        EntryKind::File
    } else if of.is_symlink() {
        EntryKind::Symlink
    } else {
        EntryKind::Other
    }
}

#[cfg(test)]
mod tests;
