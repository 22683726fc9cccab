//! The runtime service: converts requests to state changes, and state to answers.

use tonic::{Request, Response, Status};

use crate::cri::generated as pb;
use crate::cri::generated::runtime_service_server::RuntimeService;
use crate::sim::defects::Batches;
use crate::sim::lifecycle::nanoseconds;
use crate::sim::script::Rpc;
use crate::sim::shared::Service;
use crate::sim::sim_node::{Node, SimContainer, Streaming};

// === impl Service ===

#[tonic::async_trait]
impl RuntimeService for Service {
    type StreamPodSandboxesStream = Batches<pb::StreamPodSandboxesResponse>;
    type StreamContainersStream = Batches<pb::StreamContainersResponse>;

    async fn version(&self, _: Request<pb::VersionRequest>) -> Result<Response<pb::VersionResponse>, Status> {
        self.0.answer(Rpc::Version, "", |node| Ok(node.version())).await
    }

    async fn status(&self, request: Request<pb::StatusRequest>) -> Result<Response<pb::StatusResponse>, Status> {
        let verbose = request.into_inner().verbose;
        self.0.answer(Rpc::Status, "", |node| Ok(node.status(verbose))).await
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<pb::RunPodSandboxRequest>,
    ) -> Result<Response<pb::RunPodSandboxResponse>, Status> {
        let config = request.into_inner().config.unwrap_or_default();
        let run = |node: &mut Node| {
            let now = node.time();
            node.run_sandbox(config, now).map(|pod_sandbox_id| pb::RunPodSandboxResponse { pod_sandbox_id })
        };
        self.0.answer(Rpc::RunPodSandbox, "", run).await
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<pb::StopPodSandboxRequest>,
    ) -> Result<Response<pb::StopPodSandboxResponse>, Status> {
        let id = request.into_inner().pod_sandbox_id;
        let stop = |node: &mut Node| node.stop_sandbox(&id).map(|()| pb::StopPodSandboxResponse {});
        self.0.answer(Rpc::StopPodSandbox, &id, stop).await
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<pb::RemovePodSandboxRequest>,
    ) -> Result<Response<pb::RemovePodSandboxResponse>, Status> {
        let id = request.into_inner().pod_sandbox_id;
        let remove = |node: &mut Node| node.remove_sandbox(&id).map(|()| pb::RemovePodSandboxResponse {});
        self.0.answer(Rpc::RemovePodSandbox, &id, remove).await
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<pb::ListPodSandboxRequest>,
    ) -> Result<Response<pb::ListPodSandboxResponse>, Status> {
        let filter = request.into_inner().filter;
        let id = sandbox_filter_id(filter.as_ref());
        let list = |node: &mut Node| node.sent(pb::ListPodSandboxResponse { items: node.list_sandboxes(filter) });
        self.0.answer(Rpc::ListPodSandbox, &id, list).await
    }

    async fn stream_pod_sandboxes(
        &self,
        request: Request<pb::StreamPodSandboxesRequest>,
    ) -> Result<Response<Self::StreamPodSandboxesStream>, Status> {
        let filter = request.into_inner().filter;
        let id = sandbox_filter_id(filter.as_ref());
        let list = |node: &mut Node| {
            batches(
                node.runtime.streaming,
                || node.list_sandboxes(filter),
                |items| pb::StreamPodSandboxesResponse { items },
            )
        };
        self.0.answer(Rpc::StreamPodSandboxes, &id, list).await
    }

    async fn create_container(
        &self,
        request: Request<pb::CreateContainerRequest>,
    ) -> Result<Response<pb::CreateContainerResponse>, Status> {
        let request = request.into_inner();
        let id = request.pod_sandbox_id;
        let create = |node: &mut Node| {
            let (config, sandbox) = (request.config.unwrap_or_default(), request.sandbox_config);
            let made = node.create_container(&id, config, sandbox, node.time());
            made.map(|container_id| pb::CreateContainerResponse { container_id })
        };
        self.0.answer(Rpc::CreateContainer, &id, create).await
    }

