//! Finds the objects of a snapshot that a word of the user refers to: an id, a name, a pod, a path, or a part of one, as
//! tables show them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::model::{
    Container, Image, LogDir, LogLink, PodRef, Sandbox, Snapshot, full_image_name, log_dir_name, log_link_name,
    pod_of_dir, short_id,
};
use crate::plan::{Kind, LogPolicy};

/// The shortest text that is accepted as the beginning of an ID before names are compared.
const MIN_ID: usize = 3;
/// The prefix of image IDs and digests.
const SHA256: &str = "sha256:";
/// What a table puts in place of the middle of a name.
const CUT: char = '…';
/// The similarity from which a name is suggested, and the number of suggestions.
const SIMILAR: f64 = 0.75;
const SUGGESTIONS: usize = 3;

/// An object that matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Found {
    /// The kind of the object.
    pub(super) kind: Kind,
    /// Its ID as in plans; for logs its path.
    pub(super) id: String,
    /// A short description of the object.
    pub(super) title: String,
    /// What the object belongs to: its pod, or the object itself. A word that refers to several is ambiguous.
    pub(super) subject: String,
    /// The object in a list of candidates.
    label: String,
}

/// What a word refers to.
#[derive(Debug, PartialEq)]
pub(super) enum Finding {
    /// These objects, all of one pod or one image. Sorted by kind and name.
    Objects(Vec<Found>),
    /// Several pods or images; their names.
    Ambiguous(Vec<String>),
    /// Nothing; similar names.
    Nothing(Vec<String>),
}

/// How precisely a word refers to an object. A lower value excludes the higher ones.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Precision {
    /// A whole name, ID or path.
    Whole,
    /// The beginning of an ID, an image without its registry or tag.
    Short,
    /// A part of a name.
    Part,
}

/// A word of the user, to compare objects with.
struct Word<'a> {
    text: &'a str,
    /// The kind that the word names, as in `image/web:1`.
    kind: Option<WordKind>,
    logs: &'a LogPolicy,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WordKind {
    Pod,
    Object(Kind),
}

// === impl WordKind ===

impl WordKind {
    /// Returns the kind of a word in the singular or the plural, and kubectl's short one of pods.
    fn of(word: &str) -> Option<Self> {
        if ["pod", "pods", "po"].contains(&word) {
            return Some(Self::Pod);
        }
        let is_it = |kind: &Kind| {
            let rest = word.strip_prefix(&*kind.as_str().replace('_', "-"));
            rest.is_some_and(|rest| ["", "s", "es"].contains(&rest))
        };
        Kind::ALL.into_iter().find(is_it).map(Self::Object)
    }
}

/// Returns the words with the kind that the first one names, as kubectl accepts it: `pod web-0 web-1`.
pub(super) fn with_kind(words: &[String]) -> Vec<String> {
    match words {
        [kind, names @ ..] if !names.is_empty() && WordKind::of(kind).is_some() => {
            names.iter().map(|name| format!("{kind}/{name}")).collect()
        }
        words => words.to_vec(),
    }
}

/// Returns the number of containers that have the word as their name and are not among the objects found: the word also
/// names an image or a pod, which is more precise.
pub(super) fn namesakes(snapshot: &Snapshot, word: &str, found: &[Found]) -> usize {
    let is_found = |id: &str| found.iter().any(|found| found.kind == Kind::Container && found.id == id);
    let containers = snapshot.listed_containers().into_iter().flatten();
    containers.filter(|one| !word.is_empty() && one.name == word && !is_found(one.id.as_str())).count()
}

