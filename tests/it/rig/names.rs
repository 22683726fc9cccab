//! Readable names of the objects on a rig, for assertions about what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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

    fn name_logs(&self, dir: &Path, names: &mut BTreeMap<String, String>) {
        let pod_logs = self.pod_logs();
        // On a real node the symlinks contain the root in the kubelet's mount namespace.
        let root = [pod_logs.as_path(), Path::new("/var/log/pods")];
        let short = |path: &Path| {
            root.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path).display().to_string()
        };
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            let name = if let Ok(target) = entry.read_link() {
                format!("link to {}", short(&target))
            } else if entry.is_file() {
                format!("file {}", short(&entry))
            } else {
                self.name_logs(&entry, names);
                // The files in the directories of containers are enough.
                if dir != pod_logs {
                    continue;
                }
                format!("dir {}", short(&entry))
            };
            names.insert(entry.display().to_string(), name);
        }
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
    pub fn gone_in(&self, later: &Self) -> BTreeSet<String> {
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
