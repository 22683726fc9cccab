//! Readable names of the objects on a rig, for assertions about what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ::kubegc::cri::generated as pb;

use super::Rig;

/// Every object that could be removed: its readable name by the key that a plan uses (ID or path).
#[derive(Clone, Debug)]
pub struct Names(BTreeMap<String, String>);

// === impl Rig ===

impl Rig {
    /// Names every object:
    ///
    /// `container web-0/app#1 running`, `sandbox web-0#0 ready`, `image docker.io/library/app:1`, and beneath the log
    /// roots `dir default_web-0_uid`, `file default_web-0_uid/app/1.log`, `link to default_web-0_uid/app/1.log`.
    pub async fn names(&self) -> Names {
        let sandboxes = self.list_sandboxes().await;
        let pods: BTreeMap<_, _> = sandboxes.iter().map(|it| (it.id.as_str(), pod_name(it))).collect();
        let containers = self.list_containers().await;
        let mut names: BTreeMap<_, _> = containers.iter().map(|it| (it.id.clone(), container(it, &pods))).collect();
        names.extend(sandboxes.iter().map(|it| (it.id.clone(), sandbox(it))));
        names.extend(self.list_images().await.into_iter().map(image));
        for path in [self.pod_logs(), self.container_logs()] {
            self.name_logs(&path, &mut names);
        }
        Names(names)
    }

    /// Names the log entries beneath a directory. What is removed meanwhile, by the agent or the kubelet, has no name.
    fn name_logs(&self, dir: &Path, names: &mut BTreeMap<String, String>) {
        let Some(entries) = present(std::fs::read_dir(dir)) else { return };
        for entry in entries.filter_map(present) {
            let path = entry.path();
            let name = match present(entry.file_type()) {
                None => continue,
                Some(kind) if kind.is_symlink() => match present(path.read_link()) {
                    Some(target) => format!("link to {}", self.short_log(&target)),
                    None => continue,
                },
                Some(kind) if kind.is_file() => format!("file {}", self.short_log(&path)),
                Some(_) => {
                    self.name_logs(&path, names);
                    // The files in the directories of containers are enough.
                    if dir != self.pod_logs() {
                        continue;
                    }
                    format!("dir {}", self.short_log(&path))
                }
            };
            names.insert(path.display().to_string(), name);
        }
    }

    /// Returns the path beneath the pods' logs. On a real node the symlinks contain the root in the kubelet's mount
    /// namespace.
    fn short_log(&self, path: &Path) -> String {
        let roots = [self.pod_logs(), PathBuf::from("/var/log/pods")];
        let short = roots.iter().find_map(|root| path.strip_prefix(root).ok());
        short.unwrap_or(path).display().to_string()
    }
}

/// Returns what was read, or nothing if it was removed meanwhile.
fn present<T>(read: std::io::Result<T>) -> Option<T> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read.unwrap()),
    }
}

// === impl Names ===

impl Names {
    /// Returns the names alone, sorted.
    pub fn words(&self) -> BTreeSet<String> {
        self.0.values().cloned().collect()
    }

    /// Returns the name of one key.
    pub fn of(&self, key: &str) -> &str {
        self.0.get(key).unwrap_or_else(|| panic!("nothing here is called {key}"))
    }

    /// Returns the names of the objects that are not in `later`.
    pub fn missing_in(&self, later: &Self) -> BTreeSet<String> {
        self.0.iter().filter(|(key, _)| !later.0.contains_key(*key)).map(|(_, name)| name.clone()).collect()
    }
}

fn container(container: &pb::Container, pods: &BTreeMap<&str, &str>) -> String {
    let metadata = container.metadata.as_ref().unwrap();
    let state = container.state().as_str_name().trim_start_matches("CONTAINER_").to_lowercase();
    let pod = pods.get(container.pod_sandbox_id.as_str()).unwrap_or(&"nowhere");
    format!("container {pod}/{}#{} {state}", metadata.name, metadata.attempt)
}

fn sandbox(sandbox: &pb::PodSandbox) -> String {
    let state = sandbox.state().as_str_name().trim_start_matches("SANDBOX_").to_lowercase();
    format!("sandbox {}#{} {state}", pod_name(sandbox), sandbox.metadata.as_ref().unwrap().attempt)
}

fn image(mut image: pb::Image) -> (String, String) {
    image.repo_tags.sort();
    (image.id, format!("image {}", image.repo_tags.join(" ")))
}

fn pod_name(sandbox: &pb::PodSandbox) -> &str {
    &sandbox.metadata.as_ref().unwrap().name
}
