//! The half of the CRI that looks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use prost::Message;
use tonic::Status;

use super::connect::{Measured, Method, Socket};
use super::generated as pb;
use super::lists::{self, Listed, Received};
use super::retry::Retry;
use super::{CriError, CriOptions, convert};
use crate::model::{Container, ContainerId, ContainerState, Image, PodRef, PodUid, Runtime, Sandbox, SandboxId};

const VERSION: Method = Method("/runtime.v1.RuntimeService/Version");
const OLD_VERSION: Method = Method("/runtime.v1alpha2.RuntimeService/Version");
const STATUS: Method = Method("/runtime.v1.RuntimeService/Status");
const CONTAINER_STATUS: Method = Method("/runtime.v1.RuntimeService/ContainerStatus");
const IMAGE_STATUS: Method = Method("/runtime.v1.ImageService/ImageStatus");
const IMAGE_FS_INFO: Method = Method("/runtime.v1.ImageService/ImageFsInfo");

/// Reads from the runtime. Cheap to clone; all clones share the connections and what was learnt about streaming.
#[derive(Clone, Debug)]
pub struct RuntimeReader {
    runtime: Socket,
    images: Socket,
    options: CriOptions,
    unary_only: Arc<UnaryOnly>,
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
        Self { runtime, images, options, unary_only: Arc::default() }
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

    /// Asks who the runtime is and, where it tells, which image its sandboxes run.
    pub async fn runtime(&self) -> Result<Runtime, CriError> {
        let version = self.version().await?;
        Ok(Runtime {
            name: version.runtime_name,
            version: version.runtime_version,
            sandbox_image: self.sandbox_image().await,
            listening_since: self.listening_since(),
        })
    }

    /// Since when the runtime's socket exists. Its modification time: a restart makes a new file, while a change of
    /// owner or mode, which the other times would show, is no restart. `None` = cannot be seen.
    pub fn listening_since(&self) -> Option<Timestamp> {
        let modified = std::fs::metadata(self.runtime.path()).and_then(|metadata| metadata.modified()).ok()?;
        Timestamp::try_from(modified).ok()
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
        Ok(answer.image.map(convert::image))
    }

    /// Asks for one container by its id or a prefix that is unique; `None` = it is not there.
    pub async fn container_status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>, CriError> {
        let request = pb::ContainerStatusRequest { container_id: id.to_string(), verbose: false };
        match self.ask::<_, pb::ContainerStatusResponse>(&self.runtime, CONTAINER_STATUS, request).await {
            Ok(answer) => Ok(answer.status.map(ContainerStatus::from)),
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

    /// A runtime that does not tell is no error: the image is then known by its pin alone.
    async fn sandbox_image(&self) -> Option<String> {
        let request = pb::StatusRequest { verbose: true };
        let answer = self.ask::<_, pb::StatusResponse>(&self.runtime, STATUS, request).await;
        answer.ok().and_then(|status| convert::sandbox_image(&status.info))
    }

    /// Takes a whole list, streamed where the runtime can: most servers limit a message to 16 MiB, and no stream.
    async fn all<L: Listed>(&self, on: &Socket, unary_only: &AtomicBool) -> Result<Received<L::Item>, CriError> {
        let max_bytes = self.options.max_message_bytes;
        if !unary_only.load(Ordering::Relaxed) {
            let limit = self.options.read_timeout;
            match self.read(limit, on, L::STREAM, || lists::stream::<L>(on, max_bytes)).await {
                Err(error) if error.is_unimplemented() => unary_only.store(true, Ordering::Relaxed),
                list => return list,
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
        Ok(Received { items: message.into_items().collect(), bytes, streamed: false })
    }

    /// Asks for the first answer of a service: waits less than other calls, so that a runtime that hangs is soon told.
    async fn first_answer<Q, A>(&self, on: &Socket, call: Method, request: Q) -> Result<A, CriError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let limit = self.options.answer_timeout.min(self.options.read_timeout);
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
        let mut retry = Retry::new(self.options.patience);
        loop {
            let error = match tokio::time::timeout(limit, attempt()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => on.error(call, status),
                Err(_) => CriError::Timeout { call: call.name(), seconds: limit.as_secs() },
            };
            match retry.after(&error) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
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
