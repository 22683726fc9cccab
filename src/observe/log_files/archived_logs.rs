//! Reads the log files in the archive that their pods have no more, and what is known of these pods.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use super::log_tree::LogFiles;
use crate::host_path::{HostFs, Resolved};
use crate::model::{ArchivedLog, ArchivedPod, PodRef, Snapshot, container_log_dir, pod_of_dir};
use crate::observe::Observer;
use crate::observe::open_dir::OpenDir;
use crate::observe::walk::MOST_NAMES;

/// The most bytes of a document. The labels and annotations of a pod have at most 256 KiB.
const MOST_BYTES: u64 = 4 << 20;
/// The longest time to read it: its limits hold for any number of pods, and each is a few calls.
const READING: Duration = Duration::from_secs(30);

/// What only the archive has.
#[derive(Debug, Default)]
pub struct Archive {
    /// The log files that their pods have no more.
    pub logs: Vec<ArchivedLog>,
    /// What is known of these pods, as far as it was asked for.
    pub pods: Vec<ArchivedPod>,
}

// === impl Observer ===

impl Observer {
    pub(in crate::observe) async fn read_archive(&self, snapshot: &mut Snapshot, with_pods: bool) {
        let read = move |_: &HostFs, archive: &Path| Archive::read(archive, with_pods);
        let archive = self.measure(self.places.archive.clone(), READING, read).await;
        snapshot.archived_logs = archive.map(|archive| {
            let Archive { logs, pods } = archive.unwrap_or_default();
            snapshot.archived_pods = pods;
            logs
        });
        self.clock_skew.settle_archived_logs(snapshot, &self.jumps);
    }
}

// === impl Archive ===

impl Archive {
    /// Reads the archive at a path of the host. Without an archive there is nothing in it.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn of(host_root: &Path, archive: &Path) -> io::Result<Self> {
        match HostFs::new(host_root).resolve(archive)? {
            Resolved::Exists(at) => Self::read(&at, true),
            Resolved::Missing(_) => Ok(Self::default()),
        }
    }

    fn read(archive: &Path, with_pods: bool) -> io::Result<Self> {
        let (archive, mut found) = (OpenDir::open(archive)?, Self::default());
        for dir in archive.names(usize::MAX, |_| true)? {
            let Some(pod) = dir.to_str().and_then(pod_of_dir) else { continue };
            let Some(of_pod) = archive.find(dir.as_ref())? else { continue };
            let before = found.logs.len();
            for container in of_pod.texts(MOST_NAMES) {
                if container_log_dir(&pod, &container).is_some()
                    && let Some(files) = of_pod.find(container.as_ref())?
                {
                    found.logs.extend(lost(&pod, &container, LogFiles::of(&files, None)?));
                }
            }
            if with_pods && found.logs.len() > before {
                found.pods.extend(document(&of_pod).filter(|document| document.pod.is(&pod)));
            }
        }
        // As those of the memory are, to be found by it.
        found.pods.sort_by(|one, other| one.pod.uid.cmp(&other.pod.uid));
        Ok(found)
    }
}

/// Reads what is known of a pod from its directory in the archive.
pub(super) fn document(of_pod: &OpenDir) -> Option<ArchivedPod> {
    read_archived_pod(of_pod.open_file(ArchivedPod::FILE).ok()?)
}

/// Reads what is known of a pod. `None` = the file is no such document.
pub fn read_archived_pod(file: File) -> Option<ArchivedPod> {
    let mut text = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns the files that have no other name. Where there is one, the pod has the file, or what removes it here frees nothing.
fn lost(pod: &PodRef, container: &str, found: LogFiles) -> impl Iterator<Item = ArchivedLog> {
    found.files().filter(|(_, file)| file.names == 1).map(|(name, file)| {
        let (pod, container) = (pod.clone(), container.to_owned());
        ArchivedLog { pod, container, name, size_bytes: file.size, lost_at: file.changed_at }
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test may remove its own files")]

    use std::fs;

    use super::*;
    use crate::observe::log_files::MOST_LOG_FILES;

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
        fs::write(at("archive/default_web_u1/pod.json"), "").unwrap();
        fs::create_dir_all(at("archive/no-pod/app")).unwrap();
        fs::rename(at("pods").join(APP).join("1.log"), at("pods").join(APP).join("1.log.20260102-150405")).unwrap();
        fs::rename(at("pods").join(APP).join("2.log"), at("deleted.log")).unwrap();
        let lost = || {
            let mut lost = Archive::read(&at("archive"), false).unwrap().logs;
            lost.sort_by(|a, b| a.name.cmp(&b.name));
            assert!(lost.iter().all(|log| log.lost_at.is_some() && log.pod.uid.as_str() == "u1"));
            lost.into_iter().map(|log| log.name).collect::<Vec<_>>()
        };
        assert_eq!(lost(), [""; 0], "to remove one that has a name elsewhere frees nothing");
        fs::remove_file(at("deleted.log")).unwrap();
        assert_eq!(lost(), ["2.log"]);
        fs::remove_dir_all(at("pods").join(APP)).unwrap();
        assert_eq!(lost(), ["0.log", "1.log", "2.log"]);
    }

    #[test]
    fn a_pod_with_many_files_has_them_until_they_are_deleted() {
        let root = tempfile::tempdir().unwrap();
        let at = |dir: &str, name: usize| root.path().join(dir).join(APP).join(format!("{name}.log"));
        for dir in ["pods", "archive"] {
            fs::create_dir_all(root.path().join(dir).join(APP)).unwrap();
        }
        for name in 0..2 * MOST_LOG_FILES {
            fs::write(at("pods", name), "line").unwrap();
        }
        fs::hard_link(at("pods", 7), at("archive", 7)).unwrap();
        fs::hard_link(at("pods", 80), at("archive", 80)).unwrap();
        fs::remove_file(at("pods", 7)).unwrap();
        let lost = Archive::read(&root.path().join("archive"), false).unwrap().logs;
        assert_eq!(lost.iter().map(|log| &*log.name).collect::<Vec<_>>(), ["7.log"]);
    }

    #[test]
    fn any_number_of_pods_is_read() {
        let root = tempfile::tempdir().unwrap();
        for pod in 0..MOST_NAMES + 5 {
            let dir = root.path().join(format!("default_web_u{pod}"));
            fs::create_dir_all(dir.join("app")).unwrap();
            fs::write(dir.join("app/0.log"), "line").unwrap();
        }
        assert_eq!(Archive::read(root.path(), false).unwrap().logs.len(), MOST_NAMES + 5);
    }
}
