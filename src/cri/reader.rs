//! The half of the CRI that looks.

use std::path::PathBuf;

use jiff::Timestamp;
use tonic::transport::Channel;

use super::generated as pb;
use super::generated::{image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient};
use super::{CriError, CriOptions, channel, convert};
use crate::model::{Container, ContainerId, ContainerState, Image, PodRef, PodUid, Runtime, Sandbox, SandboxId};

/// Reads from the runtime. Cheap to clone; all clones share one connection.
#[derive(Clone, Debug)]
pub struct RuntimeReader {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    options: CriOptions,
}

/// Narrows a list to one object or to what belongs to it.
#[derive(Clone, Debug)]
pub enum Only {
    /// Everything.
    All,
    /// The container with this id.
    Container(ContainerId),
    /// The sandbox with this id, or its containers.
    Sandbox(SandboxId),
    /// What carries this pod's label.
    Pod(PodUid),
}

/// What a container's status tells beyond the list.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// Its whole id, also where a prefix was asked for.
    pub id: ContainerId,
    /// Its name in the pod spec.
    pub name: String,
    /// The pod by its labels.
    pub pod: Option<PodRef>,
    /// Its state now.
    pub state: ContainerState,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Its log file, as the runtime says; not checked.
    pub log_path: PathBuf,
    /// Images mounted as volumes.
    pub image_volumes: Vec<String>,
}

// === impl RuntimeReader ===

impl RuntimeReader {
    /// A reader for the runtime and the image service, which may be two sockets. Connects at the first call.
    pub fn new(endpoint: &str, image_endpoint: &str, options: CriOptions) -> Self {
        let limit = options.max_message_bytes;
        Self {
            runtime: RuntimeServiceClient::new(channel(endpoint)).max_decoding_message_size(limit),
            images: ImageServiceClient::new(channel(image_endpoint)).max_decoding_message_size(limit),
            options,
        }
    }

    /// Asks who the runtime is and, where it tells, which image its sandboxes run.
    pub async fn runtime(&self) -> Result<Runtime, CriError> {
        let request = pb::VersionRequest { version: String::new() };
        let version = self.call("Version", self.runtime.clone().version(request)).await?;
        Ok(Runtime { name: version.runtime_name, version: version.runtime_version, ..Runtime::default() })
    }

    /// Lists containers in every state.
    pub async fn containers(&self, only: Only) -> Result<Vec<Container>, CriError> {
        let request = pb::ListContainersRequest { filter: only.container_filter() };
        let list = self.call("ListContainers", self.runtime.clone().list_containers(request)).await?;
        Ok(list.containers.into_iter().map(convert::container).collect())
    }

    /// Lists sandboxes.
    pub async fn sandboxes(&self, only: Only) -> Result<Vec<Sandbox>, CriError> {
        let request = pb::ListPodSandboxRequest { filter: only.sandbox_filter() };
        let list = self.call("ListPodSandbox", self.runtime.clone().list_pod_sandbox(request)).await?;
        Ok(list.items.into_iter().map(convert::sandbox).collect())
    }

    /// Lists images.
    pub async fn images(&self) -> Result<Vec<Image>, CriError> {
        let request = pb::ListImagesRequest { filter: None };
        let list = self.call("ListImages", self.images.clone().list_images(request)).await?;
        Ok(list.images.into_iter().map(convert::image).collect())
    }

    /// Asks for one image by id, tag or digest; `None` = it is not there.
    pub async fn image(&self, name: &str) -> Result<Option<Image>, CriError> {
        let request = pb::ImageStatusRequest { image: Some(image_spec(name)), verbose: false };
        let status = self.call("ImageStatus", self.images.clone().image_status(request)).await?;
        Ok(status.image.map(convert::image))
    }

    /// Asks for one container by its id or a prefix that is unique; `None` = it is not there.
    pub async fn container_status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>, CriError> {
        let request = pb::ContainerStatusRequest { container_id: id.to_string(), verbose: false };
        match self.call("ContainerStatus", self.runtime.clone().container_status(request)).await {
            Ok(answer) => Ok(answer.status.map(ContainerStatus::from)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks where the images lie: the first file system that the runtime names.
    pub async fn image_filesystem(&self) -> Result<Option<PathBuf>, CriError> {
        let request = pb::ImageFsInfoRequest {};
        let info = self.call("ImageFsInfo", self.images.clone().image_fs_info(request)).await?;
        Ok(info.image_filesystems.into_iter().next().and_then(|usage| usage.fs_id).map(|id| id.mountpoint.into()))
    }

    /// Waits for an answer, within the limit for reading calls.
    async fn call<T>(
        &self,
        name: &'static str,
        answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CriError> {
        let limit = self.options.read_timeout;
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(CriError::call(name, status)),
            Err(_) => Err(CriError::Timeout { call: name, seconds: limit.as_secs() }),
        }
    }
}

// === impl Only ===

impl Only {
    fn container_filter(self) -> Option<pb::ContainerFilter> {
        let filter = pb::ContainerFilter::default();
        match self {
            Self::All => None,
            Self::Container(id) => Some(pb::ContainerFilter { id: id.to_string(), ..filter }),
            Self::Sandbox(id) => Some(pb::ContainerFilter { pod_sandbox_id: id.to_string(), ..filter }),
            Self::Pod(uid) => Some(pb::ContainerFilter { label_selector: pod_label(&uid), ..filter }),
        }
    }

    fn sandbox_filter(self) -> Option<pb::PodSandboxFilter> {
        let filter = pb::PodSandboxFilter::default();
        match self {
            Self::All | Self::Container(_) => None,
            Self::Sandbox(id) => Some(pb::PodSandboxFilter { id: id.to_string(), ..filter }),
            Self::Pod(uid) => Some(pb::PodSandboxFilter { label_selector: pod_label(&uid), ..filter }),
        }
    }
}

// === impl ContainerStatus ===

impl From<pb::ContainerStatus> for ContainerStatus {
    fn from(from: pb::ContainerStatus) -> Self {
        Self {
            id: from.id.into(),
            name: from.metadata.map(|metadata| metadata.name).unwrap_or_default(),
            pod: convert::pod_of_labels(from.labels),
            state: convert::container_state(from.state),
            finished_at: (from.finished_at != 0).then(|| convert::time(from.finished_at)),
            log_path: from.log_path.into(),
            image_volumes: from.mounts.into_iter().filter_map(|mount| Some(mount.image?.image)).collect(),
        }
    }
}

fn image_spec(name: &str) -> pb::ImageSpec {
    pb::ImageSpec { image: name.to_owned(), ..pb::ImageSpec::default() }
}

fn pod_label(uid: &PodUid) -> std::collections::HashMap<String, String> {
    [("io.kubernetes.pod.uid".to_owned(), uid.to_string())].into()
}
