//! One socket, the connection to it, and the meaning of a failed call.
//!
//! Tonic turns a failed connect into a status. The connector adds an error of its own to that status, so that "no such
//! socket" and "the runtime answered Unavailable" can be distinguished.

use std::fs::Metadata;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message;
use prost::bytes::Buf;
#[cfg(not(test))]
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::CriError;
use crate::host_path::BoundedCalls;
use crate::metrics::CriCalls;
#[cfg(test)]
use crate::testing::in_memory::{Connect as _, UnixStream};

/// The socket of a runtime. Cheap to clone; all clones share one connection.
#[derive(Clone, Debug)]
pub struct Socket {
    path: Arc<Path>,
    channel: Channel,
    connections: Connections,
    lookups: BoundedCalls,
    calls: CriCalls,
    /// The namespace of containerd's own calls. The CRI has none.
    namespace: Option<MetadataValue<Ascii>>,
}

/// The record of the connections to a socket, which shows restarts of the runtime.
#[derive(Clone, Debug, Default)]
struct Connections(Arc<Mutex<Made>>);

#[derive(Debug, Default)]
struct Made {
    count: u64,
    /// When the last reconnect happened that may follow a restart.
    again: Option<Instant>,
}

/// The answers of a stream.
pub struct Batches<A> {
    stream: Streaming<(A, u64)>,
    bytes: u64,
    /// The most bytes of all answers together: a stream may have no end.
    limit: u64,
}

/// A method, as its path `/PACKAGE.SERVICE/NAME`. Calls use the path instead of the generated clients, so that answers
/// can be decoded into types with fewer fields than the published messages.
#[derive(Clone, Copy, Debug)]
pub struct Method(pub &'static str);

/// A message that is sent.
pub trait Sent: Message + Clone + 'static {}

/// A message that is received.
pub trait Answer: Message + Default + 'static {}

/// Prost's codec, which also returns the encoded size of each answer. The decoded message may have fewer fields.
struct Measuring<Q, A>(PhantomData<(Q, A)>);

struct MeasuringDecoder<A>(PhantomData<A>);

/// The error that the connector adds to the status: this connect failed, so no request was sent.
#[derive(Debug, thiserror::Error)]
#[error("connect to {}", path.display())]
struct Unreached {
    path: PathBuf,
    source: io::Error,
}

impl<Q: Message + Clone + 'static> Sent for Q {}

impl<A: Message + Default + 'static> Answer for A {}

// === impl Method ===

impl Method {
    /// Returns the name of the call: in the CRI without the service, as no two services have a call of one name.
    pub fn name(self) -> &'static str {
        let end = if self.0.starts_with("/runtime.") { '/' } else { '.' };
        self.0.rsplit(end).next().unwrap_or(self.0)
    }

    /// Returns whether the image service has it.
    pub fn is_of_images(self) -> bool {
        self.0.contains(".ImageService/")
    }
}

// === impl Socket ===

impl Socket {
    /// Creates the socket without connecting. The first call connects, and so does the first call after a restart of
    /// the runtime. A lookup of its file takes at most `limit`. Must be called within a tokio runtime.
    pub fn new(endpoint: &str, limit: Duration) -> Self {
        let path: Arc<Path> = Path::new(endpoint.strip_prefix("unix://").unwrap_or(endpoint)).into();
        let (connections, lookups) = (Connections::default(), BoundedCalls::new(limit));
        let (target, made, looked_up) = (Arc::clone(&path), connections.clone(), lookups.clone());
        let connector = move |_: Uri| connect(Arc::clone(&target), looked_up.clone(), made.clone());
        // The authority must be a host name: Go's servers reject a socket path there.
        let channel = tonic::transport::Endpoint::from_static("http://localhost")
            .connect_with_connector_lazy(tower::service_fn(connector));
        Self { path, channel, connections, lookups, calls: CriCalls::default(), namespace: None }
    }

    /// Returns the sockets of the runtime service and of the image service, which may be the same.
    pub fn pair(runtime: &str, images: &str, limit: Duration) -> [Self; 2] {
        let first = Self::new(runtime, limit);
        let second = if images == runtime { first.clone() } else { Self::new(images, limit) };
        let second = second.with_calls(&first.calls);
        [first, second]
    }

