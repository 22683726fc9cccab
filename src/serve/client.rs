//! The client of the agent's socket, for commands.

use std::io;
use std::path::{Path, PathBuf};

use futures::TryStreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncBufReadExt as _;
use tokio::net::UnixStream;
use tokio_util::io::StreamReader;

use super::state::{PassEvent, PassRequest};
use crate::fleet::NodeStatus;
use crate::plan::{Pass, Report};

/// Why the agent did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be connected.
    #[error("cannot connect to the agent at {}: {cause}", path.display())]
    Connect { path: PathBuf, cause: io::Error },
    /// The connection ended early.
    #[error("the agent at {} did not answer: {cause}", path.display())]
    Call { path: PathBuf, cause: String },
    /// The agent refused the request, or its pass could not be made.
    #[error("the agent at {} refused: {cause}", path.display())]
    Refused { path: PathBuf, cause: String },
}

/// Returns the status of the node, as its agent shows it.
///
/// # Errors
/// No agent serves the socket, or it does not answer.
pub async fn node_status(socket: &Path) -> Result<NodeStatus, ServeError> {
    let response = call(socket, "GET", "/status", Bytes::new()).await?;
    let body = response.into_body().collect().await.map_err(|error| ended(socket, &error))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| ended(socket, &error))
}

/// Requests a pass and waits for its end. Returns whether the agent only observes, and the pass. `watch` receives the number of planned objects and each report.
///
/// # Errors
/// The agent does not answer, refuses, or ends before the pass.
pub async fn request_pass(
    socket: &Path,
    request: &PassRequest,
    mut watch: impl FnMut(usize, &Report),
) -> Result<(bool, Pass), ServeError> {
    let body = serde_json::to_vec(request).map_err(|error| ended(socket, &error))?;
    let response = call(socket, "POST", "/collect", body.into()).await?;
    let is_accepted = response.status().is_success();
    let body = response.into_body().into_data_stream().map_err(io::Error::other);
    let mut lines = StreamReader::new(body).lines();
    while let Some(line) = lines.next_line().await.map_err(|error| ended(socket, &error))? {
        if !is_accepted {
            let cause = serde_json::from_str(&line).unwrap_or_default();
            return Err(ServeError::Refused { path: socket.to_owned(), cause });
        }
        match serde_json::from_str(&line).map_err(|error| ended(socket, &error))? {
            PassEvent::Report { planned, report } => watch(planned, &report),
            PassEvent::Done { observes, pass } => return Ok((observes, *pass)),
        }
    }
    Err(ended(socket, &"it ended before the pass"))
}

async fn call(socket: &Path, method: &str, path: &str, body: Bytes) -> Result<Response<Incoming>, ServeError> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|cause| ServeError::Connect { path: socket.to_owned(), cause })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| ended(socket, &error))?;
    drop(tokio::spawn(connection));
    let request = Request::builder().method(method).uri(path).header("host", "kubegc").body(Full::new(body));
    let request = request.map_err(|error| ended(socket, &error))?;
    sender.send_request(request).await.map_err(|error| ended(socket, &error))
}

fn ended(socket: &Path, cause: &impl ToString) -> ServeError {
    ServeError::Call { path: socket.to_owned(), cause: cause.to_string() }
}
