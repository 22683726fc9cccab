//! Pods as a kubelet creates them over the CRI: labels, log directories, log symlinks.

use std::collections::HashMap;
use std::path::PathBuf;

use ::kubegc::cri::generated as pb;

use super::{APP, Rig, becomes_true};

/// A pod with one sandbox.
pub struct Pod<'a> {
    rig: &'a Rig,
    /// The ID of the sandbox.
    pub sandbox: String,
    config: pb::PodSandboxConfig,
    image: String,
}

// === impl Rig ===

impl Rig {
    /// Runs the sandbox of a pod, on the host network.
    pub async fn pod(&self, namespace: &str, name: &str, uid: &str) -> Pod<'_> {
        self.run_sandbox(self.sandbox_config(namespace, name, uid)).await
    }

    /// Runs a sandbox that no kubelet created: no labels and no logs.
    pub async fn foreign_pod(&self, name: &str) -> Pod<'_> {
        let mut config = self.sandbox_config("default", name, name);
        config.labels.clear();
        config.log_directory.clear();
        self.run_sandbox(config).await
    }

    /// Returns the configuration that [`Rig::pod`] runs, for tests that change it.
    pub fn sandbox_config(&self, namespace: &str, name: &str, uid: &str) -> pb::PodSandboxConfig {
        let metadata =
            pb::PodSandboxMetadata { name: name.into(), uid: uid.into(), namespace: namespace.into(), attempt: 0 };
        let log_directory = self.pod_logs().join(format!("{namespace}_{name}_{uid}"));
        let linux = pb::LinuxPodSandboxConfig {
            cgroup_parent: self.cgroup.clone(),
            security_context: Some(pb::LinuxSandboxSecurityContext { namespace_options: Some(host_network()) }),
        };
        pb::PodSandboxConfig {
            metadata: Some(metadata),
            log_directory: log_directory.display().to_string(),
            labels: labels(&[("pod.namespace", namespace), ("pod.name", name), ("pod.uid", uid)]),
            linux: Some(linux),
            ..pb::PodSandboxConfig::default()
        }
    }

    /// Runs a sandbox with this configuration.
    pub async fn run_sandbox(&self, config: pb::PodSandboxConfig) -> Pod<'_> {
        if !config.log_directory.is_empty() {
            std::fs::create_dir_all(&config.log_directory).unwrap();
        }
        let request = pb::RunPodSandboxRequest { config: Some(config.clone()) };
        let sandbox = self.runtime().run_pod_sandbox(request).await.unwrap().into_inner().pod_sandbox_id;
        Pod { rig: self, sandbox, config, image: APP.to_owned() }
    }

    /// Tries to run a pod with a network of its own, which no rig has. containerd 1.6 keeps its sandbox, which can be
    /// neither stopped nor removed.
    pub async fn stuck_pod(&self, name: &str) {
        let mut config = self.sandbox_config("default", name, name);
        config.linux.as_mut().unwrap().security_context = None;
        std::fs::create_dir_all(&config.log_directory).unwrap();
        let request = pb::RunPodSandboxRequest { config: Some(config) };
        let answer = self.runtime().run_pod_sandbox(request).await;
        assert!(answer.is_err(), "this machine gives pods a network");
    }

    /// Returns the state of a container, if it exists.
    pub async fn state(&self, container: &str) -> Option<pb::ContainerState> {
        let containers = self.list_containers().await;
        containers.into_iter().find(|listed| listed.id == container).map(|listed| listed.state())
    }
}

// === impl Pod ===

