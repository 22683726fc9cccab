//! Determines which images are in use, and by which containers.
//!
//! The kubelet compares only the image ID that a container reports with the ID of the image. Runtimes differ in what
//! they report, and pods refer to images by tag or digest. So the guard `match_image_names` compares all of these.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::model::{Container, Image, ImageId, Snapshot, canonical_image_id, full_image_name};
use crate::plan::policy::guards::Guards;

/// The images that containers use, by every name that refers to them.
pub(in crate::plan) struct Uses<'a> {
    created_from: HashMap<Cow<'a, str>, &'a Container>,
    mounted: HashMap<Cow<'a, str>, &'a Container>,
    by_any_name: bool,
}

/// How an image is used.
pub(in crate::plan) enum Use<'a> {
    /// A container in any state was created from it.
    Container(&'a Container),
    /// A container has it mounted as a volume.
    Volume(&'a Container),
}

// === impl Uses ===

impl<'a> Uses<'a> {
    pub fn new(containers: &'a [Container], guards: &Guards) -> Self {
        let by_any_name = guards.match_image_names;
        // Most images have many containers, and each text is converted once.
        let (mut by_id, mut by_name, mut mounted) = (HashMap::new(), HashMap::new(), HashMap::new());
        for container in containers {
            for (texts, text) in [(&mut by_id, &container.image_id), (&mut by_name, &container.image)] {
                if let Some(text) = text {
                    keep_smaller_id(texts.entry(text.as_str()).or_insert(container), container);
                }
            }
            for volume in &container.image_volumes {
                keep_smaller_id(mounted.entry(canonical_image_id(volume)).or_insert(container), container);
            }
        }
        let by_id = by_id.into_iter().map(|(text, container)| (canonical_image_id(text), container));
        let by_name = by_name.into_iter().map(|(text, container)| (full_image_name(text), container));
        let mut created_from = HashMap::new();
        for (name, container) in by_id.chain(by_name.filter(|_| by_any_name)) {
            keep_smaller_id(created_from.entry(name).or_insert(container), container);
        }
        Self { created_from, mounted, by_any_name }
    }

    /// Returns how this image is used, if so.
    pub fn of(&self, image: &Image) -> Option<Use<'a>> {
        let by_names = if self.by_any_name { usize::MAX } else { 1 };
        // The first name is the ID.
        let names: Vec<_> = image.names().take(by_names).collect();
        let is_named = |name: &Cow<str>| self.created_from.get(name.as_ref()).copied();
        if let Some(container) = names.iter().find_map(is_named) {
            return Some(Use::Container(container));
        }
        let is_mounted = |name: &Cow<str>| self.mounted.get(name.as_ref()).copied();
        names.iter().find_map(is_mounted).map(Use::Volume)
    }
}

// === impl Use ===

impl<'a> Use<'a> {
    pub fn container(&self) -> &'a Container {
        match self {
            Self::Container(container) | Self::Volume(container) => container,
        }
    }
}

/// Returns a container whose image is not in the list, by any name. CRI-O reports a digest that an image loses when its tag moves
/// to another one (cri-o/cri-o#5479). The image itself is still in the list, without names.
pub(super) fn with_unlisted_image<'a, 'i>(
    containers: &'a [Container],
    images: impl Iterator<Item = &'i Image>,
) -> Option<&'a Container> {
    let listed: HashSet<_> = images.flat_map(Image::names).collect();
    let is_unlisted = |container: &&Container| {
        let reference = container.image_id.as_deref().filter(|id| !id.is_empty());
        reference.is_some_and(|id| !listed.contains(&canonical_image_id(id)) && !listed.contains(&full_image_name(id)))
    };
    containers.iter().filter(is_unlisted).min_by(|one, other| one.id.cmp(&other.id))
}

/// Keeps the container with the smaller ID, so that the order of the list does not matter.
fn keep_smaller_id<'a>(known: &mut &'a Container, container: &'a Container) {
    if container.id < known.id {
        *known = container;
    }
}

/// Returns the images of a list by ID. A runtime may list an ID more than once, each time with other names. The entries
/// are merged, and the size is that of the last entry, as in the kubelet. With the guard `match_image_names`, the image is
/// pinned if any entry is; otherwise the last entry decides, as in the kubelet.
pub(in crate::plan) fn by_id<'a>(images: &'a [Image], guards: &Guards) -> BTreeMap<&'a ImageId, Image> {
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

/// The containers that use an image, by each name that refers to it.
pub struct ImageUsers<'a>(HashMap<Cow<'a, str>, Vec<&'a Container>>);

/// Returns the images of a snapshot, one for each ID, as a plan sees them.
pub fn images(snapshot: &Snapshot, guards: &Guards) -> Vec<Image> {
    let images = snapshot.images.as_ref().map(Vec::as_slice).unwrap_or_default();
    by_id(images, guards).into_values().collect()
}

// === impl ImageUsers ===

impl<'a> ImageUsers<'a> {
    /// Collects the containers of a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut users: HashMap<Cow<str>, Vec<&Container>> = HashMap::new();
        for container in snapshot.listed_containers().into_iter().flatten() {
            let ids = container.image_id.iter().chain(&container.image_volumes).map(|id| canonical_image_id(id));
            for name in ids.chain(container.image.as_deref().map(full_image_name)) {
                users.entry(name).or_default().push(container);
            }
        }
        Self(users)
    }

    /// Returns the containers that use an image or have it mounted, in any state, sorted by pod and name.
    pub fn of(&self, image: &Image) -> Vec<&'a Container> {
        let users = image.names().filter_map(|name| self.0.get(name.as_ref())).flatten();
        let key = |container: &&'a Container| {
            let pod = container.pod.as_ref().map(ToString::to_string);
            ((pod, &container.name, container.attempt, &container.id), *container)
        };
        users.map(key).collect::<BTreeMap<_, _>>().into_values().collect()
    }
}
