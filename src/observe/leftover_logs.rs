//! Finds the logs of instances that the runtime no longer lists (kubernetes#91765).
//!
//! Only directories of containers are read that restarted: the file of an earlier instance has a lower number. So on most
//! nodes this reads nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::ObserveError;
use super::log_files::{LogFiles, MOST_LOG_FILES};
use super::open_dir::OpenDir;
use crate::model::{Container, LeftoverLog, PodRef, attempt_of_log, container_log_dir, termination_logs};

/// A container of a pod whose log directory is read.
#[derive(Debug, PartialEq)]
pub(super) struct RestartedContainer {
    pod: PodRef,
    container: String,
    /// The directory beneath the pod log root.
    dir: PathBuf,
    /// The attempts of its instances in the runtime.
    attempts: BTreeSet<u32>,
}

/// Returns the containers of pods that may have such logs.
pub(super) fn restarted_containers(containers: &[Container]) -> Vec<RestartedContainer> {
    let mut slots = HashMap::<_, (&PodRef, BTreeSet<u32>)>::new();
    for container in containers {
        let Some(pod) = &container.pod else { continue };
        let (_, attempts) = slots.entry((&pod.uid, &container.name)).or_insert_with(|| (pod, BTreeSet::new()));
        attempts.insert(container.attempt);
    }
    let restarted = slots.into_iter().filter(|(_, (_, attempts))| has_gap(attempts));
    let with_dir = |((_, container), (pod, attempts)): ((_, &String), (&PodRef, _))| {
        let dir = container_log_dir(pod, container)?;
        Some(RestartedContainer { pod: pod.clone(), container: container.clone(), dir, attempts })
    };
    let mut restarted: Vec<_> = restarted.filter_map(with_dir).collect();
    restarted.sort_by(|a, b| a.dir.cmp(&b.dir));
    restarted
}

/// Returns whether an instance is missing below the newest one.
fn has_gap(attempts: &BTreeSet<u32>) -> bool {
    let newest = attempts.last().copied().unwrap_or_default();
    u32::try_from(attempts.len()).is_ok_and(|listed| listed <= newest)
}

/// Returns the logs in these directories whose instance the runtime does not list.
pub(super) fn find(root: &Path, containers: &[RestartedContainer]) -> Result<Vec<LeftoverLog>, ObserveError> {
    let mut found = Vec::new();
    let failed = |path: &Path, error: Errno| ObserveError::List { path: path.to_owned(), source: error.into() };
    let open = OpenDir::open(root).map_err(|error| failed(root, error))?;
    for container in containers {
        found.extend(container.leftovers(&open).map_err(|error| failed(&root.join(&container.dir), error))?);
    }
    Ok(found)
}

// === impl RestartedContainer ===

impl RestartedContainer {
    pub(super) fn pod(&self) -> &PodRef {
        &self.pod
    }

    /// Returns the directory of its termination logs beneath that of the kubelet.
    pub(super) fn termination_logs(&self) -> PathBuf {
        termination_logs(&self.pod.uid, &self.container)
    }

    /// Returns the number of its instances in the runtime.
    pub(super) fn instances(&self) -> usize {
        self.attempts.len()
    }

    fn leftovers(&self, root: &OpenDir) -> Result<Vec<LeftoverLog>, Errno> {
        let Some(dir) = root.find(&self.dir)? else { return Ok(Vec::new()) };
        let found = LogFiles::of(&dir, None)?;
        if found.at_least {
            tracing::warn!("{} has more than {MOST_LOG_FILES} entries: no log is left over in it", self.dir.display());
            return Ok(Vec::new());
        }
        let mut logs = BTreeMap::new();
        for (name, file) in found.files() {
            if let Some(attempt) = attempt_of_log(&name).filter(|attempt| self.is_leftover(*attempt)) {
                let log: &mut LeftoverLog = logs.entry(attempt).or_insert_with(|| self.log(attempt));
                log.modified_at = log.modified_at.max(file.modified_at);
                log.size_bytes += file.size;
            }
        }
        Ok(logs.into_values().collect())
    }

