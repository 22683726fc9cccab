//! The facts of one pass for the rules of the operator. Only those are made that a condition uses.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::image_rules::{Ranks, build_time};
use crate::model::{
    Container, FileSystem, Image, ImageDetails, ImageMemory, Leftover, LeftoverLog, LogDir, Phase, Pod, PodRef,
    RuntimeStore, Sandbox, Seen, Snapshot, full_image_name,
};
use crate::plan::disk_usage::Usage;
use crate::plan::pods::ListedPods;
use crate::rules::{Fact, Facts, MAX_LIST, PassFacts, Uses, Value, Values, labels, number, seconds, texts, time};
use crate::store::SnapshotIndex;

/// What the facts of the objects of a pass are made of.
pub(super) struct FactSource<'a> {
    snapshot: &'a Snapshot,
    uses: Uses,
    pass_facts: PassFacts,
    pods: ListedPods<'a>,
    ranks: OnceCell<Ranks<'a>>,
    index: Rc<SnapshotIndex<'a>>,
    layers: OnceCell<HashMap<&'a str, u64>>,
}

/// The facts of one object so far.
struct Object<'a> {
    uses: &'a Uses,
    values: Values,
}

// === impl FactSource ===

impl<'a> FactSource<'a> {
    /// Creates the source of the facts in use.
    pub fn new(snapshot: &'a Snapshot, uses: Uses, index: Rc<SnapshotIndex<'a>>) -> Self {
        let (pass_facts, pods) = (pass_facts(snapshot, &uses), ListedPods::new(snapshot));
        Self { snapshot, uses, pass_facts, pods, ranks: OnceCell::new(), index, layers: OnceCell::new() }
    }

    /// Returns the repositories of an image, each of which a rule decides by itself. Where no condition asks for them, `None` is the
    /// only one.
    pub fn repositories(&self, image: &Image) -> Vec<Option<String>> {
        let of_repository = [Fact::ImageRepository, Fact::ImageRegistry, Fact::ImagePulls, Fact::ImagePullSeconds];
        let repositories = if of_repository.iter().any(|fact| self.uses.contains(fact)) {
            repositories_of(image)
        } else {
            BTreeSet::new()
        };
        // More than that are not available, as any list that is too long.
        let known = repositories.into_iter().map(Some).collect::<Vec<_>>();
        if known.is_empty() || known.len() > MAX_LIST { vec![None] } else { known }
    }

