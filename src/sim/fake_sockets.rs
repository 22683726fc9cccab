//! Sockets that are no runtime for us, for tests of what we say about them.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use tempfile::TempDir;
use tonic::codegen::{Service as Call, http};
use tonic::server::NamedService;

use super::SimError;
use super::server::Service;
use crate::cri::generated::{image_service_server::ImageServiceServer, runtime_service_server::RuntimeServiceServer};

/// A socket behind which nobody speaks the CRI.
#[derive(Debug)]
pub struct StandIn {
    socket: PathBuf,
    _listener: Option<UnixListener>,
    _dir: TempDir,
}

/// A service under its name of before CRI v1. The messages are the same on the wire, as far as we use them.
#[derive(Clone, Debug)]
pub(super) struct Old<S>(pub(super) S);

// === impl StandIn ===

impl StandIn {
    /// A socket that takes connections and never answers.
    pub fn silent() -> Result<Self, SimError> {
        // Nobody has to accept: the kernel takes connections and bytes into its queues.
        Self::bind(Some)
    }

    /// A socket that its program left behind: there, but connections are refused.
    pub fn deserted() -> Result<Self, SimError> {
        Self::bind(|_| None)
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The socket as an endpoint, `unix:///…`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    fn bind(keep: impl FnOnce(UnixListener) -> Option<UnixListener>) -> Result<Self, SimError> {
        let dir = tempfile::Builder::new().prefix("kubegc-sim-").tempdir().map_err(SimError::Directory)?;
        let socket = dir.path().join("cri.sock");
        let listener =
            UnixListener::bind(&socket).map_err(|source| SimError::Listen { path: socket.clone(), source })?;
        Ok(Self { socket, _listener: keep(listener), _dir: dir })
    }
}

// === impl Old ===

impl NamedService for Old<RuntimeServiceServer<Service>> {
    const NAME: &'static str = "runtime.v1alpha2.RuntimeService";
}

impl NamedService for Old<ImageServiceServer<Service>> {
    const NAME: &'static str = "runtime.v1alpha2.ImageService";
}

impl<S: Call<http::Request<B>>, B> Call<http::Request<B>> for Old<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let path = request.uri().path().replacen("/runtime.v1alpha2.", "/runtime.v1.", 1);
        // A path that was valid stays valid; if not, the call goes on as it is and finds no method.
        if let Ok(uri) = path.parse() {
            *request.uri_mut() = uri;
        }
        self.0.call(request)
    }
}
