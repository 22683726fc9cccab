//! Measures the log directories of pods, for display. No decision depends on the sizes, so no pass waits for them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

use tokio::time::Instant;

use super::open_dir::{DirEntry, OpenDir};
use super::walk::in_turns;
use crate::model::{EntryKind, Snapshot, attempt_of_log, log_dir_name};

/// The directories beneath one another that are read.
const DEPTH: usize = 16;

/// The sizes in one log directory.
#[derive(Debug, Default, PartialEq)]
pub(super) struct LogSizes {
    total: u64,
    /// Bytes by container name and attempt, rotated files included.
    by_instance: HashMap<(String, u32), u64>,
}

/// Measures directories of the log root in their order, until a time, of which each namespace has the same part, and in it each directory. One
/// that is not finished by then is left out.
pub(super) fn measure_all(root: &Path, mut names: Vec<String>, until: Instant) -> HashMap<String, LogSizes> {
    let mut measured = HashMap::new();
    let same_namespace = |one: &String, other: &String| one.split('_').next() == other.split('_').next();
    in_turns(&mut names, until, &[same_namespace, |_, _| false], &mut |name, until| {
        measured.extend(measure(&root.join(&*name), until).map(|sizes| (name.clone(), sizes)));
    });
    measured
}

/// Adds up the files in a log directory. No link is followed, no access time changes, and what cannot be read counts as empty.
/// `None` = the time is over.
fn measure(directory: &Path, until: Instant) -> Option<LogSizes> {
    let mut sizes = LogSizes::default();
    if Instant::now() >= until {
        return None;
    }
    let Ok(directory) = OpenDir::open(directory) else { return Some(sizes) };
    add_files(&directory, &[], until, &mut sizes)?;
    Some(sizes)
}

/// Adds up the files beneath the directory that these names lead to. Its depth is that of the kubelet: pod, container, files.
fn add_files(directory: &OpenDir, above: &[&OsStr], until: Instant, sizes: &mut LogSizes) -> Option<()> {
    for name in directory.all().into_iter().flatten().filter_map(Result::ok) {
        if Instant::now() >= until {
            return None;
        }
        match directory.entry(&name) {
            Ok(Some(DirEntry { kind: EntryKind::File, size, .. })) => sizes.add(above, &name, size),
            Ok(Some(DirEntry { kind: EntryKind::Directory, .. })) if above.len() < DEPTH => {
                if let Ok(beneath) = directory.enter(&name) {
                    add_files(&beneath, &[above, &[&name]].concat(), until, sizes)?;
                }
            }
            _ => {}
        }
    }
    Some(())
}

// === impl LogSizes ===

impl LogSizes {
    /// Adds a file. That of an instance is `CONTAINER/ATTEMPT.log`, with a suffix if it is rotated.
    fn add(&mut self, above: &[&OsStr], name: &OsStr, bytes: u64) {
        self.total += bytes;
        let [container] = above else { return };
        let instance = container.to_str().zip(name.to_str().and_then(attempt_of_log));
        if let Some((container, attempt)) = instance {
            *self.by_instance.entry((container.to_owned(), attempt)).or_default() += bytes;
        }
    }
}

/// Adds the sizes of directories, by name, to the snapshot.
pub(super) fn add(snapshot: &mut Snapshot, measured: &HashMap<String, LogSizes>) {
    for container in snapshot.listed_containers_mut().into_iter().flatten() {
        let sizes = container.pod.as_ref().and_then(|pod| measured.get(&log_dir_name(pod)));
        let instance = (container.name.clone(), container.attempt);
        container.log_bytes = sizes.and_then(|sizes| sizes.by_instance.get(&instance)).copied();
    }
    snapshot.log_dirs = std::mem::take(&mut snapshot.log_dirs).map(|mut dirs| {
        for dir in &mut dirs {
            dir.size_bytes = measured.get(&dir.name).map(|sizes| sizes.total);
        }
        dirs
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn rotated_files_count_for_their_container_unlike_links() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: usize| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, vec![b'x'; bytes << 12]).unwrap();
            // The blocks of the file may not be known before.
            std::fs::File::open(path).unwrap().sync_all().unwrap();
        };
        write("app/0.log", 8);
        write("app/1.log", 2);
        write("app/1.log.20261122-120000.gz", 1);
        write("note", 4);
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("app/2.log")).unwrap();
        let sizes = measure(root.path(), later()).unwrap();
        let instance = |attempt| sizes.by_instance.get(&("app".to_owned(), attempt)).map(|bytes| bytes >> 12);
        assert_eq!((sizes.total >> 12, instance(0), instance(1), instance(2)), (15, Some(8), Some(3), None));
        assert_eq!(measure(&root.path().join("none"), later()), Some(LogSizes::default()));
    }

    #[test]
    fn a_sparse_file_has_the_bytes_of_its_blocks() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("app")).unwrap();
        let file = std::fs::File::create(root.path().join("app/0.log")).unwrap();
        file.set_len(10 << 30).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", 5 << 30).unwrap();
        file.sync_all().unwrap();
        let total = measure(root.path(), later()).unwrap().total;
        assert!((1..1 << 20).contains(&total), "{total}");
    }

    #[test]
    fn access_times_do_not_change() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("app");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("0.log"), "1").unwrap();
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1);
        let accessed = std::fs::FileTimes::new().set_accessed(long_ago);
        std::fs::File::open(&dir).unwrap().set_times(accessed).unwrap();
        assert!(measure(root.path(), later()).unwrap().total > 0);
        assert_eq!(std::fs::metadata(&dir).unwrap().atime(), 1);
    }

    #[test]
    fn a_link_in_the_log_root_is_not_followed() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("file"), "12345").unwrap();
        std::os::unix::fs::symlink(other.path(), root.path().join("link")).unwrap();
        let measured = measure_all(root.path(), vec!["link".to_owned()], later());
        assert_eq!(measured["link"], LogSizes::default());
    }

    #[test]
    fn directories_not_measured_in_time_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("pod")).unwrap();
        let names = || vec!["pod".to_owned()];
        assert_eq!(measure_all(root.path(), names(), Instant::now()), HashMap::new());
        assert_eq!(measure_all(root.path(), names(), later()).len(), 1);
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_mins(10)
    }
}