    fn is_leftover(&self, attempt: u32) -> bool {
        !self.attempts.contains(&attempt) && self.attempts.last().is_some_and(|newest| attempt < *newest)
    }

    fn log(&self, attempt: u32) -> LeftoverLog {
        let (pod, container) = (self.pod.clone(), self.container.clone());
        LeftoverLog { pod, container, attempt, ..LeftoverLog::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::ContainerState;

    fn container(name: &str, attempt: u32) -> Container {
        let container = serde_json::json!({ "id": format!("{name}{attempt}"), "name": name, "attempt": attempt,
            "pod": { "uid": "u1", "namespace": "default", "name": "web" }, "state": ContainerState::Exited,
            "created_at": "2026-11-21T11:00:00Z" });
        serde_json::from_value(container).unwrap()
    }

    fn write(root: &Path, path: &str, bytes: usize) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![b'x'; bytes]).unwrap();
        // The blocks of the file may not be known before.
        fs::File::open(path).unwrap().sync_all().unwrap();
    }

    fn found(root: &Path, containers: &[Container]) -> Vec<(u32, u64)> {
        let found = find(root, &restarted_containers(containers)).unwrap();
        assert!(found.iter().all(|log| log.modified_at.is_some() && log.container == "app"), "{found:?}");
        found.iter().map(|log| (log.attempt, log.size_bytes)).collect()
    }

    #[test]
    fn a_log_below_the_newest_instance_without_a_container_is_found() {
        let root = tempfile::tempdir().unwrap();
        let files = ["0.log", "1.log", "1.log.20261122-120000.gz", "2.log", "3.log", "4.log", "note", "01.log"];
        for (at, name) in files.iter().enumerate() {
            write(root.path(), &format!("default_web_u1/app/{name}"), 4096 << at);
        }
        fs::create_dir(root.path().join("default_web_u1/app/1.log.d")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("default_web_u1/app/0.log.1")).unwrap();
        let containers = [container("app", 2), container("app", 3)];
        assert_eq!(found(root.path(), &containers), [(0, 4096), (1, 6 * 4096)], "4.log may be that of a new instance");
    }

    /// A container without a restart has no earlier log, and nothing is read for it.
    #[test]
    fn directories_of_containers_without_a_gap_are_not_read() {
        let all = |attempts: &[u32]| {
            let containers: Vec<_> = attempts.iter().map(|attempt| container("app", *attempt)).collect();
            restarted_containers(&containers).len()
        };
        assert_eq!([all(&[0]), all(&[0, 1]), all(&[2, 1, 0]), all(&[1]), all(&[2, 0])], [0, 0, 0, 1, 1]);
        let named = |name: &str| Container { name: name.to_owned(), ..container("app", 3) };
        assert_eq!(
            restarted_containers(&[named(".."), named("a/b"), Container { pod: None, ..container("app", 3) }]),
            []
        );
    }

    #[test]
    fn a_linked_directory_is_not_read_and_a_missing_one_is_empty() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "elsewhere/app/0.log", 1);
        let containers = [container("app", 3)];
        assert_eq!(found(root.path(), &containers), []);
        std::os::unix::fs::symlink("elsewhere", root.path().join("default_web_u1")).unwrap();
        assert_eq!(found(root.path(), &containers), []);
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("default_web_u1")).unwrap();
        write(root.path(), "elsewhere/app/0.log", 1);
        std::os::unix::fs::symlink("../elsewhere/app", root.path().join("default_web_u1/app")).unwrap();
        assert_eq!(found(root.path(), &containers), []);
    }

    #[test]
    fn in_a_directory_with_too_many_files_none_is_left_over() {
        let root = tempfile::tempdir().unwrap();
        let files = |root: &Path| found(root, &[container("app", 90)]).len();
        (0..50).for_each(|attempt| write(root.path(), &format!("default_web_u1/app/{attempt}.log"), 1));
        assert_eq!(files(root.path()), 50);
        write(root.path(), "default_web_u1/app/note", 1);
        assert_eq!(files(root.path()), 0);
    }
}