    /// Returns the same socket, with its calls counted there.
    #[must_use]
    pub fn with_calls(self, calls: &CriCalls) -> Self {
        Self { calls: calls.clone(), ..self }
    }

    /// Returns the same socket for calls of containerd's own API in a namespace.
    pub fn in_namespace(&self, namespace: MetadataValue<Ascii>) -> Self {
        Self { namespace: Some(namespace), ..self.clone() }
    }

    /// Makes a call and counts it. A call that is dropped counts as one without an answer in time.
    pub async fn counted<T>(&self, method: Method, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let timer = self.calls.begin(method.name());
        let answer = call.await;
        timer.end(answer.as_ref().err().map(cause));
        answer
    }

    /// Waits for a call at most `limit`, without a further attempt.
    pub async fn in_time<T>(
        &self,
        limit: Duration,
        method: Method,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, CriError> {
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => answer.map_err(|status| self.error(method, status)),
            Err(_) => Err(CriError::Timeout { call: method.name(), seconds: limit.as_secs() }),
        }
    }

    /// Returns the path of the socket file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the metadata of the socket file.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        metadata(&self.lookups, Arc::clone(&self.path)).await
    }

    /// Returns when the client last reconnected to a socket that does not itself show a restart; `None` = never. A
    /// runtime creates its socket when it starts, so the time of the file shows the restart. A socket of the service
    /// manager is the same file across restarts.
    pub fn reconnected_at(&self) -> Option<Instant> {
        self.connections.0.lock().unwrap_or_else(PoisonError::into_inner).again
    }

    /// Sends a request and receives one answer of at most `limit` bytes. Sends no deadline.
    pub async fn unary<Q: Sent, A: Answer>(&self, method: Method, request: Q, limit: usize) -> Result<A, Status> {
        self.measured(method, request, limit).await.map(|(answer, _)| answer)
    }

    /// Like [`Self::unary`], with the size of the answer in bytes.
    pub async fn measured<Q: Sent, A: Answer>(
        &self,
        method: Method,
        request: Q,
        limit: usize,
    ) -> Result<(A, u64), Status> {
        // In a box, or the futures of all that call this would be large.
        let call = Box::pin(async {
            let mut grpc = self.grpc(limit).await?;
            let path = PathAndQuery::from_static(method.0);
            Ok(grpc.unary(self.request(request), path, Measuring::<Q, A>(PhantomData)).await?.into_inner())
        });
        self.counted(method, call).await
    }

    /// Sends a request and receives a stream of answers of at most `limit` bytes together.
    pub async fn stream<Q: Sent, A: Answer>(
        &self,
        method: Method,
        request: Q,
        limit: usize,
    ) -> Result<Batches<A>, Status> {
        let mut grpc = self.grpc(limit).await?;
        let path = PathAndQuery::from_static(method.0);
        let answer = grpc.server_streaming(self.request(request), path, Measuring::<Q, A>(PhantomData)).await?;
        Ok(Batches { stream: answer.into_inner(), bytes: 0, limit: limit as u64 })
    }

    /// Converts a status into an error: never connected, connection broken, or the runtime's own answer.
    pub fn error(&self, method: Method, status: Status) -> CriError {
        if let Some(unreached) = find::<Unreached>(&status) {
            return CriError::unreached(&unreached.path, &unreached.source);
        }
        let call = method.name();
        // Only a status that was created on the client side has a source.
        if std::error::Error::source(&status).is_some() {
            return CriError::Broken { call, endpoint: self.path.to_path_buf(), status: Box::new(status) };
        }
        CriError::Call { call, status: Box::new(status) }
    }

    fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(namespace) = &self.namespace {
            request.metadata_mut().insert("containerd-namespace", namespace.clone());
        }
        request
    }

    async fn grpc(&self, limit: usize) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(limit);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        Ok(grpc)
    }
}

// === impl Batches ===

