//! Why an image stays whatever the disk says (I6).

use std::collections::HashMap;

use super::draft::World;
use super::image_use::{Use, Uses, full_name, is_named, names};
use super::{KeepReason, Kind};
use crate::model::{Container, Image, Pod};

/// An image of the sandboxes is smaller than this.
const PAUSE_MAX_BYTES: u64 = 2 << 20;

/// Everything that may hold an image.
pub(super) struct Keepers<'a> {
    uses: Uses<'a>,
    named: HashMap<String, &'a Pod>,
    pulling: std::collections::HashSet<String>,
    sandbox_image: Option<&'a str>,
    /// Nobody says which image the sandboxes run, so what looks like one stays.
    guess_pause: bool,
}

// === impl Keepers ===

impl<'a> Keepers<'a> {
    pub fn new<'i>(
        world: &World<'a>,
        containers: &'a [Container],
        mut images: impl Iterator<Item = &'i Image>,
    ) -> Self {
        let guards = &world.policy.guards;
        let pulling = world.snapshot.pulling.iter().filter(|_| guards.keep_pod_images);
        let runtime = world.snapshot.runtime.as_ref().filter(|_| guards.keep_sandbox_image);
        let sandbox_image = runtime.and_then(|runtime| runtime.sandbox_image.as_deref());
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
        let pod = names(image).find_map(|name| self.named.get(name.as_ref()))?;
        Some(KeepReason::NamedByPod { named_by: format!("{}/{}", pod.namespace, pod.name) })
    }
}

/// The images that pods of this node name, and of the pods that name one the first by name. A list that is not complete
/// names what it names. A pod that finished needs its image no more where finished pods are evicted.
fn named<'a>(world: &World<'a>) -> HashMap<String, &'a Pod> {
    let list = world.snapshot.pods.as_ref().filter(|_| world.policy.guards.keep_pod_images);
    let is_evicted = |pod: &Pod| world.policy.containers.evict_terminated_pods && pod.phase.is_terminal();
    let mut named: HashMap<String, &Pod> = HashMap::new();
    for pod in list.into_iter().flat_map(|list| &list.pods).filter(|pod| !is_evicted(pod)) {
        for name in &pod.images {
            let known = named.entry(full_name(name).into_owned()).or_insert(pod);
            let place = |pod: &'a Pod| (&pod.namespace, &pod.name, &pod.uid);
            *known = if place(pod) < place(known) { pod } else { known };
        }
    }
    named
}

/// The first keep pattern that matches a name of the image.
fn kept_by_pattern(world: &World, image: &Image) -> Option<KeepReason> {
    let mut patterns = world.policy.images.keep.iter();
    let pattern = patterns.find(|pattern| names(image).any(|name| pattern.matches(&name)))?;
    Some(KeepReason::KeepPattern { pattern: pattern.as_str().to_owned() })
}

/// Small, and called `pause` or `pause-amd64` in some repository.
fn looks_like_pause(image: &Image) -> bool {
    let is_pause = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let repository = last.split([':', '@']).next().unwrap_or(last);
        repository == "pause" || repository.starts_with("pause-")
    };
    image.size_bytes < PAUSE_MAX_BYTES && names(image).any(|name| is_pause(&name))
}

#[cfg(test)]
mod tests;
