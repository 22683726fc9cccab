//! The read calls of the CRI.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use prost::Message;
use tokio::time::Instant;
use tonic::Status;

use super::breaker::{Breaker, VERSION};
use super::connect::{Measured, Method, Socket};
use super::generated as pb;
use super::lists::{self, Listed, Received};
use super::retry::Retry;
use super::{CriError, CriOptions, convert, endpoint};
use crate::host_path::HostFs;
use crate::metrics::CriCalls;
use crate::model::{Container, ContainerId, ContainerState, Image, PodRef, PodUid, Runtime, Sandbox, SandboxId};

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
    runtime: Socket,
    images: Socket,
    options: CriOptions,
    unary_only: Arc<UnaryOnly>,
    breaker: Breaker,
}

/// The lists that this runtime does not stream, according to its answer to the first attempt.
#[derive(Debug, Default)]
struct UnaryOnly {
    containers: AtomicBool,
    sandboxes: AtomicBool,
    images: AtomicBool,
}

/// Restricts a list to one object or to the objects that belong to it.
#[derive(Clone, Debug)]
pub enum Only {
    /// All objects.
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
    /// The current state.
    pub state: ContainerState,
    /// When the container finished.
    pub finished_at: Option<Timestamp>,
    /// The exit code; `None` = it has not exited.
    pub exit_code: Option<i32>,
    /// The log file, as reported by the runtime. The path is not checked.
    pub log_path: PathBuf,
    /// Images mounted as volumes.
    pub image_volumes: Vec<String>,
}

// === impl RuntimeReader ===

impl RuntimeReader {
    /// Creates a reader for the runtime service and the image service, which may use two sockets. Endpoints are paths,
    /// with or without `unix://`. The first call connects. Must be called within a tokio runtime.
    pub fn new(endpoint: &str, image_endpoint: &str, options: CriOptions) -> Self {
        let [runtime, images] = Socket::pair(endpoint, image_endpoint, options.answer_timeout);
        let breaker = Breaker::new(&runtime, &options);
        Self { runtime, images, options, unary_only: Arc::default(), breaker }
    }

    /// Returns the same reader, with its calls counted there, and those of the writer with its breaker.
    #[must_use]
    pub fn with_calls(self, calls: &CriCalls) -> Self {
        let (runtime, images) = (self.runtime.with_calls(calls), self.images.with_calls(calls));
        Self { breaker: Breaker::new(&runtime, &self.options), runtime, images, ..self }
    }

    /// Returns the same reader for one stage of a pass. `most_unanswered` limits the calls of each method that may
    /// remain without an answer. After that, calls of the method fail at once, so the duration of the stage is bounded
    /// (I14).
    #[must_use]
    pub fn limited(&self, most_unanswered: u32) -> Self {
        Self { breaker: self.breaker.limited(most_unanswered), ..self.clone() }
    }

