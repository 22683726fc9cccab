//! The socket, the thread or task that serves it, and the steps of every call.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_stream::StreamExt;
use tonic::{Response, Status};

use super::SimError;
use super::connection::ServerConnection;
use super::defects::Spoil;
use super::node::Node;
use super::script::{Fault, Rpc, Script};
use super::services::Services;

/// The data that the [`super::Sim`] and the server share. No lock is held across an await, and never two locks at once.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) socket: PathBuf,
    node: Mutex<Node>,
    script: Mutex<Script>,
    /// Second handles of the connections. [`Shared::cut`] breaks the connections with them.
    connections: Mutex<Vec<UnixStream>>,
    /// Signals each call that arrives.
    pub(super) arrivals: watch::Sender<()>,
    /// Signals the server to end when the value is true.
    stop: watch::Sender<bool>,
    /// Whether the next write of a connection breaks it.
    break_next: AtomicBool,
}

/// Serves the socket. Dropping it ends all connections and all calls in progress.
#[derive(Debug)]
pub(super) struct Server {
    shared: Arc<Shared>,
    work: Work,
}

/// Where a server runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunIn {
    /// On a thread with its own runtime.
    OwnThread,
    /// In tasks of the caller's runtime.
    CallersRuntime,
}

#[derive(Debug)]
enum Work {
    /// `None` = the thread was joined.
    Thread(Option<JoinHandle<()>>),
    Task(AbortHandle),
}

/// Implements both services.
#[derive(Clone, Debug)]
pub(super) struct Service(pub(super) Arc<Shared>);

// === impl RunIn ===

impl RunIn {
    /// Returns the directory for the files of a node.
    pub(super) fn files(self) -> PathBuf {
        let memory = PathBuf::from("/dev/shm");
        if self == Self::CallersRuntime && memory.is_dir() { memory } else { std::env::temp_dir() }
    }
}

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
    pub(super) async fn answer<T: Spoil>(
        &self,
        method: Rpc,
        id: &str,
        act: impl FnOnce(&mut Node) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let (fault, changes) = self.script().arrive(method, id);
        for change in changes {
            change(&mut self.node());
        }
        self.arrivals.send_replace(());
        self.before(fault).await?;
        let mut answer = act(&mut self.node());
        self.after(fault).await;
        if let (Some(Fault::Answer(defect)), Ok(answer)) = (fault, &mut answer) {
            answer.spoil(defect);
        }
        answer.map(Response::new)
    }

    /// Applies the faults that take effect before the call is carried out.
    async fn before(&self, fault: Option<Fault>) -> Result<(), Status> {
        match fault {
            Some(Fault::InRemoval) => Err(Status::unknown("container is already in removing state")),
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

    fn accept(self: &Arc<Self>, connection: UnixStream) -> io::Result<ServerConnection> {
        lock(&self.connections).push(connection.try_clone()?);
        Ok(ServerConnection::new(tokio::net::UnixStream::from_std(connection)?, Arc::clone(self)))
    }
}

// === impl Server ===

impl Server {
    /// Opens the socket and serves it. [`RunIn::CallersRuntime`] requires a call within that runtime.
    pub(super) fn start(shared: &Arc<Shared>, place: RunIn) -> Result<Self, SimError> {
        let failed = |source| SimError::Listen { path: shared.socket.clone(), source };
        let listener = UnixListener::bind(&shared.socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        shared.stop.send_replace(false);
        let work = match place {
            RunIn::OwnThread => Work::thread(listener, shared.clone())?,
            RunIn::CallersRuntime => Work::task(listener, shared.clone()),
        };
        Ok(Self { shared: shared.clone(), work })
    }

    /// Returns whether the server serves. A server that received the stop signal does not serve, even if its thread has
    /// not finished yet.
    pub(super) fn runs(&self) -> bool {
        let works = match &self.work {
            Work::Thread(thread) => thread.as_ref().is_some_and(|thread| !thread.is_finished()),
            Work::Task(task) => !task.is_finished(),
        };
        works && !*self.shared.stop.borrow()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
        match &mut self.work {
            // Only a hook can panic in the thread. The test that set the hook then sees its call break.
            Work::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
            Work::Task(task) => task.abort(),
        }
        // Each connection is a separate task, which ends when the connection breaks.
        self.shared.cut();
    }
}

// === impl Work ===

impl Work {
    fn thread(listener: UnixListener, shared: Arc<Shared>) -> Result<Self, SimError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SimError::Thread)?;
        let thread = std::thread::Builder::new()
            .name("sim".to_owned())
            // The end of the runtime drops every task, and so every connection and every call in progress.
            .spawn(move || runtime.block_on(serve(listener, &shared)))
            .map_err(SimError::Thread)?;
        Ok(Self::Thread(Some(thread)))
    }

    fn task(listener: UnixListener, shared: Arc<Shared>) -> Self {
        Self::Task(tokio::spawn(async move { serve(listener, &shared).await }).abort_handle())
    }
}

/// Serves until the stop signal.
async fn serve(listener: UnixListener, shared: &Arc<Shared>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
    let connections = tokio_stream::wrappers::UnixListenerStream::new(listener)
        .map(|connection| shared.accept(connection?.into_std()?));
    let services = Services::of(shared);
    let service = tower::service_fn(move |request| services.clone().answer(request));
    let mut stop = shared.stop.subscribe();
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        _ = tonic::transport::Server::builder().serve_with_incoming(service, connections) => {}
    }
    // The second handles would keep the connections open.
    shared.cut();
}

/// Locks a mutex. A panic in a hook leaves the state readable, so that the test can inspect it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
