//! The image service: converts requests to state changes, and state to answers.

use tonic::{Request, Response, Status};

use super::runtime_service::batches;
use crate::cri::generated as pb;
use crate::cri::generated::image_service_server::ImageService;
use crate::sim::defects::Batches;
use crate::sim::image_store::StoredImage;
use crate::sim::lifecycle::nanoseconds;
use crate::sim::script::Rpc;
use crate::sim::shared::Service;
use crate::sim::sim_node::Node;

// === impl Service ===

#[tonic::async_trait]
impl ImageService for Service {
    type StreamImagesStream = Batches<pb::StreamImagesResponse>;

    async fn list_images(
        &self,
        request: Request<pb::ListImagesRequest>,
    ) -> Result<Response<pb::ListImagesResponse>, Status> {
        let id = name(request.into_inner().filter.and_then(|filter| filter.image).as_ref());
        let list = |node: &mut Node| node.sent(pb::ListImagesResponse { images: node.list_images() });
        self.0.answer(Rpc::ListImages, &id, list).await
    }

    async fn stream_images(
        &self,
        request: Request<pb::StreamImagesRequest>,
    ) -> Result<Response<Self::StreamImagesStream>, Status> {
        let id = name(request.into_inner().filter.and_then(|filter| filter.image).as_ref());
        let list = |node: &mut Node| {
            batches(node.runtime.streaming, || node.list_images(), |images| pb::StreamImagesResponse { images })
        };
        self.0.answer(Rpc::StreamImages, &id, list).await
    }

    async fn image_status(
        &self,
        request: Request<pb::ImageStatusRequest>,
    ) -> Result<Response<pb::ImageStatusResponse>, Status> {
        let pb::ImageStatusRequest { image, verbose } = request.into_inner();
        let id = name(image.as_ref());
        let status = |node: &mut Node| {
            let image = node.images.find(&id)?;
            let info = image.filter(|_| verbose).map(StoredImage::info).unwrap_or_default();
            Ok(pb::ImageStatusResponse { image: image.map(|image| image.listed.clone()), info })
        };
        self.0.answer(Rpc::ImageStatus, &id, status).await
    }

    async fn remove_image(
        &self,
        request: Request<pb::RemoveImageRequest>,
    ) -> Result<Response<pb::RemoveImageResponse>, Status> {
        let id = name(request.into_inner().image.as_ref());
        let remove = |node: &mut Node| node.remove_image(&id).map(|()| pb::RemoveImageResponse {});
        self.0.answer(Rpc::RemoveImage, &id, remove).await
    }

    async fn image_fs_info(
        &self,
        _: Request<pb::ImageFsInfoRequest>,
    ) -> Result<Response<pb::ImageFsInfoResponse>, Status> {
        self.0.answer(Rpc::ImageFsInfo, "", |node| Ok(node.image_fs_info())).await
    }
}

// === impl Node ===

impl Node {
    fn image_fs_info(&self) -> pb::ImageFsInfoResponse {
        let usage = pb::FilesystemUsage {
            timestamp: nanoseconds(self.time()),
            fs_id: Some(pb::FilesystemIdentifier { mountpoint: self.mountpoint().display().to_string() }),
            used_bytes: Some(pb::UInt64Value { value: self.images.layer_bytes() }),
            inodes_used: Some(pb::UInt64Value { value: self.images.layer_count() }),
        };
        pb::ImageFsInfoResponse { image_filesystems: vec![usage], container_filesystems: Vec::new() }
    }
}

fn name(image: Option<&pb::ImageSpec>) -> String {
    image.map(|image| image.image.clone()).unwrap_or_default()
}
