//! The calls of the CRI that stop and remove. Only `execute` holds a [`RuntimeWriter`].

use std::time::Duration;

use jiff::Timestamp;
use tonic::Status;
use tonic::metadata::MetadataValue;

use super::CriError;
use super::connect::{Method, Sent, Socket};
use super::containerd::undo::UndoLease;
use super::generated as pb;
use super::generated::containerd::{images, leases};
use super::in_progress::InProgress;
use super::reader::RuntimeReader;
use crate::model::{CRI_NAMESPACE, ContainerId, Image, ImageId, SandboxId};

const CREATE_LEASE: Method = Method("/containerd.services.leases.v1.Leases/Create");
const DELETE_LEASE: Method = Method("/containerd.services.leases.v1.Leases/Delete");
const ADD_RESOURCE: Method = Method("/containerd.services.leases.v1.Leases/AddResource");
const CREATE_IMAGE: Method = Method("/containerd.services.images.v1.Images/Create");
/// The label with the end of a lease.
pub(super) const LEASE_EXPIRES: &str = "containerd.io/gc.expire";
/// What stands for all that a collection removes, among the removals in progress.
const GARBAGE: &str = "garbage collection of containerd";

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

    /// Starts the garbage collection of containerd and waits for it: creates a lease, whose deletion asks for a collection. A lease
    /// that is left because the connection broke ends by itself at `expires_at`.
    ///
    /// # Errors
    /// The runtime is none of containerd's, or a collection is in progress.
    pub async fn collect_garbage(&self, expires_at: Timestamp) -> Result<(), CriError> {
        let id = format!("kubegc-{}", expires_at.as_second());
        let labels = [(LEASE_EXPIRES.to_owned(), expires_at.to_string())].into();
        let create = leases::CreateRequest { id: id.clone(), labels };
        self.containerd(CREATE_LEASE, GARBAGE, create).await?;
        let delete = leases::DeleteRequest { id, sync: true };
        self.containerd(DELETE_LEASE, GARBAGE, delete).await
    }

    /// Creates a lease on the content of an image that is removed next, until `expires_at`. Returns it.
    ///
    /// # Errors
    /// The runtime has no leases, or the image has no record there. No lease is left.
    pub async fn keep_for_undo(
        &self,
        image: &Image,
        pass: Timestamp,
        expires_at: Timestamp,
        has_pull_record: bool,
    ) -> Result<UndoLease, CriError> {
        let lease = self.reader.undo_lease_for(image, pass, expires_at, has_pull_record).await?;
        if lease.records.is_empty() {
            return Err(CriError::defective(
                CREATE_LEASE,
                format!("containerd has no record of the image {}", image.id),
            ));
        }
        // That of an earlier removal: the image is there, so nothing depends on it.
        self.delete_lease(&lease.name, false).await?;
        let create = leases::CreateRequest { id: lease.name.clone(), labels: lease.labels() };
        self.containerd(CREATE_LEASE, &lease.name, create).await?;
        for digest in lease.digests() {
            let resource = leases::Resource { id: digest.to_owned(), r#type: "content".to_owned() };
            let add = leases::AddResourceRequest { id: lease.name.clone(), resource: Some(resource) };
            if let Err(error) = self.containerd(ADD_RESOURCE, &lease.name, add).await {
                let _ = self.delete_lease(&lease.name, false).await; // it ends by itself
                return Err(error);
            }
        }
        Ok(lease)
    }

    /// Deletes a lease. With `sync` it waits until containerd has removed what only the lease kept. Succeeds if the lease no longer
    /// exists.
    pub async fn delete_lease(&self, name: &str, sync: bool) -> Result<(), CriError> {
        let delete = leases::DeleteRequest { id: name.to_owned(), sync };
        match self.containerd(DELETE_LEASE, name, delete).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the records of a removed image again, and deletes its lease. A name that an image has by now is left to it.
    pub async fn restore(&self, lease: &UndoLease) -> Result<(), CriError> {
        for record in &lease.records {
            let create = images::CreateImageRequest { image: Some(record.image()) };
            match self.containerd(CREATE_IMAGE, &lease.name, create).await {
                Err(error) if !error.is_already_there() => return Err(error),
                _ => {}
            }
        }
        self.delete_lease(&lease.name, false).await
    }

    /// Sends a call of containerd's own API, in the namespace of the CRI.
    async fn containerd<Q: Sent>(&self, call: Method, id: &str, request: Q) -> Result<(), CriError> {
        let socket = self.reader.socket(call).in_namespace(MetadataValue::from_static(CRI_NAMESPACE));
        self.wait(socket, call, id, request).await
    }

    /// Sends a call. If the connection broke, sends it once more at once: the runtime may have been restarted since the
    /// last call, and a removal can be repeated safely. Does not wait for an unavailable runtime, because the recheck
    /// before the call would no longer be fresh.
    async fn call<Q: Sent>(&self, call: Method, id: &str, request: Q) -> Result<(), CriError> {
        let socket = || self.reader.socket(call).clone();
        let answer = match self.wait(socket(), call, id, request.clone()).await {
            Err(CriError::Broken { .. }) => self.wait(socket(), call, id, request).await,
            answer => answer,
        };
        match answer {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends a call in its own task and waits for it within the limit for removals. The task outlives the wait.
    async fn wait<Q: Sent>(&self, socket: Socket, call: Method, id: &str, request: Q) -> Result<(), CriError> {
        let Some(removal) = self.in_progress.begin(id) else {
            return Err(CriError::InProgress { call: call.name(), id: id.to_owned() });
        };
        let RuntimeReader { options, breaker, .. } = &self.reader;
        let (sending, max_bytes) = (socket.clone(), options.max_message_bytes);
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
