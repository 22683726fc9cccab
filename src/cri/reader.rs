//! The read calls of the CRI.

mod send;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::time::Instant;

use super::breaker::Breaker;
use super::connect::{Method, Socket};
use super::generated as pb;
use super::lists::Received;
use super::{CriError, CriOptions, convert};
use crate::metrics::CriCalls;
use crate::model::{
    Container, ContainerId, ContainerState, Image, ImageDetails, ImageId, PodRef, PodUid, Runtime, Sandbox, SandboxId,
};

pub(super) const VERSION: Method = Method("/runtime.v1.RuntimeService/Version");
const OLD_VERSION: Method = Method("/runtime.v1alpha2.RuntimeService/Version");
const STATUS: Method = Method("/runtime.v1.RuntimeService/Status");
const CONTAINER_STATUS: Method = Method("/runtime.v1.RuntimeService/ContainerStatus");
const IMAGE_STATUS: Method = Method("/runtime.v1.ImageService/ImageStatus");
const LIST_CONTAINER_STATS: Method = Method("/runtime.v1.RuntimeService/ListContainerStats");
const IMAGE_FS_INFO: Method = Method("/runtime.v1.ImageService/ImageFsInfo");

/// Reads from the runtime. Cheap to clone. All clones share the connections and the record of the lists that the
/// runtime does not stream.
#[derive(Clone, Debug)]
pub struct RuntimeReader {
    pub(super) runtime: Socket,
    images: Socket,
    pub(super) options: CriOptions,
    /// The calls that this runtime does not serve, of those that stream a list.
    not_streamed: Arc<Mutex<HashSet<&'static str>>>,
    pub(super) breaker: Breaker,
}

/// Restricts a list to one object or to the objects that belong to it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Only {
    All,
    /// The sandbox with this id, or its containers.
    Sandbox(SandboxId),
    /// The objects with the label of this pod.
    Pod(PodUid),
}

/// The status of a container, which has more fields than the list.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// The full id, even if the request had a prefix.
    pub id: ContainerId,
    /// The name in the pod spec.
    pub name: String,
    /// The pod, from the labels.
    pub pod: Option<PodRef>,
    pub state: ContainerState,
    /// When the container finished.
    pub finished_at: Option<Timestamp>,
    /// The exit code; `None` = it has not exited.
    pub exit_code: Option<i32>,
    /// Why it exited, as the runtime says; `None` = it does not say it.
    pub exit_reason: Option<String>,
    /// The log file, as reported by the runtime. The path is not checked.
    pub log_path: PathBuf,
    /// Images mounted as volumes.
    pub image_volumes: Vec<String>,
    /// The paths of the host that are mounted.
    pub mounted: Vec<PathBuf>,
}

// === impl RuntimeReader ===

impl RuntimeReader {
    /// Creates a reader for the runtime service and the image service, which may use two sockets. Endpoints are paths,
    /// with or without `unix://`. The first call connects. Must be called within a tokio runtime.
    pub fn new(endpoint: &str, image_endpoint: &str, options: CriOptions) -> Self {
        let [runtime, images] = Socket::pair(endpoint, image_endpoint, options.answer_timeout);
        Self { runtime, images, options, not_streamed: Arc::default(), breaker: Breaker::default() }
    }

    /// Returns the same reader, with its calls counted there, and those of its writer.
    #[must_use]
    pub fn with_calls(self, calls: &CriCalls) -> Self {
        Self { runtime: self.runtime.with_calls(calls), images: self.images.with_calls(calls), ..self }
    }

    /// Returns the same reader for one stage of a pass. `most_unanswered` limits the calls of each method that may
    /// remain without an answer. After that, calls of the method fail at once, so the duration of the stage is bounded
    /// (I14).
    #[must_use]
    pub fn limited(&self, most_unanswered: u32) -> Self {
        Self { breaker: self.breaker.limited(most_unanswered), ..self.clone() }
    }

    /// Checks that the runtime does not hang, with a probe if it is suspect.
    ///
    /// # Errors
    /// The cause of the hang: the runtime does not answer the probe, or did not answer one in this stage.
    pub async fn check_suspicion(&self) -> Result<(), String> {
        self.breaker.admit(VERSION, self.probe()).await
    }

    /// Checks whether a usable runtime is there, and returns the cause if not. Commands call this first.
    pub async fn check(&self) -> Result<(), CriError> {
        match self.version().await {
            Err(error) if error.is_unimplemented() => return Err(self.without_v1().await),
            answer => answer.map(|_| ())?,
        }
        if self.images.path() == self.runtime.path() {
            return Ok(());
        }
        self.first_answer::<_, pb::ImageFsInfoResponse>(IMAGE_FS_INFO, pb::ImageFsInfoRequest {}).await?;
        Ok(())
    }

