//! Which images something uses.
//!
//! The kubelet compares the id that a container reports with the image's id and nothing else. Runtimes differ in what
//! they report, and pods name images by tag or digest, so `guards.match_image_names` compares all of these.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Guards;
use crate::model::{Container, Image};

/// What containers use, by every name that they use it by.
pub(super) struct Uses<'a> {
    running: HashMap<Cow<'a, str>, &'a Container>,
    mounted: HashMap<&'a str, &'a Container>,
    by_any_name: bool,
}

/// How an image is used.
pub(super) enum Use<'a> {
    /// A container in some state was made from it.
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
            let by_id = container.image_id.as_deref().map(Cow::Borrowed);
            let by_name = container.image.as_deref().filter(|_| by_any_name).map(full_name);
            for name in by_id.into_iter().chain(by_name) {
                first(running.entry(name).or_insert(container), container);
            }
            for volume in &container.image_volumes {
                first(mounted.entry(volume.as_str()).or_insert(container), container);
            }
        }
        Self { running, mounted, by_any_name }
    }

    /// How this image is used, if it is.
    pub fn of(&self, image: &Image) -> Option<Use<'a>> {
        let is_named = |name: &str| self.running.get(name).copied();
        if let Some(container) = is_named(image.id.as_str()).or_else(|| self.names(image).find_map(is_named)) {
            return Some(Use::Container(container));
        }
        let is_mounted = |name: &str| self.mounted.get(name).copied();
        is_mounted(image.id.as_str()).or_else(|| self.names(image).find_map(is_mounted)).map(Use::Volume)
    }

    fn names<'i>(&self, image: &'i Image) -> impl Iterator<Item = &'i str> {
        let names = image.tags.iter().chain(&image.digests).map(String::as_str);
        names.take(if self.by_any_name { usize::MAX } else { 0 })
    }
}

/// Keeps the container with the smaller id, so that the order of the list does not matter.
fn first<'a>(known: &mut &'a Container, container: &'a Container) {
    if container.id < known.id {
        *known = container;
    }
}

/// Says whether a name, as a person or a pod spec writes it, means this image.
pub fn is_named(image: &Image, name: &str) -> bool {
    let full = full_name(name);
    let mut names = image.tags.iter().chain(&image.digests);
    image.id.as_str() == name || names.any(|known| known == name || *known == full)
}

/// A name with registry, repository and tag, as runtimes list it: `busybox` is `docker.io/library/busybox:latest`.
pub(super) fn full_name(name: &str) -> Cow<'_, str> {
    if name.starts_with("sha256:") || name.is_empty() {
        return Cow::Borrowed(name);
    }
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, Cow::Borrowed(rest)),
        Some(_) => ("docker.io", Cow::Borrowed(name)),
        None => ("docker.io", Cow::Owned(format!("library/{name}"))),
    };
    let has_tag = repository.contains('@') || repository.rsplit('/').next().is_some_and(|last| last.contains(':'));
    Cow::Owned(format!("{registry}/{repository}{}", if has_tag { "" } else { ":latest" }))
}
