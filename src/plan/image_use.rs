//! Determines which images are in use.
//!
//! The kubelet compares only the image ID that a container reports with the ID of the image. Runtimes differ in what
//! they report, and pods refer to images by tag or digest. So `guards.match_image_names` compares all of these.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::Guards;
use crate::model::{Container, Image, ImageId, canonical_image_id};

/// The prefix of an ID or a digest.
const SHA256: &str = "sha256:";
/// The registry of names without one.
const DOCKER: &str = "docker.io";
/// The former name of the same registry.
const OLD_DOCKER: &str = "index.docker.io";

/// The images that containers use, by every name that refers to them.
pub(super) struct Uses<'a> {
    running: HashMap<Cow<'a, str>, &'a Container>,
    mounted: HashMap<Cow<'a, str>, &'a Container>,
    by_any_name: bool,
}

/// How an image is used.
pub(super) enum Use<'a> {
    /// A container in any state was created from it.
    Container(&'a Container),
    /// A container has it mounted as a volume.
    Volume(&'a Container),
}

// === impl Uses ===

impl<'a> Uses<'a> {
    pub fn new(containers: &'a [Container], guards: &Guards) -> Self {
        let by_any_name = guards.match_image_names;
        let mut running: HashMap<Cow<str>, &Container> = HashMap::new();
        let mut mounted = HashMap::new();
        for container in containers {
            let by_id = container.image_id.as_deref().map(canonical_image_id);
            let by_name = container.image.as_deref().filter(|_| by_any_name).map(full_name);
            for name in by_id.into_iter().chain(by_name) {
                first(running.entry(name).or_insert(container), container);
            }
            for volume in &container.image_volumes {
                first(mounted.entry(canonical_image_id(volume)).or_insert(container), container);
            }
        }
        Self { running, mounted, by_any_name }
    }

    /// Returns how this image is used, if so.
    pub fn of(&self, image: &Image) -> Option<Use<'a>> {
        let by_names = if self.by_any_name { usize::MAX } else { 1 };
        // The first name is the ID.
        let names: Vec<_> = names(image).take(by_names).collect();
        let is_named = |name: &Cow<str>| self.running.get(name.as_ref()).copied();
        if let Some(container) = names.iter().find_map(is_named) {
            return Some(Use::Container(container));
        }
        let is_mounted = |name: &Cow<str>| self.mounted.get(name.as_ref()).copied();
        names.iter().find_map(is_mounted).map(Use::Volume)
    }
}

/// Keeps the container with the smaller ID, so that the order of the list does not matter.
fn first<'a>(known: &mut &'a Container, container: &'a Container) {
    if container.id < known.id {
        *known = container;
    }
}

/// Says whether a name in the notation of a user or a pod spec refers to this image.
pub fn is_named(image: &Image, name: &str) -> bool {
    let full = full_name(name);
    names(image).any(|known| known == name || known == full)
}

/// Says whether a name that the runtime could not resolve may refer to this image. It may if it ends in the same
/// repository and tag, or in the same digest, whatever the registry is: an alias can map a short name to any registry.
pub fn may_be_named(image: &Image, name: &str) -> bool {
    let wanted = full_name(name);
    names(image).any(|known| last_part(&known) == last_part(&wanted))
}

/// Returns a full name without registry and path, such as `busybox:latest`; of a name with a digest, the digest alone.
fn last_part(name: &str) -> &str {
    name.rsplit(['/', '@']).next().unwrap_or(name)
}

/// Returns all names of the image: first its canonical ID, then each name as listed by the runtime and as a full name.
/// Some runtimes list short names.
pub(super) fn names(image: &Image) -> impl Iterator<Item = Cow<'_, str>> {
    let listed = image.tags.iter().chain(&image.digests).map(String::as_str);
    let both = listed.flat_map(|name| [Cow::Borrowed(name), full_name(name)]);
    std::iter::once(image.id.canonical()).chain(both)
}

/// Returns the images of a list by ID. A runtime may list an ID more than once, each time with other names. The entries
/// are merged, and the size is that of the last entry, as in the kubelet. With `guards.match_image_names`, the image is
/// pinned if any entry is; otherwise the last entry decides, as in the kubelet.
pub(super) fn by_id<'a>(images: &'a [Image], guards: &Guards) -> BTreeMap<&'a ImageId, Image> {
    let mut by_id: BTreeMap<&ImageId, Image> = BTreeMap::new();
    for image in images {
        let known = by_id.entry(&image.id).or_insert_with(|| Image { id: image.id.clone(), ..Image::default() });
        known.pinned = image.pinned || (known.pinned && guards.match_image_names);
        known.size_bytes = image.size_bytes;
        add_missing(&mut known.tags, &image.tags);
        add_missing(&mut known.digests, &image.digests);
    }
    by_id
}

fn add_missing(known: &mut Vec<String>, names: &[String]) {
    for name in names {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}

/// Returns a name with registry, repository, and tag or digest, as most runtimes list it: `busybox` is
/// `docker.io/library/busybox:latest`. If a name has a tag and a digest, the tag is dropped, as in the runtime. A name
/// of 64 hexadecimal digits is an ID.
pub(super) fn full_name(name: &str) -> Cow<'_, str> {
    let name = match canonical_image_id(name) {
        Cow::Borrowed(name) if name.is_empty() || name.starts_with(SHA256) => return Cow::Borrowed(name),
        Cow::Borrowed(name) => name,
        id @ Cow::Owned(_) => return id,
    };
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest),
        _ => (DOCKER, name),
    };
    let registry = if registry == OLD_DOCKER { DOCKER } else { registry };
    let library = if registry == DOCKER && !repository.contains('/') { "library/" } else { "" };
    Cow::Owned(format!("{registry}/{library}{}", without_idle_tag(repository)))
}

fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

/// Returns a repository with its tag, or with `latest` if it has none. If it has a digest, returns it with the digest
/// and without the tag.
fn without_idle_tag(repository: &str) -> String {
    let tagged = |path: &'_ str| path.rsplit_once(':').is_some_and(|(_, tag)| !tag.contains('/'));
    match repository.split_once('@') {
        Some((path, digest)) if tagged(path) => {
            format!("{}@{digest}", path.rsplit_once(':').map_or(path, |(path, _)| path))
        }
        Some(_) => repository.to_owned(),
        None if tagged(repository) => repository.to_owned(),
        None => format!("{repository}:latest"),
    }
}