/// Finds the objects that the word refers to. Only the most precise matches count. An ID may be as the API server has it,
/// with its runtime: `containerd://…`.
pub(super) fn find(snapshot: &Snapshot, logs: &LogPolicy, word: &str) -> Finding {
    let word = word.split_once("://").map_or(word, |(_, id)| id);
    let words = [Word::with_kind(word, logs), Some(Word { text: word, kind: None, logs })];
    let matches = words.into_iter().flatten().map(|word| matches(snapshot, &word)).find(|found| !found.is_empty());
    let Some(mut matches) = matches else { return Finding::Nothing(similar(snapshot, word)) };
    let best = matches.iter().map(|(precision, _)| *precision).min();
    matches.retain(|(precision, _)| Some(*precision) == best);
    let mut found: Vec<_> = matches.into_iter().map(|(_, found)| found).collect();
    found.sort_by(|a, b| (a.kind, &a.label, &a.id).cmp(&(b.kind, &b.label, &b.id)));
    let subjects: HashSet<_> = found.iter().map(|found| &found.subject).collect();
    if subjects.len() > 1 { Finding::Ambiguous(candidates(&found)) } else { Finding::Objects(found) }
}

/// Names the objects that an ambiguous word refers to, or the pods if it refers to all objects of each.
fn candidates(found: &[Found]) -> Vec<String> {
    let labels: BTreeSet<_> = found.iter().map(|found| found.label.clone()).collect();
    let kinds: HashSet<_> = found.iter().map(|found| found.kind).collect();
    let subjects: BTreeSet<_> = found.iter().map(|found| found.subject.clone()).collect();
    let is_about_pods = kinds.len() > 1 && !kinds.contains(&Kind::Image);
    if is_about_pods { subjects.into_iter().collect() } else { labels.into_iter().collect() }
}

/// Returns every match of a word, with its precision.
fn matches(snapshot: &Snapshot, word: &Word) -> Vec<(Precision, Found)> {
    let logs = word.logs;
    let containers = snapshot.listed_containers().into_iter().flatten();
    let sandboxes = snapshot.listed_sandboxes().into_iter().flatten();
    let dirs = snapshot.log_dirs.as_ref().into_iter().flatten();
    let links = snapshot.log_links.as_ref().into_iter().flatten();
    let images = snapshot.images.as_ref().into_iter().flatten();
    let pods: HashMap<_, _> = containers.clone().map(|one| (link_of(one), one.pod.as_ref())).collect();
    let link = |link: &LogLink| {
        let pod = pods.get(&link.name).copied().flatten();
        let precision = least([word.link(link), word.pod_of(Kind::LogLink, pod)]);
        precision.map(|precision| (precision, log_link(link, pod, logs)))
    };
    let found = containers.filter_map(|one| Some((word.container(one)?, container(one))));
    let found = found.chain(sandboxes.filter_map(|one| Some((word.sandbox(one)?, sandbox(one)))));
    let found = found.chain(dirs.filter_map(|one| Some((word.dir(one)?, log_dir(one, logs)))));
    let found = found.chain(links.filter_map(link));
    found.chain(images.filter_map(|one| Some((word.image(one)?, image(one))))).collect()
}

/// Returns the names on the node that are most similar to a word.
fn similar(snapshot: &Snapshot, word: &str) -> Vec<String> {
    let names = names(snapshot);
    let score = |name: &String| {
        strsim::jaro_winkler(word, name.rsplit('/').next().unwrap_or(name)).max(strsim::jaro_winkler(word, name))
    };
    let mut scored: Vec<_> =
        names.iter().map(|name| (score(name), name)).filter(|(score, _)| *score >= SIMILAR).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(SUGGESTIONS).map(|(_, name)| name.clone()).collect()
}

/// Returns the names of the node's pods, containers and images, for suggestions and completions.
pub(super) fn names(snapshot: &Snapshot) -> BTreeSet<String> {
    let containers = snapshot.listed_containers().into_iter().flatten();
    let pods = containers.clone().filter_map(|one| one.pod.as_ref());
    let pods = pods.chain(snapshot.listed_sandboxes().into_iter().flatten().filter_map(|one| one.pod.as_ref()));
    let dirs = snapshot.log_dirs.as_ref().into_iter().flatten().filter_map(|dir| pod_of_dir(&dir.name));
    let images = snapshot.images.as_ref().into_iter().flatten().flat_map(|image| &image.tags);
    let listed = snapshot.pods.as_ref().into_iter().flat_map(|list| &list.pods);
    let listed = listed.map(|pod| format!("{}/{}", pod.namespace, pod.name));
    let with_container = containers.filter_map(|one| Some(format!("{}/{}", one.pod.as_ref()?, one.name)));
    let pods = pods.cloned().chain(dirs).map(|pod| pod.to_string());
    pods.chain(listed).chain(with_container).chain(images.cloned()).filter(|name| name.len() > 1).collect()
}

