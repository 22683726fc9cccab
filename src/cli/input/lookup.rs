//! Finds the objects of a snapshot that a word of the user refers to: an id, a name, a pod, a path, or a part of one, as
//! tables show them.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::args::values;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::model::{
    Container, Image, Leftover, LeftoverLog, LogDir, LogLink, Pod, PodRef, Sandbox, SandboxState, Snapshot,
    full_image_name, log_dir_name, log_link_name, short_id,
};
use crate::plan::{Kind, LogPolicy};

/// The shortest text that is accepted as the beginning of an ID before names are compared.
pub(in crate::cli) const MIN_ID: usize = 3;
/// The prefix of image IDs and digests.
const SHA256: &str = "sha256:";
/// What a table puts in place of the middle of a name.
const CUT: char = '…';
/// The similarity from which a name is suggested, and the number of suggestions.
const SIMILAR: f64 = 0.75;
const SUGGESTIONS: usize = 3;
/// The candidates that an error lists.
const CANDIDATES: usize = 20;

/// A search for objects: those of a node, or of one namespace on it.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Search<'a> {
    pub(in crate::cli) snapshot: &'a Snapshot,
    pub(in crate::cli) namespace: &'a NamespaceArgs,
}

/// An object of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cli) enum Object<'a> {
    Container(&'a Container),
    Sandbox(&'a Sandbox),
    LogDir(&'a LogDir),
    LogFile(&'a LeftoverLog),
    LogLink(&'a LogLink),
    Leftover(&'a Leftover),
    Image(&'a Image),
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Found<'a> {
    pub(in crate::cli) object: Object<'a>,
    pub(in crate::cli) kind: Kind,
    /// Its ID as in plans; for logs its path.
    pub(in crate::cli) id: String,
    /// A short description of the object.
    pub(in crate::cli) title: String,
    /// What the object belongs to: its pod, or the object itself. A word that refers to several is ambiguous.
    subject: String,
    /// The object in a list of candidates.
    label: String,
}

/// What a word refers to.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum Finding<'a> {
    /// These objects, all of one pod or one image. Sorted by kind and name.
    Objects(Vec<Found<'a>>),
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
            let rest = word.strip_prefix(values::word(*kind));
            rest.is_some_and(|rest| ["", "s", "es"].contains(&rest))
        };
        Kind::ALL.into_iter().find(is_it).map(Self::Object)
    }
}

/// Returns the words with the kind that the first one names, as kubectl accepts it: `pod web-0 web-1`.
pub(in crate::cli) fn with_kind(words: &[String]) -> Vec<String> {
    match words {
        [kind, names @ ..] if !names.is_empty() && WordKind::of(kind).is_some() => {
            names.iter().map(|name| format!("{kind}/{name}")).collect()
        }
        words => words.to_vec(),
    }
}

/// Returns the error for a word that refers to several pods or images.
pub(in crate::cli) fn ambiguous(word: &str, candidates: &[String]) -> CliError {
    let count = candidates.len();
    let shown = candidates.iter().take(CANDIDATES).map(|one| format!("\n  {}", format::printable(one)));
    let more = if count > CANDIDATES { format!("\n  and {} more", count - CANDIDATES) } else { String::new() };
    let message = format!("{word:?} matches {count} objects:{}{more}", shown.collect::<String>());
    CliError::message(ErrorKind::Usage, message).hint("name one of them")
}

/// Says that a word refers to nothing on the node.
pub(in crate::cli) fn missing(word: &str) -> String {
    format!("no container, sandbox, image, pod or path matches {word:?}")
}

/// Returns the kind of object that a word begins with, and the rest of the word. A pod is no object of its own.
pub(in crate::cli) fn without_kind(word: &str) -> (Option<Kind>, &str) {
    let text = word.split_once("://").map_or(word, |(_, id)| id);
    match text.split_once('/').and_then(|(kind, rest)| Some((WordKind::of(kind)?, rest))) {
        Some((WordKind::Object(kind), rest)) => (Some(kind), rest),
        Some((WordKind::Pod, rest)) => (None, rest),
        None => (None, text),
    }
}

/// Returns the error for a word that refers to nothing.
pub(in crate::cli) fn nothing(word: &str, similar: &[String]) -> CliError {
    let error = CliError::message(ErrorKind::Usage, missing(word));
    match similar {
        [] => error.hint("name an id or its beginning, an image, a pod, NAMESPACE/POD/CONTAINER, or a log path"),
        similar => error.hint(format!("similar names: {}", similar.join(", "))),
    }
}

/// Returns the log directories that the word refers to: the most precise matches.
pub(in crate::cli) fn log_dirs<'a>(dirs: &'a [LogDir], logs: &LogPolicy, word: &str) -> Vec<&'a LogDir> {
    let words = [Word::with_kind(word, logs), Some(Word { text: word, kind: None, logs })];
    let matches = |word: Word| -> Vec<_> {
        let precision = |dir: &LogDir| word.matches(Object::LogDir(dir), dir.pod().as_ref());
        dirs.iter().filter_map(|dir| Some((precision(dir)?, dir))).collect()
    };
    let found = words.into_iter().flatten().map(matches).find(|found| !found.is_empty()).unwrap_or_default();
    let best = found.iter().map(|(precision, _)| *precision).min();
    found.into_iter().filter(|(precision, _)| Some(*precision) == best).map(|(_, dir)| dir).collect()
}

/// Names the objects that an ambiguous word refers to, or the pods if it refers to all objects of each.
fn candidates(found: &[Found]) -> Vec<String> {
    let kinds: HashSet<_> = found.iter().map(|found| found.kind).collect();
    let is_about_pods = kinds.len() > 1 && !kinds.contains(&Kind::Image);
    let names = found.iter().map(|found| if is_about_pods { &found.subject } else { &found.label });
    names.collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

// === impl Search ===

impl<'a> Search<'a> {
    /// Finds the objects that the word refers to. Only the most precise matches count. An ID may be as the API server has it,
    /// with its runtime: `containerd://…`.
    pub(in crate::cli) fn find(self, logs: &LogPolicy, word: &str) -> Finding<'a> {
        let word = word.split_once("://").map_or(word, |(_, id)| id);
        let words = [Word::with_kind(word, logs), Some(Word { text: word, kind: None, logs })];
        let matches = words.into_iter().flatten().map(|word| self.matches(&word)).find(|found| !found.is_empty());
        let Some(mut matches) = matches else { return Finding::Nothing(self.similar(word)) };
        let best = matches.iter().map(|(precision, _)| *precision).min();
        matches.retain(|(precision, _)| Some(*precision) == best);
        let mut found: Vec<_> = matches.into_iter().map(|(_, found)| found).collect();
        found.sort_by(|a, b| (a.kind, &a.label, &a.id).cmp(&(b.kind, &b.label, &b.id)));
        let subjects: HashSet<_> = found.iter().map(|found| &found.subject).collect();
        if subjects.len() > 1 { Finding::Ambiguous(candidates(&found)) } else { Finding::Objects(found) }
    }

    /// Finds the images that a line of a list refers to: those that [`Self::find`] finds, with how precisely. A part of a name is
    /// marked, because another image may be meant.
    pub(in crate::cli) fn find_images(self, logs: &LogPolicy, word: &str) -> (bool, Vec<&'a Image>) {
        let word = word.split_once("://").map_or(word, |(_, id)| id);
        let text = word.split_once('/').filter(|(kind, _)| WordKind::of(kind) == Some(WordKind::Object(Kind::Image)));
        let text = text.map_or(word, |(_, rest)| rest);
        let word = Word { text, kind: Some(WordKind::Object(Kind::Image)), logs };
        let images = self.snapshot.images.as_ref().into_iter().flatten();
        let found: Vec<_> = images.filter_map(|image| Some((word.image(image)?, image))).collect();
        let best = found.iter().map(|(precision, _)| *precision).min();
        let is_part = best == Some(Precision::Part) && !text.contains(CUT);
        (is_part, found.into_iter().filter(|(precision, _)| Some(*precision) == best).map(|(_, image)| image).collect())
    }

    /// Returns the number of containers that have the word as their name and are not among the objects found: the word also
    /// names an image or a pod, which is more precise.
    pub(in crate::cli) fn namesakes(self, word: &str, found: &[Found]) -> usize {
        let has_name = |object| matches!(object, Object::Container(one) if !word.is_empty() && one.name == word);
        let named = self.objects().filter(|(object, _)| has_name(*object));
        named.filter(|(object, _)| found.iter().all(|found| found.object != *object)).count()
    }

    /// Returns every match of a word, with its precision.
    fn matches(self, word: &Word) -> Vec<(Precision, Found<'a>)> {
        let found = self.objects().filter_map(|(object, pod)| {
            let precision = word.matches(object, pod.as_deref())?;
            Some((precision, Found::new(object, pod.as_deref(), word.logs)))
        });
        found.collect()
    }

    /// Returns the objects of the node, each with its pod. The pod of a log link is that of its container.
    fn objects(self) -> impl Iterator<Item = (Object<'a>, Option<Cow<'a, PodRef>>)> {
        let Self { snapshot, namespace } = self;
        let containers = snapshot.listed_containers().into_iter().flatten();
        let sandboxes = snapshot.listed_sandboxes().into_iter().flatten();
        let dirs = snapshot.log_dirs.as_ref().into_iter().flatten();
        let files = snapshot.leftover_logs.as_ref().into_iter().flatten();
        let links = snapshot.log_links.as_ref().into_iter().flatten();
        let leftovers = snapshot.leftovers.as_ref().into_iter().flatten();
        let images = snapshot.images.as_ref().into_iter().flatten();
        let pods: HashMap<_, _> = containers.clone().map(|one| (link_of(one), one.pod.as_ref())).collect();
        let pod_of_link = move |link: &LogLink| pods.get(&link.name).copied().flatten().map(Cow::Borrowed);
        let found = containers.map(|one| (Object::Container(one), one.pod.as_ref().map(Cow::Borrowed)));
        let found = found.chain(sandboxes.map(|one| (Object::Sandbox(one), one.pod.as_ref().map(Cow::Borrowed))));
        let found = found.chain(dirs.map(|dir| (Object::LogDir(dir), dir.pod().map(Cow::Owned))));
        let found = found.chain(files.map(|log| (Object::LogFile(log), Some(Cow::Borrowed(&log.pod)))));
        let found = found.chain(links.map(move |link| (Object::LogLink(link), pod_of_link(link))));
        let found = found.chain(leftovers.map(|one| (Object::Leftover(one), one.pod.as_ref().map(Cow::Borrowed))));
        let found = found.chain(images.map(|image| (Object::Image(image), None)));
        found.filter(|(_, pod)| namespace.includes(pod.as_deref()))
    }

    /// Returns the names on the node that are most similar to a word.
    fn similar(self, word: &str) -> Vec<String> {
        let names = self.names();
        let score = |name: &String| {
            strsim::jaro_winkler(word, name.rsplit('/').next().unwrap_or(name)).max(strsim::jaro_winkler(word, name))
        };
        let mut scored: Vec<_> =
            names.iter().map(|name| (score(name), name)).filter(|(score, _)| *score >= SIMILAR).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        scored.into_iter().take(SUGGESTIONS).map(|(_, name)| name.clone()).collect()
    }

    /// Returns the names of the node's pods, containers and images, for suggestions and completions.
    pub(in crate::cli) fn names(self) -> BTreeSet<String> {
        let mut names: BTreeSet<_> = self.pods().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        for (object, pod) in self.objects() {
            match (object, &pod) {
                (Object::Image(image), _) => names.extend(image.tags.iter().cloned()),
                (Object::Container(one), Some(pod)) => names.extend([format!("{pod}/{}", one.name)]),
                _ => {}
            }
            names.extend(pod.map(|pod| pod.to_string()));
        }
        names.retain(|name| name.len() > 1);
        names
    }

    pub(in crate::cli) fn pods(self) -> impl Iterator<Item = &'a Pod> {
        let pods = self.snapshot.pods.as_ref().into_iter().flat_map(|list| &list.pods);
        pods.filter(move |pod| self.namespace.get().is_none_or(|namespace| pod.namespace == namespace))
    }
}

// === impl Word ===

impl<'a> Word<'a> {
    /// Returns the word without its kind, if it begins with one.
    fn with_kind(text: &'a str, logs: &'a LogPolicy) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        Some(Self { text: rest, kind: Some(WordKind::of(kind)?), logs })
    }

    /// Compares the word with an object and with its pod.
    fn matches(&self, object: Object, pod: Option<&PodRef>) -> Option<Precision> {
        let is_about = self.kind.is_none_or(|kind| kind == WordKind::Object(object.kind()));
        let by_pod = pod.filter(|_| is_about || self.kind == Some(WordKind::Pod)).and_then(|pod| self.pod(pod));
        let whole = |is_whole: bool| is_whole.then_some(Precision::Whole);
        let path = Path::new(self.text);
        let by_name = match object {
            _ if !is_about || self.text.is_empty() => None,
            Object::Container(container) => self.container(container, pod),
            Object::Sandbox(sandbox) => self.id(sandbox.id.as_str()),
            // A path in the directory too.
            Object::LogDir(dir) => {
                whole(path.starts_with(self.logs.pods_root.join(&dir.name)) || self.text == dir.name)
            }
            Object::LogFile(log) => whole(path == log.path(&self.logs.pods_root) || path == log.path(Path::new(""))),
            Object::LogLink(link) => {
                whole(path == self.logs.containers_root.join(&link.name) || self.text == link.name)
            }
            Object::Leftover(leftover) => whole(self.text == leftover.at.path),
            Object::Image(image) => self.image(image),
        };
        least([by_pod, by_name])
    }

    /// Compares the word with an ID.
    fn id(&self, id: &str) -> Option<Precision> {
        let [id, text] = [id, self.text].map(|text| text.strip_prefix(SHA256).unwrap_or(text));
        match text.len() {
            0 => None,
            _ if id == text => Some(Precision::Whole),
            _ if !id.starts_with(text) => None,
            1..MIN_ID => Some(Precision::Part),
            _ => Some(Precision::Short),
        }
    }

    /// Compares the word with a name that a table may show, shortened or not.
    fn part(&self, name: &str) -> Option<Precision> {
        let is_part = if self.text.contains(CUT) { is_shortened(self.text, name) } else { name.contains(self.text) };
        (is_part && !self.text.is_empty() && !self.text.starts_with('/')).then_some(Precision::Part)
    }

    /// Matches an ID, the path of the log, a name, or a part of `namespace/pod/name`.
    fn container(&self, container: &Container, pod: Option<&PodRef>) -> Option<Precision> {
        let Container { id, name, .. } = container;
        let full = pod.map(|pod| format!("{pod}/{name}"));
        let is_log = pod.is_some_and(|pod| self.log(container, pod) == Path::new(self.text));
        let is_whole = is_log || full.as_deref() == Some(self.text);
        let is_in_pod = |pod: &PodRef| self.text == format!("{}/{name}", pod.name);
        let is_name = !name.is_empty() && (name == self.text || pod.is_some_and(is_in_pod));
        let name = is_name.then_some(Precision::Short).or_else(|| self.part(full.as_deref()?));
        least([is_whole.then_some(Precision::Whole), self.id(id.as_str()), name])
    }

    /// Returns the path of the container's log, as the kubelet names it. No list of the runtime contains it.
    fn log(&self, container: &Container, pod: &PodRef) -> PathBuf {
        let dir = self.logs.pods_root.join(log_dir_name(pod)).join(&container.name);
        dir.join(format!("{}.log", container.attempt))
    }

    /// Matches `namespace/name`, a name, a uid, the beginning of a uid, or a part of `namespace/name`.
    fn pod(&self, pod: &PodRef) -> Option<Precision> {
        let full = pod.to_string();
        let is_whole = !pod.name.is_empty() && (pod.name == self.text || full == self.text);
        least([is_whole.then_some(Precision::Whole), self.id(pod.uid.as_str()), self.part(&full)])
    }

    /// Matches a name as the runtime resolves it, a digest, the beginning of an ID, a name without registry, directories
    /// or tag, or a part of a name.
    fn image(&self, image: &Image) -> Option<Precision> {
        let digests = image.digests.iter().filter_map(|name| self.id(name.split_once('@')?.1)).min();
        let is_short = |tag: &String| {
            let tag = full_image_name(tag);
            let repository = tag.rsplit_once(':').map_or(tag.as_ref(), |(repository, _)| repository);
            [tag.as_ref(), repository].into_iter().any(|name| ends_in(name, self.text))
        };
        let short = image.tags.iter().any(is_short).then_some(Precision::Short);
        let part = image.tags.iter().find_map(|tag| self.part(tag));
        let whole = image.is_named(self.text).then_some(Precision::Whole);
        least([whole, self.id(image.id.as_str()), digests, short, part])
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
    let [first, between @ .., last] = pieces.as_slice() else { return false };
    let rest = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let after = |rest| between.iter().try_fold(rest, |rest: &str, piece| Some(rest.split_once(piece)?.1));
    rest.and_then(after).is_some()
}

// === impl Object ===

impl Object<'_> {
    fn kind(self) -> Kind {
        match self {
            Self::Container(_) => Kind::Container,
            Self::Sandbox(_) => Kind::Sandbox,
            Self::LogDir(_) => Kind::LogDir,
            Self::LogFile(_) => Kind::LogFile,
            Self::LogLink(_) => Kind::LogLink,
            Self::Leftover(_) => Kind::Leftover,
            Self::Image(_) => Kind::Image,
        }
    }
}

