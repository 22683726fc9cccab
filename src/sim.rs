//! A simulated node in memory, which serves both CRI services over a real unix socket.
//!
//! It replaces containerd in tests that need faults or large nodes, and a whole node in `kubegc demo`. Its state
//! changes like that of a runtime. It records every call, and fails, hangs or answers late on request. The same
//! contract tests run against it and against containerd. It has no clock: every time comes from the caller. It uses
//! only its socket and its temporary directory. No production code uses it except the demo.
//!
//! The server has its own thread and its own async runtime. So a test may block on another process that calls the
//! server, and nothing of the server remains after that thread is joined.
//!
//! ```
//! use kubegc::sim::{MIB, Node, Sim};
//!
//! let node = Node::new()
//!     .image("docker.io/library/web:1", &[("base", 50 * MIB), ("web", 8 * MIB)])
//!     .pod("default", "web-0", "u1")
//!     .exited("app", "docker.io/library/web:1")
//!     .running("app", "docker.io/library/web:1");
//! let sim = Sim::start(node)?;
//! assert_eq!(sim.state().container_names(), ["web-0/app#0 exited", "web-0/app#1 running"]);
//! # Ok::<(), kubegc::sim::SimError>(())
//! ```

mod big;
mod build;
mod defects;
mod fake_sockets;
mod garbage;
pub(crate) mod image_store;
pub(crate) mod indexed_map;
mod lifecycle;
mod log_files;
mod script;
mod services;
mod shared;
pub(crate) mod sim_node;
#[cfg(test)]
mod tests;
mod view;
mod wrong_facts;

pub use defects::Defect;
pub use fake_sockets::FakeSocket;
pub use log_files::LogPaths;
pub use script::{Fault, RecordedCall, Rpc, Times};
pub use sim_node::{Node, Streaming};
pub use wrong_facts::WrongFact;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::model::FileSystem;
use script::Observer;
use services::server::{RunIn, Server, serve_connections};
use shared::Shared;

/// The bytes in a mebibyte.
pub const MIB: u64 = 1 << 20;
/// The bytes in a gibibyte.
pub const GIB: u64 = 1 << 30;

/// The time limit for [`Sim::await_calls`].
const PATIENCE: Duration = Duration::from_secs(30);

/// A running simulated node. Dropping it ends the server and deletes its directory.
#[derive(Debug)]
pub struct Sim {
    shared: Arc<Shared>,
    server: Option<Server>,
    place: RunIn,
    dir: TempDir,
}

