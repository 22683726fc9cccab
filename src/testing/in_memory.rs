//! What makes a node and its agent one thread: connections in memory in place of sockets, and calls of the file system without
//! threads. Only the thread that [`listen`]s has it.

use std::cell::RefCell;
use std::io;
use std::path::Path;

use tokio::io::DuplexStream;
use tokio::net::{self, unix::UCred};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::either::Either;

/// Far more than any message of a test.
const BUFFER: usize = 1 << 20;

type Connections = mpsc::UnboundedSender<io::Result<DuplexStream>>;

thread_local! {
    static LISTENER: RefCell<Option<Connections>> = const { RefCell::new(None) };
}

pub type UnixStream = Either<net::UnixStream, DuplexStream>;

/// What production code calls of tokio's own type.
pub trait Connect: Sized {
    fn connect(path: &Path) -> impl Future<Output = io::Result<Self>> + Send;
    fn peer_cred(&self) -> io::Result<UCred>;
}

impl Connect for UnixStream {
    async fn connect(path: &Path) -> io::Result<Self> {
        let Some(listener) = LISTENER.with_borrow(Clone::clone) else {
            return net::UnixStream::connect(path).await.map(Either::Left);
        };
        let (client, server) = tokio::io::duplex(BUFFER);
        let refused = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
        listener.send(Ok(server)).map_err(refused).map(|()| Either::Right(client))
    }

    fn peer_cred(&self) -> io::Result<UCred> {
        match self {
            Either::Left(stream) => stream.peer_cred(),
            Either::Right(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Returns the connections that this thread makes from now on.
pub fn listen() -> UnboundedReceiverStream<io::Result<DuplexStream>> {
    let (sender, connections) = mpsc::unbounded_channel();
    LISTENER.set(Some(sender));
    UnboundedReceiverStream::new(connections)
}

pub fn spawn_blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    if LISTENER.with_borrow(Option::is_none) {
        return tokio::task::spawn_blocking(call);
    }
    let result = call();
    tokio::spawn(async { result })
}
