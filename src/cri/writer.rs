//! The half of the CRI that removes. Only `execute` holds one.

use std::time::Duration;

use tonic::transport::Channel;

use super::generated as pb;
use super::generated::{image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient};
use super::{CriError, CriOptions, channel};
use crate::model::{ContainerId, ImageId, SandboxId};

/// Stops and removes. A call once sent is never cancelled: it runs in a task of its own.
#[derive(Clone, Debug)]
pub struct RuntimeWriter {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    options: CriOptions,
}

// === impl RuntimeWriter ===

impl RuntimeWriter {
    /// A writer for the runtime and the image service, which may be two sockets. Connects at the first call.
    pub fn new(endpoint: &str, image_endpoint: &str, options: CriOptions) -> Self {
        Self {
            runtime: RuntimeServiceClient::new(channel(endpoint)),
            images: ImageServiceClient::new(channel(image_endpoint)),
            options,
        }
    }

    /// Stops a container, with `grace` before the kill. Gone is success.
    pub async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CriError> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = pb::StopContainerRequest { container_id: id.to_string(), timeout };
        let mut client = self.runtime.clone();
        self.call("StopContainer", async move { client.stop_container(request).await }).await
    }

    /// Removes a container. Gone is success.
    pub async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = pb::RemoveContainerRequest { container_id: id.to_string() };
        let mut client = self.runtime.clone();
        self.call("RemoveContainer", async move { client.remove_container(request).await }).await
    }

    /// Stops a sandbox and gives back its network. Gone is success.
    pub async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = pb::StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        let mut client = self.runtime.clone();
        self.call("StopPodSandbox", async move { client.stop_pod_sandbox(request).await }).await
    }

    /// Removes a sandbox. Gone is success.
    pub async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = pb::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        let mut client = self.runtime.clone();
        self.call("RemovePodSandbox", async move { client.remove_pod_sandbox(request).await }).await
    }

    /// Removes an image with all its tags. Gone is success.
    pub async fn remove_image(&self, id: &ImageId) -> Result<(), CriError> {
        let image = pb::ImageSpec { image: id.to_string(), ..pb::ImageSpec::default() };
        let request = pb::RemoveImageRequest { image: Some(image) };
        let mut client = self.images.clone();
        self.call("RemoveImage", async move { client.remove_image(request).await }).await
    }

    /// Sends a call in a task of its own and waits for it within the limit for removals.
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>> + Send + 'static,
    ) -> Result<(), CriError> {
        let limit = self.options.removal_timeout;
        let answer = match tokio::time::timeout(limit, tokio::spawn(answer)).await {
            Ok(joined) => joined.unwrap_or_else(|error| Err(tonic::Status::internal(error.to_string()))),
            Err(_) => return Err(CriError::Timeout { call: name, seconds: limit.as_secs() }),
        };
        match answer.map_err(|status| CriError::call(name, status)) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
