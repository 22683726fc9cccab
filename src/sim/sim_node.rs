//! The state of the node: sandboxes, containers, images, disk, and the properties of the runtime.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::SimError;
use super::image_store::{Images, Layers};
use super::indexed_map::{IndexedMap, Labeled};
use super::log_files::{LogEntry, LogPaths};
use crate::cri::generated as pb;
use crate::model::{ContainerState, FileSystem, SandboxState};

/// 2026-11-21T12:00:00Z, the initial time of the node.
pub(super) const NOON: i64 = 1_795_262_400;

/// The state of a node. Builder methods, calls, hooks and tests change it.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) sandboxes: IndexedMap<SimSandbox>,
    pub(crate) containers: IndexedMap<SimContainer>,
    pub(crate) images: Images,
    pub(super) runtime: RuntimeProperties,
    pub(super) disk: Disk,
    /// The time of every change that a call makes.
    pub(super) now: Timestamp,
    /// The creation time of the objects that the next builder methods add.
    pub(super) moment: Timestamp,
    pub(super) cursor: Cursor,
    /// The number of objects created so far under a name, which is the next attempt number.
    pub(super) attempts: HashMap<String, u32>,
    /// The number of objects created so far. It makes ids unique.
    pub(super) made: u64,
    /// Log entries that are not written yet; `None` = no logs are written.
    pub(super) unwritten: Option<Vec<LogEntry>>,
    /// `None` = the node has no directory yet, so nothing is written.
    pub(super) roots: Option<LogPaths>,
    /// Containers of other clients of the runtime by namespace: id and image.
    pub(super) other_clients: BTreeMap<String, Vec<(String, String)>>,
}

/// The last objects that the builder methods added.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    pub(super) next_id: Option<String>,
    pub(super) sandbox: String,
    pub(super) container: String,
    pub(super) image: String,
}

/// The properties of the runtime.
#[derive(Clone, Debug)]
pub(super) struct RuntimeProperties {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sandbox_image: Option<String>,
    /// The configuration in the verbose status, if it is not as containerd writes it.
    pub(super) config: Option<String>,
    /// `None` = the directory `images` of the simulated node.
    pub(super) mountpoint: Option<PathBuf>,
    pub(super) streaming: Streaming,
    /// The largest list that the runtime sends in one message, in bytes; `None` = no limit.
    pub(super) send_limit: Option<usize>,
    /// Whether the runtime serves v1alpha2 instead of v1.
    pub(super) is_old: bool,
}

/// The disk with the images.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) capacity_bytes: u64,
    pub(super) other_bytes: u64,
}

/// How the streaming lists answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Streaming {
    /// With the error Unimplemented, like runtimes before CRI 0.36.
    #[default]
    Unimplemented,
    /// In batches of this many objects.
    Batches(usize),
    /// In batches of this many objects, with an error after the first batch.
    BreaksOff(usize),
}

/// A container.
#[derive(Clone, Debug)]
pub(crate) struct SimContainer {
    pub(crate) listed: pb::Container,
    pub(super) started_at: i64,
    pub(super) finished_at: i64,
    pub(super) exit_code: i32,
    /// Relative to the pod log root, or absolute; empty = no log.
    pub(crate) log_path: PathBuf,
    pub(crate) mounts: Vec<pb::Mount>,
    /// The layers of the image. The container holds them even after the image was removed.
    pub(super) layers: Layers,
    /// The bytes in the writable layer.
    pub(super) written_bytes: u64,
}

/// A sandbox.
#[derive(Clone, Debug)]
pub(crate) struct SimSandbox {
    pub(crate) listed: pb::PodSandbox,
    pub(super) log_directory: PathBuf,
    pub(crate) containers: BTreeSet<String>,
}

// === impl Node ===

