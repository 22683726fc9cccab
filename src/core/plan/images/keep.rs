//! Why an image is kept regardless of the disk usage (I6).
//!
//! A terminated pod protects its images, but not under disk pressure: its containers are removed then, and nothing of
//! it starts again.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;

use super::other_clients::OtherClients;
use super::uses::{Use, Uses, with_unlisted_image};
use crate::model::{Container, Image, Pod, Seen, Snapshot, full_image_name};
use crate::plan::document::action::Kind;
use crate::plan::document::reason::KeepReason;
use crate::plan::step::Context;

/// A sandbox image is smaller than this.
const PAUSE_MAX_BYTES: u64 = 2 << 20;

/// Everything that can keep an image.
pub(super) struct ImageRetention<'a> {
    uses: Uses<'a>,
    others: OtherClients<'a>,
    named: HashMap<String, NamingPod<'a>>,
    pulling: HashSet<String>,
    /// Names that the runtime could not resolve, and the pods that use them; `None` = an image pull.
    unresolved: BTreeMap<&'a str, Option<NamingPod<'a>>>,
    sandbox_image: Option<&'a str>,
    /// A container whose image is not in the list by the name that the container has.
    unlisted: Option<&'a Container>,
    /// The runtime neither reports nor pins its sandbox image, so images that look like one are kept.
    guess_pause: bool,
}

/// A pod that uses an image, and the time of its list if that is not the list of this snapshot.
type NamingPod<'a> = (&'a Pod, Option<Timestamp>);

// === impl ImageRetention ===

impl<'a> ImageRetention<'a> {
    pub fn new<'i>(
        context: &Context<'a>,
        containers: &'a [Container],
        mut images: impl Iterator<Item = &'i Image> + Clone,
    ) -> Self {
        let guards = &context.policy.guards;
        let sandbox_image = match context.snapshot.sandbox_image() {
            Seen::Seen(name) if guards.keep_sandbox_image => name,
            _ => None,
        };
        Self {
            uses: Uses::new(containers, guards),
            others: OtherClients::new(context.snapshot),
            named: named(context),
            pulling: pulls(context).flat_map(|name| full_names_and_ids(context.snapshot, name)).collect(),
            unresolved: unresolved(context),
            unlisted: with_unlisted_image(containers, images.clone()).filter(|_| guards.match_image_names),
            sandbox_image,
            guess_pause: guards.keep_sandbox_image && sandbox_image.is_none() && !images.any(|image| image.pinned),
        }
    }

    /// Returns why this image is kept, if so.
    pub fn keep(&self, context: &Context, image: &Image) -> Option<KeepReason> {
        self.used(image)
            .or_else(|| self.may_be_used(image))
            .or_else(|| image.pinned.then_some(KeepReason::Pinned {}))
            .or_else(|| self.is_sandbox_image(image).then_some(KeepReason::SandboxImage {}))
            .or_else(|| kept_by_pattern(context, image))
            .or_else(|| self.named_by_pod(image))
            .or_else(|| named_by_workload(context, image))
            .or_else(|| self.used_by_other_client(context, image))
            .or_else(|| self.is_being_pulled(image).then_some(KeepReason::BeingPulled {}))
            .or_else(|| context.backing_off(Kind::Image, image.id.as_str()))
    }

    fn used(&self, image: &Image) -> Option<KeepReason> {
        Some(match self.uses.of(image)? {
            Use::Container(container) => KeepReason::InUse { container: container.id.to_string() },
            Use::Volume(container) => KeepReason::ImageVolume { container: container.id.to_string() },
        })
    }

    /// Returns that an image without names may be that of a container whose image is not in the list.
    fn may_be_used(&self, image: &Image) -> Option<KeepReason> {
        let container = self.unlisted.filter(|_| image.names().nth(1).is_none())?;
        Some(KeepReason::PossiblyInUse { container: container.id.to_string() })
    }

    fn used_by_other_client(&self, context: &Context, image: &Image) -> Option<KeepReason> {
        let is_kept = context.policy.guards.keep_images_of_other_clients;
        let user = self.others.user(image).filter(|_| is_kept)?;
        Some(KeepReason::UsedByOtherClient { namespace: user.namespace.clone(), container: user.name.clone() })
    }

    fn is_sandbox_image(&self, image: &Image) -> bool {
        match self.sandbox_image {
            Some(name) => image.is_named(name),
            None => self.guess_pause && looks_like_pause(image),
        }
    }

    fn is_being_pulled(&self, image: &Image) -> bool {
        let is_pull = |(name, pod): (&&str, &Option<NamingPod>)| pod.is_none() && image.may_be_named(name);
        image.names().any(|name| self.pulling.contains(name.as_ref())) || self.unresolved.iter().any(is_pull)
    }

    fn named_by_pod(&self, image: &Image) -> Option<KeepReason> {
        let known = image.names().find_map(|name| self.named.get(name.as_ref()).copied());
        let may_name = || self.unresolved.iter().find(|(name, _)| image.may_be_named(name)).and_then(|(_, pod)| *pod);
        let (pod, as_of) = known.or_else(may_name)?;
        Some(KeepReason::NamedByPod { named_by: format!("{}/{}", pod.namespace, pod.name), as_of })
    }
}

