//! The state changes of the node, which follow those of a runtime.
//!
//! Stopping a stopped object or removing a missing one is no error. Removal is forced. Stopping a missing object is an
//! error. The CRI forbids that, but containerd 1.6 does it, and a client that handles it also handles later versions.
//! Hooks and tests use the same methods as the calls.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tonic::Status;

use super::image_store::{Layers, hex};
use super::log_files::LogEntry;
use super::sim_node::{Node, SimContainer, SimSandbox};
use crate::cri::generated as pb;
use crate::model::ContainerState;

/// The exit code of a killed process.
const KILLED: i32 = 137;

// === impl Node ===

impl Node {
    /// Runs a sandbox and returns its id.
    pub(super) fn run_sandbox(&mut self, config: pb::PodSandboxConfig, at: Timestamp) -> Result<String, Status> {
        let metadata = config.metadata.ok_or_else(|| Status::invalid_argument("sandbox without metadata"))?;
        let id = self.new_id(&metadata.name);
        let listed = pb::PodSandbox {
            id: id.clone(),
            metadata: Some(metadata),
            state: pb::PodSandboxState::SandboxReady.into(),
            created_at: nanoseconds(at),
            labels: config.labels,
            annotations: config.annotations,
        };
        let log_directory = config.log_directory.into();
        self.sandboxes.put(&id, SimSandbox { listed, log_directory, containers: [].into() });
        Ok(id)
    }

    /// Creates a container in a sandbox and returns its id. The sandbox configuration in the request determines the
    /// path of the log, as in containerd.
    pub(super) fn create_container(
        &mut self,
        sandbox: &str,
        config: pb::ContainerConfig,
        sandbox_config: Option<pb::PodSandboxConfig>,
        at: Timestamp,
    ) -> Result<String, Status> {
        let sandbox = self.sandboxes.resolve(sandbox)?;
        let metadata = config.metadata.ok_or_else(|| Status::invalid_argument("container without metadata"))?;
        let id = self.new_id(&metadata.name);
        let (image_ref, layers) = self.image_of(config.image.as_ref())?;
        self.images.hold(&layers);
        let listed = pb::Container {
            id: id.clone(),
            pod_sandbox_id: sandbox.clone(),
            metadata: Some(metadata),
            image: config.image,
            image_ref,
            state: pb::ContainerState::ContainerCreated.into(),
            created_at: nanoseconds(at),
            labels: config.labels,
            annotations: config.annotations,
            image_id: String::new(),
        };
        let log_directory = match sandbox_config {
            Some(config) => config.log_directory.into(),
            None => self.sandboxes.get(&sandbox).map(|sandbox| sandbox.log_directory.clone()).unwrap_or_default(),
        };
        let log_path = log_path(&log_directory, &config.log_path);
        let made = SimContainer {
            listed,
            started_at: 0,
            finished_at: 0,
            exit_code: 0,
            log_path,
            mounts: config.mounts,
            layers,
            written_bytes: 0,
        };
        self.containers.put(&id, made);
        if let Some(sandbox) = self.sandboxes.get_mut(&sandbox) {
            sandbox.containers.insert(id.clone());
        }
        Ok(id)
    }

    /// Starts a created container.
    pub fn start_container(&mut self, id: &str) -> Result<(), Status> {
        let at = nanoseconds(self.now);
        let id = self.containers.resolve(id)?;
        let container = self.containers.get_mut(&id).ok_or_else(|| Status::not_found(&*id))?;
        if container.state() != ContainerState::Created {
            return Err(Status::unknown(format!("container {id:?} is not in created state")));
        }
        container.listed.state = pb::ContainerState::ContainerRunning.into();
        container.started_at = at;
        let log = LogEntry::file(container.log_path.clone());
        self.will_write(log);
        self.write_logs().map_err(|error| Status::internal(error.to_string()))
    }

    /// Stops a container. Does nothing if it does not run.
    pub fn stop_container(&mut self, id: &str) -> Result<(), Status> {
        let id = self.containers.resolve(id)?;
        match self.container_state(&id) {
            Some(ContainerState::Running | ContainerState::Unknown) => self.end_container(&id, KILLED),
            Some(ContainerState::Created) if self.is_crio() => self.end_container(&id, KILLED),
            _ => {}
        }
        Ok(())
    }

