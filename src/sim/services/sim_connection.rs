//! One connection of the server, which can break in the middle of a write.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

use crate::sim::shared::Shared;

/// A connection that the server accepted.
#[derive(Debug)]
pub(super) struct ServerConnection {
    stream: UnixStream,
    shared: Arc<Shared>,
}

// === impl ServerConnection ===

impl ServerConnection {
    pub(super) fn new(stream: UnixStream, shared: Arc<Shared>) -> Self {
        Self { stream, shared }
    }

    /// Writes the first half and closes the connection.
    fn break_off(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let half = bytes.get(..bytes.len().div_ceil(2)).unwrap_or(bytes);
        ready!(Pin::new(&mut self.stream).poll_write(context, half))?;
        self.shared.take_break();
        let socket = second_handle(&self.stream)?;
        socket.shutdown(std::net::Shutdown::Both)?;
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }
}

/// Returns a second handle of the same socket.
fn second_handle(stream: &UnixStream) -> io::Result<std::os::unix::net::UnixStream> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

impl AsyncRead for ServerConnection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for ServerConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.shared.is_to_break() && !bytes.is_empty() {
            return self.break_off(context, bytes);
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connected for ServerConnection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
