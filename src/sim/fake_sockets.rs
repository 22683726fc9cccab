//! Sockets without a usable runtime, for tests of the error messages about them.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::SimError;

/// A socket without a CRI server.
#[derive(Debug)]
pub struct FakeSocket {
    socket: PathBuf,
    _listener: Option<UnixListener>,
    _dir: TempDir,
}

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
