//! A scripted runtime. It does what `sim` cannot do because no real runtime does it.
//!
//! Each method has a script of steps, which is played for each call. Each call is recorded with its deadline header.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use prost::Message;
use prost::bytes::{Buf, BufMut};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http;
use tonic::{Code, Request, Response, Status};

use crate::cri::generated as pb;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends a message.
    Say(Vec<u8>),
    /// Ends the answer with an error.
    Fail(Code),
    /// Waits forever.
    Hang,
    /// Waits until the test releases the semaphore.
    Await(Arc<tokio::sync::Semaphore>),
    /// Records that the answer reached this step.
    Note(&'static str),
}

/// A call that arrived, with its deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedRequest {
    pub method: String,
    pub deadline: Option<String>,
}

/// A server on a socket, with its own threads. Dropping it ends the server and all connections, as if the runtime were
/// killed.
pub struct Scripted {
    pub path: PathBuf,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    noted: Arc<Mutex<Vec<&'static str>>>,
    server: Option<tokio::runtime::Runtime>,
}

type Script = Arc<dyn Fn(&str) -> Vec<Step> + Send + Sync>;

/// A codec that passes bytes through unchanged.
#[derive(Clone, Copy)]
struct Raw;

// === impl Scripted ===

impl Scripted {
    /// Listens on a socket in `dir` and answers Version. `dir` must outlive the server. `script` returns the answer to
    /// every other method, by the name of the method.
    pub fn start(dir: &Path, script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start_with_paths(dir, move |path| match path.rsplit('/').next().unwrap_or_default() {
            "Version" => vec![say(&pb::VersionResponse { runtime_name: "scripted".into(), ..Default::default() })],
            name => script(name),
        })
    }

    /// Like [`Self::start`], but `script` gets the whole path of the method and also answers Version.
    pub fn start_with_paths(dir: &Path, script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let path = dir.join("cri.sock");
        let _ = nix::unistd::unlink(&path);
        let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = {
            let _inside = server.enter();
            UnixListener::bind(&path).unwrap()
        };
        let requests: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let noted: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let script: Script = Arc::new(script);
        let (write, notes) = (Arc::clone(&requests), Arc::clone(&noted));
        let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| {
            write.lock().unwrap().push(ReceivedRequest::of(&request));
            answer(script(request.uri().path()), Arc::clone(&notes), request)
        });
        let serving =
            tonic::transport::Server::builder().serve_with_incoming(service, UnixListenerStream::new(listener));
        server.spawn(serving);
        Self { path, requests, noted, server: Some(server) }
    }

    /// Returns the path of the socket as text.
    pub fn endpoint(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Returns the calls that arrived so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the names of the methods called so far, except Version.
    pub fn methods(&self) -> Vec<String> {
        let names = self.requests().into_iter().map(|request| request.method.rsplit('/').next().unwrap().to_owned());
        names.filter(|name| name != "Version").collect()
    }

    /// Returns the notes that the answers recorded so far.
    pub fn noted(&self) -> Vec<&'static str> {
        self.noted.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let server = self.server.take();
        let stop = move || server.map(|server| server.shutdown_timeout(std::time::Duration::from_secs(5)));
        std::thread::spawn(stop).join().unwrap();
    }
}

// === impl ReceivedRequest ===

impl ReceivedRequest {
    fn of(request: &http::Request<tonic::body::Body>) -> Self {
        let deadline = request.headers().get("grpc-timeout").map(|value| value.to_str().unwrap().to_owned());
        Self { method: request.uri().path().to_owned(), deadline }
    }
}

// === impl Raw ===

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let length = from.remaining();
        Ok(Some(from.copy_to_bytes(length).to_vec()))
    }
}

/// Returns a step that sends this message.
pub fn say(message: &impl Message) -> Step {
    Step::Say(message.encode_to_vec())
}

/// Plays the steps of one call. If the first step is an error, the answer is that error alone, without any message.
/// Go's servers answer an unknown method in this way.
async fn answer(
    steps: Vec<Step>,
    noted: Arc<Mutex<Vec<&'static str>>>,
    request: http::Request<tonic::body::Body>,
) -> Result<http::Response<tonic::body::Body>, std::convert::Infallible> {
    let play = tower::service_fn(move |_: Request<Vec<u8>>| {
        let (steps, noted) = (steps.clone(), Arc::clone(&noted));
        async move {
            if let Some(Step::Fail(code)) = steps.first() {
                return Err(Status::new(*code, "scripted"));
            }
            let (to, messages) = mpsc::channel(1);
            tokio::spawn(play(steps, to, noted));
            Ok(Response::new(ReceiverStream::new(messages)))
        }
    });
    Ok(tonic::server::Grpc::new(Raw).server_streaming(play, request).await)
}

/// Plays the steps until the end, or until the client stops receiving.
async fn play(steps: Vec<Step>, to: mpsc::Sender<Result<Vec<u8>, Status>>, noted: Arc<Mutex<Vec<&'static str>>>) {
    let steps = async {
        for step in steps {
            match step {
                Step::Say(message) => to.send(Ok(message)).await.unwrap(),
                Step::Fail(code) => to.send(Err(Status::new(code, "scripted"))).await.unwrap(),
                Step::Hang => std::future::pending().await,
                Step::Await(turn) => turn.acquire().await.unwrap().forget(),
                Step::Note(note) => noted.lock().unwrap().push(note),
            }
        }
    };
    tokio::select! {
        () = to.closed() => {}
        () = steps => {}
    }
}