// === impl Word ===

impl<'a> Word<'a> {
    /// Returns the word without its kind, if it begins with one.
    fn with_kind(text: &'a str, logs: &'a LogPolicy) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        Some(Self { text: rest, kind: Some(WordKind::of(kind)?), logs })
    }

    fn is_about(&self, kind: Kind) -> bool {
        self.kind.is_none_or(|wanted| wanted == WordKind::Object(kind))
    }

    /// Compares the word with an ID.
    fn id(&self, id: &str) -> Option<Precision> {
        match self.text.len() {
            _ if id == self.text => Some(Precision::Whole),
            0 => None,
            _ if !id.starts_with(self.text) => None,
            1..MIN_ID => Some(Precision::Part),
            _ => Some(Precision::Short),
        }
    }

    /// Compares the word with a name that a table may show, shortened or not.
    fn part(&self, name: &str) -> Option<Precision> {
        let is_part = if self.text.contains(CUT) { is_shortened(self.text, name) } else { name.contains(self.text) };
        (is_part && !self.text.is_empty() && !self.text.starts_with('/')).then_some(Precision::Part)
    }

    fn container(&self, container: &Container) -> Option<Precision> {
        let pod = container.pod.as_ref();
        let by_pod =
            if self.is_about(Kind::Container) || self.kind == Some(WordKind::Pod) { self.pod(pod) } else { None };
        if !self.is_about(Kind::Container) {
            return by_pod;
        }
        let is_log = self.log(container).is_some_and(|log| log == Path::new(self.text));
        let in_pod = pod.map(|pod| format!("{pod}/{}", container.name));
        let is_whole = is_log || in_pod.as_deref() == Some(self.text);
        let is_name = !container.name.is_empty()
            && (container.name == self.text
                || pod.is_some_and(|pod| self.text == format!("{}/{}", pod.name, container.name)));
        let name = is_name.then_some(Precision::Short).or_else(|| self.part(in_pod.as_deref()?));
        least([is_whole.then_some(Precision::Whole), self.id(container.id.as_str()), by_pod, name])
    }

    /// Returns the path of the container's log, as the kubelet names it. No list of the runtime contains it.
    fn log(&self, container: &Container) -> Option<PathBuf> {
        let dir = self.logs.pods_root.join(log_dir_name(container.pod.as_ref()?));
        Some(dir.join(&container.name).join(format!("{}.log", container.attempt)))
    }

    fn sandbox(&self, sandbox: &Sandbox) -> Option<Precision> {
        let id = self.is_about(Kind::Sandbox).then(|| self.id(sandbox.id.as_str())).flatten();
        least([id, self.pod_of(Kind::Sandbox, sandbox.pod.as_ref())])
    }

    /// Compares the word with the pod of an object, if the word may be about objects of this kind.
    fn pod_of(&self, kind: Kind, pod: Option<&PodRef>) -> Option<Precision> {
        if self.is_about(kind) || self.kind == Some(WordKind::Pod) { self.pod(pod) } else { None }
    }

    /// Matches `namespace/name`, a name, a uid, the beginning of a uid, or a part of `namespace/name`.
    fn pod(&self, pod: Option<&PodRef>) -> Option<Precision> {
        let pod = pod?;
        let full = pod.to_string();
        let is_whole = !pod.name.is_empty() && (pod.name == self.text || full == self.text);
        least([is_whole.then_some(Precision::Whole), self.id(pod.uid.as_str()), self.part(&full)])
    }

    /// Matches the directory, a path in it, or its pod.
    fn dir(&self, dir: &LogDir) -> Option<Precision> {
        let path = self.logs.pods_root.join(&dir.name);
        let is_whole = Path::new(self.text).starts_with(path) || self.text == dir.name;
        let by_name = is_whole.then_some(Precision::Whole).filter(|_| self.is_about(Kind::LogDir));
        least([by_name, self.pod_of(Kind::LogDir, pod_of_dir(&dir.name).as_ref())])
    }

    fn link(&self, link: &LogLink) -> Option<Precision> {
        let is_whole = Path::new(self.text) == self.logs.containers_root.join(&link.name) || self.text == link.name;
        (is_whole && self.is_about(Kind::LogLink)).then_some(Precision::Whole)
    }

    /// Matches a name as the runtime resolves it, a digest, the beginning of an ID, a name without registry, directories
    /// or tag, or a part of a name.
    fn image(&self, image: &Image) -> Option<Precision> {
        if !self.is_about(Kind::Image) || self.text.is_empty() {
            return None;
        }
        let digests = image.digests.iter().filter_map(|name| self.hash(name.split_once('@')?.1)).min();
        let is_short = |tag: &String| {
            let tag = full_image_name(tag);
            let repository = tag.rsplit_once(':').map_or(tag.as_ref(), |(repository, _)| repository);
            [tag.as_ref(), repository].into_iter().any(|name| ends_in(name, self.text))
        };
        let short = image.tags.iter().any(is_short).then_some(Precision::Short);
        let part = image.tags.iter().find_map(|tag| self.part(tag));
        let whole = image.is_named(self.text).then_some(Precision::Whole);
        least([whole, self.hash(image.id.as_str()), digests, short, part])
    }

    fn hash(&self, hash: &str) -> Option<Precision> {
        let bare = hash.strip_prefix(SHA256).unwrap_or(hash);
        let word = Word { text: self.text.strip_prefix(SHA256).unwrap_or(self.text), ..*self };
        if word.text.is_empty() { None } else { word.id(bare) }
    }
}