    /// Returns the name, the version and the socket of the runtime.
    pub async fn runtime(&self) -> Result<Runtime, CriError> {
        let version = self.version().await?;
        let endpoint = self.runtime.path().display().to_string();
        Ok(Runtime { name: version.runtime_name, version: version.runtime_version, endpoint })
    }

    /// Returns the sandbox image; `None` = the runtime does not report it, and only its pin identifies it.
    pub async fn sandbox_image(&self) -> Result<Option<String>, CriError> {
        let request = pb::StatusRequest { verbose: true };
        match self.call::<_, pb::StatusResponse>(STATUS, request).await {
            Ok(answer) if answer.status.is_none() => Err(CriError::defective(STATUS, "it has no status")),
            Ok(status) => convert::sandbox_image(&status.info)
                .map_err(|error| CriError::defective(STATUS, format!("its configuration: {error}"))),
            Err(error) if error.is_unimplemented() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns since when the socket of the runtime exists: its modification time. A restart creates a new file. A
    /// change of owner or mode is no restart; it changes other times of the file, but not this one.
    pub async fn listening_since(&self) -> Result<Timestamp, CriError> {
        let modified = self.runtime.metadata().await.and_then(|metadata| metadata.modified());
        let since = modified.and_then(|modified| Timestamp::try_from(modified).map_err(io::Error::other));
        since.map_err(|source| CriError::unreached(self.runtime.path(), &source))
    }

    /// Returns when the client last reconnected to the runtime; `None` = the first connection is still in use.
    pub fn reconnected_at(&self) -> Option<Instant> {
        self.runtime.reconnected_at()
    }

    /// Lists containers in every state. A list that is too large for one message is received in parts. A missing part
    /// is an error.
    pub async fn containers(&self, only: Only) -> Result<Vec<Container>, CriError> {
        match only.container_filter() {
            None => self.container_list(&[]).await?.complete(),
            Some(filter) => Ok(self.some_containers(filter).await?.items),
        }
    }

    /// Lists sandboxes, in the same way as [`Self::containers`].
    pub async fn sandboxes(&self, only: Only) -> Result<Vec<Sandbox>, CriError> {
        match only.sandbox_filter() {
            None => self.sandbox_list(&[]).await?.complete(),
            Some(filter) => Ok(self.some_sandboxes(filter).await?.items),
        }
    }

    pub async fn images(&self) -> Result<Vec<Image>, CriError> {
        self.image_list().await?.complete()
    }

    pub(super) async fn some_containers(&self, filter: pb::ContainerFilter) -> Result<Received<Container>, CriError> {
        let request = pb::ListContainersRequest { filter: Some(filter) };
        self.some::<pb::LeanContainers, _>(request).await
    }

    pub(super) async fn some_sandboxes(&self, filter: pb::PodSandboxFilter) -> Result<Received<Sandbox>, CriError> {
        let request = pb::ListPodSandboxRequest { filter: Some(filter) };
        self.some::<pb::LeanSandboxes, _>(request).await
    }

    /// Returns one image by id, tag or digest; `None` = the image does not exist.
    pub async fn image(&self, name: &str) -> Result<Option<Image>, CriError> {
        let request = pb::ImageStatusRequest { image: Some(image_spec(name)), verbose: false };
        let answer: pb::ImageStatusResponse = self.call(IMAGE_STATUS, request).await?;
        match answer.image.map(convert::image) {
            Some(image) if image.id.is_empty() => {
                Err(CriError::defective(IMAGE_STATUS, format!("the image {name} has no id")))
            }
            image => Ok(image),
        }
    }

    /// Returns what the configuration of an image says; `None` = the image does not exist. Parts that the runtime does not
    /// report are unknown.
    pub async fn image_details(&self, id: &ImageId) -> Result<Option<ImageDetails>, CriError> {
        let request = pb::ImageStatusRequest { image: Some(image_spec(id.as_str())), verbose: true };
        let answer: pb::ImageStatusResponse = self.call(IMAGE_STATUS, request).await?;
        match answer.image.map(|image| ImageId::from(image.id)) {
            None => Ok(None),
            Some(other) if other != *id => {
                Err(CriError::defective(IMAGE_STATUS, format!("it has image {other} for {id}")))
            }
            Some(_) => convert::image_details(&answer.info).map(Some).map_err(|error| {
                CriError::defective(IMAGE_STATUS, format!("the configuration of image {id}: {error}"))
            }),
        }
    }

    /// Returns the status of one container by its id or a unique prefix; `None` = the runtime reports that it does not
    /// exist. An answer without a status, or with the status of another container, is an error.
    pub async fn container_status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>, CriError> {
        let request = pb::ContainerStatusRequest { container_id: id.to_string(), verbose: false };
        match self.call::<_, pb::ContainerStatusResponse>(CONTAINER_STATUS, request).await {
            Ok(answer) => match answer.status.map(ContainerStatus::from) {
                Some(status) if !status.id.is_empty() && status.id.as_str().starts_with(id.as_str()) => {
                    Ok(Some(status))
                }
                _ => Err(CriError::defective(CONTAINER_STATUS, format!("it has no status of container {id}"))),
            },
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns where the images are stored: the first file system that the runtime reports.
    pub async fn image_filesystem(&self) -> Result<Option<PathBuf>, CriError> {
        let request = pb::ImageFsInfoRequest {};
        let info: pb::ImageFsInfoResponse = self.call(IMAGE_FS_INFO, request).await?;
        first_mountpoint(info.image_filesystems)
    }

    /// Returns a directory on the file system of the containers' writable layers; `None` = the runtime reports none.
    /// Runtimes before CRI 0.29 report it only as the images' file system. Waits at most the answer timeout, and does
    /// not retry.
    pub async fn container_filesystem(&self) -> Result<Option<PathBuf>, CriError> {
        let info: pb::ImageFsInfoResponse = self.call_once(IMAGE_FS_INFO, pb::ImageFsInfoRequest {}).await?;
        first_mountpoint(info.container_filesystems.into_iter().chain(info.image_filesystems))
    }

    /// Returns the bytes in the writable layer of each container that the runtime has measured. containerd measures
    /// them every 10 s. Waits at most the answer timeout, and does not retry.
    pub async fn writable_layers(&self) -> Result<BTreeMap<ContainerId, u64>, CriError> {
        let request = pb::ListContainerStatsRequest::default();
        let list: pb::ListContainerStatsResponse = self.call_once(LIST_CONTAINER_STATS, request).await?;
        let size = |stats: pb::ContainerStats| {
            let layer = stats.writable_layer.filter(|layer| layer.timestamp != 0)?;
            Some((stats.attributes?.id.into(), layer.used_bytes?.value))
        };
        Ok(list.stats.into_iter().filter_map(size).collect())
    }

    async fn version(&self) -> Result<pb::VersionResponse, CriError> {
        self.first_answer(VERSION, pb::VersionRequest::default()).await
    }

    /// Distinguishes a runtime that is too old from a server that is no runtime, with a call in the older version of
    /// the CRI. Version has the same messages there.
    async fn without_v1(&self) -> CriError {
        let endpoint = self.runtime.path().to_path_buf();
        let request = pb::VersionRequest::default();
        match self.first_answer::<_, pb::VersionResponse>(OLD_VERSION, request).await {
            Ok(_) => CriError::OnlyV1alpha2 { endpoint },
            Err(_) => CriError::NotCri { endpoint },
        }
    }
}

// === impl Only ===

impl Only {
    fn container_filter(self) -> Option<pb::ContainerFilter> {
        let filter = pb::ContainerFilter::default();
        match self {
            Self::All => None,
            Self::Sandbox(id) => Some(pb::ContainerFilter { pod_sandbox_id: id.to_string(), ..filter }),
            Self::Pod(uid) => Some(pb::ContainerFilter { label_selector: convert::pod_selector(&uid), ..filter }),
        }
    }

    fn sandbox_filter(self) -> Option<pb::PodSandboxFilter> {
        let filter = pb::PodSandboxFilter::default();
        match self {
            Self::All => None,
            Self::Sandbox(id) => Some(pb::PodSandboxFilter { id: id.to_string(), ..filter }),
            Self::Pod(uid) => Some(pb::PodSandboxFilter { label_selector: convert::pod_selector(&uid), ..filter }),
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
            exit_code: (from.finished_at != 0).then_some(from.exit_code),
            exit_reason: Some(from.reason).filter(|reason| from.finished_at != 0 && !reason.is_empty()),
            log_path: from.log_path.into(),
            mounted: from.mounts.iter().map(|mount| mount.host_path.clone().into()).collect(),
            image_volumes: from.mounts.into_iter().filter_map(|mount| Some(mount.image?.image)).collect(),
        }
    }
}

/// Returns the mountpoint of the first file system, if there is one. An empty or relative path is an error, and not a
/// path to remember: an empty one would be that of the root, and a relative one that of the process.
fn first_mountpoint(usages: impl IntoIterator<Item = pb::FilesystemUsage>) -> Result<Option<PathBuf>, CriError> {
    let id = usages.into_iter().next().and_then(|usage| usage.fs_id);
    match id.map(|id| id.mountpoint) {
        Some(path) if !Path::new(&path).is_absolute() => {
            Err(CriError::defective(IMAGE_FS_INFO, format!("its mountpoint {path:?} is not an absolute path")))
        }
        path => Ok(path.map(PathBuf::from)),
    }
}

fn image_spec(name: &str) -> pb::ImageSpec {
    pb::ImageSpec { image: name.to_owned(), ..pb::ImageSpec::default() }
}
