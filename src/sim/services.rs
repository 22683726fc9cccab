//! The services of the simulated node over gRPC.

pub(super) mod as_listed;
pub(super) mod filters;
pub(super) mod image_service;
pub(super) mod runtime_service;
pub(super) mod server;
pub(super) mod sim_connection;
pub(super) mod store_service;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service as _, http};

use super::shared::{Service, Shared};
use crate::cri::generated::image_service_server::ImageServiceServer;
use crate::cri::generated::runtime_service_server::RuntimeServiceServer;

const V1: &str = "/runtime.v1.";
const V1ALPHA2: &str = "/runtime.v1alpha2.";

/// Both services. tonic's own router would bring a whole web framework.
#[derive(Clone)]
pub(super) struct Services {
    runtime: RuntimeServiceServer<Service>,
    images: ImageServiceServer<Service>,
    shared: Arc<Shared>,
    /// What the paths of the calls begin with. The fields that kubegc uses have the same encoding in both versions.
    prefix: &'static str,
}

// === impl Services ===

impl Services {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self {
            runtime: RuntimeServiceServer::new(Service(shared.clone())),
            images: ImageServiceServer::new(Service(shared.clone())),
            shared: shared.clone(),
            prefix: if shared.node().runtime.is_old { V1ALPHA2 } else { V1 },
        }
    }

    /// Answers one call. A service or a version that the node does not have is unimplemented.
    pub(super) fn answer(
        mut self,
        mut request: http::Request<Body>,
    ) -> impl Future<Output = Result<http::Response<Body>, Infallible>> + Send {
        let path = request.uri().path().strip_prefix(self.prefix).map(|rest| format!("{V1}{rest}"));
        // A path with the other prefix is as valid as before.
        let uri = path.and_then(|path| path.parse::<http::Uri>().ok());
        async move {
            if request.uri().path().starts_with(store_service::PREFIX) {
                return Ok(store_service::answer(&self.shared, request).await);
            }
            let Some(uri) = uri else { return Ok(Status::unimplemented("").into_http()) };
            let is_of_images = uri.path().starts_with(&format!("{V1}ImageService/"));
            *request.uri_mut() = uri;
            if is_of_images { self.images.call(request).await } else { self.runtime.call(request).await }
        }
    }
}