    /// Returns the facts of an image under the name of one of its repositories.
    pub fn image(&self, image: &Image, repository: Option<&str>, past: Option<&ImageMemory>) -> Facts<'_> {
        let registry = || repository?.split_once('/').map(|(registry, _)| registry.into());
        let first_seen = past.map_or(Some(self.snapshot.taken_at), |past| past.first_seen);
        let (last_used, last_used_by) = self.snapshot.memory.last_use_of(image, past);
        let pulls = || self.snapshot.memory.pulls.get(repository?);
        let details = self.snapshot.image_details.get(&image.id).and_then(Seen::as_ref);
        let facts = self
            .object()
            .fact(Fact::ImageId, || Some(image.id.as_str().into()))
            .fact(Fact::ImageTags, || texts(&image.tags))
            .fact(Fact::ImageDigests, || texts(&image.digests))
            .fact(Fact::ImageRepository, || repository.map(Into::into))
            .fact(Fact::ImageRegistry, registry)
            .fact(Fact::ImageSizeBytes, || Some(number(image.size_bytes)))
            .fact(Fact::ImageOwnBytes, || self.index.get()?.own_bytes(&image.id).map(number))
            .fact(Fact::ImageWorkloads, || self.workloads_of(image))
            .fact(Fact::ImagePinned, || Some(image.pinned.into()))
            .fact(Fact::ImageImported, || Some(image.digests.iter().all(|digest| is_of_import(digest)).into()))
            .fact(Fact::ImageFirstSeen, || first_seen.map(time))
            .fact(Fact::ImageLastUsed, || last_used.map(time))
            .fact(Fact::ImageUnused, || last_used.max(first_seen).map(|since| self.since(since)))
            .fact(Fact::ImagePulls, || Some(number(pulls()?.pulls)))
            .fact(Fact::ImagePullSeconds, || pulls()?.seconds.map(number))
            .fact(Fact::ImageLastUsedBy, || last_used_by.map(Into::into));
        self.pass_facts.with(self.configured(facts, image, details).values)
    }

    /// Adds the facts of the configuration of an image.
    fn configured<'f>(&self, facts: Object<'f>, image: &Image, details: Option<&ImageDetails>) -> Object<'f> {
        let created = || details.and_then(|details| build_time(details, self.snapshot.taken_at));
        facts
            .fact(Fact::ImageCreated, || created().map(time))
            .fact(Fact::ImageLabels, || labels(details?.labels.as_ref()?.iter()))
            .fact(Fact::ImageLayers, || texts(details?.layers.as_ref()?))
            .fact(Fact::ImageTagRank, || self.ranks().of(image).map(number))
    }

    pub fn container(&self, container: &Container) -> Facts<'_> {
        let created = crate::plan::times::known(container.created_at);
        let state: &str = container.state.into();
        let facts = self
            .object()
            .fact(Fact::ContainerId, || Some(container.id.as_str().into()))
            .fact(Fact::ContainerName, || Some(container.name.as_str().into()))
            .fact(Fact::ContainerImage, || container.image.as_deref().map(Into::into))
            .fact(Fact::ContainerAttempt, || Some(number(container.attempt.into())))
            .fact(Fact::ContainerState, || Some(state.into()))
            .fact(Fact::ContainerCreated, || created.map(time))
            .fact(Fact::ContainerAge, || created.map(|at| self.since(at)));
        let facts = self.pod(self.ended(facts, container), container.pod.as_ref());
        self.pass_facts.with(facts.values)
    }

    /// Returns the facts of a container of which only the log remains. What only the runtime knows is not available.
    pub fn leftover_log(&self, log: &LeftoverLog) -> Facts<'_> {
        let facts = self
            .object()
            .fact(Fact::ContainerName, || Some(log.container.as_str().into()))
            .fact(Fact::ContainerAttempt, || Some(number(log.attempt.into())))
            .fact(Fact::ContainerLogBytes, || Some(number(log.size_bytes)));
        self.pass_facts.with(self.pod(facts, Some(&log.pod)).values)
    }

    /// Adds the facts of a container that no list has.
    fn ended<'f>(&self, facts: Object<'f>, container: &Container) -> Object<'f> {
        // Without a status the end is an estimate.
        let finished = container.finished_at.filter(|_| container.exit_code.is_some());
        facts
            .fact(Fact::ContainerExitCode, || Some(i64::from(container.exit_code?).into()))
            .fact(Fact::ContainerFinished, || finished.map(time))
            .fact(Fact::ContainerLogBytes, || container.log_bytes.map(number))
            .fact(Fact::ContainerLayerBytes, || self.layers().get(container.id.as_str()).copied().map(number))
    }

    pub fn sandbox(&self, sandbox: &Sandbox) -> Facts<'_> {
        let created = crate::plan::times::known(sandbox.created_at);
        let facts = self
            .object()
            .fact(Fact::SandboxId, || Some(sandbox.id.as_str().into()))
            .fact(Fact::SandboxAttempt, || Some(number(sandbox.attempt.into())))
            .fact(Fact::SandboxCreated, || created.map(time))
            .fact(Fact::SandboxAge, || created.map(|at| self.since(at)));
        self.pass_facts.with(self.pod(facts, sandbox.pod.as_ref()).values)
    }

    /// Returns the facts of the log directory of a deleted pod.
    pub fn log_dir(&self, dir: &LogDir, pod: &PodRef, missing_for: Duration) -> Facts<'_> {
        let facts = self
            .object()
            .fact(Fact::LogName, || Some(dir.name.as_str().into()))
            .fact(Fact::LogAge, || Some(seconds(crate::plan::times::seconds(missing_for))))
            .fact(Fact::LogBytes, || dir.size_bytes.map(number));
        self.pass_facts.with(self.pod_as_seen(facts, Some(pod), self.remembered(pod)).values)
    }

    pub fn checkpoint(&self, checkpoint: &Leftover) -> Facts<'_> {
        let name = Path::new(&checkpoint.at.path).file_name().and_then(|name| name.to_str());
        let facts = self
            .object()
            .fact(Fact::CheckpointName, || name.map(Into::into))
            .fact(Fact::CheckpointAge, || checkpoint.modified_at.map(|at| self.since(at)))
            .fact(Fact::CheckpointBytes, || checkpoint.size().map(number));
        self.pass_facts.with(facts.values)
    }

    /// Returns a deleted pod as a pass last saw it, from the memory or its document in the archive.
    fn remembered(&self, pod: &PodRef) -> Option<&Pod> {
        let Snapshot { memory, archived_pods: archived, .. } = self.snapshot;
        let known = memory.log_pods.binary_search_by(|known| known.uid.cmp(&pod.uid)).ok();
        let known = known.and_then(|at| memory.log_pods.get(at)).filter(|known| known.is(pod));
        known.or_else(|| {
            let at = archived.binary_search_by(|known| known.pod.uid.cmp(&pod.uid)).ok()?;
            archived.get(at).map(|known| &known.pod).filter(|known| known.is(pod))
        })
    }

    /// Adds the facts of the pod of an object.
    fn pod<'f>(&self, facts: Object<'f>, pod: Option<&PodRef>) -> Object<'f> {
        self.pod_as_seen(facts, pod, None)
    }

    /// Adds the facts of a pod that is in the list, or that a pass saw before.
    fn pod_as_seen<'f>(&self, facts: Object<'f>, pod: Option<&PodRef>, before: Option<&Pod>) -> Object<'f> {
        let known = pod.filter(|pod| !pod.uid.is_empty());
        let pod = known.and_then(|pod| self.pods.find(pod)).or(before);
        let details = pod.and_then(|pod| pod.details.as_deref());
        let phase = pod.map(|pod| pod.phase).filter(|phase| *phase != Phase::Unknown);
        facts
            .fact(Fact::PodUid, || known.map(|pod| pod.uid.as_str().into()))
            .fact(Fact::PodNamespace, || known.map(|pod| pod.namespace.as_str().into()))
            .fact(Fact::PodName, || known.map(|pod| pod.name.as_str().into()))
            .fact(Fact::PodPhase, || phase.map(|phase| <&str>::from(phase).into()))
            .fact(Fact::PodDeleting, || pod.map(|pod| pod.deleting.into()))
            .fact(Fact::PodLabels, || labels(details?.labels.as_ref()?.iter()))
            .fact(Fact::PodAnnotations, || labels(details?.annotations.as_ref()?.iter()))
            .fact(Fact::PodOwnerKind, || details?.owner_kind.as_deref().map(Into::into))
            .fact(Fact::PodOwnerName, || details?.owner_name.as_deref().map(Into::into))
    }

    fn object(&self) -> Object<'_> {
        Object { uses: &self.uses, values: Values::new() }
    }

    /// Returns the time since then, which is not negative: a clock may have been set.
    fn since(&self, then: Timestamp) -> Value {
        seconds(self.snapshot.taken_at.duration_since(then).max(SignedDuration::ZERO).as_secs())
    }

    fn workloads_of(&self, image: &Image) -> Option<Value> {
        let workloads = self.snapshot.workloads.as_ref()?;
        let naming = workloads.iter().filter(|workload| workload.names(image));
        texts(&naming.map(ToString::to_string).collect::<Vec<_>>())
    }

    fn ranks(&self) -> &Ranks<'a> {
        self.ranks.get_or_init(|| Ranks::new(self.snapshot))
    }

    /// Returns the bytes of the writable layers that are known, by the id of their container.
    fn layers(&self) -> &HashMap<&'a str, u64> {
        self.layers.get_or_init(|| {
            let store = self.snapshot.store.as_ref();
            let layers = store.into_iter().flat_map(RuntimeStore::writable_layers);
            layers.filter_map(|(id, part)| Some((id, part.bytes?))).collect()
        })
    }
}

