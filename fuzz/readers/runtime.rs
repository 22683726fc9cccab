//! Answers of a container runtime, each as one message.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubegc::cri::{CriOptions, Only, RuntimeReader, SnapshotUsages};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::dir;

/// The byte between two messages, which is rare in them.
const BETWEEN: u8 = 0xfe;
/// The calls that have answers of their own. Other calls have the answer of the first.
const CALLS: [&str; 10] = [
    "Namespaces/List",
    "Plugins",
    "Images/List",
    "Containers/List",
    "Content/List",
    "ListStatuses",
    "Snapshots/List",
    "Usage",
    "Leases/List",
    "ListResources",
];

/// A runtime that answers each call with one of the messages.
struct Fake {
    runtime: Runtime,
    reader: RuntimeReader,
    messages: Arc<Mutex<Vec<Bytes>>>,
    _directory: TempDir,
}

static FAKE: LazyLock<Fake> = LazyLock::new(Fake::start);

impl Fake {
    fn start() -> Self {
        let directory = dir();
        let socket = directory.path().join("cri.sock");
        let runtime = Builder::new_current_thread().enable_all().build().expect("tokio");
        let messages = Arc::<Mutex<Vec<Bytes>>>::default();
        let endpoint = socket.display().to_string();
        let reader = runtime.block_on(async {
            let listener = UnixListener::bind(&socket).expect("a socket");
            tokio::spawn(serve(listener, Arc::clone(&messages)));
            RuntimeReader::new(&endpoint, &endpoint, CriOptions::default())
        });
        Self { runtime, reader, messages, _directory: directory }
    }
}

async fn serve(listener: UnixListener, messages: Arc<Mutex<Vec<Bytes>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let messages = Arc::clone(&messages);
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(request.uri().path(), &messages.lock().expect("messages"));
            async move { Ok::<_, Infallible>(answer) }
        });
        tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
    }
}

/// Frames a message as gRPC does: not compressed, its length, itself; the status follows.
fn answer(path: &str, messages: &[Bytes]) -> Response<BoxBody<Bytes, Infallible>> {
    let place = CALLS.iter().position(|call| path.ends_with(call)).unwrap_or_default();
    let message = &messages[place % messages.len()];
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let framed = Bytes::from([&[0][..], &length, message].concat());
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    let body = Full::new(framed).with_trailers(async { Some(Ok(trailers)) }).boxed();
    Response::builder().header("content-type", "application/grpc").body(body).expect("an answer")
}

/// The CRI: the same message for every call.
pub fn runtime(message: &[u8]) {
    let Fake { runtime, reader, .. } = answering([message]);
    runtime.block_on(async {
        let _ = reader.runtime().await;
        let _ = reader.sandbox_image().await;
        let _ = reader.containers(Only::All).await;
        let _ = reader.sandboxes(Only::All).await;
        let _ = reader.images().await;
        let _ = reader.image("docker.io/library/web:1").await;
        let _ = reader.container_status(&"c1".into()).await;
        let _ = reader.image_filesystem().await;
        let _ = reader.container_filesystem().await;
        let _ = reader.writable_layers().await;
    });
}

/// containerd's own API, with its store: a message for each call, in their order.
pub fn containerd(messages: &[u8]) {
    let Fake { runtime, reader, .. } = answering(messages.split(|byte| *byte == BETWEEN));
    runtime.block_on(async {
        let until = Instant::now() + Duration::from_secs(5);
        let _ = reader.containerd_store(&SnapshotUsages::default(), true, until).await;
        let _ = reader.all_container_ids().await;
        let _ = reader.undo_leases().await;
    });
}

fn answering<'m>(messages: impl IntoIterator<Item = &'m [u8]>) -> &'static Fake {
    *FAKE.messages.lock().expect("messages") = messages.into_iter().map(Bytes::copy_from_slice).collect();
    &FAKE
}
