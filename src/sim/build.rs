//! The builder methods of [`Node`].
//!
//! [`Node::pod`] begins a pod, and the following containers belong to it. [`Node::at`] and [`Node::ago`] set the
//! creation time of the following objects. [`Node::id`] sets the id of the next object. Attempts are counted
//! automatically.

use std::time::Duration;

use jiff::Timestamp;

use super::SimError;
use super::image_store::hex;
use super::indexed_map::POD_UID;
use super::lifecycle::{nanoseconds, protobuf_state};
use super::log_files::{LogEntry, link_name};
use super::sim_node::{Node, Streaming};
use crate::cri::generated as pb;
use crate::model::ContainerState;

const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

// === impl Node ===

/// The runtime, the disk and the time.
impl Node {
    /// Sets the name and version of the runtime. With the name `cri-o`, before the images, the node behaves as with CRI-O.
    #[must_use]
    pub fn runtime(mut self, name: &str, version: &str) -> Self {
        name.clone_into(&mut self.runtime.name);
        version.clone_into(&mut self.runtime.version);
        self
    }

    /// Sets the sandbox image in the verbose status, as containerd 1.x reports it. By default the status has no sandbox
    /// image.
    #[must_use]
    pub fn sandbox_image(mut self, name: &str) -> Self {
        self.runtime.sandbox_image = Some(name.to_owned());
        self
    }

    /// Sets the directory that `ImageFsInfo` reports. Defaults to a directory of the simulated node.
    #[must_use]
    pub fn image_mountpoint(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.runtime.mountpoint = Some(path.into());
        self
    }

    /// Sets how the streaming lists answer.
    #[must_use]
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.runtime.streaming = streaming;
        self
    }

    /// Sets the largest list that the runtime sends in one message, in encoded bytes (containerd's
    /// `max_send_message_size`). Streamed lists have no limit. By default there is no limit.
    #[must_use]
    pub fn send_limit(mut self, bytes: usize) -> Self {
        self.runtime.send_limit = Some(bytes);
        self
    }

    /// Makes the runtime serve only `v1alpha2`, like runtimes before CRI v1: calls of v1 are Unimplemented.
    #[must_use]
    pub fn only_v1alpha2(mut self) -> Self {
        self.runtime.is_old = true;
        self
    }

    /// Sets the size of the disk, and the bytes used by neither images nor containers.
    #[must_use]
    pub fn disk(mut self, capacity_bytes: u64, other_bytes: u64) -> Self {
        self.disk.capacity_bytes = capacity_bytes;
        self.disk.other_bytes = other_bytes;
        self
    }

    /// Sets the node's time, and the creation time of the following objects.
    #[must_use]
    pub fn now(mut self, now: Timestamp) -> Self {
        self.set_time(now);
        self
    }

    /// Sets the creation time of the following objects.
    #[must_use]
    pub fn at(mut self, moment: Timestamp) -> Self {
        self.moment = moment;
        self
    }

    /// Sets the creation time of the following objects, counted back from the node's time.
    #[must_use]
    pub fn ago(mut self, age: Duration) -> Self {
        self.moment = self.now.checked_sub(age).unwrap_or(Timestamp::MIN);
        self
    }

    /// Turns off log files, for large nodes.
    #[must_use]
    pub fn without_logs(mut self) -> Self {
        self.unwritten = None;
        self
    }

    /// Adds objects to a node that already runs, for example in a hook.
    pub fn also(&mut self, build: impl FnOnce(Self) -> Self) -> Result<(), SimError> {
        *self = build(std::mem::take(self));
        self.write_logs()
    }
}

/// Images.
impl Node {
    /// Adds an image with its layers, as id and bytes of each. Layers with the same id are shared.
    #[must_use]
    pub fn image(mut self, tag: &str, layers: &[(&str, u64)]) -> Self {
        let form = if self.is_crio() { "" } else { "sha256:" };
        let id = self.cursor.next_id.take().unwrap_or_else(|| format!("{form}{}", hex(tag)));
        self.images.add(&id, tag, layers);
        self.cursor.image = id;
        self
    }

    /// Sets when the last image was built, and its labels.
    #[must_use]
    pub fn image_config(mut self, created: &str, labels: &[(&str, &str)]) -> Self {
        self.images.configure(&self.cursor.image, created, labels);
        self
    }

    /// Adds a container of another client of the runtime, which uses an image.
    #[must_use]
    pub fn other_client(mut self, namespace: &str, id: &str, image: &str) -> Self {
        self.other_clients.entry(namespace.to_owned()).or_default().push((id.to_owned(), image.to_owned()));
        self
    }

    /// Adds a tag to the last image.
    #[must_use]
    pub fn also_tagged(mut self, tag: &str) -> Self {
        self.images.tag(&self.cursor.image, tag);
        self
    }

