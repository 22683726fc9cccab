//! Why an image stays whatever the disk says (I6).

use std::collections::HashMap;

use jiff::Timestamp;

use super::draft::World;
use super::image_use::{Use, Uses, full_name, is_named, names};
use super::{KeepReason, Kind};
use crate::model::{Container, Image, Pod, Seen, Snapshot};

/// An image of the sandboxes is smaller than this.
const PAUSE_MAX_BYTES: u64 = 2 << 20;

/// Everything that may hold an image.
pub(super) struct Keepers<'a> {
    uses: Uses<'a>,
    named: HashMap<String, Namer<'a>>,
    pulling: std::collections::HashSet<String>,
    sandbox_image: Option<&'a str>,
    /// The runtime neither names nor pins the image of its sandboxes, so images that look like one are kept.
    guess_pause: bool,
}

/// A pod that names an image, and the moment of its list where that is not the list of this snapshot.
type Namer<'a> = (&'a Pod, Option<Timestamp>);

// === impl Keepers ===

impl<'a> Keepers<'a> {
    pub fn new<'i>(
        world: &World<'a>,
        containers: &'a [Container],
        mut images: impl Iterator<Item = &'i Image>,
    ) -> Self {
        let guards = &world.policy.guards;
        let pulling = world.snapshot.pulling.iter().filter(|_| guards.keep_pod_images);
        let sandbox_image = match world.snapshot.sandbox_image() {
            Seen::Seen(name) if guards.keep_sandbox_image => name,
            _ => None,
        };
        Self {
            uses: Uses::new(containers, guards),
            named: named(world),
            pulling: pulling.map(|name| full_name(name).into_owned()).collect(),
            sandbox_image,
            guess_pause: guards.keep_sandbox_image && sandbox_image.is_none() && !images.any(|image| image.pinned),
        }
    }

    /// Why this image stays, if so.
    pub fn keep(&self, world: &World, image: &Image) -> Option<KeepReason> {
        self.used(image)
            .or_else(|| image.pinned.then_some(KeepReason::Pinned {}))
            .or_else(|| self.is_sandbox_image(image).then_some(KeepReason::SandboxImage {}))
            .or_else(|| kept_by_pattern(world, image))
            .or_else(|| self.named_by_pod(image))
            .or_else(|| self.is_being_pulled(image).then_some(KeepReason::BeingPulled {}))
            .or_else(|| world.backing_off(Kind::Image, image.id.as_str()))
    }

    fn used(&self, image: &Image) -> Option<KeepReason> {
        Some(match self.uses.of(image)? {
            Use::Container(container) => KeepReason::InUse { container: container.id.to_string() },
            Use::Volume(container) => KeepReason::ImageVolume { container: container.id.to_string() },
        })
    }

    fn is_sandbox_image(&self, image: &Image) -> bool {
        match self.sandbox_image {
            Some(name) => is_named(image, name),
            None => self.guess_pause && looks_like_pause(image),
        }
    }

    fn is_being_pulled(&self, image: &Image) -> bool {
        names(image).any(|name| self.pulling.contains(name.as_ref()))
    }

    fn named_by_pod(&self, image: &Image) -> Option<KeepReason> {
        let (pod, as_of) = names(image).find_map(|name| self.named.get(name.as_ref()))?;
        Some(KeepReason::NamedByPod { named_by: format!("{}/{}", pod.namespace, pod.name), as_of: *as_of })
    }
}

/// The images that pods of this node name. A pod that terminated needs its image no more where terminated pods are evicted.
fn named<'a>(world: &World<'a>) -> HashMap<String, Namer<'a>> {
    let is_evicted = |pod: &Pod| world.policy.containers.evict_terminated_pods && pod.phase.is_terminal();
    let namers = namers(world.snapshot).filter(|(pod, _)| world.policy.guards.keep_pod_images && !is_evicted(pod));
    let mut named: HashMap<String, Namer> = HashMap::new();
    for namer in namers {
        for name in &namer.0.images {
            let known = named.entry(full_name(name).into_owned()).or_insert(namer);
            // The list of this snapshot first, then the first pod by name, whatever the order of the lists.
            let rank = |(pod, as_of): Namer<'a>| (as_of, &pod.namespace, &pod.name, &pod.uid);
            *known = if rank(namer) < rank(*known) { namer } else { *known };
        }
    }
    named
}

/// The pods that name images: those of the list and, where it is missing or incomplete, those of the last complete one.
/// A list that is not complete names what it names.
fn namers(snapshot: &Snapshot) -> impl Iterator<Item = Namer<'_>> {
    let list = snapshot.pods.as_ref();
    let is_complete = list.is_some_and(|list| list.complete);
    let remembered = snapshot.memory.named_images.iter().filter(move |_| !is_complete);
    let remembered = remembered.flat_map(|known| known.pods.iter().map(|pod| (pod, Some(known.as_of))));
    list.into_iter().flat_map(|list| &list.pods).map(|pod| (pod, None)).chain(remembered)
}

/// The first keep pattern that matches a name of the image.
fn kept_by_pattern(world: &World, image: &Image) -> Option<KeepReason> {
    let mut patterns = world.policy.images.keep.iter();
    let pattern = patterns.find(|pattern| names(image).any(|name| pattern.matches(&name)))?;
    Some(KeepReason::KeepPattern { pattern: pattern.as_str().to_owned() })
}

/// Small, and some repository of it has the word `pause` in its last part: `pause`, `pause-amd64`, `mirrored-pause`.
fn looks_like_pause(image: &Image) -> bool {
    let is_pause = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let repository = last.split([':', '@']).next().unwrap_or(last);
        repository.split('-').any(|word| word == "pause")
    };
    image.size_bytes < PAUSE_MAX_BYTES && names(image).any(|name| is_pause(&name))
}

#[cfg(test)]
mod tests;
