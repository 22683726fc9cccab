//! The verbs that build a node, to be read as speech.
//!
//! `pod` begins a pod, and the containers that follow are its own; `at` and `ago` say when what follows was made; `id`
//! says what the next object is called. Attempts count themselves.

use std::time::Duration;

use jiff::Timestamp;

use super::SimError;
use super::images::hex;
use super::indexed_map::POD_UID;
use super::lifecycle::{nanoseconds, protobuf_state};
use super::logs::{LogEntry, link_name};
use super::node::{Node, Streaming};
use crate::cri::generated as pb;
use crate::model::ContainerState;

const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

// === impl Node ===

/// The runtime, the disk and the time.
impl Node {
    /// The runtime's name and version.
    #[must_use]
    pub fn runtime(mut self, name: &str, version: &str) -> Self {
        name.clone_into(&mut self.presents.name);
        version.clone_into(&mut self.presents.version);
        self
    }

    /// The image of sandboxes, told in the verbose status as containerd 1.x does. Without it nothing is told.
    #[must_use]
    pub fn sandbox_image(mut self, name: &str) -> Self {
        self.presents.sandbox_image = Some(name.to_owned());
        self
    }

    /// The directory that `ImageFsInfo` names. Without it a directory of the simulated node.
    #[must_use]
    pub fn image_mountpoint(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.presents.mountpoint = Some(path.into());
        self
    }

    /// How the streaming lists answer.
    #[must_use]
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.presents.streaming = streaming;
        self
    }

    /// The largest list that the runtime sends in one message, in encoded bytes (containerd's `max_send_message_size`).
    /// Streamed lists have no limit. Without it any size is sent.
    #[must_use]
    pub fn send_limit(mut self, bytes: usize) -> Self {
        self.presents.send_limit = Some(bytes);
        self
    }

    /// The runtime speaks `v1alpha2` alone, as before CRI v1: calls of v1 are Unimplemented.
    #[must_use]
    pub fn only_v1alpha2(mut self) -> Self {
        self.presents.is_old = true;
        self
    }

    /// The disk: all its bytes, and those that neither images nor containers take.
    #[must_use]
    pub fn disk(mut self, capacity_bytes: u64, other_bytes: u64) -> Self {
        self.disk.capacity_bytes = capacity_bytes;
        self.disk.other_bytes = other_bytes;
        self
    }

    /// The node's time, and the moment at which what follows is made.
    #[must_use]
    pub fn now(mut self, now: Timestamp) -> Self {
        self.set_time(now);
        self
    }

    /// The moment at which what follows is made.
    #[must_use]
    pub fn at(mut self, moment: Timestamp) -> Self {
        self.moment = moment;
        self
    }

    /// The moment at which what follows is made, counted back from the node's time.
    #[must_use]
    pub fn ago(mut self, age: Duration) -> Self {
        self.moment = self.now.checked_sub(age).unwrap_or(Timestamp::MIN);
        self
    }

    /// No log files are written: for big nodes.
    #[must_use]
    pub fn without_logs(mut self) -> Self {
        self.unwritten = None;
        self
    }

    /// Adds to a node that already runs, as a hook does.
    pub fn also(&mut self, build: impl FnOnce(Self) -> Self) -> Result<(), SimError> {
        *self = build(std::mem::take(self));
        self.write_logs()
    }
}

/// Images.
impl Node {
    /// An image with its layers, id and bytes of each. Layers with the same id are shared.
    #[must_use]
    pub fn image(mut self, tag: &str, layers: &[(&str, u64)]) -> Self {
        let id = self.cursor.next_id.take().unwrap_or_else(|| format!("sha256:{}", hex(tag)));
        self.images.add(&id, tag, layers);
        self.cursor.image = id;
        self
    }

    /// The image just named has this tag too.
    #[must_use]
    pub fn also_tagged(mut self, tag: &str) -> Self {
        self.images.tag(&self.cursor.image, tag);
        self
    }

    /// The runtime resolves this name to another, as the short-name aliases of CRI-O do.
    #[must_use]
    pub fn alias(mut self, name: &str, meaning: &str) -> Self {
        self.images.alias(name, meaning);
        self
    }

    /// The image just named has lost its tags.
    #[must_use]
    pub fn untagged(mut self) -> Self {
        self.images.untag(&self.cursor.image);
        self
    }

    /// The image just named is pinned.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.images.pin(&self.cursor.image);
        self
    }
}

