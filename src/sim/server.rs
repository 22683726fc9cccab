//! The socket, the thread that serves it, and the road that every call takes.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::watch;
use tokio_stream::StreamExt;
use tonic::transport::server::Router;
use tonic::{Response, Status};

use super::SimError;
use super::node::Node;
use super::script::{Fault, Method, Script};
use super::stand_ins::Old;
use crate::cri::generated::{image_service_server::ImageServiceServer, runtime_service_server::RuntimeServiceServer};

/// What the handle and the server share. Locks are never held across an await, and never two at once.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) socket: PathBuf,
    node: Mutex<Node>,
    script: Mutex<Script>,
    /// Second handles of the connections, to break them with.
    connections: Mutex<Vec<UnixStream>>,
    /// Tells of each call that arrives.
    pub(super) arrivals: watch::Sender<()>,
    /// Tells the server to end, by turning true.
    stop: watch::Sender<bool>,
}

/// The thread that serves. Dropping it ends it with all connections and calls under way.
#[derive(Debug)]
pub(super) struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// One of the two services.
#[derive(Clone, Debug)]
pub(super) struct Service(pub(super) Arc<Shared>);

// === impl Shared ===

impl Shared {
    pub(super) fn new(socket: PathBuf, node: Node) -> Self {
        Self {
            socket,
            node: Mutex::new(node),
            script: Mutex::default(),
            connections: Mutex::default(),
            arrivals: watch::Sender::new(()),
            stop: watch::Sender::new(false),
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
            // One that broke before is as good.
            connection.shutdown(std::net::Shutdown::Both).ok();
        }
    }

    /// Takes the socket away. One that is gone is as good.
    #[expect(clippy::disallowed_methods, reason = "the socket is the simulated node's own")]
    pub(super) fn unlink(&self) {
        std::fs::remove_file(&self.socket).ok();
    }

    /// The road of a call: noted, changed by hooks, met by a fault, carried out, answered.
    pub(super) async fn answer<T>(
        &self,
        method: Method,
        id: &str,
        act: impl FnOnce(&mut Node) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let (fault, changes) = self.script().arrive(method, id);
        for change in changes {
            change(&mut self.node());
        }
        self.arrivals.send_replace(());
        self.before(fault).await?;
        let answer = act(&mut self.node());
        self.after(fault).await;
        answer.map(Response::new)
    }

    /// The faults that strike before anything is done.
    async fn before(&self, fault: Option<Fault>) -> Result<(), Status> {
        match fault {
            Some(Fault::Fail(code)) => Err(Status::new(code, "a fault that the test asked for")),
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

    /// The faults that strike what was done.
    async fn after(&self, fault: Option<Fault>) {
        match fault {
            Some(Fault::Late(delay)) => tokio::time::sleep(delay).await,
            Some(Fault::DoThenHang) => std::future::pending().await,
            Some(Fault::DoThenCut) => {
                self.cut();
                std::future::pending::<()>().await;
            }
            _ => {}
        }
    }

    fn remember(&self, connection: UnixStream) -> io::Result<tokio::net::UnixStream> {
        lock(&self.connections).push(connection.try_clone()?);
        tokio::net::UnixStream::from_std(connection)
    }
}

// === impl Server ===

impl Server {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, SimError> {
        let failed = |source| SimError::Listen { path: shared.socket.clone(), source };
        let listener = UnixListener::bind(&shared.socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SimError::Thread)?;
        shared.stop.send_replace(false);
        let serving = shared.clone();
        let thread = std::thread::Builder::new()
            .name("sim".to_owned())
            // The end of the runtime drops every task, and with them every connection and every call under way.
            .spawn(move || runtime.block_on(serve(listener, &serving)))
            .map_err(SimError::Thread)?;
        Ok(Self { shared: shared.clone(), thread: Some(thread) })
    }

    /// Says whether it serves. One that was told to end does not, though its thread may take a moment longer.
    pub(super) fn runs(&self) -> bool {
        !*self.shared.stop.borrow() && self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is one of a hook, and the test that wrote it has seen its call break.
            thread.join().ok();
        }
    }
}

/// Serves until it is told to end.
async fn serve(listener: UnixListener, shared: &Arc<Shared>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
    let connections = tokio_stream::wrappers::UnixListenerStream::new(listener)
        .map(|connection| shared.remember(connection?.into_std()?));
    let mut stop = shared.stop.subscribe();
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        _ = services(shared).serve_with_incoming(connections) => {}
    }
    // The second handles would keep the connections open.
    shared.cut();
}

/// Both services, under the names that the node knows.
fn services(shared: &Arc<Shared>) -> Router {
    let runtime = RuntimeServiceServer::new(Service(shared.clone()));
    let images = ImageServiceServer::new(Service(shared.clone()));
    let mut server = tonic::transport::Server::builder();
    if shared.node().presents.is_old {
        server.add_service(Old(runtime)).add_service(Old(images))
    } else {
        server.add_service(runtime).add_service(images)
    }
}

/// A panic in a hook leaves the state as it is, for the test to look at.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
