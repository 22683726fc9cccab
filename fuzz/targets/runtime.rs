//! Answers of a container runtime: the same bytes for every call, as one message.
#![no_main]

use std::convert::Infallible;
use std::sync::{Arc, LazyLock, Mutex};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubegc::cri::{CriOptions, Only, RuntimeReader};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};

/// A runtime that answers every call with the message.
struct Fake {
    runtime: Runtime,
    reader: RuntimeReader,
    message: Arc<Mutex<Bytes>>,
    _directory: TempDir,
}

static FAKE: LazyLock<Fake> = LazyLock::new(Fake::start);

impl Fake {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("cri.sock");
        let runtime = Builder::new_current_thread().enable_all().build().expect("tokio");
        let message = Arc::<Mutex<Bytes>>::default();
        let endpoint = socket.display().to_string();
        let reader = runtime.block_on(async {
            let listener = UnixListener::bind(&socket).expect("a socket");
            tokio::spawn(serve(listener, Arc::clone(&message)));
            RuntimeReader::new(&endpoint, &endpoint, CriOptions::default())
        });
        Self { runtime, reader, message, _directory: directory }
    }
}

async fn serve(listener: UnixListener, message: Arc<Mutex<Bytes>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let message = Arc::clone(&message);
        let service = service_fn(move |_: Request<Incoming>| {
            let answer = answer(&message.lock().expect("a message"));
            async move { Ok::<_, Infallible>(answer) }
        });
        tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service));
    }
}

/// Frames the message as gRPC does: not compressed, its length, itself; the status follows.
fn answer(message: &Bytes) -> Response<BoxBody<Bytes, Infallible>> {
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let framed = Bytes::from([&[0][..], &length, message].concat());
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    let body = Full::new(framed).with_trailers(async { Some(Ok(trailers)) }).boxed();
    Response::builder().header("content-type", "application/grpc").body(body).expect("an answer")
}

fuzz_target!(|message: &[u8]| {
    let fake = &*FAKE;
    *fake.message.lock().expect("a message") = Bytes::copy_from_slice(message);
    fake.runtime.block_on(async {
        let reader = &fake.reader;
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
});
