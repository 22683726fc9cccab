//! A registry of images in memory (OCI distribution, plain HTTP). Repositories below `private/` need a login, and layers
//! can stop in the middle until the test continues them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Image, hex};

/// User and password of the private repositories.
const LOGIN: &str = "tenant:secret";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The longest wait for a client.
const PATIENCE: Duration = Duration::from_mins(4);

/// A registry on a port of an address.
pub struct Registry {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// How many layers have stopped.
    stopped: watch::Sender<usize>,
    /// Whether all layers continue.
    continues: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// By `REPOSITORY/manifests/TAG OR DIGEST` and `blobs/DIGEST`.
    content: BTreeMap<String, Bytes>,
    /// Digests of the layers that stop.
    stopping: BTreeSet<String>,
    /// How often the manifest of each repository was read.
    pulls: BTreeMap<String, usize>,
    /// How many blobs were read.
    blobs: usize,
}

// === impl Registry ===

impl Registry {
    /// Starts an empty registry.
    pub async fn start(address: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared =
            Shared { state: Mutex::default(), stopped: watch::Sender::new(0), continues: watch::Sender::new(false) };
        let shared = Arc::new(shared);
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared }
    }

    /// Returns the name of an image in the registry: `127.0.0.1:1234/REPOSITORY:1`.
    pub fn name(&self, repository: &str) -> String {
        format!("{}/{repository}:1", self.address)
    }

    /// Adds an image with a name of [`Registry::name`].
    pub fn push(&self, image: &Image) {
        let mut state = self.shared.state.lock().unwrap();
        let (manifest, blobs) = image.in_registry();
        for tag in image.tags() {
            let (repository, tag) = tag.split_once('/').unwrap().1.rsplit_once(':').unwrap();
            for reference in [tag, &digest(&manifest)] {
                state.content.insert(format!("{repository}/manifests/{reference}"), Bytes::from(manifest.clone()));
            }
        }
        state.content.extend(blobs.into_iter().map(|blob| (format!("blobs/{}", digest(&blob)), Bytes::from(blob))));
    }

    /// Adds an image. Its last layer stops in the middle until [`Registry::go_on`].
    pub fn push_slow(&self, image: &Image) {
        self.push(image);
        let last = image.in_registry().1.pop().unwrap();
        self.shared.state.lock().unwrap().stopping.insert(digest(&last));
    }

    /// Waits until so many layers have stopped.
    pub async fn await_stops(&self, count: usize) {
        let mut stopped = self.shared.stopped.subscribe();
        let found = timeout(PATIENCE, stopped.wait_for(|&stopped| stopped >= count)).await.map(|found| *found.unwrap());
        assert!(found.is_ok(), "{} layers stopped, and not {count}", *self.shared.stopped.borrow());
    }

    /// Continues all layers.
    pub fn go_on(&self) {
        self.shared.continues.send_replace(true);
    }

    /// Returns how often the image of a repository was pulled.
    pub fn pulls(&self, repository: &str) -> usize {
        self.shared.state.lock().unwrap().pulls.get(repository).copied().unwrap_or_default()
    }

    /// Returns how many blobs were read.
    pub fn blobs(&self) -> usize {
        self.shared.state.lock().unwrap().blobs
    }

    /// Returns a secret with the login.
    pub fn secret(&self, name: &str) -> Value {
        let auths = json!({ "auths": { &self.address: { "auth": BASE64_STANDARD.encode(LOGIN) } } });
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": name, "namespace": "default" },
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": auths.to_string() },
        })
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { shared.respond(&request) }
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

// === impl Shared ===

impl Shared {
    fn respond(self: &Arc<Self>, request: &Request<Incoming>) -> Result<Response<Channel<Bytes>>, http::Error> {
        let (sender, body) = Channel::new(1);
        let path = request.uri().path().trim_start_matches("/v2/");
        let response = Response::builder();
        if path.starts_with("private/") && !has_login(request) {
            let challenge = response.header("www-authenticate", r#"Basic realm="rig""#);
            return challenge.status(StatusCode::UNAUTHORIZED).body(body);
        }
        let Some(content) = self.read(path, request.method()) else {
            return response.status(StatusCode::NOT_FOUND).body(body);
        };
        let kind = if path.contains("/manifests/") { MANIFEST } else { "application/octet-stream" };
        let response = response.header("content-type", kind).header("content-length", content.len());
        let response = response.header("docker-content-digest", digest(&content)).body(body);
        if request.method() == Method::GET {
            tokio::spawn(Arc::clone(self).send(sender, content));
        }
        response
    }

    fn read(&self, path: &str, method: &Method) -> Option<Bytes> {
        let mut state = self.state.lock().unwrap();
        if let Some((repository, _)) = path.split_once("/manifests/").filter(|_| method == Method::GET) {
            *state.pulls.entry(repository.to_owned()).or_default() += 1;
        }
        state.blobs += usize::from(path.contains("/blobs/") && method == Method::GET);
        let key = path.split_once("/blobs/").map_or(path.to_owned(), |(_, digest)| format!("blobs/{digest}"));
        state.content.get(&key).cloned()
    }

    /// Sends content in two halves. The client may end the connection.
    async fn send(self: Arc<Self>, mut sender: Sender<Bytes>, mut content: Bytes) {
        let stops = self.state.lock().unwrap().stopping.contains(&digest(&content));
        let second = content.split_off(content.len() / 2);
        let _ = sender.send_data(content).await;
        if stops {
            self.stopped.send_modify(|stopped| *stopped += 1);
            let _ = self.continues.subscribe().wait_for(|&continues| continues).await;
        }
        let _ = sender.send_data(second).await;
    }
}

fn has_login(request: &Request<Incoming>) -> bool {
    let expected = format!("Basic {}", BASE64_STANDARD.encode(LOGIN));
    request.headers().get("authorization").is_some_and(|found| found.as_bytes() == expected.as_bytes())
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(content))
}
