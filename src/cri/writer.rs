//! The calls of the CRI that stop and remove. Only `execute` holds a [`RuntimeWriter`].

use std::time::Duration;

use tonic::Status;

use super::CriError;
use super::connect::{Method, Sent};
use super::generated as pb;
use super::in_progress::InProgress;
use super::reader::RuntimeReader;
use crate::model::{ContainerId, ImageId, SandboxId};

/// Stops and removes objects. A call is never canceled once it is sent: it runs in its own task, and has no deadline at
/// which the runtime could cancel it. Clones share the removals in progress.
#[derive(Clone, Debug)]
pub struct RuntimeWriter {
    reader: RuntimeReader,
    in_progress: InProgress,
}

// === impl RuntimeWriter ===

impl RuntimeWriter {
    /// Creates a writer for the runtime of a reader. They share the connection. Removals without an answer make the runtime
    /// suspect for the reader, and are counted with its calls. `removals` has the removals in progress.
    pub fn new(reader: &RuntimeReader, removals: &InProgress) -> Self {
        Self { reader: reader.clone(), in_progress: removals.clone() }
    }

    /// Returns whether a call that stops or removes this object has no answer yet.
    pub fn is_in_progress(&self, id: &str) -> bool {
        self.in_progress.contains(id)
    }

    /// Stops a container, with the grace period `grace` before the kill. Succeeds if the container no longer exists.
    pub async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CriError> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = pb::StopContainerRequest { container_id: id.to_string(), timeout };
        self.call(Method("/runtime.v1.RuntimeService/StopContainer"), id.as_str(), request).await
    }

    /// Removes a container. Succeeds if the container no longer exists.
    pub async fn remove_container(&self, id: &ContainerId) -> Result<(), CriError> {
        let request = pb::RemoveContainerRequest { container_id: id.to_string() };
        self.call(Method("/runtime.v1.RuntimeService/RemoveContainer"), id.as_str(), request).await
    }

    /// Stops a sandbox and releases its network. Succeeds if the sandbox no longer exists.
    pub async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = pb::StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        self.call(Method("/runtime.v1.RuntimeService/StopPodSandbox"), id.as_str(), request).await
    }

    /// Removes a sandbox. Succeeds if the sandbox no longer exists.
    pub async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CriError> {
        let request = pb::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        self.call(Method("/runtime.v1.RuntimeService/RemovePodSandbox"), id.as_str(), request).await
    }

    /// Removes an image with all its tags. Succeeds if the image no longer exists.
    pub async fn remove_image(&self, id: &ImageId) -> Result<(), CriError> {
        self.remove_image_by(id, id.as_str()).await
    }

    /// Removes what a name of an image refers to. Succeeds if the image no longer exists.
    pub async fn remove_image_by(&self, id: &ImageId, name: &str) -> Result<(), CriError> {
        let image = pb::ImageSpec { image: name.to_owned(), ..pb::ImageSpec::default() };
        let request = pb::RemoveImageRequest { image: Some(image) };
        self.call(Method("/runtime.v1.ImageService/RemoveImage"), id.as_str(), request).await
    }

    /// Sends a call. If the connection broke, sends it once more at once: the runtime may have been restarted since the
    /// last call, and a removal can be repeated safely. Does not wait for an unavailable runtime, because the recheck
    /// before the call would no longer be fresh.
    async fn call<Q: Sent>(&self, call: Method, id: &str, request: Q) -> Result<(), CriError> {
        let answer = match self.wait(call, id, request.clone()).await {
            Err(CriError::Broken { .. }) => self.wait(call, id, request).await,
            answer => answer,
        };
        match answer {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends a call in its own task and waits for it within the limit for removals. The task outlives the wait.
    async fn wait<Q: Sent>(&self, call: Method, id: &str, request: Q) -> Result<(), CriError> {
        let Some(removal) = self.in_progress.begin(id) else {
            return Err(CriError::InProgress { call: call.name(), id: id.to_owned() });
        };
        let RuntimeReader { options, breaker, .. } = &self.reader;
        let (socket, max_bytes) = (self.reader.socket(call).clone(), options.max_message_bytes);
        let sending = socket.clone();
        let sent = tokio::spawn(async move {
            let _until_answered = removal;
            sending.unary::<Q, ()>(call, request, max_bytes).await
        });
        match tokio::time::timeout(options.removal_timeout, sent).await {
            Ok(Ok(answer)) => answer.map_err(|status| socket.error(call, status)),
            Ok(Err(broken)) => Err(socket.error(call, Status::internal(broken.to_string()))),
            Err(_) => Err(breaker.unanswered(call, options.removal_timeout)),
        }
    }
}
