//! A node in memory that speaks both CRI services over a real unix socket.
//!
//! It stands in for containerd where faults or size matter, and for a whole node in `kubegc demo`: its state changes as
//! a runtime's does, it remembers every call, and it fails, hangs and answers late on request. It is held to the same
//! contract tests as containerd. It owns no clock: every time comes from the caller. It touches its socket and its
//! temporary directory alone, and no production path but the demo may reach it.
//!
//! The server has a thread and a runtime of its own, so that a test may block on another process that speaks with it,
//! and so that nothing of it is left once that thread is joined.
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
mod connection;
mod defects;
mod fake_sockets;
mod filters;
mod garbage;
mod image_service;
mod images;
mod indexed_map;
mod lifecycle;
mod logs;
mod node;
mod runtime_service;
mod script;
mod server;
#[cfg(test)]
mod tests;
mod view;

pub use defects::Defect;
pub use fake_sockets::StandIn;
pub use logs::LogRoots;
pub use node::{Node, Streaming};
pub use script::{Call, Fault, Method, Times};

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use tempfile::TempDir;

use crate::model::FileSystem;
use server::{RunIn, Server, Shared};

/// Bytes in a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Bytes in a gibibyte.
pub const GIB: u64 = 1 << 30;

/// The longest that anything here waits for a call.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running simulated node. Dropping it ends the server and removes its directory.
#[derive(Debug)]
pub struct Sim {
    shared: Arc<Shared>,
    server: Option<Server>,
    place: RunIn,
    dir: TempDir,
}

/// What can go wrong with a simulated node itself.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// No temporary directory could be made.
    #[error("make a directory for the simulated node: {0}")]
    Directory(#[source] std::io::Error),
    /// The socket could not be opened.
    #[error("listen on {path}: {source}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The server's thread could not be started.
    #[error("start the server of the simulated node: {0}")]
    Thread(#[source] std::io::Error),
    /// A log file or link could not be written.
    #[error("write {path}: {source}")]
    WriteLog {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A call that was waited for did not come.
    #[error("{method} came {seen} times, not {wanted}, within {seconds} s")]
    NoCall {
        /// The call.
        method: Method,
        /// How often it came.
        seen: usize,
        /// How often it should have come.
        wanted: usize,
        /// How long was waited.
        seconds: u64,
    },
}

// === impl Sim ===

impl Sim {
    /// Writes the node's log files, opens the socket and serves. Needs no async runtime.
    pub fn start(node: Node) -> Result<Self, SimError> {
        Self::start_at(node, RunIn::OwnThread)
    }

    /// The same in tasks of the caller's runtime, which must be a tokio runtime. Time that stands still there and goes
    /// forward by itself while nothing is to be done does so for both sides: a call that hangs costs no real time. Its files
    /// are in memory, if the host has `/dev/shm`.
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

    /// The path of the socket, whether or not it is there just now.
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// The socket as an endpoint, `unix:///…`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Sets the time since which the runtime listens, as its clients see it: the modification time of the socket.
    pub fn set_listening_since(&self, at: Timestamp) -> Result<(), SimError> {
        let failed = |source: nix::Error| SimError::Listen { path: self.socket().to_owned(), source: source.into() };
        let at = TimeSpec::new(at.as_second(), at.subsec_nanosecond().into());
        utimensat(AT_FDCWD, self.socket(), &at, &at, UtimensatFlags::NoFollowSymlink).map_err(failed)
    }

    /// The directory that holds the socket, the logs and the image mountpoint.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the log files and links lie.
    pub fn log_roots(&self) -> LogRoots {
        LogRoots::beneath(self.dir.path())
    }

    /// The node's state, to read or to change. Every call waits while it is held.
    pub fn state(&self) -> MutexGuard<'_, Node> {
        self.shared.node()
    }

    /// The simulated disk as it is now. `statvfs` of the mountpoint would show the real one.
    pub fn disk(&self) -> FileSystem {
        self.state().file_system()
    }

    /// The same for somebody who outlives a borrow.
    pub fn disk_reader(&self) -> impl Fn() -> FileSystem + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.node().file_system()
    }

    /// Every call so far, in order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.script().calls().to_vec()
    }

    /// The ids that a method was called with, in order of arrival.
    pub fn calls_of(&self, method: Method) -> Vec<String> {
        self.shared.script().calls().iter().filter(|call| call.method == method).map(|call| call.id.clone()).collect()
    }

    /// Forgets the calls so far.
    pub fn forget_calls(&self) {
        self.shared.script().forget_calls();
    }

    /// Queues a fault: the next calls of the method meet it, after those that were queued before.
    pub fn fault(&self, method: Method, fault: Fault, times: Times) {
        self.shared.script().queue(method, None, fault, times);
    }

    /// The same for the calls about one object alone, by the id that the caller gives.
    pub fn fault_of(&self, method: Method, id: &str, fault: Fault, times: Times) {
        self.shared.script().queue(method, Some(id), fault, times);
    }

    /// Drops all faults and hooks that still wait. A call that already hangs goes on hanging.
    pub fn heal(&self) {
        self.shared.script().heal();
    }

    /// Runs `change` on the state when the method is called for the `nth` time from now, counted from 1, before the
    /// call itself does anything.
    pub fn on_call(&self, method: Method, nth: usize, change: impl FnOnce(&mut Node) + Send + 'static) {
        self.shared.script().hook(method, nth, Box::new(change));
    }

    /// Waits until the method was called.
    pub async fn await_call(&self, method: Method) -> Result<(), SimError> {
        self.await_calls(method, 1).await
    }

    /// Waits until the method was called `wanted` times since the start or the last [`Sim::forget_calls`].
    pub async fn await_calls(&self, method: Method, wanted: usize) -> Result<(), SimError> {
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

    /// Breaks every connection; the socket stays.
    pub fn cut_connections(&self) {
        self.shared.cut();
    }

    /// Takes the socket away with all connections, as a runtime that stops. Calls under way get no answer.
    pub fn stop_listening(&mut self) {
        self.shared.unlink();
        self.server = None;
    }

    /// Says whether the server runs: false after [`Sim::stop_listening`] and once [`Fault::Vanish`] struck.
    pub fn is_there(&self) -> bool {
        self.server.as_ref().is_some_and(Server::runs)
    }

    /// Brings the socket back with the state as it is, as a runtime that restarts. Nothing happens if it is there.
    pub fn listen_again(&mut self) -> Result<(), SimError> {
        if !self.is_there() {
            self.stop_listening();
            self.server = Some(Server::start(&self.shared, self.place)?);
        }
        Ok(())
    }
}
