//! Reads the log files of the containers that the runtime lists.
//!
//! A pod that mounts the log root can create any entry beneath it. No link is followed, and only regular files with one name count,
//! which is one of the kubelet. So a pod cannot make the file of another one count for itself or for a third.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rustix::io::Errno;
use tokio::time::Instant;

use super::log_tree::LogFiles;
use crate::host_path::HostFs;
use crate::model::{Container, ContainerLog, ContainerLogs, Seen, Snapshot};
use crate::observe::open_dir::{DirEntry, OpenDir};
use crate::observe::walk::in_turns;
use crate::observe::{MEASURING, Observer};

/// What the archive has of a container.
struct Archived {
    directory: Option<OpenDir>,
    inodes: OnceCell<HashSet<u64>>,
}

// === impl Observer ===

impl Observer {
    /// Reads the log files of all containers in one walk. Each namespace has the same part of the time, and in it each pod. What is not reached
    /// in time is marked.
    pub(in crate::observe) async fn container_logs(&self, snapshot: &Snapshot) -> Seen<Vec<ContainerLogs>> {
        let containers = snapshot.containers.as_ref().map(|containers| of_containers(containers)).unwrap_or_default();
        let until = Instant::now() + MEASURING;
        let archive = self.places.archive.clone();
        let read = move |host: &HostFs, root: &Path| {
            let archive = host.resolve(&archive)?.into_path();
            read_all(root, OpenDir::open(&archive).ok().as_ref(), containers, until)
        };
        self.measure(self.places.pod_logs.clone(), MEASURING, read).await.map(Option::unwrap_or_default)
    }
}

/// Returns the containers of pods, each once, in the order of their directories.
fn of_containers(containers: &[Container]) -> Vec<ContainerLogs> {
    let logs = containers.iter().filter_map(|container| {
        let (pod, container) = (container.pod.clone()?, container.name.clone());
        let logs = ContainerLogs { pod, container, ..ContainerLogs::default() };
        Some((logs.dir()?, logs))
    });
    logs.collect::<BTreeMap<_, _>>().into_values().collect()
}

fn read_all(
    root: &Path,
    archive: Option<&OpenDir>,
    mut containers: Vec<ContainerLogs>,
    until: Instant,
) -> std::io::Result<Vec<ContainerLogs>> {
    let root = OpenDir::open(root)?;
    let same_namespace = |one: &ContainerLogs, other: &ContainerLogs| one.pod.namespace == other.pod.namespace;
    let same_pod = |one: &ContainerLogs, other: &ContainerLogs| one.pod == other.pod;
    in_turns(&mut containers, until, &[same_namespace, same_pod, |_, _| false], &mut |logs, until| {
        logs.at_least = find(logs, &root, archive, until).unwrap_or(true);
    });
    Ok(containers)
}

/// Adds the files of a container. Returns whether some may be missing.
fn find(logs: &mut ContainerLogs, root: &OpenDir, archive: Option<&OpenDir>, until: Instant) -> Result<bool, Errno> {
    let Some(path) = logs.dir() else { return Ok(false) };
    let Some(directory) = root.find(&path)? else { return Ok(false) };
    let directory_of = |archive: &OpenDir| archive.find(&path).ok().flatten();
    let archived = Archived { directory: archive.and_then(directory_of), inodes: OnceCell::new() };
    let found = LogFiles::of(&directory, Some(until))?;
    let has_one_name = |(name, entry): &(String, DirEntry)| match entry.names {
        1 => true,
        2 => archived.has(name, entry.inode),
        _ => false,
    };
    let at_least = found.at_least;
    let files = found.files().filter(has_one_name);
    let files =
        files.map(|(name, DirEntry { size, modified_at, .. })| ContainerLog { name, size_bytes: size, modified_at });
    logs.files = files.collect();
    Ok(at_least)
}

// === impl Archived ===

impl Archived {
    /// Returns whether the archive has a file, mostly under its own name.
    fn has(&self, name: &str, inode: u64) -> bool {
        let Some(directory) = &self.directory else { return false };
        let own = directory.entry(name).ok().flatten();
        let inodes =
            || LogFiles::of(directory, None).unwrap_or_default().files().map(|(_, entry)| entry.inode).collect();
        own.is_some_and(|entry| entry.inode == inode) || self.inodes.get_or_init(inodes).contains(&inode)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;
    use crate::observe::log_files::MOST_LOG_FILES;

    const ROTATED: &str = "0.log.20261121-100000";

    fn containers(names: &[&str]) -> Vec<Container> {
        let container = |name: &&str| {
            let pod = serde_json::json!({ "uid": "u1", "namespace": "default", "name": "web" });
            serde_json::from_value(serde_json::json!({ "id": format!("c-{name}"), "name": name, "pod": pod,
                "state": "running", "created_at": "2026-11-21T11:00:00Z" }))
            .unwrap()
        };
        names.iter().map(container).collect()
    }

    fn write(root: &Path, path: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "12345").unwrap();
    }