    /// Makes the runtime resolve a name to another name, like the short-name aliases of CRI-O.
    #[must_use]
    pub fn alias(mut self, name: &str, meaning: &str) -> Self {
        self.images.alias(name, meaning);
        self
    }

    /// Removes the tags of the last image.
    #[must_use]
    pub fn untagged(mut self) -> Self {
        self.images.untag(&self.cursor.image);
        self
    }

    /// Pins the last image.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.images.pin(&self.cursor.image);
        self
    }
}

/// Pods and containers.
impl Node {
    /// Sets the id of the next object.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.cursor.next_id = Some(id.to_owned());
        self
    }

    /// Adds a pod with a ready sandbox. A repeated uid adds the next sandbox of that pod.
    #[must_use]
    pub fn pod(self, namespace: &str, name: &str, uid: &str) -> Self {
        let labels = [(POD_NAME, name), (POD_NAMESPACE, namespace), (POD_UID, uid)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.sandbox([namespace, name, uid], labels.into())
    }

    /// Adds a sandbox that no kubelet created. It and its containers have no pod labels.
    #[must_use]
    pub fn foreign(self, name: &str) -> Self {
        self.sandbox(["", name, name], [].into())
    }

    /// Stops the last sandbox and its running containers.
    #[must_use]
    pub fn stopped(mut self) -> Self {
        let sandbox = self.cursor.sandbox.clone();
        // The sandbox was just created, so this cannot fail.
        self.stop_sandbox(&sandbox).ok();
        self
    }

    /// Puts the following containers into the sandbox with this id.
    #[must_use]
    pub fn in_sandbox(mut self, id: &str) -> Self {
        id.clone_into(&mut self.cursor.sandbox);
        self
    }

    /// Adds a container that was created and never started.
    #[must_use]
    pub fn created(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Created)
    }

    /// Adds a running container.
    #[must_use]
    pub fn running(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Running)
    }

    /// Adds an exited container. Its exit code is 0, and it finished at its creation time.
    #[must_use]
    pub fn exited(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Exited)
    }

    /// Adds a container in state unknown.
    #[must_use]
    pub fn unknown(self, name: &str, image: &str) -> Self {
        self.container(name, image, ContainerState::Unknown)
    }

    /// Sets when the last container finished.
    #[must_use]
    pub fn finished(mut self, at: Timestamp) -> Self {
        if let Some(container) = self.containers.get_mut(&self.cursor.container) {
            container.finished_at = nanoseconds(at);
        }
        self
    }

    /// Adds an image volume to the last container.
    #[must_use]
    pub fn mounting(mut self, image: &str) -> Self {
        let image = self.image_id(image).unwrap_or_else(|| image.to_owned());
        if let Some(container) = self.containers.get_mut(&self.cursor.container) {
            let image = pb::ImageSpec { image, ..pb::ImageSpec::default() };
            container.mounts.push(pb::Mount { image: Some(image), ..pb::Mount::default() });
        }
        self
    }

    /// Mounts a path of the host in the last container.
    #[must_use]
    pub fn mounting_path(mut self, path: &str) -> Self {
        if let Some(container) = self.containers.get_mut(&self.cursor.container) {
            container.mounts.push(pb::Mount { host_path: path.to_owned(), ..pb::Mount::default() });
        }
        self
    }

    /// Sets the bytes in the writable layer of the last container.
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
        // The config has metadata, so this cannot fail.
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
        // The image exists. If the sandbox is missing, no container is created, and the test that forgot the sandbox
        // fails.
        self.cursor.container = self.create_container(&sandbox, config, None, at).unwrap_or_default();
        if let Some(id) = vanished {
            self.remove_image(&id).ok();
        }
        self.begin(state);
        self
    }

    pub(super) fn container_config(&mut self, name: &str, image: &str) -> pb::ContainerConfig {
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

    /// Sets the state of the last container, with the log that a container in this state has.
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

    /// Returns the name of the log symlink that a kubelet creates for the last container.
    fn link(&self) -> Option<String> {
        let listed = &self.containers.get(&self.cursor.container)?.listed;
        let (pod, namespace) = (listed.labels.get(POD_NAME)?, listed.labels.get(POD_NAMESPACE)?);
        Some(link_name(pod, namespace, listed.labels.get(CONTAINER_NAME)?, &listed.id))
    }

    /// Counts the instances of a pod from 0 again, as the kubelet does where neither an instance nor a log is left.
    #[cfg(test)]
    pub(crate) fn forget_attempts(&mut self, uid: &str) {
        self.attempts.retain(|of, _| !of.starts_with(&format!("{uid}/")));
    }

    /// Returns the next attempt number for a pod's uid and a container's name. The name is empty for the sandbox.
    fn next_attempt(&mut self, uid: &str, name: &str) -> u32 {
        let next = self.attempts.entry(format!("{uid}/{name}")).or_default();
        let attempt = *next;
        *next += 1;
        attempt
    }
}
