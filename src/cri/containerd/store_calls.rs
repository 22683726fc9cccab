//! The calls of containerd's own API, in one namespace of it.

use std::time::Duration;

use super::SnapshotKey;
use crate::cri::connect::{Answer, Method, Sent, Socket};
use crate::cri::generated::containerd::{containers, content, images, introspection, leases, namespaces, snapshots};
use crate::cri::{CriError, RuntimeReader};

const NAMESPACES: Method = Method("/containerd.services.namespaces.v1.Namespaces/List");
const PLUGINS: Method = Method("/containerd.services.introspection.v1.Introspection/Plugins");
const IMAGES: Method = Method("/containerd.services.images.v1.Images/List");
const CONTAINERS: Method = Method("/containerd.services.containers.v1.Containers/List");
const BLOBS: Method = Method("/containerd.services.content.v1.Content/List");
const DOWNLOADS: Method = Method("/containerd.services.content.v1.Content/ListStatuses");
const SNAPSHOTS: Method = Method("/containerd.services.snapshots.v1.Snapshots/List");
const USAGE: Method = Method("/containerd.services.snapshots.v1.Snapshots/Usage");
const LEASES: Method = Method("/containerd.services.leases.v1.Leases/List");
const LEASE_RESOURCES: Method = Method("/containerd.services.leases.v1.Leases/ListResources");

/// What the plugin of a snapshotter is called.
const SNAPSHOTTERS: &str = "type==io.containerd.snapshotter.v1";

/// A lease and what it holds.
pub(super) type Leased = (leases::Lease, Vec<leases::Resource>);

/// The calls. Each is made once, without waiting for a runtime that is not available.
pub(super) struct StoreCalls {
    socket: Socket,
    limit: Duration,
    max_bytes: usize,
}

// === impl StoreCalls ===

impl StoreCalls {
    pub fn new(reader: &RuntimeReader) -> Self {
        let (limit, max_bytes) = (reader.options.first_answer_timeout(), reader.options.max_message_bytes);
        Self { socket: reader.runtime.clone(), limit, max_bytes }
    }

    /// Returns the same calls in a namespace.
    ///
    /// # Errors
    /// The name is none that a header can have.
    pub fn within(&self, namespace: &str) -> Result<Self, CriError> {
        let valid = namespace.parse().map_err(|_| {
            CriError::defective(NAMESPACES, format!("the namespace {namespace:?} is not a header value"))
        })?;
        Ok(Self { socket: self.socket.in_namespace(valid), limit: self.limit, max_bytes: self.max_bytes })
    }

    pub async fn namespaces(&self) -> Result<Vec<String>, CriError> {
        let answer: namespaces::ListNamespacesResponse =
            self.call(NAMESPACES, namespaces::ListNamespacesRequest {}).await?;
        Ok(answer.namespaces.into_iter().map(|namespace| namespace.name).collect())
    }

    /// Returns the names of the snapshotters that work.
    pub async fn snapshotters(&self) -> Result<Vec<String>, CriError> {
        let request = introspection::PluginsRequest { filters: vec![SNAPSHOTTERS.to_owned()] };
        let answer: introspection::PluginsResponse = self.call(PLUGINS, request).await?;
        Ok(answer.plugins.into_iter().filter(|plugin| plugin.init_err.is_none()).map(|plugin| plugin.id).collect())
    }

    pub async fn images(&self) -> Result<Vec<images::Image>, CriError> {
        let answer: images::ListImagesResponse = self.call(IMAGES, images::ListImagesRequest::default()).await?;
        Ok(answer.images)
    }

    /// Returns the records with these names.
    pub async fn images_named(&self, names: &[String]) -> Result<Vec<images::Image>, CriError> {
        let filters = names.iter().map(|name| format!("name=={name:?}")).collect();
        let answer: images::ListImagesResponse = self.call(IMAGES, images::ListImagesRequest { filters }).await?;
        Ok(answer.images.into_iter().filter(|image| names.contains(&image.name)).collect())
    }

    pub async fn containers(&self) -> Result<Vec<containers::Container>, CriError> {
        let answer: containers::ListContainersResponse =
            self.call(CONTAINERS, containers::ListContainersRequest {}).await?;
        Ok(answer.containers)
    }

    pub async fn blobs(&self) -> Result<Vec<content::Info>, CriError> {
        let batches: Vec<content::ListContentResponse> = self.stream(BLOBS, content::ListContentRequest {}).await?;
        Ok(batches.into_iter().flat_map(|batch| batch.info).collect())
    }

    pub async fn downloads(&self) -> Result<Vec<content::Status>, CriError> {
        let answer: content::ListStatusesResponse = self.call(DOWNLOADS, content::ListStatusesRequest {}).await?;
        Ok(answer.statuses)
    }

    pub async fn snapshots(&self, snapshotter: &str) -> Result<Vec<snapshots::Info>, CriError> {
        let request = snapshots::ListSnapshotsRequest { snapshotter: snapshotter.to_owned() };
        let batches: Vec<snapshots::ListSnapshotsResponse> = self.stream(SNAPSHOTS, request).await?;
        Ok(batches.into_iter().flat_map(|batch| batch.info).collect())
    }

    pub async fn leases(&self) -> Result<Vec<Leased>, CriError> {
        let answer: leases::ListResponse = self.call(LEASES, leases::ListRequest {}).await?;
        let mut leased = Vec::new();
        for lease in answer.leases {
            match self.call(LEASE_RESOURCES, leases::ListResourcesRequest { id: lease.id.clone() }).await {
                Ok(leases::ListResourcesResponse { resources }) => leased.push((lease, resources)),
                // It has ended since.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(leased)
    }

    /// Returns the bytes and the inodes of a snapshot. That of a container is measured, file by file.
    pub async fn usage(&self, of: &SnapshotKey) -> Result<(u64, u64), CriError> {
        let request = snapshots::UsageRequest { snapshotter: of.snapshotter.clone(), key: of.name.clone() };
        let usage: snapshots::UsageResponse = self.within(&of.namespace)?.call(USAGE, request).await?;
        // Each snapshot has a directory.
        match (u64::try_from(usage.size), u64::try_from(usage.inodes)) {
            (Ok(bytes), Ok(inodes @ 1..)) => Ok((bytes, inodes)),
            _ => Err(CriError::defective(USAGE, format!("{} bytes in {} inodes", usage.size, usage.inodes))),
        }
    }

    async fn call<Q: Sent, A: Answer>(&self, method: Method, request: Q) -> Result<A, CriError> {
        self.socket.in_time(self.limit, method, self.socket.unary(method, request, self.max_bytes)).await
    }

    async fn stream<Q: Sent, A: Answer>(&self, method: Method, request: Q) -> Result<Vec<A>, CriError> {
        let receive = async {
            let (mut batches, mut all) =
                (self.socket.stream::<Q, A>(method, request, self.max_bytes).await?, Vec::new());
            while let Some(batch) = batches.next().await? {
                all.push(batch);
            }
            Ok(all)
        };
        self.socket.in_time(self.limit, method, self.socket.counted(method, Box::pin(receive))).await
    }
}