    /// Returns the breaker, which records whether the runtime hangs.
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
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
        self.first_answer::<_, pb::ImageFsInfoResponse>(&self.images, IMAGE_FS_INFO, pb::ImageFsInfoRequest {}).await?;
        Ok(())
    }

    /// Checks that no runtime has come to another well-known socket since this one was selected: the kubelet's may have
    /// started later.
    ///
    /// # Errors
    /// One has.
    pub async fn check_alone(&self, host: &HostFs, others: &[PathBuf]) -> Result<(), CriError> {
        endpoint::check_alone(host, self.runtime.path(), others, &self.options).await
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
        match self.ask::<_, pb::StatusResponse>(&self.runtime, STATUS, request).await {
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

    /// Lists images.
    pub async fn images(&self) -> Result<Vec<Image>, CriError> {
        self.image_list().await?.complete()
    }

    pub(super) async fn all_containers(&self) -> Result<Received<Container>, CriError> {
        self.all::<lists::Containers>(&self.runtime, &self.unary_only.containers).await
    }

    pub(super) async fn all_sandboxes(&self) -> Result<Received<Sandbox>, CriError> {
        self.all::<lists::Sandboxes>(&self.runtime, &self.unary_only.sandboxes).await
    }

    pub(super) async fn all_images(&self) -> Result<Received<Image>, CriError> {
        self.all::<lists::Images>(&self.images, &self.unary_only.images).await
    }

    pub(super) async fn some_containers(&self, filter: pb::ContainerFilter) -> Result<Received<Container>, CriError> {
        let request = pb::ListContainersRequest { filter: Some(filter) };
        self.some::<lists::Containers, _>(&self.runtime, request).await
    }

    pub(super) async fn some_sandboxes(&self, filter: pb::PodSandboxFilter) -> Result<Received<Sandbox>, CriError> {
        let request = pb::ListPodSandboxRequest { filter: Some(filter) };
        self.some::<lists::Sandboxes, _>(&self.runtime, request).await
    }

    /// Returns one image by id, tag or digest; `None` = the image does not exist.
    pub async fn image(&self, name: &str) -> Result<Option<Image>, CriError> {
        let request = pb::ImageStatusRequest { image: Some(image_spec(name)), verbose: false };
        let answer: pb::ImageStatusResponse = self.ask(&self.images, IMAGE_STATUS, request).await?;
        match answer.image.map(convert::image) {
            Some(image) if image.id.is_empty() => {
                Err(CriError::defective(IMAGE_STATUS, format!("the image {name} has no id")))
            }
            image => Ok(image),
        }
    }

    /// Returns the status of one container by its id or a unique prefix; `None` = the runtime reports that it does not
    /// exist. An answer without a status, or with the status of another container, is an error.
    pub async fn container_status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>, CriError> {
        let request = pb::ContainerStatusRequest { container_id: id.to_string(), verbose: false };
        match self.ask::<_, pb::ContainerStatusResponse>(&self.runtime, CONTAINER_STATUS, request).await {
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
        let info: pb::ImageFsInfoResponse = self.ask(&self.images, IMAGE_FS_INFO, request).await?;
        first_mountpoint(info.image_filesystems)
    }

    /// Returns a directory on the file system of the containers' writable layers; `None` = the runtime reports none.
    /// Runtimes before CRI 0.29 report it only as the images' file system. Waits at most the answer timeout, and does
    /// not retry.
    pub async fn container_filesystem(&self) -> Result<Option<PathBuf>, CriError> {
        let info: pb::ImageFsInfoResponse =
            self.ask_once(&self.images, IMAGE_FS_INFO, pb::ImageFsInfoRequest {}).await?;
        first_mountpoint(info.container_filesystems.into_iter().chain(info.image_filesystems))
    }

    /// Returns the bytes in the writable layer of each container that the runtime has measured. containerd measures
    /// them every 10 s. Waits at most the answer timeout, and does not retry.
    pub async fn writable_layers(&self) -> Result<BTreeMap<ContainerId, u64>, CriError> {
        let request = pb::ListContainerStatsRequest::default();
        let list: pb::ListContainerStatsResponse = self.ask_once(&self.runtime, LIST_CONTAINER_STATS, request).await?;
        let size = |stats: pb::ContainerStats| {
            let layer = stats.writable_layer.filter(|layer| layer.timestamp != 0)?;
            Some((stats.attributes?.id.into(), layer.used_bytes?.value))
        };
        Ok(list.stats.into_iter().filter_map(size).collect())
    }

    async fn version(&self) -> Result<pb::VersionResponse, CriError> {
        self.first_answer(&self.runtime, VERSION, pb::VersionRequest::default()).await
    }

    /// Distinguishes a runtime that is too old from a server that is no runtime, with a call in the older version of
    /// the CRI. Version has the same messages there.
    async fn without_v1(&self) -> CriError {
        let endpoint = self.runtime.path().to_path_buf();
        let request = pb::VersionRequest::default();
        match self.first_answer::<_, pb::VersionResponse>(&self.runtime, OLD_VERSION, request).await {
            Ok(_) => CriError::OnlyV1alpha2 { endpoint },
            Err(_) => CriError::NotCri { endpoint },
        }
    }

    /// Receives a whole list, as a stream if the runtime supports it. Most servers limit a message to 16 MiB, but do
    /// not limit a stream.
    async fn all<L: Listed>(&self, on: &Socket, unary_only: &AtomicBool) -> Result<Received<L::Item>, CriError> {
        let max_bytes = self.options.max_message_bytes;
        if !unary_only.load(Ordering::Relaxed) {
            let limit = self.options.read_timeout;
            match self.read(limit, on, L::STREAM, || lists::stream::<L>(on, max_bytes)).await {
                Err(error) if error.is_unimplemented() => unary_only.store(true, Ordering::Relaxed),
                list => return list?.checked(L::STREAM, L::id),
            }
        }
        self.some::<L, ()>(on, ()).await
    }

    /// Receives a list in one message.
    async fn some<L: Listed, Q: Message + Clone + 'static>(
        &self,
        on: &Socket,
        request: Q,
    ) -> Result<Received<L::Item>, CriError> {
        let (limit, max_bytes) = (self.options.read_timeout, self.options.max_message_bytes);
        let ask = || on.measured::<Q, L>(L::UNARY, request.clone(), max_bytes);
        let Measured { message, bytes } = self.read(limit, on, L::UNARY, ask).await?;
        Received { items: message.into_items().collect(), bytes, streamed: false }.checked(L::UNARY, L::id)
    }

    /// Sends the first call to a service. Its time limit is shorter than that of other calls, so that a runtime that
    /// hangs is reported soon.
    async fn first_answer<Q, A>(&self, on: &Socket, call: Method, request: Q) -> Result<A, CriError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let limit = self.options.first_answer_timeout();
        let max_bytes = self.options.max_message_bytes;
        match self.read(limit, on, call, || on.unary(call, request.clone(), max_bytes)).await {
            Err(CriError::Timeout { call, seconds }) => {
                Err(CriError::Unanswered { endpoint: on.path().to_path_buf(), call, seconds })
            }
            answer => answer,
        }
    }

    async fn ask<Q, A>(&self, on: &Socket, call: Method, request: Q) -> Result<A, CriError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let max_bytes = self.options.max_message_bytes;
        self.read(self.options.read_timeout, on, call, || on.unary(call, request.clone(), max_bytes)).await
    }

    /// Sends a call that a pass can do without: one attempt, with the time limit of the first answer.
    async fn ask_once<Q, A>(&self, on: &Socket, call: Method, request: Q) -> Result<A, CriError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let limit = self.options.first_answer_timeout();
        match tokio::time::timeout(limit, on.unary(call, request, self.options.max_message_bytes)).await {
            Ok(answer) => answer.map_err(|status| on.error(call, status)),
            Err(_) => Err(CriError::Timeout { call: call.name(), seconds: limit.as_secs() }),
        }
    }

    /// Repeats a call until the runtime answers or [`Retry`] allows no further attempt. `limit` applies to each
    /// attempt.
    async fn read<T, F>(
        &self,
        limit: Duration,
        on: &Socket,
        call: Method,
        attempt: impl Fn() -> F,
    ) -> Result<T, CriError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut retry = Retry::new(self.breaker.patience(call, self.options.patience));
        loop {
            let error = match self.breaker.call(call, limit, attempt()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => on.error(call, status),
                Err(error) => error,
            };
            let Some(wait) = retry.after(&error) else {
                if error.is_away() {
                    self.breaker.waited_in_vain(call);
                }
                return Err(error);
            };
            tokio::time::sleep(wait).await;
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
            log_path: from.log_path.into(),
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
            Err(CriError::defective(IMAGE_FS_INFO, format!("its mountpoint {path:?} is no absolute path")))
        }
        path => Ok(path.map(PathBuf::from)),
    }
}

fn image_spec(name: &str) -> pb::ImageSpec {
    pb::ImageSpec { image: name.to_owned(), ..pb::ImageSpec::default() }
}
