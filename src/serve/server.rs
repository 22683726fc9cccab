//! The server: a thread of its own, with the socket of the agent and the address for monitoring.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::poll_fn;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nix::sys::stat::{Mode, umask};
use serde::Serialize;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Pages;
use super::address::{self, Listening};
use super::state::{Live, Order, PassRequest};
use crate::fleet::NodeStatus;

/// The wait after a connection that could not be accepted, such as for want of file descriptors.
const ACCEPT_WAIT: Duration = Duration::from_secs(1);

/// The server of a process. Dropping it ends the server and removes the socket.
#[derive(Debug)]
pub struct Server {
    /// Starts tasks in the thread of the server.
    tasks: Handle,
    listening: Listening,
    socket: Option<PathBuf>,
    stop: CancellationToken,
}

/// What each connection to the socket needs.
#[derive(Clone)]
struct Shared {
    live: Live,
    orders: mpsc::Sender<Order>,
    pages: Pages,
    listening: Listening,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

// === impl Server ===

impl Server {
    /// Starts the thread of the server.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let tasks = runtime.handle().clone();
        std::thread::Builder::new().name("serve".to_owned()).spawn(move || runtime.block_on(stopped.cancelled()))?;
        Ok(Self { tasks, listening: Listening::default(), socket: None, stop })
    }

    /// Serves the pages for monitoring on an address. An address that is in use is logged, shown in [`NodeStatus`], and
    /// tried again.
    pub fn serve_pages(&self, address: SocketAddr, pages: Pages) {
        drop(self.tasks.spawn(address::serve(address, pages, self.listening.clone())));
    }

    /// Serves the socket of the agent, with the pages too. The caller holds the lock of the node, so a socket at this path
    /// is left from an agent that was killed, and is replaced.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn serve_socket(
        &mut self,
        path: &Path,
        live: Live,
        orders: mpsc::Sender<Order>,
        pages: Pages,
    ) -> io::Result<()> {
        let listener = listen(path)?;
        self.socket = Some(path.to_owned());
        let shared = Shared { live, orders, pages, listening: self.listening.clone() };
        drop(self.tasks.spawn(serve(listener, shared)));
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(socket) = &self.socket {
            forget(socket);
        }
    }
}

/// Creates the socket with mode 0600.
fn listen(path: &Path) -> io::Result<StdListener> {
    forget(path);
    // The mode of a socket is that of its creation: with a later change, others could connect before it.
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = StdListener::bind(path);
    umask(before);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Removes a socket, if it exists.
#[expect(clippy::disallowed_methods, reason = "the agent's own socket; the agent holds the lock of the node")]
fn forget(path: &Path) {
    let _ = std::fs::remove_file(path);
}

async fn serve(listener: StdListener, shared: Shared) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "cannot serve the socket of the agent"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, shared.clone()))),
            Err(_) => tokio::time::sleep(ACCEPT_WAIT).await,
        }
    }
}

async fn connection(stream: UnixStream, shared: Shared) {
    let service = service_fn(|request| answer(request, shared.clone()));
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the socket of the agent ended early");
    }
}

async fn answer(request: Request<Incoming>, shared: Shared) -> Result<Answer, Infallible> {
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, "/status") => document(StatusCode::OK, &shared.status()),
        (&Method::POST, "/collect") => collect(request, &shared).await,
        _ => match shared.pages.page(&request, true).await {
            Some(page) => page.map(BoxBody::new),
            None => document(StatusCode::NOT_FOUND, &"no such path"),
        },
    })
}

impl Shared {
    fn status(&self) -> NodeStatus {
        let mut status = self.live.read();
        if let Some(local) = &mut status.local {
            local.metrics_address.clone_from(&self.listening.borrow());
        }
        status
    }
}

async fn collect(request: Request<Incoming>, shared: &Shared) -> Answer {
    let request = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice::<PassRequest>(&body.to_bytes()),
        Err(error) => return document(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let request = match request {
        Ok(request) => request,
        Err(error) => return document(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let (events, mut received) = mpsc::unbounded_channel();
    if shared.orders.try_send(Order { request, events }).is_err() {
        return document(StatusCode::SERVICE_UNAVAILABLE, &"other requested passes are waiting, or the agent stops");
    }
    let lines = poll_fn(move |context| received.poll_recv(context)).map(|event| Ok(Frame::data(line(&event))));
    Response::new(BoxBody::new(StreamBody::new(lines)))
}

fn document(status: StatusCode, document: &impl Serialize) -> Answer {
    let mut response = Response::new(Full::new(line(document)).boxed());
    *response.status_mut() = status;
    response
}

fn line(document: &impl Serialize) -> Bytes {
    let mut line = serde_json::to_vec(document).unwrap_or_default();
    line.push(b'\n');
    line.into()
}
