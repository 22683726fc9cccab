//! The half of the CRI that removes. Only `execute` holds one.

use std::time::Duration;

use prost::Message;
use tonic::Status;

use super::breaker::Breaker;
use super::connect::{Method, Socket};
use super::generated as pb;
use super::in_progress::InProgress;
use super::{CriError, CriOptions};
use crate::model::{ContainerId, ImageId, SandboxId};

/// Stops and removes. A call once sent is never cancelled: it runs in a task of its own, and carries no deadline that the
/// runtime could cut it off by. Clones share what is in progress.
#[derive(Clone, Debug)]
pub struct RuntimeWriter {
    runtime: Socket,
    images: Socket,
    options: CriOptions,
    breaker: Breaker,
    in_progress: InProgress,
}

// === impl RuntimeWriter ===

impl RuntimeWriter {
    /// A writer for the runtime and the image service, which may be two sockets: paths, with or without `unix://`.
    /// Connects at the first call. Must be called within a tokio runtime.
    pub fn new(endpoint: &str, image_endpoint: &str, options: CriOptions) -> Self {
        let runtime = Socket::new(endpoint);
        let images = if endpoint == image_endpoint { runtime.clone() } else { Socket::new(image_endpoint) };
        let breaker = Breaker::new(&runtime, &options);
        Self { runtime, images, options, breaker, in_progress: InProgress::default() }
    }

    /// The same writer beside a reader with this breaker, which then knows of removals without an answer.
    #[must_use]
    pub fn with_breaker(self, breaker: &Breaker) -> Self {
        Self { breaker: breaker.clone(), ..self }
    }

    /// Says whether a call that stops or removes this object has no answer yet.
    pub fn is_in_progress(&self, id: &str) -> bool {
        self.in_progress.contains(id)
    }

    /// Stops a container, with `grace` before the kill. Gone is success.
    pub async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CriError> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = pb::StopContainerRequest { container_id: id.to_string(), timeout };
        self.call(&self.runtime, Method("/runtime.v1.RuntimeService/StopContainer"), id.as_str(), request).await
    }

    /// Removes a container. Gone is success.
    pub async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = pb::RemoveContainerRequest { container_id: id.to_string() };
        self.call(&self.runtime, Method("/runtime.v1.RuntimeService/RemoveContainer"), id.as_str(), request).await
    }

    /// Stops a sandbox and gives back its network. Gone is success.
    pub async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = pb::StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        self.call(&self.runtime, Method("/runtime.v1.RuntimeService/StopPodSandbox"), id.as_str(), request).await
    }

    /// Removes a sandbox. Gone is success.
    pub async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = pb::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        self.call(&self.runtime, Method("/runtime.v1.RuntimeService/RemovePodSandbox"), id.as_str(), request).await
    }

    /// Removes an image with all its tags. Gone is success.
    pub async fn remove_image(&self, id: &ImageId) -> Result<(), CriError> {
        let image = pb::ImageSpec { image: id.to_string(), ..pb::ImageSpec::default() };
        let request = pb::RemoveImageRequest { image: Some(image) };
        self.call(&self.images, Method("/runtime.v1.ImageService/RemoveImage"), id.as_str(), request).await
    }

    /// Sends a call, and once more at once if the connection broke, which is how a restart of the runtime since the last
    /// call shows; removals may come twice. A runtime that is away is not waited for: the recheck that came before would
    /// no longer be fresh.
    async fn call<Q: Message + Clone + 'static>(
        &self,
        on: &Socket,
        call: Method,
        id: &str,
        request: Q,
    ) -> Result<(), CriError> {
        let answer = match self.wait(on, call, id, request.clone()).await {
            Err(CriError::Broken { .. }) => self.wait(on, call, id, request).await,
            answer => answer,
        };
        match answer {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends a call in a task of its own and waits for it within the limit for removals. The task outlives the wait.
    async fn wait<Q: Message + 'static>(
        &self,
        on: &Socket,
        call: Method,
        id: &str,
        request: Q,
    ) -> Result<(), CriError> {
        let Some(removal) = self.in_progress.begin(id) else {
            return Err(CriError::InProgress { call: call.name(), id: id.to_owned() });
        };
        let (socket, max_bytes) = (on.clone(), self.options.max_message_bytes);
        let sent = tokio::spawn(async move {
            let _until_answered = removal;
            socket.unary::<Q, ()>(call, request, max_bytes).await
        });
        let limit = self.options.removal_timeout;
        match tokio::time::timeout(limit, sent).await {
            Ok(Ok(answer)) => answer.map_err(|status| on.error(call, status)),
            Ok(Err(broken)) => Err(on.error(call, Status::internal(broken.to_string()))),
            Err(_) => Err(self.breaker.unanswered(call, limit)),
        }
    }
}
