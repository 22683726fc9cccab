//! What we rely on in any runtime. The same cases run on `sim`, on every containerd and on CRI-O, so that tests on `sim` are
//! valid.
//!
//! A runtime takes part with an implementation of [`Runtime`] and one line, `contract!(alone name, how to start it)`, which
//! makes a test of each case. A runtime that takes long to start has `in_turn` instead: a test of each group of cases, which
//! share one runtime. Lists and removals use our own reader and writer. Calls that they do not have use the
//! client.

pub mod containers;
pub mod images;
pub mod runtime;
pub mod sandboxes;

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use kubegc::cri::generated as pb;
use kubegc::cri::generated::image_service_client::ImageServiceClient;
use kubegc::cri::generated::runtime_service_client::RuntimeServiceClient;
use kubegc::cri::{ContainerStatus, CriOptions, InProgress, Only, RuntimeReader, RuntimeWriter};
use kubegc::model::{Container, ContainerId, ContainerState, PodUid, SandboxId};
use tonic::transport::{Channel, Endpoint, Uri};

use crate::rig::in_turn;

/// The two names of one image. It has `/bin/sleep`, and shares a layer with [`SINGLE`].
pub const TWICE: [&str; 2] = ["docker.io/library/twice:1", "docker.io/library/twice:again"];

/// An image with one name. It has `/bin/sleep`.
pub const SINGLE: &str = "docker.io/library/single:1";

/// A runtime to test. At the start it has its sandbox image only.
pub trait Runtime {
    /// Returns the endpoint, `unix:///…`.
    fn endpoint(&self) -> String;

    /// Returns a sandbox like that of a kubelet: host network, the labels of the pod, an absolute log directory.
    fn sandbox_config(&self, namespace: &str, name: &str, uid: &str) -> pb::PodSandboxConfig;

    /// Imports [`TWICE`] and [`SINGLE`]. May be called repeatedly.
    async fn import_images(&self);
}

impl<R: Runtime> Runtime for Arc<R> {
    fn endpoint(&self) -> String {
        R::endpoint(self)
    }

    fn sandbox_config(&self, namespace: &str, name: &str, uid: &str) -> pb::PodSandboxConfig {
        R::sandbox_config(self, namespace, name, uid)
    }

    async fn import_images(&self) {
        R::import_images(self).await;
    }
}

/// A runtime with both images, and its clients.
pub struct Subject<R> {
    /// Keeps the runtime alive.
    pub host: R,
    /// Our reader.
    pub reader: RuntimeReader,
    /// Our writer.
    pub writer: RuntimeWriter,
    /// The client of the runtime service.
    pub runtime: RuntimeServiceClient<Channel>,
    /// The client of the image service.
    pub images: ImageServiceClient<Channel>,
}

/// A sandbox and the data that its containers must repeat.
pub struct Pod {
    /// The ID of the sandbox.
    pub sandbox: SandboxId,
    /// The uid of the pod.
    pub uid: PodUid,
    config: pb::PodSandboxConfig,
}

/// A case, for [`on_one`].
pub type Case<R> = fn(Subject<R>) -> LocalBoxFuture<'static, ()>;

/// Plays cases on one runtime, which is emptied after each.
pub async fn on_one<R: Runtime>(host: R, cases: &[(&str, Case<Arc<R>>)]) {
    let host = Arc::new(host);
    let play = async |case: &Case<Arc<R>>| {
        let subject = Subject::connect(host.clone());
        subject.empty().await;
        host.import_images().await;
        case(subject).await;
    };
    in_turn(cases, play).await;
}

