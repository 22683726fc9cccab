//! What a pass must not remove, computed only from the state of the simulated node, not from results of the agent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use kubegc::cri::generated as pb;
use kubegc::sim::Node;

use super::node::{POD_WITH_DIRECTORY, PULLING, SANDBOX_IMAGE, TERMINATED};
use super::stage::{Stage, entries};

/// The default of `guards.created_grace`.
const CREATED_GRACE: Duration = Duration::from_mins(10);

/// Everything on the node by name: `container POD/NAME#ATTEMPT`, `sandbox POD#ATTEMPT`, `image TAG`, `log PATH`.
pub type Things = BTreeSet<String>;

/// The invariant that protects a thing.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Why {
    /// A container that runs or may run, a ready sandbox, a sandbox that has a protected container.
    I1,
    /// The newest instance of its slot, in a pod that is not deleted.
    I3,
    /// A young created container.
    I4,
    /// An object without pod labels.
    I5,
    /// An image in use.
    I6,
    /// A log entry of an existing pod or of a protected container, or an entry that is no log.
    I7,
}

/// The state of the node at one time.
struct View {
    containers: Vec<pb::Container>,
    sandboxes: Vec<pb::PodSandbox>,
    /// `POD#ATTEMPT` by the ID of a sandbox.
    sandbox_names: HashMap<String, String>,
    images: Vec<pb::Image>,
    volumes: Vec<String>,
}

/// Returns everything on the node.
pub fn things(stage: &Stage) -> Things {
    let view = View::of(&stage.sim.state());
    let mut all: Things = view.containers.iter().map(|container| view.container(container)).collect();
    all.extend(view.sandboxes.iter().map(|sandbox| view.sandbox(&sandbox.id)));
    all.extend(view.images.iter().map(image_name));
    let roots = stage.sim.log_roots();
    let mut logs = BTreeSet::new();
    for root in [&roots.pods, &roots.containers] {
        entries(root, stage.sim.dir(), &mut logs);
    }
    all.extend(logs.into_iter().map(|path| format!("log {path}")));
    all
}

/// Returns the `things` that the next pass must not remove, and why.
pub fn protected(stage: &Stage, things: &Things, under_pressure: bool) -> BTreeMap<String, Why> {
    let view = View::of(&stage.sim.state());
    let existing = existing(stage, &view, under_pressure);
    let mut protected = view.containers(stage, &existing);
    let kept: HashSet<&str> = view
        .containers
        .iter()
        .filter(|c| protected.contains_key(&view.container(c)))
        .map(|c| c.pod_sandbox_id.as_str())
        .collect();
    for sandbox in &view.sandboxes {
        if sandbox.state() == pb::PodSandboxState::SandboxReady || kept.contains(sandbox.id.as_str()) {
            protected.insert(view.sandbox(&sandbox.id), Why::I1);
        } else if sandbox.labels.is_empty() {
            protected.insert(view.sandbox(&sandbox.id), Why::I5);
        }
    }
    protected.extend(view.needed_images(stage, under_pressure).into_iter().map(|image| (image, Why::I6)));
    let logs = logs(stage, &view, things, &protected);
    protected.extend(logs.into_iter().map(|log| (log, Why::I7)));
    protected
}

/// Returns what cannot be removed while other things are left: sandboxes with containers, the logs of containers, and
/// log directories of pods that have containers or sandboxes.
pub fn held(stage: &Stage, things: &Things) -> Things {
    let view = View::of(&stage.sim.state());
    let mut held: Things = view.containers.iter().map(|container| view.sandbox(&container.pod_sandbox_id)).collect();
    let pods = view.sandboxes.iter().filter_map(|sandbox| sandbox.metadata.as_ref());
    let dirs: Vec<_> = pods.map(|pod| format!("log pods/{}_{}_{}", pod.namespace, pod.name, pod.uid)).collect();
    let links: Vec<_> = view.containers.iter().map(|container| format!("-{}.log", container.id)).collect();
    let is_held =
        |thing: &str| dirs.iter().any(|dir| is_beneath(thing, dir)) || links.iter().any(|link| thing.ends_with(link));
    held.extend(things.iter().filter(|thing| is_held(thing)).cloned());
    held
}

/// Returns the uids of pods whose dead containers the kubelet may still need.
fn existing(stage: &Stage, view: &View, under_pressure: bool) -> HashSet<String> {
    let listed = stage.pods.pods.iter().map(|pod| pod.uid.to_string());
    let is_needed = |uid: &String| !under_pressure || uid != TERMINATED;
    let running = view.containers.iter().filter(|container| is_running(container)).filter_map(pod_uid);
    listed.filter(is_needed).chain(running).chain([POD_WITH_DIRECTORY.to_owned()]).collect()
}