// === impl Object ===

impl Object<'_> {
    /// Adds a fact if a condition uses it and it is available.
    fn fact(mut self, fact: Fact, value: impl FnOnce() -> Option<Value>) -> Self {
        if self.uses.contains(&fact) {
            self.values.extend(value().map(|value| (fact, value)));
        }
        self
    }
}

fn pass_facts(snapshot: &Snapshot, uses: &Uses) -> PassFacts {
    let node_labels = snapshot.pods.as_ref().and_then(|list| list.node_labels.as_ref());
    let disk = snapshot.image_filesystem.as_ref();
    let facts = Object { uses, values: Values::new() }
        .fact(Fact::NodeName, || Some(&*snapshot.node).filter(|name| !name.is_empty()).map(Into::into))
        .fact(Fact::NodeLabels, || labels(node_labels?.iter()))
        .fact(Fact::DiskUsedPercent, || Some(number(Usage::of_disk(disk?)?.used_percent())))
        .fact(Fact::DiskFreeBytes, || disk.map(|disk: &FileSystem| number(disk.available_bytes)))
        .fact(Fact::DiskFreeInodes, || disk?.inodes_free.map(number));
    PassFacts::new(facts.values.into_iter().chain([(Fact::Now, time(snapshot.taken_at))]).collect())
}

/// Returns the repositories of all names of an image.
pub fn repositories_of(image: &Image) -> BTreeSet<String> {
    let names = image.tags.iter().chain(&image.digests).filter(|name| !name.is_empty());
    names.map(|name| repository(name)).collect()
}

/// Returns whether a digest is `import-2026-11-21@sha256:…`, which containerd gives an imported image without a name. That of a registry
/// has its host.
fn is_of_import(digest: &str) -> bool {
    digest.starts_with("import-") && !digest.contains('/')
}

/// Returns the full name without its tag or digest.
fn repository(name: &str) -> String {
    let full = full_image_name(name);
    let name = full.split_once('@').map_or(&*full, |(name, _)| name);
    let last = name.rfind('/').map_or(0, |at| at + 1);
    let tag = name.get(last..).and_then(|rest| rest.find(':')).map_or(name.len(), |at| last + at);
    name.get(..tag).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests;
