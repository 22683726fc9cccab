//! Finds the objects of a snapshot that an ID, a name, a pod or a path refers to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::model::{
    Container, Image, LogDir, LogLink, PodRef, Sandbox, Snapshot, log_dir_name, log_link_name, pod_of_dir,
};
use crate::plan::{Kind, LogPolicy};

/// The shortest text that is accepted as the beginning of an ID.
const MIN_ID: usize = 3;
/// The prefix of image IDs and digests.
const SHA256: &str = "sha256:";

/// An object that matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Found {
    /// The kind of the object.
    pub(super) kind: Kind,
    /// Its ID as in plans; for logs its path.
    pub(super) id: String,
    /// A short description of the object.
    pub(super) title: String,
}

/// A word of the user, to compare objects with.
struct Word<'a> {
    text: &'a str,
    logs: &'a LogPolicy,
}

/// Finds all objects that match the word, in the order in which a pass handles the kinds.
pub(super) fn find(snapshot: &Snapshot, logs: &LogPolicy, word: &str) -> Vec<Found> {
    let word = Word { text: word, logs };
    let containers = snapshot.containers.as_ref().into_iter().flatten();
    let sandboxes = snapshot.sandboxes.as_ref().into_iter().flatten();
    let dirs = snapshot.log_dirs.as_ref().into_iter().flatten();
    let links = snapshot.log_links.as_ref().into_iter().flatten();
    let images = snapshot.images.as_ref().into_iter().flatten();
    let of_pod = containers.clone().filter(|owner| word.pod(owner.pod.as_ref())).map(link_of).collect::<HashSet<_>>();
    let found = containers.filter(|container| word.container(container)).map(container);
    let found = found.chain(sandboxes.filter(|sandbox| word.sandbox(sandbox)).map(sandbox));
    let found = found.chain(dirs.filter(|dir| word.dir(dir)).map(|dir| log_dir(dir, logs)));
    let found = found
        .chain(links.filter(|link| word.link(link) || of_pod.contains(&link.name)).map(|link| log_link(link, logs)));
    found.chain(images.filter(|image| word.image(image)).map(image)).collect()
}

// === impl Word ===

impl Word<'_> {
    fn id(&self, id: &str) -> bool {
        id == self.text || (self.text.len() >= MIN_ID && id.starts_with(self.text))
    }

    fn container(&self, container: &Container) -> bool {
        let is_log = || self.log(container).is_some_and(|log| log == Path::new(self.text));
        let in_pod = container.pod.as_ref().is_some_and(|pod| self.text == format!("{pod}/{}", container.name));
        self.id(container.id.as_str()) || self.pod(container.pod.as_ref()) || in_pod || is_log()
    }

    /// Returns the path of the container's log, as the kubelet names it. No list of the runtime contains it.
    fn log(&self, container: &Container) -> Option<PathBuf> {
        let dir = self.logs.pods_root.join(log_dir_name(container.pod.as_ref()?));
        Some(dir.join(&container.name).join(format!("{}.log", container.attempt)))
    }

    fn sandbox(&self, sandbox: &Sandbox) -> bool {
        self.id(sandbox.id.as_str()) || self.pod(sandbox.pod.as_ref())
    }

    /// Matches `namespace/name`, a name, a uid, or the beginning of a uid.
    fn pod(&self, pod: Option<&PodRef>) -> bool {
        let Some(pod) = pod else { return false };
        let full = self
            .text
            .split_once('/')
            .is_some_and(|(namespace, name)| pod.namespace == namespace && pod.name == name && !name.is_empty());
        full || (!pod.name.is_empty() && pod.name == self.text) || self.id(pod.uid.as_str())
    }

    /// Matches the directory, a path in it, or its pod.
    fn dir(&self, dir: &LogDir) -> bool {
        let path = self.logs.pods_root.join(&dir.name);
        Path::new(self.text).starts_with(path) || self.text == dir.name || self.pod(pod_of_dir(&dir.name).as_ref())
    }

    fn link(&self, link: &LogLink) -> bool {
        Path::new(self.text) == self.logs.containers_root.join(&link.name) || self.text == link.name
    }

    /// Matches a name, a repository without a tag, a digest, or the beginning of an ID.
    fn image(&self, image: &Image) -> bool {
        let id = image.id.as_str();
        let digest = |name: &String| name.split_once('@').is_some_and(|(_, digest)| self.hash(digest));
        let repository = |name: &String| name.rsplit_once(':').is_some_and(|(repository, _)| repository == self.text);
        image.is_named(self.text)
            || self.hash(id)
            || image.digests.iter().any(digest)
            || image.tags.iter().any(repository)
    }

    fn hash(&self, hash: &str) -> bool {
        let bare = hash.strip_prefix(SHA256).unwrap_or(hash);
        self.id(bare) || (self.text.len() >= SHA256.len() + MIN_ID && hash.starts_with(self.text))
    }
}

fn container(container: &Container) -> Found {
    let name = if container.name.is_empty() { String::new() } else { format!("{} ", container.name) };
    let title = format!("container {name}{}, {:?}", container.id, container.state).to_lowercase();
    Found { kind: Kind::Container, id: container.id.to_string(), title: title + &of_pod(container.pod.as_ref()) }
}