/// Returns the pods whose images are kept. With `evict_terminated_pods`, a terminated pod no longer needs its images.
fn protecting_pods<'a>(context: &Context<'a>) -> impl Iterator<Item = NamingPod<'a>> {
    let (is_kept, evicts) = (context.policy.guards.keep_pod_images, context.policy.evicts_terminated_pods());
    naming_pods(context.snapshot).filter(move |(pod, _)| is_kept && !(evicts && pod.phase.is_terminal()))
}

/// Returns the images that pods of this node use.
fn named<'a>(context: &Context<'a>) -> HashMap<String, NamingPod<'a>> {
    let mut named: HashMap<String, NamingPod> = HashMap::new();
    for pod in protecting_pods(context) {
        for name in pod.0.images.iter().flat_map(|name| full_names_and_ids(context.snapshot, name)) {
            let known = named.entry(name).or_insert(pod);
            *known = preferred(*known, pod);
        }
    }
    named
}

/// Returns one of two pods: the one from the list of this snapshot, else the first by name. The order of the lists does
/// not matter.
fn preferred<'a>(one: NamingPod<'a>, other: NamingPod<'a>) -> NamingPod<'a> {
    let rank = |(pod, as_of): NamingPod<'a>| (as_of, &pod.namespace, &pod.name, &pod.uid);
    if rank(other) < rank(one) { other } else { one }
}

/// Returns what to compare an image with for a name that a pod uses: the full name and, if the runtime resolved it, the
/// ID.
fn full_names_and_ids<'a>(snapshot: &'a Snapshot, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let resolved = snapshot.resolved_images.get(name).and_then(Seen::as_ref);
    let id = resolved.and_then(Option::as_ref).map(|id| id.canonical().into_owned());
    id.into_iter().chain([full_image_name(name).into_owned()])
}

fn pulls<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a str> {
    let is_kept = context.policy.guards.keep_pod_images;
    context.snapshot.pulling.iter().filter(move |_| is_kept).map(String::as_str)
}

/// Returns the names that the runtime failed to resolve.
fn unresolved<'a>(context: &Context<'a>) -> BTreeMap<&'a str, Option<NamingPod<'a>>> {
    let is_unresolved = |name: &str| context.snapshot.resolved_images.get(name).is_some_and(|answer| !answer.is_seen());
    let mut names: BTreeMap<&str, Option<NamingPod>> = BTreeMap::new();
    for pod in protecting_pods(context) {
        for name in pod.0.images.iter().map(String::as_str).filter(|name| is_unresolved(name)) {
            let known = names.entry(name).or_insert(Some(pod));
            *known = Some(known.map_or(pod, |known| preferred(known, pod)));
        }
    }
    for name in pulls(context).filter(|name| is_unresolved(name)) {
        names.entry(name).or_insert(None);
    }
    names
}

/// Returns the pods that use images: those of the list and, if the list is unavailable or incomplete, those of the last
/// complete list. An incomplete list still protects the images that it contains.
fn naming_pods(snapshot: &Snapshot) -> impl Iterator<Item = NamingPod<'_>> {
    let list = snapshot.pods.as_ref();
    let is_complete = list.is_some_and(|list| list.complete);
    let remembered = snapshot.memory.named_images.iter().filter(move |_| !is_complete);
    let remembered = remembered.flat_map(|known| known.pods.iter().map(|pod| (pod, Some(known.as_of))));
    list.into_iter().flat_map(|list| &list.pods).map(|pod| (pod, None)).chain(remembered)
}

/// Returns the first workload that names an image, if the guard is on. Under disk pressure the pods of the node go first.
fn named_by_workload(context: &Context, image: &Image) -> Option<KeepReason> {
    let workloads = context.snapshot.workloads.as_ref().filter(|_| context.policy.keeps_workload_images())?;
    let workload = workloads.iter().find(|workload| workload.names(image))?;
    Some(KeepReason::NamedByWorkload { workload: workload.to_string() })
}

/// Returns the first keep pattern that matches a name of the image.
fn kept_by_pattern(context: &Context, image: &Image) -> Option<KeepReason> {
    let pattern = image.first_of(&context.policy.images.keep)?;
    Some(KeepReason::KeepPattern { pattern: pattern.as_str().to_owned() })
}

/// Returns whether the image is small and the last part of a repository name contains the word `pause`: `pause`,
/// `pause-amd64`, `mirrored-pause`.
fn looks_like_pause(image: &Image) -> bool {
    let is_pause = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let repository = last.split([':', '@']).next().unwrap_or(last);
        repository.split('-').any(|word| word == "pause")
    };
    image.size_bytes < PAUSE_MAX_BYTES && image.names().any(|name| is_pause(&name))
}

#[cfg(test)]
mod tests;