impl Node {
    /// Creates an empty node with the time 2026-11-21T12:00:00Z and a disk of 100 GiB.
    pub fn new() -> Self {
        let noon = Timestamp::from_second(NOON).unwrap_or_default();
        Self {
            sandboxes: IndexedMap::of("sandbox"),
            containers: IndexedMap::of("container"),
            images: Images::default(),
            runtime: RuntimeProperties::default(),
            disk: Disk { capacity_bytes: 100 << 30, other_bytes: 0 },
            now: noon,
            moment: noon,
            cursor: Cursor::default(),
            attempts: HashMap::new(),
            made: 0,
            unwritten: Some(Vec::new()),
            roots: None,
            other_clients: BTreeMap::new(),
        }
    }

    /// Returns whether the node behaves as with CRI-O, and not as with containerd.
    pub(super) fn is_crio(&self) -> bool {
        self.runtime.name == "cri-o"
    }

    /// Returns the node's time.
    pub fn time(&self) -> Timestamp {
        self.now
    }

    /// Sets the node's time, which applies to every later change.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = now;
        self.moment = now;
    }

    /// Returns the ids of all containers, sorted.
    pub fn container_ids(&self) -> Vec<String> {
        self.containers.ids().cloned().collect()
    }

    /// Returns all containers as `POD/NAME#ATTEMPT STATE`, sorted.
    pub fn container_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.containers.iter().map(|container| self.container_name(container)).collect();
        names.sort();
        names
    }

    /// Returns the id of the newest container with this pod name and container name.
    pub fn container_id(&self, pod: &str, name: &str) -> Option<String> {
        let mut found: Vec<_> = self
            .containers
            .iter()
            .filter(|container| container.metadata().0 == name && self.pod_name(container) == pod)
            .collect();
        found.sort_by_key(|container| container.metadata().1);
        found.last().map(|container| container.listed.id.clone())
    }

    /// Returns the state of a container by its id or a unique prefix; `None` = it does not exist.
    pub fn container_state(&self, id: &str) -> Option<ContainerState> {
        self.containers.find(id).ok().map(SimContainer::state)
    }

    /// Returns the ids of all sandboxes, sorted.
    pub fn sandbox_ids(&self) -> Vec<String> {
        self.sandboxes.ids().cloned().collect()
    }

    /// Returns all sandboxes as `POD#ATTEMPT STATE`, sorted.
    pub fn sandbox_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.sandboxes.iter().map(SimSandbox::name).collect();
        names.sort();
        names
    }

    /// Returns the id of the newest sandbox of the pod with this name.
    pub fn sandbox_id(&self, pod: &str) -> Option<String> {
        let attempt = |sandbox: &SimSandbox| sandbox.listed.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        let of_pod = |sandbox: &&SimSandbox| sandbox.pod_name() == pod;
        self.sandboxes.iter().filter(of_pod).max_by_key(|sandbox| attempt(sandbox)).map(|found| found.listed.id.clone())
    }

    /// Returns the state of a sandbox by its id or a unique prefix; `None` = it does not exist.
    pub fn sandbox_state(&self, id: &str) -> Option<SandboxState> {
        self.sandboxes.find(id).ok().map(SimSandbox::state)
    }

    /// Returns the ids of all images, sorted.
    pub fn image_ids(&self) -> Vec<String> {
        self.images.iter().map(|image| image.listed.id.clone()).collect()
    }

    /// Returns the first tag of each image, or its id if it has no tag, sorted.
    pub fn image_names(&self) -> Vec<String> {
        let name = |image: &pb::Image| image.repo_tags.first().unwrap_or(&image.id).clone();
        let mut names: Vec<_> = self.images.iter().map(|image| name(&image.listed)).collect();
        names.sort();
        names
    }

    /// Returns the id of the image with this id, short id, tag or digest.
    pub fn image_id(&self, name: &str) -> Option<String> {
        self.images.find(name).ok().flatten().map(|image| image.listed.id.clone())
    }

    /// Returns the disk as `statvfs` would report it, without inode counts.
    pub fn file_system(&self) -> FileSystem {
        let written: u64 = self.containers.iter().map(|container| container.written_bytes).sum();
        let used = self.disk.other_bytes.saturating_add(self.images.layer_bytes()).saturating_add(written);
        FileSystem {
            mountpoint: self.mountpoint().to_owned(),
            capacity_bytes: self.disk.capacity_bytes,
            available_bytes: self.disk.capacity_bytes.saturating_sub(used),
            inodes: None,
            inodes_free: None,
            fsid: None,
            free_bytes: None,
        }
    }

    /// Sets the bytes used on the disk by neither images nor containers.
    pub fn set_other_bytes(&mut self, bytes: u64) {
        self.disk.other_bytes = bytes;
    }

    pub(super) fn mountpoint(&self) -> &Path {
        self.runtime.mountpoint.as_deref().unwrap_or(Path::new("/var/lib/containerd"))
    }

    /// Creates the directories that the node needs under `dir`, and writes the logs.
    pub(super) fn settle(&mut self, dir: &Path) -> Result<(), SimError> {
        let images = dir.join("images");
        let roots = LogPaths::beneath(dir);
        for needed in [&images, &roots.pods, &roots.containers] {
            std::fs::create_dir_all(needed).map_err(SimError::Directory)?;
        }
        self.roots = Some(roots);
        self.runtime.mountpoint.get_or_insert(images);
        self.write_logs()
    }

    fn container_name(&self, container: &SimContainer) -> String {
        let (name, attempt) = container.metadata();
        let state = match container.state() {
            ContainerState::Created => "created",
            ContainerState::Running => "running",
            ContainerState::Exited => "exited",
            ContainerState::Unknown => "unknown",
        };
        format!("{}/{name}#{attempt} {state}", self.pod_name(container))
    }

    fn pod_name(&self, container: &SimContainer) -> &str {
        self.sandboxes.get(&container.listed.pod_sandbox_id).map_or("", SimSandbox::pod_name)
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

// === impl RuntimeProperties ===

impl Default for RuntimeProperties {
    fn default() -> Self {
        Self {
            name: "sim".to_owned(),
            // Not that of kubegc: screens of the tests have it.
            version: "0.1.0".to_owned(),
            sandbox_image: None,
            config: None,
            mountpoint: None,
            streaming: Streaming::default(),
            send_limit: None,
            is_old: false,
        }
    }
}

// === impl SimContainer ===

impl SimContainer {
    pub(crate) fn state(&self) -> ContainerState {
        match self.listed.state() {
            pb::ContainerState::ContainerCreated => ContainerState::Created,
            pb::ContainerState::ContainerRunning => ContainerState::Running,
            pb::ContainerState::ContainerExited => ContainerState::Exited,
            pb::ContainerState::ContainerUnknown => ContainerState::Unknown,
        }
    }

    /// Returns the name and the attempt.
    pub(crate) fn metadata(&self) -> (&str, u32) {
        self.listed.metadata.as_ref().map_or(("", 0), |metadata| (metadata.name.as_str(), metadata.attempt))
    }
}

impl Labeled for SimContainer {
    fn labels(&self) -> &HashMap<String, String> {
        &self.listed.labels
    }
}

// === impl SimSandbox ===

impl SimSandbox {
    pub(crate) fn state(&self) -> SandboxState {
        match self.listed.state() {
            pb::PodSandboxState::SandboxReady => SandboxState::Ready,
            pb::PodSandboxState::SandboxNotready => SandboxState::NotReady,
        }
    }

    pub(super) fn pod_name(&self) -> &str {
        self.listed.metadata.as_ref().map_or("", |metadata| &metadata.name)
    }

    fn name(&self) -> String {
        let attempt = self.listed.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        let state = match self.state() {
            SandboxState::Ready => "ready",
            SandboxState::NotReady => "not_ready",
        };
        format!("{}#{attempt} {state}", self.pod_name())
    }
}

impl Labeled for SimSandbox {
    fn labels(&self) -> &HashMap<String, String> {
        &self.listed.labels
    }
}