// === impl Found ===

impl<'a> Found<'a> {
    fn new(object: Object<'a>, pod: Option<&PodRef>, logs: &LogPolicy) -> Self {
        let of_pod = pod.map(|pod| format!(", of pod {pod}")).unwrap_or_default();
        let (id, title, label) = match object {
            Object::Container(Container { id, name, state, .. }) => {
                let in_pod = pod.map(|pod| format!("{pod}/{name} (container {})", short_id(id.as_str())));
                let name = if name.is_empty() { String::new() } else { format!("{name} ") };
                let title = format!("container {name}{id}, {state:?}").to_lowercase() + &of_pod;
                (id.to_string(), title, in_pod.unwrap_or_else(|| format!("container/{id}")))
            }
            Object::Sandbox(Sandbox { id, state, .. }) => {
                let state = if *state == SandboxState::Ready { "ready" } else { "not ready" };
                let label = format!("sandbox/{}", short_id(id.as_str()));
                (id.to_string(), format!("sandbox {id}, {state}{of_pod}"), label)
            }
            Object::LogDir(LogDir { name, .. }) => {
                let id = logs.pods_root.join(name).display().to_string();
                (id.clone(), format!("log directory {id}"), format!("log-dir/{name}"))
            }
            Object::LogFile(log) => {
                let id = log.path(&logs.pods_root).display().to_string();
                let of = log.path(Path::new("")).display().to_string();
                (id.clone(), format!("log file {id}{of_pod}"), format!("log-file/{of}"))
            }
            Object::LogLink(LogLink { name, .. }) => {
                let id = logs.containers_root.join(name).display().to_string();
                (id.clone(), format!("log link {id}"), format!("log-link/{name}"))
            }
            Object::Leftover(Leftover { kind, at, .. }) => {
                let title = format!("{} {}{of_pod}", kind.phrase(), at.path);
                (at.path.clone(), title, format!("leftover/{}", at.path))
            }
            Object::Image(Image { id, tags, .. }) => {
                let names = if tags.is_empty() { String::new() } else { format!("{}, ", tags.join(", ")) };
                let label = tags.first().cloned().unwrap_or_else(|| format!("image/{id}"));
                (id.to_string(), format!("image {names}{id}"), label)
            }
        };
        let subject = match (object, pod) {
            (Object::Image(_), _) => id.clone(),
            (_, Some(pod)) if !pod.name.is_empty() => format!("pod/{pod}"),
            _ => label.clone(),
        };
        Self { object, kind: object.kind(), id, title, subject, label }
    }
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

