//! The half of the CRI that looks.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
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
use super::{CriError, CriOptions, convert};
use crate::host_path::BoundedCalls;
use crate::model::{Container, ContainerId, ContainerState, Image, PodRef, PodUid, Runtime, Sandbox, SandboxId};

const OLD_VERSION: Method = Method("/runtime.v1alpha2.RuntimeService/Version");
const STATUS: Method = Method("/runtime.v1.RuntimeService/Status");
const CONTAINER_STATUS: Method = Method("/runtime.v1.RuntimeService/ContainerStatus");
const IMAGE_STATUS: Method = Method("/runtime.v1.ImageService/ImageStatus");
const LIST_CONTAINER_STATS: Method = Method("/runtime.v1.RuntimeService/ListContainerStats");
const IMAGE_FS_INFO: Method = Method("/runtime.v1.ImageService/ImageFsInfo");

/// Reads from the runtime. Cheap to clone; all clones share the connections and what was learnt about streaming.
#[derive(Clone, Debug)]
pub struct RuntimeReader {
    runtime: Socket,
    images: Socket,
    options: CriOptions,
    unary_only: Arc<UnaryOnly>,
    breaker: Breaker,
    calls: BoundedCalls,
}

/// The lists that this runtime does not stream, as its answer to the first try told.
#[derive(Debug, Default)]
struct UnaryOnly {
    containers: AtomicBool,
    sandboxes: AtomicBool,
    images: AtomicBool,
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
    /// A reader for the runtime and the image service, which may be two sockets: paths, with or without `unix://`.
    /// Connects at the first call. Must be called within a tokio runtime.
    pub fn new(endpoint: &str, image_endpoint: &str, options: CriOptions) -> Self {
        let runtime = Socket::new(endpoint);
        let images = if endpoint == image_endpoint { runtime.clone() } else { Socket::new(image_endpoint) };
        let (breaker, calls) = (Breaker::new(&runtime, &options), BoundedCalls::new(options.answer_timeout));
        Self { runtime, images, options, unary_only: Arc::default(), breaker, calls }
    }

    /// The same reader for one stage of a pass, in which so many calls of a method may go without an answer. After that
    /// its calls fail at once, so that the stage ends within a bound (I14).
    #[must_use]
    pub fn limited(&self, most_unanswered: u32) -> Self {
        Self { breaker: self.breaker.limited(most_unanswered), ..self.clone() }
    }

    /// What knows whether the runtime hangs.
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Finds out whether there is a runtime to work with, and if not, why: what commands call first.
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

    /// Asks for the runtime's name and version.
    pub async fn runtime(&self) -> Result<Runtime, CriError> {
        let version = self.version().await?;
        Ok(Runtime { name: version.runtime_name, version: version.runtime_version, ..Runtime::default() })
    }

    /// Asks which image the runtime's sandboxes run; `None` = it does not say, and the image is known by its pin alone.
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

    /// Since when the runtime's socket exists. Its modification time: a restart makes a new file, while a change of
    /// owner or mode, which the other times would show, is no restart.
    pub async fn listening_since(&self) -> Result<Timestamp, CriError> {
        let path = self.runtime.path().to_owned();
        let modified = move || std::fs::metadata(path).and_then(|metadata| metadata.modified());
        let modified = self.calls.run(self.runtime.path(), modified).await.map_err(io::Error::other).flatten();
        let since = modified.and_then(|modified| Timestamp::try_from(modified).map_err(io::Error::other));
        since.map_err(|source| CriError::unreached(self.runtime.path(), &source))
    }

    /// When the connection to the runtime was last made again; `None` = the first one still stands.
    pub fn reconnected_at(&self) -> Option<Instant> {
        self.runtime.reconnected_at()
    }

    /// Lists containers in every state. A list that is too large for one message is received in parts; where parts are
    /// missing it is an error.
    pub async fn containers(&self, only: Only) -> Result<Vec<Container>, CriError> {
        match only.container_filter() {
            None => self.container_list(&[]).await?.complete(),
            Some(filter) => Ok(self.some_containers(filter).await?.items),
        }
    }

    /// Lists sandboxes, as [`Self::containers`] does.
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

    /// Asks for one image by id, tag or digest; `None` = it is not there.
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

    /// Asks for one container by its id or a prefix that is unique; `None` = the runtime says that there is none. An answer
    /// without a status, or with that of another container, says nothing.
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

    /// Asks where the images lie: the first file system that the runtime names.
    pub async fn image_filesystem(&self) -> Result<Option<PathBuf>, CriError> {
        let request = pb::ImageFsInfoRequest {};
        let info: pb::ImageFsInfoResponse = self.ask(&self.images, IMAGE_FS_INFO, request).await?;
        Ok(info.image_filesystems.into_iter().next().and_then(|usage| usage.fs_id).map(|id| id.mountpoint.into()))
    }

    /// A directory on the file system of the containers' writable layers; `None` = the runtime reports none. Runtimes
    /// before CRI 0.29 report it only as the images' file system. Waits at most the answer timeout, and does not retry.
    pub async fn container_filesystem(&self) -> Result<Option<PathBuf>, CriError> {
        let info: pb::ImageFsInfoResponse =
            self.ask_once(&self.images, IMAGE_FS_INFO, pb::ImageFsInfoRequest {}).await?;
        let usage = info.container_filesystems.into_iter().chain(info.image_filesystems).next();
        Ok(usage.and_then(|usage| usage.fs_id).map(|id| id.mountpoint.into()))
    }

    /// The bytes in the writable layer of each container, as far as the runtime has determined them: containerd does so
    /// every 10 s. Waits at most the answer timeout, and does not retry.
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

    /// Tells a runtime that is too old from something that is no runtime, by asking in the older version of the CRI.
    /// Its Version has the same messages.
    async fn without_v1(&self) -> CriError {
        let endpoint = self.runtime.path().to_path_buf();
        let request = pb::VersionRequest::default();
        match self.first_answer::<_, pb::VersionResponse>(&self.runtime, OLD_VERSION, request).await {
            Ok(_) => CriError::OnlyV1alpha2 { endpoint },
            Err(_) => CriError::NotCri { endpoint },
        }
    }

    /// Takes a whole list, streamed where the runtime can: most servers limit a message to 16 MiB, and no stream.
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

    /// Takes a list in one answer.
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

    /// Asks for the first answer of a service: waits less than other calls, so that a runtime that hangs is soon told.
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

    /// Asks for what a pass can do without: one try, with the limit of the first answer.
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

    /// Asks until there is an answer or the error stands; `limit` is for each try.
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
            Self::Container(id) => Some(pb::ContainerFilter { id: id.to_string(), ..filter }),
            Self::Sandbox(id) => Some(pb::ContainerFilter { pod_sandbox_id: id.to_string(), ..filter }),
            Self::Pod(uid) => Some(pb::ContainerFilter { label_selector: convert::pod_selector(&uid), ..filter }),
        }
    }

    fn sandbox_filter(self) -> Option<pb::PodSandboxFilter> {
        let filter = pb::PodSandboxFilter::default();
        match self {
            Self::All | Self::Container(_) => None,
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
            log_path: from.log_path.into(),
            image_volumes: from.mounts.into_iter().filter_map(|mount| Some(mount.image?.image)).collect(),
        }
    }
}

fn image_spec(name: &str) -> pb::ImageSpec {
    pb::ImageSpec { image: name.to_owned(), ..pb::ImageSpec::default() }
}