    async fn start_container(
        &self,
        request: Request<pb::StartContainerRequest>,
    ) -> Result<Response<pb::StartContainerResponse>, Status> {
        let id = request.into_inner().container_id;
        let start = |node: &mut Node| node.start_container(&id).map(|()| pb::StartContainerResponse {});
        self.0.answer(Rpc::StartContainer, &id, start).await
    }

    async fn stop_container(
        &self,
        request: Request<pb::StopContainerRequest>,
    ) -> Result<Response<pb::StopContainerResponse>, Status> {
        let id = request.into_inner().container_id;
        let stop = |node: &mut Node| node.stop_container(&id).map(|()| pb::StopContainerResponse {});
        self.0.answer(Rpc::StopContainer, &id, stop).await
    }

    async fn remove_container(
        &self,
        request: Request<pb::RemoveContainerRequest>,
    ) -> Result<Response<pb::RemoveContainerResponse>, Status> {
        let id = request.into_inner().container_id;
        let remove = |node: &mut Node| node.remove_container(&id).map(|()| pb::RemoveContainerResponse {});
        self.0.answer(Rpc::RemoveContainer, &id, remove).await
    }

    async fn list_containers(
        &self,
        request: Request<pb::ListContainersRequest>,
    ) -> Result<Response<pb::ListContainersResponse>, Status> {
        let filter = request.into_inner().filter;
        let id = container_filter_id(filter.as_ref());
        let list = |node: &mut Node| node.sent(pb::ListContainersResponse { containers: node.list_containers(filter) });
        self.0.answer(Rpc::ListContainers, &id, list).await
    }

    async fn stream_containers(
        &self,
        request: Request<pb::StreamContainersRequest>,
    ) -> Result<Response<Self::StreamContainersStream>, Status> {
        let filter = request.into_inner().filter;
        let id = container_filter_id(filter.as_ref());
        let list = |node: &mut Node| {
            batches(
                node.runtime.streaming,
                || node.list_containers(filter),
                |containers| pb::StreamContainersResponse { containers },
            )
        };
        self.0.answer(Rpc::StreamContainers, &id, list).await
    }

    async fn container_status(
        &self,
        request: Request<pb::ContainerStatusRequest>,
    ) -> Result<Response<pb::ContainerStatusResponse>, Status> {
        let id = request.into_inner().container_id;
        let status = |node: &mut Node| {
            let status = Some(node.container_status(node.containers.find(&id)?));
            Ok(pb::ContainerStatusResponse { status, info: [].into() })
        };
        self.0.answer(Rpc::ContainerStatus, &id, status).await
    }

    async fn list_container_stats(
        &self,
        _: Request<pb::ListContainerStatsRequest>,
    ) -> Result<Response<pb::ListContainerStatsResponse>, Status> {
        self.0.answer(Rpc::ListContainerStats, "", |node| Ok(node.container_stats())).await
    }
}

// === impl Node ===

impl Node {
    /// Returns a list as the answer to a call. If the list exceeds the send limit, returns the error that Go's gRPC
    /// uses.
    pub(super) fn sent<T: prost::Message>(&self, answer: T) -> Result<T, Status> {
        let (bytes, limit) = (answer.encoded_len(), self.runtime.send_limit);
        match limit {
            Some(limit) if bytes > limit => Err(Status::resource_exhausted(format!(
                "grpc: trying to send message larger than max ({bytes} vs. {limit})"
            ))),
            _ => Ok(answer),
        }
    }

