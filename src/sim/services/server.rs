//! The socket, and the thread or task that serves it.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;

use super::Services;
use super::sim_connection::ServerConnection;
use crate::sim::SimError;
use crate::sim::shared::Shared;

/// Serves the socket. Dropping it ends all connections and all calls in progress.
#[derive(Debug)]
pub(in crate::sim) struct Server {
    shared: Arc<Shared>,
    work: Work,
}

/// Where a server runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::sim) enum RunIn {
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

// === impl RunIn ===

impl RunIn {
    /// Returns the directory for the files of a node.
    pub(in crate::sim) fn files(self) -> PathBuf {
        let memory = PathBuf::from("/dev/shm");
        if self == Self::CallersRuntime && memory.is_dir() { memory } else { std::env::temp_dir() }
    }
}

// === impl Server ===

impl Server {
    /// Opens the socket and serves it. [`RunIn::CallersRuntime`] requires a call within that runtime.
    pub(in crate::sim) fn start(shared: &Arc<Shared>, place: RunIn) -> Result<Self, SimError> {
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
    pub(in crate::sim) fn runs(&self) -> bool {
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

/// Serves the socket until the stop signal.
async fn serve(listener: UnixListener, shared: &Arc<Shared>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
    let connections = tokio_stream::wrappers::UnixListenerStream::new(listener)
        .map(|connection| accept(shared, connection?.into_std()?));
    serve_connections(connections, shared).await;
    // The second handles would keep the connections open.
    shared.cut();
}

/// Serves these connections until the stop signal.
pub(in crate::sim) async fn serve_connections<C>(connections: impl Stream<Item = io::Result<C>>, shared: &Arc<Shared>)
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let services = Services::of(shared);
    let service = tower::service_fn(move |request| services.clone().answer(request));
    let mut stop = shared.stop.subscribe();
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        _ = tonic::transport::Server::builder().serve_with_incoming(service, connections) => {}
    }
}

fn accept(shared: &Arc<Shared>, connection: UnixStream) -> io::Result<ServerConnection> {
    shared.keep(connection.try_clone()?);
    Ok(ServerConnection::new(tokio::net::UnixStream::from_std(connection)?, Arc::clone(shared)))
}