fn least<const N: usize>(matches: [Option<Precision>; N]) -> Option<Precision> {
    matches.into_iter().flatten().min()
}

/// Returns whether a name ends in these whole parts.
fn ends_in(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Returns whether a table may show a name as this text: each part of the name has the ends of a part of the text.
fn is_shortened(text: &str, name: &str) -> bool {
    let pieces: Vec<_> = text.split(CUT).collect();
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return false };
    if !name.starts_with(first) || !name.ends_with(last) || name.len() < first.len() + last.len() {
        return false;
    }
    let mut rest = name.get(first.len()..name.len() - last.len()).unwrap_or_default();
    pieces.get(1..pieces.len() - 1).unwrap_or_default().iter().all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = rest.get(at + piece.len()..).unwrap_or_default();
            true
        }
        None => false,
    })
}

fn container(container: &Container) -> Found {
    let name = if container.name.is_empty() { String::new() } else { format!("{} ", container.name) };
    let title = format!("container {name}{}, {:?}", container.id, container.state).to_lowercase();
    let pod = container.pod.as_ref();
    let label = match pod {
        Some(pod) => format!("{pod}/{} (container {})", container.name, short_id(container.id.as_str())),
        None => format!("container/{}", container.id),
    };
    let title = title + &of_pod(pod);
    Found { kind: Kind::Container, subject: subject(pod, &label), id: container.id.to_string(), title, label }
}

fn sandbox(sandbox: &Sandbox) -> Found {
    let state = if sandbox.state == crate::model::SandboxState::Ready { "ready" } else { "not ready" };
    let pod = sandbox.pod.as_ref();
    let title = format!("sandbox {}, {state}{}", sandbox.id, of_pod(pod));
    let label = format!("sandbox/{}", short_id(sandbox.id.as_str()));
    Found { kind: Kind::Sandbox, subject: subject(pod, &label), id: sandbox.id.to_string(), title, label }
}

