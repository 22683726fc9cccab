//! The node's state: sandboxes, containers, images, disk, and how the runtime presents itself.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::SimError;
use super::images::{Images, Layers};
use super::indexed_map::{IndexedMap, Labeled};
use super::logs::{LogEntry, LogRoots};
use crate::cri::generated as pb;
use crate::model::{ContainerState, FileSystem, SandboxState};

/// 2026-11-21T12:00:00Z, the node's time until somebody sets it.
const NOON: i64 = 1_795_262_400;

/// All that a node is. Built with verbs, changed by calls, hooks and tests.
#[derive(Debug)]
pub struct Node {
    pub(super) sandboxes: IndexedMap<Sandbox>,
    pub(super) containers: IndexedMap<Container>,
    pub(super) images: Images,
    pub(super) presents: Presents,
    pub(super) disk: Disk,
    /// The time of every change that a call makes.
    pub(super) now: Timestamp,
    /// The time of everything that the next verbs make.
    pub(super) moment: Timestamp,
    pub(super) cursor: Cursor,
    /// How many were made under a name so far: the next attempt's number.
    pub(super) attempts: HashMap<String, u32>,
    /// How many were made at all, so that ids differ.
    pub(super) made: u64,
    /// Log entries that wait to be written; `None` = no logs are written.
    pub(super) unwritten: Option<Vec<LogEntry>>,
    /// `None` = the node has no directory yet, so that nothing is written.
    pub(super) roots: Option<LogRoots>,
}

/// What the verbs speak of.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    pub(super) next_id: Option<String>,
    pub(super) sandbox: String,
    pub(super) container: String,
    pub(super) image: String,
}

/// How the runtime presents itself.
#[derive(Debug)]
pub(super) struct Presents {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sandbox_image: Option<String>,
    /// `None` = the directory `images` of the simulated node.
    pub(super) mountpoint: Option<PathBuf>,
    pub(super) streaming: Streaming,
    /// The largest list that it sends in one message, in bytes; `None` = any size.
    pub(super) send_limit: Option<usize>,
    /// Speaks v1alpha2 and not v1.
    pub(super) is_old: bool,
}

/// The disk that holds the images.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) capacity_bytes: u64,
    pub(super) other_bytes: u64,
}

/// How the streaming lists answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Streaming {
    /// Not at all: Unimplemented, as runtimes before CRI 0.36.
    #[default]
    Unimplemented,
    /// In batches of this many objects.
    Batches(usize),
    /// In batches of this many, but after the first one comes an error.
    BreaksOff(usize),
}

/// A container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) listed: pb::Container,
    pub(super) started_at: i64,
    pub(super) finished_at: i64,
    pub(super) exit_code: i32,
    /// Beneath the pod log root where it is relative; empty = it has none.
    pub(super) log_path: PathBuf,
    pub(super) mounts: Vec<pb::Mount>,
    /// It holds them as its image does, also when the image is gone.
    pub(super) layers: Layers,
    /// Bytes in its writable layer.
    pub(super) written_bytes: u64,
}

/// A sandbox.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) listed: pb::PodSandbox,
    pub(super) log_directory: PathBuf,
    pub(super) containers: BTreeSet<String>,
}

// === impl Node ===

impl Node {
    /// An empty node at noon of 2026-11-21 with a disk of 100 GiB.
    pub fn new() -> Self {
        let noon = Timestamp::from_second(NOON).unwrap_or_default();
        Self {
            sandboxes: IndexedMap::of("sandbox"),
            containers: IndexedMap::of("container"),
            images: Images::default(),
            presents: Presents::default(),
            disk: Disk { capacity_bytes: 100 << 30, other_bytes: 0 },
            now: noon,
            moment: noon,
            cursor: Cursor::default(),
            attempts: HashMap::new(),
            made: 0,
            unwritten: Some(Vec::new()),
            roots: None,
        }
    }

    /// The node's time.
    pub fn time(&self) -> Timestamp {
        self.now
    }