impl Pod<'_> {
    /// Returns the same pod with another image for the containers that follow.
    pub fn with_image(mut self, tag: &str) -> Self {
        tag.clone_into(&mut self.image);
        self
    }

    /// Runs another sandbox for the same pod, as after the first one died.
    pub async fn again(&self) -> Self {
        let mut config = self.config.clone();
        config.metadata.as_mut().unwrap().attempt += 1;
        Self { image: self.image.clone(), ..self.rig.run_sandbox(config).await }
    }

    /// Creates a container that runs until it is stopped.
    pub async fn running(&self, name: &str) -> String {
        self.started(name, 0, "exec sleep 1000000").await
    }

    /// Creates a later instance of a container, which runs.
    pub async fn running_again(&self, name: &str, attempt: u32) -> String {
        self.started(name, attempt, "exec sleep 1000000").await
    }

    /// Creates a container that mounts an image, and runs.
    pub async fn mounting(&self, name: &str, image: &str, path: &str) -> String {
        let spec = pb::ImageSpec {
            image: image.to_owned(),
            user_specified_image: image.to_owned(),
            ..pb::ImageSpec::default()
        };
        let mount =
            pb::Mount { container_path: path.to_owned(), image: Some(spec), readonly: true, ..pb::Mount::default() };
        let id = self.create_with(name, 0, "exec sleep 1000000", vec![mount]).await;
        self.start(&id).await;
        id
    }

    /// Creates a container that exited with a code.
    pub async fn exited(&self, name: &str, code: i32) -> String {
        self.ended(name, 0, code).await
    }

    /// Creates a container that exited after it wrote so many MiB to its writable layer.
    pub async fn having_written(&self, name: &str, mib: u32) -> String {
        let write = format!("dd if=/dev/urandom of=/written bs=1048576 count={mib} 2>/dev/null; sync; exit 0");
        let id = self.started(name, 0, &write).await;
        self.await_end(name, &id).await;
        id
    }

    /// Creates a container that crashed several times. Returns the IDs, oldest first.
    pub async fn crash_looped(&self, name: &str, times: u32) -> Vec<String> {
        let mut ids = Vec::new();
        for attempt in 0..times {
            ids.push(self.ended(name, attempt, 1).await);
        }
        ids
    }

    /// Creates a container that was never started.
    pub async fn created(&self, name: &str) -> String {
        self.create(name, 0, "exec sleep 1000000").await
    }

    /// Creates a container several times and never starts it. Returns the IDs, oldest first.
    pub async fn created_again_and_again(&self, name: &str, times: u32) -> Vec<String> {
        let mut ids = Vec::new();
        for attempt in 0..times {
            ids.push(self.create(name, attempt, "exec sleep 1000000").await);
        }
        ids
    }

    /// Stops the sandbox, and with it what runs in it. containerd 2 lists the new state a moment after it has answered.
    pub async fn stop_sandbox(&self) {
        let request = pb::StopPodSandboxRequest { pod_sandbox_id: self.sandbox.clone() };
        self.rig.runtime().stop_pod_sandbox(request).await.unwrap();
        let is_stopped = async || {
            let sandboxes = self.rig.list_sandboxes().await;
            let sandbox = sandboxes.iter().find(|sandbox| sandbox.id == self.sandbox);
            sandbox.is_none_or(|sandbox| sandbox.state() == pb::PodSandboxState::SandboxNotready)
        };
        assert!(becomes_true(is_stopped).await, "sandbox {} is still listed as ready", self.sandbox);
    }

    /// Returns the pod's log directory.
    pub fn log_dir(&self) -> PathBuf {
        self.config.log_directory.clone().into()
    }

    /// Returns the log file of a container.
    pub fn log_file(&self, name: &str, attempt: u32) -> PathBuf {
        self.log_dir().join(log_path(name, attempt))
    }

    /// Returns the symlink to a container's log file.
    pub fn log_link(&self, name: &str, id: &str) -> PathBuf {
        let pod = self.config.metadata.as_ref().unwrap();
        self.rig.container_logs().join(format!("{}_{}_{name}-{id}.log", pod.name, pod.namespace))
    }

    async fn ended(&self, name: &str, attempt: u32, code: i32) -> String {
        let id = self.started(name, attempt, &format!("echo attempt {attempt}; exit {code}")).await;
        self.await_end(name, &id).await;
        id
    }

    async fn await_end(&self, name: &str, id: &str) {
        let ended = async || self.rig.state(id).await == Some(pb::ContainerState::ContainerExited);
        assert!(becomes_true(ended).await, "{name} does not exit");
    }

    async fn started(&self, name: &str, attempt: u32, script: &str) -> String {
        let id = self.create(name, attempt, script).await;
        self.start(&id).await;
        id
    }

    async fn start(&self, id: &str) {
        let request = pb::StartContainerRequest { container_id: id.to_owned() };
        self.rig.runtime().start_container(request).await.unwrap();
    }

    /// Creates a container as the kubelet does: the directory of its log first, the symlink last.
    async fn create(&self, name: &str, attempt: u32, script: &str) -> String {
        self.create_with(name, attempt, script, Vec::new()).await
    }

    async fn create_with(&self, name: &str, attempt: u32, script: &str, mounts: Vec<pb::Mount>) -> String {
        let logs = !self.config.log_directory.is_empty();
        let mut labels = self.config.labels.clone();
        if logs {
            std::fs::create_dir_all(self.log_dir().join(name)).unwrap();
            labels.extend(self::labels(&[("container.name", name)]));
        }
        let security_context = pb::LinuxContainerSecurityContext { namespace_options: Some(host_network()) };
        let config = pb::ContainerConfig {
            metadata: Some(pb::ContainerMetadata { name: name.to_owned(), attempt }),
            image: Some(pb::ImageSpec {
                image: self.image.clone(),
                user_specified_image: self.image.clone(),
                ..pb::ImageSpec::default()
            }),
            command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
            mounts,
            labels,
            log_path: if logs { log_path(name, attempt) } else { String::new() },
            linux: Some(pb::LinuxContainerConfig { security_context: Some(security_context) }),
            ..pb::ContainerConfig::default()
        };
        let request = pb::CreateContainerRequest {
            pod_sandbox_id: self.sandbox.clone(),
            config: Some(config),
            sandbox_config: Some(self.config.clone()),
        };
        let id = self.rig.runtime().create_container(request).await.unwrap().into_inner().container_id;
        if logs {
            std::os::unix::fs::symlink(self.log_file(name, attempt), self.log_link(name, &id)).unwrap();
        }
        id
    }
}

fn host_network() -> pb::NamespaceOption {
    let (network, pid) = (pb::NamespaceMode::Node.into(), pb::NamespaceMode::Container.into());
    pb::NamespaceOption { network, pid, ipc: pb::NamespaceMode::Pod.into() }
}

fn labels(labels: &[(&str, &str)]) -> HashMap<String, String> {
    labels.iter().map(|(key, value)| (format!("io.kubernetes.{key}"), (*value).to_owned())).collect()
}

fn log_path(name: &str, attempt: u32) -> String {
    format!("{name}/{attempt}.log")
}
