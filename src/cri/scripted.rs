//! A runtime that does as it is told, for the tests of this room: what `sim` cannot do because no real runtime does it.
//!
//! Every method has a script of steps that is played for each call. Calls are written down with their deadline header.

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

use super::generated as pb;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends a message.
    Say(Vec<u8>),
    /// Ends with an error.
    Fail(Code),
    /// Never goes on.
    Hang,
    /// Goes on when the test says so.
    Await(Arc<tokio::sync::Semaphore>),
    /// Writes down that the answer came this far.
    Note(&'static str),
}

/// What was asked, and with which deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub method: String,
    pub deadline: Option<String>,
}

/// A server behind a socket, with threads of its own: when dropped it is gone with every connection, as a runtime that
/// is killed.
pub struct Scripted {
    pub path: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
    noted: Arc<Mutex<Vec<&'static str>>>,
    server: Option<tokio::runtime::Runtime>,
}

type Script = Arc<dyn Fn(&str) -> Vec<Step> + Send + Sync>;

/// Bytes as they are.
#[derive(Clone, Copy)]
struct Raw;

// === impl Scripted ===

impl Scripted {
    /// Listens on a socket in `dir`, which must outlive it, and answers Version; `script` gives the answer to any other
    /// method by its name.
    pub fn start(dir: &Path, script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start_with_paths(dir, move |path| match path.rsplit('/').next().unwrap_or_default() {
            "Version" => vec![say(&pb::VersionResponse { runtime_name: "scripted".into(), ..Default::default() })],
            name => script(name),
        })
    }

    /// As [`Self::start`], with the whole path of the method, and Version unanswered.
    pub fn start_with_paths(dir: &Path, script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let path = dir.join("cri.sock");
        let _ = nix::unistd::unlink(&path);
        let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = {
            let _inside = server.enter();
            UnixListener::bind(&path).unwrap()
        };
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let noted: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let script: Script = Arc::new(script);
        let (write, notes) = (Arc::clone(&asked), Arc::clone(&noted));
        let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| {
            write.lock().unwrap().push(Asked::of(&request));
            answer(script(request.uri().path()), Arc::clone(&notes), request)
        });
        let serving =
            tonic::transport::Server::builder().serve_with_incoming(service, UnixListenerStream::new(listener));
        server.spawn(serving);
        Self { path, asked, noted, server: Some(server) }
    }

    /// The socket's path as text.
    pub fn endpoint(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The names of the methods asked so far, but Version.
    pub fn methods(&self) -> Vec<String> {
        let names = self.asked().into_iter().map(|asked| asked.method.rsplit('/').next().unwrap().to_owned());
        names.filter(|name| name != "Version").collect()
    }

    /// How far answers came.
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

// === impl Asked ===

impl Asked {
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

/// A step that sends this message.
pub fn say(message: &impl Message) -> Step {
    Step::Say(message.encode_to_vec())
}

/// An error without any message is the whole answer, as Go's servers send it for a method they do not know.
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

/// Plays the steps until the end or until nobody listens any more.
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
