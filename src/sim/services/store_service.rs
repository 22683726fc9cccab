//! containerd's own API, of which the node serves what kubegc reads: the layers of its images and containers, and one blob of
//! each image, with the references that containerd keeps in labels.
//!
//! The layers of the node have no order, so none has a parent, and the labels of an object name all of its layers. The calls
//! are served by path: stubs for seven services would be longer than this file.

#![expect(
    clippy::unnecessary_wraps,
    clippy::unused_self,
    clippy::trivially_copy_pass_by_ref,
    reason = "all calls have one form"
)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::cri::generated::containerd::{containers, content, images, introspection, leases, namespaces, snapshots};
use crate::model::CRI_NAMESPACE;
use crate::sim::defects::Defective;
use crate::sim::image_store::{Layers, digest_of};
use crate::sim::script::Rpc;
use crate::sim::shared::Shared;
use crate::sim::sim_node::Node;

const SNAPSHOTTER: &str = "overlayfs";

/// What the paths of all calls begin with.
pub(in crate::sim) const PREFIX: &str = "/containerd.services.";

/// The calls, each with the rest of its path.
pub(in crate::sim) const PATHS: [(Rpc, &str); 9] = [
    (Rpc::Namespaces, "namespaces.v1.Namespaces/List"),
    (Rpc::Plugins, "introspection.v1.Introspection/Plugins"),
    (Rpc::StoreImages, "images.v1.Images/List"),
    (Rpc::StoreContainers, "containers.v1.Containers/List"),
    (Rpc::Blobs, "content.v1.Content/List"),
    (Rpc::Downloads, "content.v1.Content/ListStatuses"),
    (Rpc::Snapshots, "snapshots.v1.Snapshots/List"),
    (Rpc::SnapshotUsage, "snapshots.v1.Snapshots/Usage"),
    (Rpc::Leases, "leases.v1.Leases/List"),
];

/// One call: its record, and what it answers in a namespace.
struct Call<Q, A> {
    shared: Arc<Shared>,
    method: Rpc,
    act: fn(&Node, &str, &Q) -> Result<A, Status>,
}

/// Answers one call. A call that kubegc does not make is unimplemented, as are all of CRI-O.
pub(super) async fn answer(shared: &Arc<Shared>, request: http::Request<Body>) -> http::Response<Body> {
    if shared.node().is_crio() {
        return Status::unimplemented("").into_http();
    }
    let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
    let known = PATHS.iter().find(|(_, known)| *known == path);
    match known.map(|(method, _)| *method) {
        Some(method @ Rpc::Namespaces) => unary(shared, method, Node::namespaces, request).await,
        Some(method @ Rpc::Plugins) => unary(shared, method, Node::plugins, request).await,
        Some(method @ Rpc::StoreImages) => unary(shared, method, Node::store_images, request).await,
        Some(method @ Rpc::StoreContainers) => unary(shared, method, Node::store_containers, request).await,
        Some(method @ Rpc::Blobs) => unary(shared, method, Node::blobs, request).await,
        Some(method @ Rpc::Downloads) => unary(shared, method, Node::downloads, request).await,
        Some(method @ Rpc::Snapshots) => unary(shared, method, Node::snapshots, request).await,
        Some(method @ Rpc::SnapshotUsage) => unary(shared, method, Node::snapshot_usage, request).await,
        Some(method @ Rpc::Leases) => unary(shared, method, Node::leases, request).await,
        _ => Status::unimplemented("").into_http(),
    }
}

/// A stream with one message has the same encoding as one answer.
async fn unary<Q, A>(
    shared: &Arc<Shared>,
    method: Rpc,
    act: fn(&Node, &str, &Q) -> Result<A, Status>,
    request: http::Request<Body>,
) -> http::Response<Body>
where
    Q: prost::Message + Default + Sync + 'static,
    A: prost::Message + Defective,
{
    let call = Call { shared: Arc::clone(shared), method, act };
    Grpc::new(ProstCodec::<A, Q>::default()).unary(call, request).await
}

// === impl Call ===

impl<Q: Send + Sync + 'static, A: Defective> UnaryService<Q> for Call<Q, A> {
    type Response = A;
    type Future = BoxFuture<'static, Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (shared, method, act) = (Arc::clone(&self.shared), self.method, self.act);
        let namespace = request.metadata().get("containerd-namespace").and_then(|name| name.to_str().ok());
        let namespace = namespace.unwrap_or_default().to_owned();
        let query = request.into_inner();
        Box::pin(async move { shared.answer(method, "", |node| act(node, &namespace, &query)).await })
    }
}

// === impl Node ===

impl Node {
    fn namespaces(
        &self,
        _: &str,
        _: &namespaces::ListNamespacesRequest,
    ) -> Result<namespaces::ListNamespacesResponse, Status> {
        let others = self.other_clients.keys().cloned();
        let names = others.chain([CRI_NAMESPACE.to_owned()]).collect::<std::collections::BTreeSet<_>>();
        let namespaces = names.into_iter().map(|name| namespaces::Namespace { name }).collect();
        Ok(namespaces::ListNamespacesResponse { namespaces })
    }