    /// Sets the node's time, which every later change gets.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = now;
        self.moment = now;
    }

    /// The ids of all containers, sorted.
    pub fn container_ids(&self) -> Vec<String> {
        self.containers.ids().cloned().collect()
    }

    /// All containers as `POD/NAME#ATTEMPT STATE`, sorted.
    pub fn container_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.containers.iter().map(|container| self.container_name(container)).collect();
        names.sort();
        names
    }

    /// The id of the newest container of this pod and name.
    pub fn container_id(&self, pod: &str, name: &str) -> Option<String> {
        let mut found: Vec<_> = self
            .containers
            .iter()
            .filter(|container| container.metadata().0 == name && self.pod_name(container) == pod)
            .collect();
        found.sort_by_key(|container| container.metadata().1);
        found.last().map(|container| container.listed.id.clone())
    }

    /// A container's state by its id or a unique prefix; `None` = it is not there.
    pub fn container_state(&self, id: &str) -> Option<ContainerState> {
        self.containers.find(id).ok().map(Container::state)
    }

    /// The ids of all sandboxes, sorted.
    pub fn sandbox_ids(&self) -> Vec<String> {
        self.sandboxes.ids().cloned().collect()
    }

    /// All sandboxes as `POD#ATTEMPT STATE`, sorted.
    pub fn sandbox_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.sandboxes.iter().map(Sandbox::name).collect();
        names.sort();
        names
    }

    /// The id of the newest sandbox of the pod with this name.
    pub fn sandbox_id(&self, pod: &str) -> Option<String> {
        let attempt = |sandbox: &Sandbox| sandbox.listed.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        let of_pod = |sandbox: &&Sandbox| sandbox.pod_name() == pod;
        self.sandboxes.iter().filter(of_pod).max_by_key(|sandbox| attempt(sandbox)).map(|found| found.listed.id.clone())
    }

    /// A sandbox's state by its id or a unique prefix; `None` = it is not there.
    pub fn sandbox_state(&self, id: &str) -> Option<SandboxState> {
        self.sandboxes.find(id).ok().map(Sandbox::state)
    }

    /// The ids of all images, sorted.
    pub fn image_ids(&self) -> Vec<String> {
        self.images.iter().map(|image| image.listed.id.clone()).collect()
    }

    /// The first tag of each image, or its id where it has none, sorted.
    pub fn image_names(&self) -> Vec<String> {
        let name = |image: &pb::Image| image.repo_tags.first().unwrap_or(&image.id).clone();
        let mut names: Vec<_> = self.images.iter().map(|image| name(&image.listed)).collect();
        names.sort();
        names
    }

    /// The id of the image that an id, a short id, a tag or a digest names.
    pub fn image_id(&self, name: &str) -> Option<String> {
        self.images.find(name).ok().flatten().map(|image| image.listed.id.clone())
    }

    /// The disk as `statvfs` would tell it. Its inodes are not counted.
    pub fn file_system(&self) -> FileSystem {
        let written: u64 = self.containers.iter().map(|container| container.written_bytes).sum();
        let used = self.disk.other_bytes.saturating_add(self.images.layer_bytes()).saturating_add(written);
        FileSystem {
            mountpoint: self.mountpoint().to_owned(),
            capacity_bytes: self.disk.capacity_bytes,
            available_bytes: self.disk.capacity_bytes.saturating_sub(used),
            inodes: None,
            inodes_free: None,
        }
    }

    /// Sets the bytes that others use on the disk.
    pub fn set_other_bytes(&mut self, bytes: u64) {
        self.disk.other_bytes = bytes;
    }

    pub(super) fn mountpoint(&self) -> &Path {
        self.presents.mountpoint.as_deref().unwrap_or(Path::new("/var/lib/containerd"))
    }

    /// Moves into a directory: makes what must be there and writes the logs.
    pub(super) fn settle(&mut self, dir: &Path) -> Result<(), SimError> {
        let images = dir.join("images");
        let roots = LogRoots::beneath(dir);
        for needed in [&images, &roots.pods, &roots.containers] {
            std::fs::create_dir_all(needed).map_err(SimError::Directory)?;
        }
        self.roots = Some(roots);
        self.presents.mountpoint.get_or_insert(images);
        self.write_logs()
    }

    fn container_name(&self, container: &Container) -> String {
        let (name, attempt) = container.metadata();
        let state = match container.state() {
            ContainerState::Created => "created",
            ContainerState::Running => "running",
            ContainerState::Exited => "exited",
            ContainerState::Unknown => "unknown",
        };
        format!("{}/{name}#{attempt} {state}", self.pod_name(container))
    }

    fn pod_name(&self, container: &Container) -> &str {
        self.sandboxes.get(&container.listed.pod_sandbox_id).map_or("", Sandbox::pod_name)
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Presents ===

impl Default for Presents {
    fn default() -> Self {
        Self {
            name: "sim".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sandbox_image: None,
            mountpoint: None,
            streaming: Streaming::default(),
            send_limit: None,
            is_old: false,
        }
    }
}

// === impl Container ===

impl Container {
    pub(super) fn state(&self) -> ContainerState {
        match self.listed.state() {
            pb::ContainerState::ContainerCreated => ContainerState::Created,
            pb::ContainerState::ContainerRunning => ContainerState::Running,
            pb::ContainerState::ContainerExited => ContainerState::Exited,
            pb::ContainerState::ContainerUnknown => ContainerState::Unknown,
        }
    }

    /// Name and attempt.
    fn metadata(&self) -> (&str, u32) {
        self.listed.metadata.as_ref().map_or(("", 0), |metadata| (metadata.name.as_str(), metadata.attempt))
    }
}

impl Labeled for Container {
    fn labels(&self) -> &HashMap<String, String> {
        &self.listed.labels
    }
}

// === impl Sandbox ===

impl Sandbox {
    pub(super) fn state(&self) -> SandboxState {
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

impl Labeled for Sandbox {
    fn labels(&self) -> &HashMap<String, String> {
        &self.listed.labels
    }
}