    fn version(&self) -> pb::VersionResponse {
        pb::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: self.runtime.name.clone(),
            runtime_version: self.runtime.version.clone(),
            runtime_api_version: if self.runtime.is_old { "v1alpha2" } else { "v1" }.to_owned(),
        }
    }

    fn status(&self, verbose: bool) -> pb::StatusResponse {
        let ready = |name: &str| pb::RuntimeCondition {
            r#type: name.to_owned(),
            status: true,
            ..pb::RuntimeCondition::default()
        };
        let status = pb::RuntimeStatus { conditions: vec![ready("RuntimeReady"), ready("NetworkReady")] };
        let config = verbose.then(|| ("config".to_owned(), self.config()));
        pb::StatusResponse { status: Some(status), info: config.into_iter().collect() }
    }

    /// Returns the configuration of the runtime as containerd reports it: 1.x with the sandbox image, 2.x without.
    fn config(&self) -> String {
        let containerd = serde_json::json!({ "snapshotter": "overlayfs" });
        let config = match &self.runtime.sandbox_image {
            Some(image) => serde_json::json!({ "containerd": containerd, "sandboxImage": image }),
            None => serde_json::json!({ "containerd": containerd }),
        };
        self.runtime.config.clone().unwrap_or_else(|| config.to_string())
    }

    /// Returns the size of the writable layer of each container, in any state.
    fn container_stats(&self) -> pb::ListContainerStatsResponse {
        let stats = |container: &SimContainer| pb::ContainerStats {
            attributes: Some(pb::ContainerAttributes {
                id: container.listed.id.clone(),
                metadata: container.listed.metadata.clone(),
            }),
            writable_layer: Some(pb::FilesystemUsage {
                timestamp: nanoseconds(self.time()),
                used_bytes: Some(pb::UInt64Value { value: container.written_bytes }),
                ..pb::FilesystemUsage::default()
            }),
        };
        pb::ListContainerStatsResponse { stats: self.containers.iter().map(stats).collect() }
    }

    fn container_status(&self, container: &SimContainer) -> pb::ContainerStatus {
        let listed = container.listed.clone();
        let log_path = match &self.roots {
            Some(roots) if !container.log_path.as_os_str().is_empty() => roots.pods.join(&container.log_path),
            _ => container.log_path.clone(),
        };
        pb::ContainerStatus {
            id: listed.id,
            metadata: listed.metadata,
            state: listed.state,
            created_at: listed.created_at,
            started_at: container.started_at,
            finished_at: container.finished_at,
            exit_code: container.exit_code,
            reason: if container.exit_code == 0 { "Completed" } else { "Error" }.to_owned(),
            image: listed.image,
            image_ref: listed.image_ref,
            labels: listed.labels,
            annotations: listed.annotations,
            mounts: container.mounts.clone(),
            log_path: log_path.display().to_string(),
            ..pb::ContainerStatus::default()
        }
    }
}

/// Returns a list in batches, or the error that `streaming` requires instead.
pub(super) fn batches<T: Clone, R: Send + 'static>(
    streaming: Streaming,
    list: impl FnOnce() -> Vec<T>,
    batch: impl Fn(Vec<T>) -> R,
) -> Result<Batches<R>, Status> {
    let (size, most) = match streaming {
        Streaming::Unimplemented => return Err(Status::unimplemented("streaming lists are not implemented")),
        Streaming::Batches(size) => (size, usize::MAX),
        Streaming::BreaksOff(size) => (size, 1),
    };
    let list = list();
    let mut answers: Vec<_> = list.chunks(size.max(1)).take(most).map(|items| Ok(batch(items.to_vec()))).collect();
    if let Streaming::BreaksOff(_) = streaming {
        answers.push(Err(Status::internal("the stream broke off")));
    }
    Ok(Box::pin(tokio_stream::iter(answers)))
}

fn container_filter_id(filter: Option<&pb::ContainerFilter>) -> String {
    let id = filter.map(|filter| if filter.id.is_empty() { &filter.pod_sandbox_id } else { &filter.id });
    id.cloned().unwrap_or_default()
}

fn sandbox_filter_id(filter: Option<&pb::PodSandboxFilter>) -> String {
    filter.map(|filter| filter.id.clone()).unwrap_or_default()
}
