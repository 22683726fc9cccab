//! Sockets without a usable runtime, for tests of the error messages about them.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use tempfile::TempDir;
use tonic::codegen::{Service as Call, http};
use tonic::server::NamedService;

use super::SimError;
use super::server::Service;
use crate::cri::generated::{image_service_server::ImageServiceServer, runtime_service_server::RuntimeServiceServer};

/// A socket without a CRI server.
#[derive(Debug)]
pub struct FakeSocket {
    socket: PathBuf,
    _listener: Option<UnixListener>,
    _dir: TempDir,
}

/// A service under its name before CRI v1. The fields that kubegc uses have the same encoding.
#[derive(Clone, Debug)]
pub(super) struct Old<S>(pub(super) S);

// === impl FakeSocket ===

impl FakeSocket {
    /// Creates a socket that accepts connections and never answers.
    pub fn silent() -> Result<Self, SimError> {
        // No process has to accept: the kernel queues connections and bytes.
        Self::bind(Some)
    }

    /// Creates a socket file that its process left behind: connections are refused.
    pub fn deserted() -> Result<Self, SimError> {
        Self::bind(|_| None)
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the socket as an endpoint, `unix:///…`.
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
        // The path is valid if the original path was valid. Otherwise the request is forwarded unchanged and finds no
        // method.
        if let Ok(uri) = path.parse() {
            *request.uri_mut() = uri;
        }
        self.0.call(request)
    }
}