fn sandbox(sandbox: &Sandbox) -> Found {
    let state = if sandbox.state == crate::model::SandboxState::Ready { "ready" } else { "not ready" };
    let title = format!("sandbox {}, {state}{}", sandbox.id, of_pod(sandbox.pod.as_ref()));
    Found { kind: Kind::Sandbox, id: sandbox.id.to_string(), title }
}

fn log_dir(dir: &LogDir, logs: &LogPolicy) -> Found {
    let id = logs.pods_root.join(&dir.name).display().to_string();
    Found { kind: Kind::LogDir, title: format!("log directory {id}"), id }
}

fn log_link(link: &LogLink, logs: &LogPolicy) -> Found {
    let id = logs.containers_root.join(&link.name).display().to_string();
    Found { kind: Kind::LogLink, title: format!("log link {id}"), id }
}

fn image(image: &Image) -> Found {
    let names = if image.tags.is_empty() { String::new() } else { format!("{}, ", image.tags.join(", ")) };
    Found { kind: Kind::Image, id: image.id.to_string(), title: format!("image {names}{}", image.id) }
}

fn of_pod(pod: Option<&PodRef>) -> String {
    pod.map(|pod| format!(", of pod {pod}")).unwrap_or_default()
}

fn link_of(container: &Container) -> String {
    let pod = container.pod.clone().unwrap_or_default();
    log_link_name(&pod.name, &pod.namespace, &container.name, &container.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ContainerState, LinkTarget, SandboxState, Seen};

    fn node() -> Snapshot {
        let json = r#"{"taken_at":"2026-11-21T12:00:00Z"}"#;
        let mut node: Snapshot = serde_json::from_str(json).unwrap();
        let pod = serde_json::json!({"uid": "u-web-0", "namespace": "default", "name": "web-0"});
        let at = "2026-11-21T11:00:00Z";
        let container = serde_json::json!({"id": "c1234567", "sandbox_id": "s1234567", "pod": pod, "name": "app",
            "state": "running", "created_at": at});
        let sandbox = serde_json::json!({"id": "s1234567", "pod": pod, "state": "ready", "created_at": at});
        let image = serde_json::json!({"id": "sha256:1111aaaa", "tags": ["docker.io/library/nginx:latest", "r.example/n:1"],
            "digests": ["docker.io/library/nginx@sha256:2222bbbb"]});
        node.containers = Seen::Seen(vec![serde_json::from_value(container).unwrap()]);
        node.sandboxes = Seen::Seen(vec![serde_json::from_value(sandbox).unwrap()]);
        node.images = Seen::Seen(vec![serde_json::from_value(image).unwrap()]);
        node.log_dirs = Seen::Seen(vec![LogDir { name: "default_web-0_u-web-0".into(), ..LogDir::default() }]);
        let name = "web-0_default_app-c1234567.log".to_owned();
        node.log_links = Seen::Seen(vec![LogLink { name, target: LinkTarget::Exists }]);
        assert_eq!(node.containers.as_ref().unwrap()[0].state, ContainerState::Running);
        assert_eq!(node.sandboxes.as_ref().unwrap()[0].state, SandboxState::Ready);
        node
    }

    fn kinds(word: &str) -> Vec<&'static str> {
        find(&node(), &LogPolicy::default(), word).iter().map(|found| found.kind.as_str()).collect()
    }

    #[test]
    fn a_word_matches_every_object_that_it_may_name() {
        let pod = ["container", "sandbox", "log_dir", "log_link"];
        let cases: [(&str, &[&str]); 23] = [
            ("c123", &["container"]),
            ("c1", &[]),
            ("s1234567", &["sandbox"]),
            ("default/web-0", &pod),
            ("default/web-0/app", &["container"]),
            ("default/web-0/other", &[]),
            ("web-0", &pod),
            ("u-web-0", &pod),
            ("kube-system/web-0", &[]),
            ("nginx", &["image"]),
            ("docker.io/library/nginx", &["image"]),
            ("r.example/n", &["image"]),
            ("r.example/n:2", &[]),
            ("1111", &["image"]),
            ("sha256:1111", &["image"]),
            ("sha256:2222bbbb", &["image"]),
            ("sha256:", &[]),
            ("/var/log/pods/default_web-0_u-web-0/app/0.log", &["container", "log_dir"]),
            ("/var/log/pods/default_web-0_u-web-0/app/1.log", &["log_dir"]),
            ("/var/log/pods/default_web-0_u-web-0/", &["log_dir"]),
            ("/var/log/pods", &[]),
            ("/var/log/containers/web-0_default_app-c1234567.log", &["log_link"]),
            ("", &[]),
        ];
        for (word, wanted) in cases {
            assert_eq!(kinds(word), wanted, "{word:?}");
        }
    }

    #[test]
    fn a_whole_id_is_found_however_short() {
        let mut node = node();
        node.sandboxes = node.sandboxes.map(|mut all| {
            all[0].id = "s1".into();
            all
        });
        assert_eq!(find(&node, &LogPolicy::default(), "s1").len(), 1);
    }
}