/// The errors of the simulated node itself.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The temporary directory could not be created.
    #[error("make a directory for the simulated node: {0}")]
    Directory(#[source] std::io::Error),
    /// The socket could not be opened.
    #[error("listen on {path}: {source}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The server's thread could not be started.
    #[error("start the server of the simulated node: {0}")]
    Thread(#[source] std::io::Error),
    /// A log file or symlink could not be written.
    #[error("write {path}: {source}")]
    WriteLog {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// An awaited call did not arrive.
    #[error("{method} came {seen} times, not {wanted}, within {seconds} s")]
    NoCall {
        method: Rpc,
        /// How many calls arrived.
        seen: usize,
        /// How many calls should have arrived.
        wanted: usize,
        /// How long the wait lasted.
        seconds: u64,
    },
}

// === impl Sim ===

impl Sim {
    /// Writes the log files of the node, opens the socket and serves it. Needs no async runtime.
    pub fn start(node: Node) -> Result<Self, SimError> {
        Self::start_at(node, RunIn::OwnThread)
    }

    /// Like [`Sim::start`], but in tasks of the caller's runtime, which must be a tokio runtime. If that runtime pauses
    /// its clock and advances it while idle, this applies to client and server: a call that hangs takes no real time.
    /// Files are in memory if the host has `/dev/shm`.
    pub fn start_here(node: Node) -> Result<Self, SimError> {
        Self::start_at(node, RunIn::CallersRuntime)
    }

    fn start_at(mut node: Node, place: RunIn) -> Result<Self, SimError> {
        let dir = tempfile::Builder::new().prefix("kubegc-sim-").tempdir_in(place.files());
        let dir = dir.map_err(SimError::Directory)?;
        node.settle(dir.path())?;
        let shared = Arc::new(Shared::new(dir.path().join("cri.sock"), node));
        let server = Some(Server::start(&shared, place)?);
        Ok(Self { shared, server, place, dir })
    }

    /// Returns the path of the socket, whether or not the socket exists at present.
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// Returns the socket as an endpoint, `unix:///…`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Sets the time since which the runtime listens, as its clients see it: the modification time of the socket.
    pub fn set_listening_since(&self, at: Timestamp) -> Result<(), SimError> {
        let failed = |source: nix::Error| SimError::Listen { path: self.socket().to_owned(), source: source.into() };
        let at = TimeSpec::new(at.as_second(), at.subsec_nanosecond().into());
        utimensat(AT_FDCWD, self.socket(), &at, &at, UtimensatFlags::NoFollowSymlink).map_err(failed)
    }

    /// Returns the directory that contains the socket, the logs and the image mountpoint.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directories of the log files and symlinks.
    pub fn log_roots(&self) -> LogPaths {
        LogPaths::beneath(self.dir.path())
    }

    /// Locks the state of the node for reading or changing. Every call waits while the lock is held.
    pub fn state(&self) -> MutexGuard<'_, Node> {
        self.shared.node()
    }

    /// Returns the simulated disk in its current state. `statvfs` on the mountpoint would report the real disk.
    pub fn disk(&self) -> FileSystem {
        self.state().file_system()
    }

    /// Returns a function that does the same as [`Sim::disk`] without borrowing the `Sim`.
    pub fn disk_reader(&self) -> impl Fn() -> FileSystem + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.node().file_system()
    }

    /// Returns every call so far, in order of arrival.
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.shared.script().calls().to_vec()
    }

    /// Returns the ids that a method was called with, in order of arrival.
    pub fn calls_of(&self, method: Rpc) -> Vec<String> {
        self.shared.script().calls().iter().filter(|call| call.method == method).map(|call| call.id.clone()).collect()
    }

    /// Lets `observer` see each call from now on before it is carried out. A fault that it returns applies if no other is queued.
    pub fn observe(&self, observer: impl FnMut(Rpc, &str, &Node) -> Option<Fault> + Send + 'static) {
        *self.shared.observer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Observer(Box::new(observer)));
    }

    /// Serves these connections, which need no socket, until the future is dropped.
    pub async fn serve<C>(&self, connections: impl Stream<Item = io::Result<C>>)
    where
        C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        serve_connections(connections, &self.shared).await;
    }

    /// Clears the record of calls.
    pub fn forget_calls(&self) {
        self.shared.script().forget_calls();
    }

    /// Queues a fault for the next calls of the method. It applies after the faults that were queued before.
    pub fn fault(&self, method: Rpc, fault: Fault, times: Times) {
        self.shared.script().queue(method, None, fault, times);
    }

    /// Like [`Sim::fault`], but only for calls about one object, by the id in the request.
    pub fn fault_of(&self, method: Rpc, id: &str, fault: Fault, times: Times) {
        self.shared.script().queue(method, Some(id), fault, times);
    }

    /// Removes all queued faults and hooks. A call that already hangs continues to hang.
    pub fn heal(&self) {
        self.shared.script().heal();
    }

    /// Runs `change` on the state at the `nth` call of the method from now, counted from 1, before the call itself does
    /// anything.
    pub fn on_call(&self, method: Rpc, nth: usize, change: impl FnOnce(&mut Node) + Send + 'static) {
        self.shared.script().hook(method, nth, Box::new(change));
    }

    /// Waits until the method was called.
    pub async fn await_call(&self, method: Rpc) -> Result<(), SimError> {
        self.await_calls(method, 1).await
    }

    /// Waits until the method was called `wanted` times since the start or the last [`Sim::forget_calls`].
    pub async fn await_calls(&self, method: Rpc, wanted: usize) -> Result<(), SimError> {
        let mut arrivals = self.shared.arrivals.subscribe();
        let come = async {
            while self.calls_of(method).len() < wanted {
                // The sender lives in `self.shared`, so this cannot fail.
                arrivals.changed().await.ok();
            }
        };
        tokio::time::timeout(PATIENCE, come).await.map_err(|_| SimError::NoCall {
            method,
            seen: self.calls_of(method).len(),
            wanted,
            seconds: PATIENCE.as_secs(),
        })
    }

    /// Breaks every connection but keeps the socket.
    pub fn cut_connections(&self) {
        self.shared.cut();
    }

    /// Removes the socket and breaks all connections, like a runtime that stops. Calls in progress get no answer.
    pub fn stop_listening(&mut self) {
        self.shared.unlink();
        self.server = None;
    }

    /// Returns whether the server runs: false after [`Sim::stop_listening`] and after a [`Fault::Vanish`].
    pub fn is_there(&self) -> bool {
        self.server.as_ref().is_some_and(Server::runs)
    }

    /// Opens the socket again with the current state, like a runtime that restarts. Does nothing if the server runs.
    pub fn listen_again(&mut self) -> Result<(), SimError> {
        if !self.is_there() {
            self.stop_listening();
            self.server = Some(Server::start(&self.shared, self.place)?);
        }
        Ok(())
    }
}