/// Makes the tests for one runtime.
macro_rules! contract {
    ($how:ident $name:ident, $start:expr) => {
        $crate::contract::contract! { @$how $name, $start,
            runtime {
                version_names_the_runtime
                verbose_status_answers
                the_image_filesystem_is_a_directory
                streamed_lists_are_whole_or_unimplemented
            }
            containers {
                what_was_created_is_listed
                lists_narrow_by_id_sandbox_pod_and_state
                a_created_container_has_a_status
                a_running_container_has_a_status
                an_exited_container_has_a_status
                a_unique_prefix_is_enough_for_a_status
                an_unknown_container_has_no_status
                the_log_path_is_beneath_the_log_directory
                stopping_twice_is_fine
                stopping_the_created_or_unknown_changes_nothing
                removing_twice_is_fine
                removing_the_unknown_is_fine
                removal_is_forced
                what_ran_does_not_start_again
            }
            sandboxes {
                a_sandbox_is_ready_until_it_is_stopped
                lists_narrow_by_id_and_pod
                stopping_ends_what_runs_in_it
                stopping_or_removing_twice_is_fine
                stopping_or_removing_the_unknown_is_fine
                removal_takes_containers_along
            }
            images {
                what_was_imported_is_listed
                an_image_is_found_by_each_of_its_names
                an_image_has_the_labels_of_its_configuration
                an_unknown_image_is_not_found
                removal_by_id_takes_every_name
                removal_by_one_name_takes_every_name
                removing_twice_or_the_unknown_is_fine
                an_image_in_use_is_kept_or_its_container_runs_on
                a_shared_layer_survives_one_of_its_images
                an_image_comes_again_after_its_removal
            }
        }
    };
    (@in_turn $name:ident, $start:expr, $($room:ident { $($case:ident)* })*) => {
        mod $name {
            use super::*;
            $(#[tokio::test]
            async fn $room() {
                let cases: &[(&str, $crate::contract::Case<_>)] =
                    &[$((stringify!($case), |subject| Box::pin($crate::contract::$room::$case(subject)))),*];
                $crate::contract::on_one($start.await, cases).await;
            })*
        }
    };
    (@alone $name:ident, $start:expr, $($room:ident { $($case:ident)* })*) => {
        mod $name {
            use super::*;
            $(mod $room {
                use super::*;
                $(#[tokio::test]
                async fn $case() {
                    $crate::contract::$room::$case($crate::contract::Subject::meet($start.await).await).await;
                })*
            })*
        }
    };
}
pub(crate) use contract;

// === impl Subject ===

impl<R: Runtime> Subject<R> {
    /// Imports the images and connects.
    pub async fn meet(host: R) -> Self {
        host.import_images().await;
        Self::connect(host)
    }

    fn connect(host: R) -> Self {
        let endpoint = host.endpoint();
        let reader = RuntimeReader::new(&endpoint, &endpoint, CriOptions::default());
        Self {
            writer: RuntimeWriter::new(&reader, &InProgress::default()),
            reader,
            runtime: RuntimeServiceClient::new(channel(&endpoint)),
            images: ImageServiceClient::new(channel(&endpoint)),
            host,
        }
    }

    /// Returns whether the runtime is CRI-O, which answers some calls in another way than containerd.
    pub async fn is_crio(&self) -> bool {
        self.reader.runtime().await.unwrap().name == "cri-o"
    }

    /// Returns the state of a created container after a stop.
    pub async fn created_after_a_stop(&self) -> ContainerState {
        if self.is_crio().await { ContainerState::Exited } else { ContainerState::Created }
    }

    /// Removes everything that a case leaves.
    async fn empty(&self) {
        for sandbox in self.sandbox_ids(Only::All).await {
            self.writer.stop_sandbox(&sandbox).await.unwrap();
            self.writer.remove_sandbox(&sandbox).await.unwrap();
        }
        for container in self.container_ids(Only::All).await {
            self.writer.remove_container(&container).await.unwrap();
        }
        for name in [TWICE[0], SINGLE] {
            if let Some(image) = self.reader.image(name).await.unwrap() {
                self.writer.remove_image(&image.id).await.unwrap();
            }
        }
    }

    /// Runs a sandbox.
    pub async fn pod(&self, name: &str, uid: &str) -> Pod {
        let config = self.host.sandbox_config("default", name, uid);
        std::fs::create_dir_all(&config.log_directory).unwrap();
        let request = pb::RunPodSandboxRequest { config: Some(config.clone()) };
        let answer = self.runtime.clone().run_pod_sandbox(request).await.unwrap();
        Pod { sandbox: answer.into_inner().pod_sandbox_id.into(), uid: uid.into(), config }
    }

    /// Creates a container of [`SINGLE`].
    pub async fn created(&self, pod: &Pod, name: &str) -> ContainerId {
        self.created_from(pod, name, SINGLE).await
    }