/// Protects log entries of protected containers, of pods that still exist, and entries that are no logs.
fn logs(stage: &Stage, view: &View, things: &Things, protected: &BTreeMap<String, Why>) -> Vec<String> {
    let kept = view.containers.iter().filter(|container| protected.contains_key(&view.container(container)));
    let ids: Vec<_> = kept.clone().map(|container| format!("-{}.log", container.id)).collect();
    let files: Vec<_> = kept.map(View::log_file).collect();
    let pods = stage.pods.pods.iter().map(|pod| pod.uid.to_string()).chain([POD_WITH_DIRECTORY.to_owned()]);
    let dirs: HashSet<_> = pods.map(|uid| format!("log pods/default_{uid}_{uid}")).collect();
    let is_alien =
        |thing: &str| ["log pods/README", "log pods/lost+found", "log containers/other.txt"].contains(&thing);
    let is_kept = |thing: &&String| {
        is_alien(thing)
            || dirs.contains(*thing)
            || ids.iter().any(|id| thing.ends_with(id))
            || files.iter().any(|file| thing.starts_with(file))
    };
    things.iter().filter(is_kept).cloned().collect()
}

fn is_beneath(thing: &str, dir: &str) -> bool {
    thing.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_running(container: &pb::Container) -> bool {
    container.state() == pb::ContainerState::ContainerRunning
}

fn pod_uid(container: &pb::Container) -> Option<String> {
    container.labels.get("io.kubernetes.pod.uid").cloned()
}

fn image_name(image: &pb::Image) -> String {
    format!("image {}", image.repo_tags.first().unwrap_or(&image.id))
}

// === impl View ===

impl View {
    fn of(node: &Node) -> Self {
        let sandboxes = node.sandboxes();
        let name = |sandbox: &pb::PodSandbox| {
            let metadata = sandbox.metadata.clone().unwrap();
            (sandbox.id.clone(), format!("{}#{}", metadata.name, metadata.attempt))
        };
        let sandbox_names = sandboxes.iter().map(name).collect();
        let (containers, images, volumes) = (node.containers(), node.images(), node.image_volumes());
        Self { containers, sandboxes, sandbox_names, images, volumes }
    }

    fn container(&self, container: &pb::Container) -> String {
        let pod = self.sandbox_names[&container.pod_sandbox_id].split('#').next().unwrap();
        let metadata = container.metadata.clone().unwrap();
        format!("container {pod}/{}#{}", metadata.name, metadata.attempt)
    }

    fn sandbox(&self, id: &str) -> String {
        format!("sandbox {}", self.sandbox_names[id])
    }

    /// Returns the prefix of a container's log files.
    fn log_file(container: &pb::Container) -> String {
        let uid = pod_uid(container).unwrap_or_default();
        let metadata = container.metadata.clone().unwrap();
        format!("log pods/default_{uid}_{uid}/{}/{}.log", metadata.name, metadata.attempt)
    }

    fn containers(&self, stage: &Stage, existing: &HashSet<String>) -> BTreeMap<String, Why> {
        let newest = self.newest();
        let why = |container: &pb::Container| {
            let Some(uid) = pod_uid(container) else { return Some(Why::I5) };
            let is_created = container.state() == pb::ContainerState::ContainerCreated;
            let may_run = container.state() == pb::ContainerState::ContainerUnknown && self.is_ready(container);
            if is_running(container) || may_run {
                return Some(Why::I1);
            }
            let age = stage.clock.unset().as_nanosecond() - i128::from(container.created_at);
            if is_created && age < CREATED_GRACE.as_nanos().cast_signed() {
                return Some(Why::I4);
            }
            (newest.contains(&container.id) && existing.contains(&uid)).then_some(Why::I3)
        };
        self.containers.iter().filter_map(|container| Some((self.container(container), why(container)?))).collect()
    }

    /// Returns whether the sandbox of a container is ready.
    fn is_ready(&self, container: &pb::Container) -> bool {
        let is_ready = |sandbox: &pb::PodSandbox| sandbox.state() == pb::PodSandboxState::SandboxReady;
        self.sandboxes.iter().any(|sandbox| sandbox.id == container.pod_sandbox_id && is_ready(sandbox))
    }

    /// Returns the IDs of the newest instances of all slots.
    fn newest(&self) -> HashSet<String> {
        let mut newest: HashMap<_, &pb::Container> = HashMap::new();
        for container in &self.containers {
            let slot = (pod_uid(container), container.metadata.clone().unwrap().name);
            let known = newest.entry(slot).or_insert(container);
            if container.created_at > known.created_at {
                *known = container;
            }
        }
        newest.into_values().map(|container| container.id.clone()).collect()
    }

    fn needed_images(&self, stage: &Stage, under_pressure: bool) -> Vec<String> {
        let of_containers = self.containers.iter().flat_map(|container| {
            let name = container.image.clone().unwrap_or_default().image;
            [container.image_ref.clone(), name]
        });
        let pods = stage.pods.pods.iter().filter(|pod| !(under_pressure && pod.phase.is_terminal()));
        let of_pods = pods.flat_map(|pod| pod.images.clone());
        let fixed = [PULLING, SANDBOX_IMAGE].map(str::to_owned);
        let names: HashSet<_> = of_containers.chain(of_pods).chain(fixed).chain(self.volumes.iter().cloned()).collect();
        let is_needed = |image: &&pb::Image| {
            let mut tags = image.repo_tags.iter();
            let is_named = tags.any(|tag| names.contains(tag) || tag.starts_with("registry.example/tools/"));
            image.pinned || is_named || names.contains(&image.id)
        };
        self.images.iter().filter(is_needed).map(image_name).collect()
    }
}
