//! Reads the log files in the archive that their pods have no more.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{CWD, FileType, Statx};
use rustix::io::Errno;

use crate::host_path::{HostFs, Resolved};
use crate::model::{ArchivedLog, PodRef, Seen, attempt_of_log, container_log_dir, pod_of_dir};
use crate::observe::log_sizes::size_on_disk;
use crate::observe::walk::{names, open_directory, stat};
use crate::observe::{MEASURING, Observer};

// === impl Observer ===

impl Observer {
    /// Reads the archive. A pod has a file as long as one of its own has the same inode.
    pub(in crate::observe) async fn archived_logs(&self) -> Seen<Vec<ArchivedLog>> {
        let pods = self.places.pod_logs.clone();
        let read = move |host: &HostFs, archive: &Path| {
            let pods = match host.resolve(&pods)? {
                Resolved::Exists(at) => Some(open_directory(CWD, &*at)?),
                Resolved::Missing(_) => None,
            };
            read_all(archive, pods.as_ref())
        };
        self.measure(self.places.archive.clone(), MEASURING, read).await.map(Option::unwrap_or_default)
    }
}

fn read_all(archive: &Path, pods: Option<&OwnedFd>) -> io::Result<Vec<ArchivedLog>> {
    let archive = open_directory(CWD, archive)?;
    let mut found = Vec::new();
    for dir in texts(&archive) {
        let Some(pod) = pod_of_dir(&dir) else { continue };
        let of_pod = open_directory(archive.as_fd(), &*dir)?;
        let logs = pods.and_then(|pods| open_directory(pods.as_fd(), &*dir).ok());
        for container in texts(&of_pod).filter(|container| container_log_dir(&pod, container).is_some()) {
            let logs = logs.as_ref().and_then(|logs| open_directory(logs.as_fd(), &*container).ok());
            let files = open_directory(of_pod.as_fd(), &*container)?;
            add_files(&mut found, &pod, &container, &files, logs.as_ref())?;
        }
    }
    Ok(found)
}

fn add_files(
    found: &mut Vec<ArchivedLog>,
    pod: &PodRef,
    container: &str,
    files: &OwnedFd,
    logs: Option<&OwnedFd>,
) -> Result<(), Errno> {
    let inode = |logs: &OwnedFd, name: &str| Some(stat(logs.as_fd(), name).ok()?.stx_ino);
    let still = logs.into_iter().flat_map(|logs| texts(logs).filter_map(|name| inode(logs, &name)).collect::<Vec<_>>());
    let still: HashSet<_> = still.collect();
    for name in texts(files).filter(|name| attempt_of_log(name).is_some()) {
        let file = match stat(files.as_fd(), &*name) {
            Err(Errno::NOENT) => continue,
            file => file?,
        };
        let is_file = FileType::from_raw_mode(file.stx_mode.into()) == FileType::RegularFile;
        if is_file && !still.contains(&file.stx_ino) {
            let (pod, container, size_bytes) = (pod.clone(), container.to_owned(), size_on_disk(&file));
            found.push(ArchivedLog { pod, container, name, size_bytes, lost_at: changed_at(&file) });
        }
    }
    Ok(())
}

fn changed_at(file: &Statx) -> Option<Timestamp> {
    let nanos = i32::try_from(file.stx_ctime.tv_nsec).ok()?;
    Timestamp::new(file.stx_ctime.tv_sec, nanos).ok()
}

/// Returns the names in a directory that are text.
fn texts(directory: &OwnedFd) -> impl Iterator<Item = String> {
    let names: Vec<_> = names(directory);
    names.into_iter().map(|name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const APP: &str = "default_web_u1/app";

    #[test]
    fn a_file_is_in_the_archive_alone_when_its_pod_has_it_no_more() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for dir in ["pods", "archive"] {
            fs::create_dir_all(at(dir).join(APP)).unwrap();
        }
        for name in ["0.log", "1.log", "2.log"] {
            fs::write(at("pods").join(APP).join(name), "line").unwrap();
            fs::hard_link(at("pods").join(APP).join(name), at("archive").join(APP).join(name)).unwrap();
        }
        fs::write(at("archive").join(APP).join("note"), "").unwrap();
        fs::create_dir_all(at("archive/no-pod/app")).unwrap();
        fs::rename(at("pods").join(APP).join("1.log"), at("pods").join(APP).join("1.log.20260102-150405")).unwrap();
        fs::rename(at("pods").join(APP).join("2.log"), at("elsewhere")).unwrap();
        let lost = || {
            let pods = open_directory(CWD, &*at("pods")).unwrap();
            let mut lost = read_all(&at("archive"), Some(&pods)).unwrap();
            lost.sort_by(|a, b| a.name.cmp(&b.name));
            assert!(
                lost.iter().all(|log| log.size_bytes == 4 && log.lost_at.is_some() && log.pod.uid.as_str() == "u1")
            );
            lost.into_iter().map(|log| log.name).collect::<Vec<_>>()
        };
        assert_eq!(lost(), ["2.log"], "a name elsewhere is not the pod's");
        fs::rename(at("pods").join(APP), at("deleted")).unwrap();
        assert_eq!(lost(), ["0.log", "1.log", "2.log"]);
    }
}