/// Pods and containers.
impl Node {
    /// The id of the object that is made next.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.cursor.next_id = Some(id.to_owned());
        self
    }

    /// A pod with a ready sandbox. The same uid again makes the pod's next sandbox.
    #[must_use]
    pub fn pod(self, namespace: &str, name: &str, uid: &str) -> Self {
        let labels = [(POD_NAME, name), (POD_NAMESPACE, namespace), (POD_UID, uid)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.sandbox([namespace, name, uid], labels.into())
    }

    /// A sandbox that no kubelet made: neither it nor its containers carry the labels of a pod.
    #[must_use]
    pub fn foreign(self, name: &str) -> Self {
        self.sandbox(["", name, name], [].into())
    }

    /// The sandbox just made, stopped; its running containers end.
    #[must_use]
    pub fn stopped(mut self) -> Self {
        let sandbox = self.cursor.sandbox.clone();
        // It was made a moment ago, so it is there.
        self.stop_sandbox(&sandbox).ok();
        self
    }

    /// The containers that follow belong to the sandbox with this id.
    #[must_use]
    pub fn in_sandbox(mut self, id: &str) -> Self {
        id.clone_into(&mut self.cursor.sandbox);
        self
    }

    /// A container that was created and never started.
    #[must_use]
    pub fn created(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Created)
    }

    /// A container that runs.
    #[must_use]
    pub fn running(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Running)
    }

    /// A container that ended well, at the moment at which it was made.
    #[must_use]
    pub fn exited(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Exited)
    }

    /// A container of which the runtime cannot tell the state.
    #[must_use]
    pub fn unknown(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Unknown)
    }

    /// The container just made ended at this time.
    #[must_use]
    pub fn finished(mut self, at: Timestamp) -> Self {
        if let Some(container) = self.containers.get_mut(&self.cursor.container) {
            container.finished_at = nanoseconds(at);
        }
        self
    }

    /// The container just made mounts an image as a volume.
    #[must_use]
    pub fn mounting(mut self, image: &str) -> Self {
        let image = self.image_id(image).unwrap_or_else(|| image.to_owned());
        if let Some(container) = self.containers.get_mut(&self.cursor.container) {
            let image = pb::ImageSpec { image, ..pb::ImageSpec::default() };
            container.mounts.push(pb::Mount { image: Some(image), ..pb::Mount::default() });
        }
        self
    }

    /// The container just made has written this many bytes to its writable layer.
    #[must_use]
    pub fn having_written(mut self, bytes: u64) -> Self {
        if let Some(container) = self.containers.get_mut(&self.cursor.container) {
            container.written_bytes = bytes;
        }
        self
    }

    fn sandbox(mut self, [namespace, name, uid]: [&str; 3], labels: std::collections::HashMap<String, String>) -> Self {
        let metadata = pb::PodSandboxMetadata {
            name: name.to_owned(),
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            attempt: self.next_attempt(uid, ""),
        };
        let config = pb::PodSandboxConfig {
            metadata: Some(metadata),
            log_directory: format!("{namespace}_{name}_{uid}"),
            labels,
            ..pb::PodSandboxConfig::default()
        };
        let at = self.moment;
        // The metadata that it asks for is there.
        self.cursor.sandbox = self.run_sandbox(config, at).unwrap_or_default();
        self
    }

    fn container(mut self, name: &str, image: &str, state: ContainerState) -> Self {
        let vanished = self.image_id(image).is_none().then(|| format!("sha256:{}", hex(image)));
        if let Some(id) = &vanished {
            self.images.add(id, image, &[]);
        }
        let config = self.container_config(name, image);
        let (at, sandbox) = (self.moment, self.cursor.sandbox.clone());
        // The image is there; a missing sandbox leaves the container out, which the test that forgot it will see.
        self.cursor.container = self.create_container(&sandbox, config, None, at).unwrap_or_default();
        if let Some(id) = vanished {
            self.remove_image(&id).ok();
        }
        self.begin(state);
        self
    }

    fn container_config(&mut self, name: &str, image: &str) -> pb::ContainerConfig {
        let sandbox = self.sandboxes.get(&self.cursor.sandbox).map(|sandbox| &sandbox.listed);
        let uid = sandbox.and_then(|listed| listed.metadata.as_ref()).map(|metadata| metadata.uid.clone());
        let mut labels = sandbox.map(|listed| listed.labels.clone()).unwrap_or_default();
        if !labels.is_empty() {
            labels.insert(CONTAINER_NAME.to_owned(), name.to_owned());
        }
        let attempt = self.next_attempt(&uid.unwrap_or_default(), name);
        pb::ContainerConfig {
            metadata: Some(pb::ContainerMetadata { name: name.to_owned(), attempt }),
            image: Some(pb::ImageSpec { image: image.to_owned(), ..pb::ImageSpec::default() }),
            log_path: format!("{name}/{attempt}.log"),
            labels,
            ..pb::ContainerConfig::default()
        }
    }

    /// Puts the container just made into a state, with the log that it then has.
    fn begin(&mut self, state: ContainerState) {
        let at = nanoseconds(self.moment);
        let Some(container) = self.containers.get_mut(&self.cursor.container) else { return };
        container.listed.state = protobuf_state(state).into();
        if state == ContainerState::Created {
            return;
        }
        container.started_at = at;
        if state == ContainerState::Exited {
            container.finished_at = at;
        }
        let (path, link) = (container.log_path.clone(), self.link());
        self.will_write(LogEntry::File { path, bytes: 0, link });
    }

    /// The name of the link that a kubelet makes for the container just made.
    fn link(&self) -> Option<String> {
        let listed = &self.containers.get(&self.cursor.container)?.listed;
        let (pod, namespace) = (listed.labels.get(POD_NAME)?, listed.labels.get(POD_NAMESPACE)?);
        Some(link_name(pod, namespace, listed.labels.get(CONTAINER_NAME)?, &listed.id))
    }

    /// How often this came before: a pod's uid, and a container's name or nothing for the sandbox.
    fn next_attempt(&mut self, uid: &str, name: &str) -> u32 {
        let next = self.attempts.entry(format!("{uid}/{name}")).or_default();
        let attempt = *next;
        *next += 1;
        attempt
    }
}