    /// Ends a running container with an exit code, as if its process exited.
    pub fn end_container(&mut self, id: &str, exit_code: i32) {
        let at = nanoseconds(self.now);
        if let Some(container) = self.containers.get_mut(id) {
            container.listed.state = pb::ContainerState::ContainerExited.into();
            container.finished_at = at;
            container.exit_code = exit_code;
        }
    }

    /// Sets the state of a container, whatever its current state is.
    pub fn set_container_state(&mut self, id: &str, state: ContainerState) {
        if let Some(container) = self.containers.get_mut(id) {
            container.listed.state = protobuf_state(state).into();
        }
    }

    /// Removes a container, even if it runs. A missing container is no error.
    pub fn remove_container(&mut self, id: &str) -> Result<(), Status> {
        let Some(id) = missing_is_none(self.containers.resolve(id))? else { return Ok(()) };
        if let Some(container) = self.containers.take(&id) {
            self.images.release(&container.layers);
            if let Some(sandbox) = self.sandboxes.get_mut(&container.listed.pod_sandbox_id) {
                sandbox.containers.remove(&id);
            }
        }
        Ok(())
    }

    /// Stops a sandbox and its running containers.
    pub fn stop_sandbox(&mut self, id: &str) -> Result<(), Status> {
        let id = self.sandboxes.resolve(id)?;
        for container in self.containers_of(&id) {
            self.stop_container(&container)?;
        }
        if let Some(sandbox) = self.sandboxes.get_mut(&id) {
            sandbox.listed.state = pb::PodSandboxState::SandboxNotready.into();
        }
        Ok(())
    }

    /// Removes a sandbox with all its containers. A missing sandbox is no error.
    pub fn remove_sandbox(&mut self, id: &str) -> Result<(), Status> {
        let Some(id) = missing_is_none(self.sandboxes.resolve(id))? else { return Ok(()) };
        for container in self.containers_of(&id) {
            self.remove_container(&container)?;
        }
        self.sandboxes.take(&id);
        Ok(())
    }

    /// Removes an image with all its names, even if it is in use, as containerd does. CRI-O refuses an image in use, and removes
    /// one name of several. A missing image is no error.
    pub fn remove_image(&mut self, name: &str) -> Result<(), Status> {
        if self.is_crio() {
            let Some(id) = self.image_id(name) else { return Ok(()) };
            if let Some(user) = self.containers.iter().find(|container| container.listed.image_ref == id) {
                return Err(Status::unknown(format!("image is in use by container {}", user.listed.id)));
            }
            if self.images.remove_name(name) {
                return Ok(());
            }
        }
        self.images.remove(name)
    }

    fn containers_of(&self, sandbox: &str) -> Vec<String> {
        self.sandboxes.get(sandbox).map(|sandbox| sandbox.containers.iter().cloned().collect()).unwrap_or_default()
    }

    /// Returns the id of a container's image, and the layers that the container will hold.
    fn image_of(&self, image: Option<&pb::ImageSpec>) -> Result<(String, Layers), Status> {
        let name = image.map_or("", |image| &image.image);
        let found = self.images.find(name)?.ok_or_else(|| Status::not_found(format!("image {name:?} not found")))?;
        Ok((found.listed.id.clone(), found.layers.clone()))
    }

    /// Returns the requested id, or a new unique id.
    fn new_id(&mut self, name: &str) -> String {
        self.made += 1;
        self.cursor.next_id.take().unwrap_or_else(|| hex(&format!("{name} {}", self.made)))
    }
}

/// Returns the path of a log. The path is empty without a directory or a name.
fn log_path(directory: &Path, name: &str) -> PathBuf {
    if directory.as_os_str().is_empty() || name.is_empty() { PathBuf::new() } else { directory.join(name) }
}

pub(super) fn protobuf_state(state: ContainerState) -> pb::ContainerState {
    match state {
        ContainerState::Created => pb::ContainerState::ContainerCreated,
        ContainerState::Running => pb::ContainerState::ContainerRunning,
        ContainerState::Exited => pb::ContainerState::ContainerExited,
        ContainerState::Unknown => pb::ContainerState::ContainerUnknown,
    }
}

/// Converts a time to the format of the CRI: nanoseconds since 1970.
pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

/// Converts "not found" into `None`. A prefix with several matches is still an error.
fn missing_is_none(id: Result<String, Status>) -> Result<Option<String>, Status> {
    match id {
        Ok(id) => Ok(Some(id)),
        Err(status) if status.code() == tonic::Code::NotFound => Ok(None),
        Err(status) => Err(status),
    }
}