    /// Creates a container of an image.
    pub async fn created_from(&self, pod: &Pod, name: &str, image: &str) -> ContainerId {
        std::fs::create_dir_all(std::path::Path::new(&pod.config.log_directory).join(name)).unwrap();
        let request = pb::CreateContainerRequest {
            pod_sandbox_id: pod.sandbox.to_string(),
            config: Some(container_config(pod, name, image)),
            sandbox_config: Some(pod.config.clone()),
        };
        self.runtime.clone().create_container(request).await.unwrap().into_inner().container_id.into()
    }

    /// Creates a container of [`SINGLE`] and starts it.
    pub async fn running(&self, pod: &Pod, name: &str) -> ContainerId {
        let id = self.created(pod, name).await;
        self.start(&id).await.unwrap();
        id
    }

    /// Creates a container of [`SINGLE`], starts it and stops it.
    pub async fn exited(&self, pod: &Pod, name: &str) -> ContainerId {
        let id = self.running(pod, name).await;
        self.stop(&id).await;
        id
    }

    /// Starts a container.
    pub async fn start(&self, id: &ContainerId) -> Result<(), tonic::Status> {
        let request = pb::StartContainerRequest { container_id: id.to_string() };
        self.runtime.clone().start_container(request).await.map(|_| ())
    }

    /// Stops a container without a grace period.
    pub async fn stop(&self, id: &ContainerId) {
        self.writer.stop_container(id, std::time::Duration::ZERO).await.unwrap();
    }

    /// Returns all containers of a list, sorted by ID.
    pub async fn containers(&self, only: Only) -> Vec<Container> {
        let mut list = self.reader.containers(only).await.unwrap();
        list.sort_by(|a, b| a.id.cmp(&b.id));
        list
    }

    /// Returns the IDs of the containers that match a filter, as the runtime lists them.
    async fn filtered(&self, filter: pb::ContainerFilter) -> Vec<String> {
        let request = pb::ListContainersRequest { filter: Some(filter) };
        let list = self.runtime.clone().list_containers(request).await.unwrap().into_inner();
        list.containers.into_iter().map(|container| container.id).collect()
    }

    /// Returns the IDs of a list, sorted.
    pub async fn container_ids(&self, only: Only) -> Vec<ContainerId> {
        self.containers(only).await.into_iter().map(|container| container.id).collect()
    }

    /// Returns the sandboxes of a list, sorted.
    pub async fn sandbox_ids(&self, only: Only) -> Vec<SandboxId> {
        let mut list: Vec<_> = self.reader.sandboxes(only).await.unwrap().into_iter().map(|found| found.id).collect();
        list.sort();
        list
    }

    /// Returns the status of a container.
    pub async fn status(&self, id: &ContainerId) -> Option<ContainerStatus> {
        self.reader.container_status(id).await.unwrap()
    }

    /// Returns the state of a container, from its status.
    pub async fn state(&self, id: &ContainerId) -> Option<ContainerState> {
        self.status(id).await.map(|status| status.state)
    }

    /// Says whether an image exists.
    pub async fn has_image(&self, name: &str) -> bool {
        self.reader.image(name).await.unwrap().is_some()
    }
}

// === impl Pod ===

impl Pod {
    /// Returns the directory of the containers' logs.
    pub fn log_directory(&self) -> &std::path::Path {
        std::path::Path::new(&self.config.log_directory)
    }
}

/// Sorts IDs as in the comparison of lists.
pub fn sorted<T: Ord>(mut ids: Vec<T>) -> Vec<T> {
    ids.sort();
    ids
}

fn container_config(pod: &Pod, name: &str, image: &str) -> pb::ContainerConfig {
    let linux = pod.config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let security_context =
        linux.map(|linux| pb::LinuxContainerSecurityContext { namespace_options: linux.namespace_options });
    let mut labels = pod.config.labels.clone();
    labels.insert("io.kubernetes.container.name".to_owned(), name.to_owned());
    pb::ContainerConfig {
        metadata: Some(pb::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
        image: Some(pb::ImageSpec {
            image: image.to_owned(),
            user_specified_image: image.to_owned(),
            ..pb::ImageSpec::default()
        }),
        command: vec!["/bin/sleep".to_owned(), "1000000".to_owned()],
        labels,
        log_path: format!("{name}/0.log"),
        linux: Some(pb::LinuxContainerConfig { security_context }),
        ..pb::ContainerConfig::default()
    }
}

pub fn channel(endpoint: &str) -> Channel {
    let path = endpoint.trim_start_matches("unix://").to_owned();
    let connect = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { tokio::net::UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect)
}