    fn plugins(&self, _: &str, _: &introspection::PluginsRequest) -> Result<introspection::PluginsResponse, Status> {
        let overlayfs = introspection::Plugin {
            r#type: "io.containerd.snapshotter.v1".to_owned(),
            id: SNAPSHOTTER.to_owned(),
            ..introspection::Plugin::default()
        };
        Ok(introspection::PluginsResponse { plugins: vec![overlayfs] })
    }

    fn store_images(
        &self,
        namespace: &str,
        _: &images::ListImagesRequest,
    ) -> Result<images::ListImagesResponse, Status> {
        let all = self.images.iter().filter(|_| namespace == CRI_NAMESPACE).map(|image| &image.listed);
        let records = all.flat_map(|image| {
            let names = [&image.id].into_iter().chain(&image.repo_tags).chain(&image.repo_digests);
            names.map(|name| images::Image {
                name: name.clone(),
                target: Some(images::Descriptor { digest: digest_of(&image.id), ..images::Descriptor::default() }),
                ..images::Image::default()
            })
        });
        Ok(images::ListImagesResponse { images: records.collect() })
    }

    fn store_containers(
        &self,
        namespace: &str,
        _: &containers::ListContainersRequest,
    ) -> Result<containers::ListContainersResponse, Status> {
        let record = |id: &str, image: &str| containers::Container {
            id: id.to_owned(),
            image: image.to_owned(),
            snapshotter: SNAPSHOTTER.to_owned(),
            snapshot_key: id.to_owned(),
            ..containers::Container::default()
        };
        let others = self.other_clients.get(namespace).into_iter().flatten().map(|(id, image)| record(id, image));
        let containers = self.containers.iter().map(|container| record(&container.listed.id, ""));
        let ours = containers.chain(self.sandboxes.iter().map(|sandbox| record(&sandbox.listed.id, "")));
        let containers = others.chain(ours.filter(|_| namespace == CRI_NAMESPACE)).collect();
        Ok(containers::ListContainersResponse { containers })
    }

    fn blobs(&self, namespace: &str, _: &content::ListContentRequest) -> Result<content::ListContentResponse, Status> {
        let all = self.images.iter().filter(|_| namespace == CRI_NAMESPACE);
        let blobs = all.map(|image| content::Info {
            digest: digest_of(&image.listed.id),
            labels: references(&image.layers),
            ..content::Info::default()
        });
        Ok(content::ListContentResponse { info: blobs.collect() })
    }

    fn downloads(&self, _: &str, _: &content::ListStatusesRequest) -> Result<content::ListStatusesResponse, Status> {
        Ok(content::ListStatusesResponse::default())
    }

    fn snapshots(
        &self,
        namespace: &str,
        _: &snapshots::ListSnapshotsRequest,
    ) -> Result<snapshots::ListSnapshotsResponse, Status> {
        let committed = self.layers().into_keys().map(|name| snapshots::Info {
            name,
            kind: snapshots::Kind::Committed.into(),
            ..snapshots::Info::default()
        });
        let active = self.containers.iter().map(|container| snapshots::Info {
            name: container.listed.id.clone(),
            kind: snapshots::Kind::Active.into(),
            labels: references(&container.layers),
            ..snapshots::Info::default()
        });
        let info = committed.chain(active).filter(|_| namespace == CRI_NAMESPACE).collect();
        Ok(snapshots::ListSnapshotsResponse { info })
    }

    fn snapshot_usage(&self, _: &str, request: &snapshots::UsageRequest) -> Result<snapshots::UsageResponse, Status> {
        let bytes = match self.containers.get(&request.key) {
            Some(container) => container.written_bytes,
            None => *self.layers().get(&request.key).ok_or_else(|| Status::not_found("snapshot does not exist"))?,
        };
        Ok(snapshots::UsageResponse { size: i64::try_from(bytes).unwrap_or(i64::MAX), inodes: 1 })
    }

    fn leases(&self, _: &str, _: &leases::ListRequest) -> Result<leases::ListResponse, Status> {
        Ok(leases::ListResponse::default())
    }

    /// Returns all layers with their bytes.
    fn layers(&self) -> BTreeMap<String, u64> {
        let of_images = self.images.iter().map(|image| &image.layers);
        let all = of_images.chain(self.containers.iter().map(|container| &container.layers));
        all.flat_map(|layers| layers.iter().cloned()).collect()
    }
}

/// Returns the labels of an object that refers to these layers.
fn references(layers: &Layers) -> HashMap<String, String> {
    let label = |(number, (layer, _)): (usize, &(String, u64))| {
        (format!("containerd.io/gc.ref.snapshot.{SNAPSHOTTER}/{number}"), layer.clone())
    };
    layers.iter().enumerate().map(label).collect()
}
