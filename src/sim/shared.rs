//! What the simulated node and its server share, and the steps of every call.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tonic::{Response, Status};

use super::defects::Defective;
use super::script::{Fault, Observer, Rpc, Script};
use super::sim_node::Node;

/// The data that the [`super::Sim`] and the server share. No lock is held across an await, and never two locks at once.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) socket: PathBuf,
    node: Mutex<Node>,
    script: Mutex<Script>,
    /// Sees each call before it is carried out.
    pub(super) observer: Mutex<Option<Observer>>,
    /// Second handles of the connections. [`Shared::cut`] breaks the connections with them.
    connections: Mutex<Vec<UnixStream>>,
    /// Signals each call that arrives.
    pub(super) arrivals: watch::Sender<()>,
    /// Signals the server to end when the value is true.
    pub(super) stop: watch::Sender<bool>,
    /// Whether the next write of a connection breaks it.
    break_next: AtomicBool,
}

/// Implements both services.
#[derive(Clone, Debug)]
pub(super) struct Service(pub(super) Arc<Shared>);

// === impl Shared ===

impl Shared {
    pub(super) fn new(socket: PathBuf, node: Node) -> Self {
        Self {
            socket,
            node: Mutex::new(node),
            script: Mutex::default(),
            observer: Mutex::default(),
            connections: Mutex::default(),
            arrivals: watch::Sender::new(()),
            stop: watch::Sender::new(false),
            break_next: AtomicBool::default(),
        }
    }

    pub(super) fn node(&self) -> MutexGuard<'_, Node> {
        lock(&self.node)
    }

    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        lock(&self.script)
    }

    /// Breaks every connection.
    pub(super) fn cut(&self) {
        for connection in lock(&self.connections).drain(..) {
            // An error means that the connection was already broken.
            connection.shutdown(std::net::Shutdown::Both).ok();
        }
    }

    /// Removes the socket. Ignores a socket that no longer exists.
    #[expect(clippy::disallowed_methods, reason = "the socket is the simulated node's own")]
    pub(super) fn unlink(&self) {
        std::fs::remove_file(&self.socket).ok();
    }

    /// Returns whether the next write must break its connection.
    pub(super) fn is_to_break(&self) -> bool {
        self.break_next.load(Ordering::SeqCst)
    }

    /// Clears the flag after a connection broke.
    pub(super) fn take_break(&self) {
        self.break_next.store(false, Ordering::SeqCst);
    }

    /// Runs the steps of a call: recorded, changed by hooks, affected by a fault, carried out, answered.
    pub(super) async fn answer<T: Defective>(
        &self,
        method: Rpc,
        id: &str,
        act: impl FnOnce(&mut Node) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let (queued, changes) = self.script().arrive(method, id);
        for change in changes {
            change(&mut self.node());
        }
        let observed = lock(&self.observer).as_mut().and_then(|observer| observer.0(method, id, &self.node()));
        let fault = queued.or(observed);
        self.arrivals.send_replace(());
        self.before(fault).await?;
        let is_pretended = fault == Some(Fault::Pretend);
        let mut answer = if is_pretended { act(&mut self.node().clone()) } else { act(&mut self.node()) };
        self.after(fault).await;
        if let (Some(Fault::Answer(defect)), Ok(answer)) = (fault, &mut answer) {
            answer.apply(defect);
        }
        answer.map(Response::new)
    }

    /// Applies the faults that take effect before the call is carried out.
    async fn before(&self, fault: Option<Fault>) -> Result<(), Status> {
        match fault {
            Some(Fault::InRemoval) => Err(Status::unknown("container is already in removing state")),
            Some(Fault::Fail(code)) => Err(Status::new(code, "a fault that the test requested")),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                Ok(())
            }
            Some(Fault::Vanish) => {
                self.unlink();
                self.stop.send_replace(true);
                std::future::pending().await
            }
            _ => Ok(()),
        }
    }

    /// Applies the faults that take effect after the call was carried out.
    async fn after(&self, fault: Option<Fault>) {
        match fault {
            Some(Fault::Late(delay)) => tokio::time::sleep(delay).await,
            Some(Fault::DoThenHang) => std::future::pending().await,
            Some(Fault::DoThenCut) => {
                self.cut();
                std::future::pending::<()>().await;
            }
            Some(Fault::BreakOff) => self.break_next.store(true, Ordering::SeqCst),
            _ => {}
        }
    }

    /// Keeps a second handle of a connection, for [`Self::cut`].
    pub(super) fn keep(&self, connection: UnixStream) {
        lock(&self.connections).push(connection);
    }
}

/// Locks a mutex. A panic in a hook leaves the state readable, so that the test can inspect it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