impl<A> Batches<A> {
    /// Receives the next answer; `None` = the stream has ended.
    pub async fn next(&mut self) -> Result<Option<A>, Status> {
        let Some((batch, bytes)) = self.stream.message().await? else { return Ok(None) };
        self.bytes += bytes;
        if self.bytes > self.limit {
            return Err(Status::internal(format!("the stream has more than {} bytes", self.limit)));
        }
        Ok(Some(batch))
    }

    /// Returns the bytes of the answers so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

// === impl Measuring ===

impl<Q: Sent, A: Answer> Codec for Measuring<Q, A> {
    type Encode = Q;
    type Decode = (A, u64);
    type Encoder = <ProstCodec<Q, A> as Codec>::Encoder;
    type Decoder = MeasuringDecoder<A>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Q, A>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        MeasuringDecoder(PhantomData)
    }
}

impl<A: Answer> Decoder for MeasuringDecoder<A> {
    type Item = (A, u64);
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let bytes = from.remaining() as u64;
        let answer = A::decode(from).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Some((answer, bytes)))
    }
}

async fn connect(
    path: Arc<Path>,
    calls: BoundedCalls,
    connections: Connections,
) -> Result<TokioIo<UnixStream>, Unreached> {
    let unreached = |source| Unreached { path: path.to_path_buf(), source };
    // The connect looks up the path on the async thread. A file system that hangs would block all of the agent (I14).
    metadata(&calls, Arc::clone(&path)).await.map_err(unreached)?;
    let stream = UnixStream::connect(&path).await.map_err(unreached)?;
    connections.add(stream.peer_cred().ok().and_then(|owner| owner.pid()));
    Ok(TokioIo::new(stream))
}

async fn metadata(calls: &BoundedCalls, path: Arc<Path>) -> io::Result<Metadata> {
    let place = Arc::clone(&path);
    calls.run(&place, move || std::fs::metadata(path)).await.map_err(io::Error::other).flatten()
}

// === impl Connections ===

impl Connections {
    /// Records a connection. `owner` is the process that first listened on the socket: the runtime, or process 1 if the
    /// service manager activates the runtime. `None` or 0 = the process is not visible from here.
    fn add(&self, owner: Option<i32>) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.count += 1;
        if made.count > 1 && matches!(owner, None | Some(0 | 1)) {
            made.again = Some(Instant::now());
        }
    }
}

/// Returns the word for the cause of a failed call, for metrics.
fn cause(status: &Status) -> &'static str {
    if std::error::Error::source(status).is_some() {
        return "unreachable";
    }
    match status.code() {
        Code::NotFound => "not_found",
        Code::Unavailable => "unavailable",
        Code::Unimplemented => "unimplemented",
        Code::ResourceExhausted | Code::OutOfRange => "too_large",
        Code::DeadlineExceeded | Code::Cancelled => "timeout",
        _ => "runtime",
    }
}

/// Returns the first error of type `E` in the chain of causes.
fn find<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::generated::{VersionRequest, VersionResponse};
    use crate::cri::reader::VERSION;

    #[tokio::test]
    async fn a_socket_on_a_hanging_disk_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let socket = Socket::new(&path.display().to_string(), Duration::from_secs(30));
        let _release = socket.lookups.block(&path).await;
        let answer = socket.unary::<_, VersionResponse>(VERSION, VersionRequest::default(), 1 << 10);
        let status = tokio::select! {
            answer = answer => answer.unwrap_err(),
            _ = listener.accept() => panic!("the agent connects"),
        };
        let error = socket.error(VERSION, status);
        assert!(error.is_unreachable() && error.to_string().contains("still blocked"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconnect_means_restart_unless_runtime_owns_the_socket() {
        for (owner, is_restart) in [(Some(1), true), (Some(0), true), (None, true), (Some(4711), false)] {
            let connections = Connections::default();
            connections.add(owner);
            assert_eq!(connections.0.lock().unwrap().again, None, "{owner:?}: the first connection");
            connections.add(owner);
            assert_eq!(connections.0.lock().unwrap().again, is_restart.then(Instant::now), "{owner:?}");
        }
    }
}