fn log_dir(dir: &LogDir, logs: &LogPolicy) -> Found {
    let id = logs.pods_root.join(&dir.name).display().to_string();
    let (title, label) = (format!("log directory {id}"), format!("log-dir/{}", dir.name));
    Found { kind: Kind::LogDir, subject: subject(pod_of_dir(&dir.name).as_ref(), &label), title, id, label }
}

fn log_link(link: &LogLink, pod: Option<&PodRef>, logs: &LogPolicy) -> Found {
    let id = logs.containers_root.join(&link.name).display().to_string();
    let label = format!("log-link/{}", link.name);
    Found { kind: Kind::LogLink, title: format!("log link {id}"), subject: subject(pod, &label), id, label }
}

fn image(image: &Image) -> Found {
    let names = if image.tags.is_empty() { String::new() } else { format!("{}, ", image.tags.join(", ")) };
    let label = image.tags.first().cloned().unwrap_or_else(|| format!("image/{}", image.id));
    let (id, title) = (image.id.to_string(), format!("image {names}{}", image.id));
    Found { kind: Kind::Image, subject: id.clone(), id, title, label }
}

/// Returns the pod of an object, or the object itself if it has none.
fn subject(pod: Option<&PodRef>, label: &str) -> String {
    let pod = pod.filter(|pod| !pod.name.is_empty());
    pod.map_or_else(|| label.to_owned(), |pod| format!("pod/{pod}"))
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
        match find(&node(), &LogPolicy::default(), word) {
            Finding::Objects(found) => found.iter().map(|found| found.kind.as_str()).collect(),
            Finding::Ambiguous(_) => vec!["ambiguous"],
            Finding::Nothing(_) => Vec::new(),
        }
    }

    #[test]
    fn a_word_matches_every_object_that_it_may_name() {
        let pod = ["container", "sandbox", "log_dir", "log_link"];
        let cases: [(&str, &[&str]); 42] = [
            ("c123", &["container"]),
            ("c1", &["container"]),
            ("app", &["container"]),
            ("web-0/app", &["container"]),
            ("defa…/web-0/app", &["container"]),
            ("pod/web-0", &pod),
            ("pod/default/web-0", &pod),
            ("container/c1234567", &["container"]),
            ("container/s1234567", &[]),
            ("containers/c1234567", &["container"]),
            ("sandboxes/s1234567", &["sandbox"]),
            ("po/web-0", &pod),
            ("pods/web-0", &pod),
            ("containerd://c1234567", &["container"]),
            ("image/nginx", &["image"]),
            ("eb-", &pod),
            ("library/nginx", &["image"]),
            ("n:1", &["image"]),
            ("n", &["image"]),
            ("docker.io/li…inx:latest", &["image"]),
            ("image/web-0", &[]),
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
        assert!(matches!(find(&node, &LogPolicy::default(), "s1"), Finding::Objects(found) if found.len() == 1));
    }

    #[test]
    fn an_ambiguous_word_lists_the_candidates_and_an_unknown_one_suggests_the_nearest() {
        let mut node = node();
        node.containers = node.containers.map(|mut all| {
            let other = Container { id: "c7654321".into(), ..all[0].clone() };
            all.push(Container { pod: all[0].pod.clone().map(|pod| PodRef { name: "web-1".into(), ..pod }), ..other });
            all
        });
        let find = |word| find(&node, &LogPolicy::default(), word);
        let candidates = ["default/web-0/app (container c1234567)", "default/web-1/app (container c7654321)"];
        assert_eq!(find("app"), Finding::Ambiguous(candidates.map(str::to_owned).to_vec()));
        let near = ["default/web-0", "default/web-1", "default/web-0/app"].map(str::to_owned);
        let Finding::Nothing(similar) = find("wbe-0") else { panic!("{:?}", find("wbe-0")) };
        assert!(!similar.is_empty() && near.contains(&similar[0]), "{similar:?}");
        assert_eq!(find("zzzzzz"), Finding::Nothing(Vec::new()));
    }
}