    fn search(snapshot: &Snapshot) -> Search<'_> {
        static ALL: NamespaceArgs = NamespaceArgs { namespace: None, all_namespaces: false };
        Search { snapshot, namespace: &ALL }
    }

    fn kinds(word: &str) -> Vec<&'static str> {
        match search(&node()).find(&LogPolicy::default(), word) {
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
        assert!(matches!(search(&node).find(&LogPolicy::default(), "s1"), Finding::Objects(found) if found.len() == 1));
    }

    #[test]
    fn ambiguous_and_unknown_words_suggest_candidates() {
        let mut node = node();
        node.containers = node.containers.map(|mut all| {
            let other = Container { id: "c7654321".into(), ..all[0].clone() };
            all.push(Container { pod: all[0].pod.clone().map(|pod| PodRef { name: "web-1".into(), ..pod }), ..other });
            all
        });
        let logs = LogPolicy::default();
        let find = |word| search(&node).find(&logs, word);
        let candidates = ["default/web-0/app (container c1234567)", "default/web-1/app (container c7654321)"];
        assert_eq!(find("app"), Finding::Ambiguous(candidates.map(str::to_owned).to_vec()));
        let near = ["default/web-0", "default/web-1", "default/web-0/app"].map(str::to_owned);
        let Finding::Nothing(similar) = find("wbe-0") else { panic!("{:?}", find("wbe-0")) };
        assert!(!similar.is_empty() && near.contains(&similar[0]), "{similar:?}");
        assert_eq!(find("zzzzzz"), Finding::Nothing(Vec::new()));
    }

    #[test]
    fn a_line_of_a_list_finds_an_image_by_every_form() {
        let mut node = node();
        let imported = serde_json::json!({"id": "sha256:3333cccc", "tags": ["r.example/imported:1"],
            "digests": ["import-2026-11-21@sha256:4444dddd"]});
        node.images = node.images.map(|mut all| {
            all.push(serde_json::from_value(imported).unwrap());
            all
        });
        let find = |line| {
            let (is_part, found) = search(&node).find_images(&LogPolicy::default(), line);
            (is_part, found.iter().map(|image| image.id.as_str()).collect::<Vec<_>>())
        };
        let [nginx, imported] = ["sha256:1111aaaa", "sha256:3333cccc"];
        for (line, found) in [
            ("nginx", (false, vec![nginx])),
            ("image/nginx", (false, vec![nginx])),
            ("image/sha256:1111aaaa", (false, vec![nginx])),
            ("1111aaaa", (false, vec![nginx])),
            ("1111aa", (false, vec![nginx])),
            ("sha256:1111", (false, vec![nginx])),
            ("docker.io/li…inx:latest", (false, vec![nginx])),
            ("docker.io/library/nginx@sha256:2222bbbb", (false, vec![nginx])),
            ("r.example/imported@sha256:4444dddd", (false, vec![imported])),
            ("r.example/imported@sha256:5555eeee", (false, vec![])),
            ("r.example/other@sha256:4444dddd", (false, vec![])),
            ("sha256:4444dddd", (false, vec![imported])),
            ("r.example/n:9", (false, vec![])),
            ("import", (true, vec![imported])),
            ("c1234567", (false, vec![])),
        ] {
            assert_eq!(find(line), found, "{line}");
        }
    }
}