    /// Returns the names of the files of each container, and whether some may be missing.
    fn found(root: &Path, containers: &[Container], time: Duration) -> Vec<(String, Vec<String>, bool)> {
        let read = read_all(root, None, of_containers(containers), Instant::now() + time).unwrap();
        let names = |files: Vec<ContainerLog>| {
            let mut names: Vec<_> = files.into_iter().map(|file| file.name).collect();
            names.sort();
            names
        };
        read.into_iter().map(|logs| (logs.container, names(logs.files), logs.at_least)).collect()
    }

    fn long() -> Duration {
        Duration::from_mins(10)
    }

    #[test]
    fn only_files_with_one_name_of_the_kubelet_count() {
        let root = tempfile::tempdir().unwrap();
        let app = |name: &str| format!("default_web_u1/app/{name}");
        for name in ["0.log", ROTATED, "0.log.20261121-110000.gz", "0.log.20261121-110000.tmp", "note", "0.log.old"] {
            write(root.path(), &app(name));
        }
        let at = |name: &str| root.path().join(app(name));
        write(root.path(), "default_web_u1/outside");
        symlink(root.path().join("default_web_u1/outside"), at("1.log")).unwrap();
        fs::hard_link(root.path().join("default_web_u1/outside"), at("2.log")).unwrap();
        fs::create_dir(at("3.log")).unwrap();
        nix::unistd::mkfifo(&at("4.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        write(root.path(), "default_web_u1/foreign/0.log");
        let containers = containers(&["app", "app", "idle"]);
        let files = ["0.log", ROTATED, "0.log.20261121-110000.gz", "0.log.20261121-110000.tmp"].map(str::to_owned);
        let expected = [("app".to_owned(), files.to_vec(), false), ("idle".to_owned(), Vec::new(), false)];
        assert_eq!(found(root.path(), &containers, long()), expected);
        let read = read_all(root.path(), None, of_containers(&containers), Instant::now() + long()).unwrap();
        let file = &read[0].files[0];
        assert!(file.modified_at.is_some(), "{file:?}");
    }

    /// `fallocate -n` allocates blocks and leaves the length.
    #[test]
    fn blocks_count_and_no_lengths() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "default_web_u1/app/0.log");
        write(root.path(), "default_web_u1/app/1.log");
        let open = |name: &str| {
            fs::File::options().write(true).open(root.path().join("default_web_u1/app").join(name)).unwrap()
        };
        rustix::fs::fallocate(open("0.log"), rustix::fs::FallocateFlags::KEEP_SIZE, 0, 8 << 20).unwrap();
        open("1.log").set_len(8 << 30).unwrap();
        let read = read_all(root.path(), None, of_containers(&containers(&["app"])), Instant::now() + long()).unwrap();
        let bytes = |name: &str| read[0].files.iter().find(|file| file.name == name).unwrap().size_bytes;
        assert!(bytes("0.log") >= 8 << 20 && bytes("1.log") <= 1 << 20, "{read:?}");
    }

    #[test]
    fn a_linked_directory_of_a_pod_or_container_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "elsewhere/app/0.log");
        symlink("elsewhere", root.path().join("default_web_u1")).unwrap();
        let none = [("app".to_owned(), Vec::new(), false)];
        assert_eq!(found(root.path(), &containers(&["app"]), long()), none);
        fs::rename(root.path().join("elsewhere"), root.path().join("other")).unwrap();
        fs::rename(root.path().join("default_web_u1"), root.path().join("link")).unwrap();
        fs::create_dir(root.path().join("default_web_u1")).unwrap();
        symlink("../other/app", root.path().join("default_web_u1/app")).unwrap();
        assert_eq!(found(root.path(), &containers(&["app"]), long()), none);
    }

    #[test]
    fn what_is_not_read_is_marked() {
        let root = tempfile::tempdir().unwrap();
        (0..=MOST_LOG_FILES).for_each(|attempt| write(root.path(), &format!("default_web_u1/app/{attempt}.log")));
        write(root.path(), "default_web_u1/small/0.log");
        let read = |time| -> Vec<_> {
            let found = found(root.path(), &containers(&["app", "small"]), time);
            found.into_iter().map(|(_, files, at_least)| (files.len() <= MOST_LOG_FILES, at_least)).collect()
        };
        assert_eq!(read(long()), [(true, true), (true, false)], "too many files");
        assert_eq!(read(Duration::ZERO), [(true, true), (true, true)], "no time");
        fs::rename(root.path().join("default_web_u1/app/0.log"), root.path().join("elsewhere")).unwrap();
        assert_eq!(read(long()), [(true, false), (true, false)], "as many as the remover reads");
    }
}
