//! An API server in memory for tests. It has one node with pods, and fails on request.
//!
//! It serves a `kube::Client` without a socket, so that a test can pause and advance the clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::channel::{Channel, Sender};
use kube::client::{Body, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use crate::kubernetes::Connection;

/// The only node of the server.
pub const NODE: &str = "node-1";

/// A fake API server. All clones share one server.
#[derive(Clone)]
pub struct FakeApi {
    inner: Arc<Mutex<Inner>>,
    /// Watches that a client opened and that no test has taken yet.
    opened: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<WatchRequest>>>,
}

struct Inner {
    pods: BTreeMap<(String, String), Value>,
    /// `status.nodeInfo` of the node.
    node_info: Value,
    version: u64,
    requests: Vec<(Instant, String)>,
    clients: usize,
    planned: BTreeMap<Call, VecDeque<Answer>>,
    opened: mpsc::UnboundedSender<WatchRequest>,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Call {
    Node,
    List,
    Watch,
    Get,
}

/// A planned answer to one request.
#[derive(Clone)]
pub enum Answer {
    /// The answer of a real API server, as a place holder before other planned answers.
    Right,
    /// This code and text.
    Text(u16, String),
    /// The first bytes of the right answer. Then the connection ends as if the answer were complete.
    CutAfter(usize),
    /// The first bytes of the right answer. Then the connection breaks.
    BreaksAfter(usize),
    /// The first bytes of the right answer. Then nothing follows.
    StopsAfter(usize),
    /// No answer.
    Never,
    /// No connection.
    Refused,
}

/// One watch that the test controls. Dropping it ends the watch in an orderly way.
pub struct WatchRequest {
    pub query: String,
    body: Sender<Bytes, BoxError>,
}

/// The result for the client.
type Answered = Result<Response<Channel<Bytes, BoxError>>, BoxError>;

// === impl FakeApi ===

impl FakeApi {
    /// Creates a server with one node and no pods.
    pub fn new() -> Self {
        let (sender, opened) = mpsc::unbounded_channel();
        let inner = Inner {
            pods: BTreeMap::new(),
            node_info: json!({}),
            version: 100,
            requests: Vec::new(),
            clients: 0,
            planned: BTreeMap::new(),
            opened: sender,
        };
        Self { inner: Arc::new(Mutex::new(inner)), opened: Arc::new(tokio::sync::Mutex::new(opened)) }
    }

    /// Adds pods with these names in the namespace `default`. The uid of each is `uid-NAME`.
    pub fn with_pods(self, names: &[&str]) -> Self {
        for name in names {
            self.put(&pod(name));
        }
        self
    }

    /// Sets `status.nodeInfo` of the node.
    pub fn with_node_info(self, info: Value) -> Self {
        self.lock().node_info = info;
        self
    }

    /// Adds or replaces a pod. Sends no watch event.
    pub fn put(&self, pod: &Value) {
        let mut inner = self.lock();
        inner.version += 1;
        let key = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        let mut pod = pod.clone();
        pod["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.pods.insert(key, pod);
    }

    /// Removes a pod. Sends no watch event.
    pub fn remove(&self, name: &str) {
        self.lock().pods.remove(&("default".to_owned(), name.to_owned()));
    }

    /// Plans answers for the next requests of this kind, after those that are already planned.
    pub fn plan(&self, call: Call, answers: impl IntoIterator<Item = Answer>) {
        self.lock().planned.entry(call).or_default().extend(answers);
    }

    /// Returns the next watch that a client opens.
    pub async fn watched(&self) -> WatchRequest {
        let mut opened = self.opened.lock().await;
        let watched = tokio::time::timeout(std::time::Duration::from_hours(1), opened.recv()).await;
        watched.expect("no watch within an hour of the test's clock").unwrap()
    }

    /// Returns all requests so far, as path and query.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.iter().map(|(_, uri)| uri.clone()).collect()
    }

    /// Returns the number of requests of this kind.
    pub fn count(&self, call: Call) -> usize {
        self.requests().iter().filter(|uri| kind(uri) == call).count()
    }

    /// Returns the whole seconds between the requests of this kind.
    pub fn pauses(&self, call: Call) -> Vec<u64> {
        let inner = self.lock();
        let at: Vec<_> = inner.requests.iter().filter(|(_, uri)| kind(uri) == call).map(|(at, _)| *at).collect();
        at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect()
    }

    /// Returns how many clients were created.
    pub fn clients(&self) -> usize {
        self.lock().clients
    }

    /// Returns a connection to the server.
    pub fn connection(&self) -> Arc<Connection> {
        let api = self.clone();
        Arc::new(Connection::by(move || {
            api.lock().clients += 1;
            Ok((api.client(), "a test".to_owned()))
        }))
    }

    /// Returns a client without credentials.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let serve = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            let uri = request.uri().path_and_query().map(ToString::to_string);
            async move { api.serve(uri.unwrap_or_default()).await }
        });
        Client::new(serve, "default")
    }

    async fn serve(&self, uri: String) -> Answered {
        let call = kind(&uri);
        let planned = {
            let mut inner = self.lock();
            inner.requests.push((Instant::now(), uri.clone()));
            inner.planned.get_mut(&call).and_then(VecDeque::pop_front).unwrap_or(Answer::Right)
        };
        if let (Call::Watch, Answer::Right) = (call, &planned) {
            return Ok(self.watch(&uri));
        }
        let (code, right) = self.right(call, &uri);
        let cut = |bytes: usize| right.get(..bytes).expect("cut where there is something").to_owned();
        match planned {
            Answer::Right => whole(code, right).await,
            Answer::Text(code, text) => whole(code, text).await,
            Answer::CutAfter(bytes) => whole(code, cut(bytes)).await,
            Answer::BreaksAfter(bytes) => broken(code, cut(bytes)).await,
            Answer::StopsAfter(bytes) => stopped(code, cut(bytes)).await,
            Answer::Never => std::future::pending().await,
            Answer::Refused => Err("connection refused".into()),
        }
    }

    fn right(&self, call: Call, uri: &str) -> (u16, String) {
        let inner = self.lock();
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let name = path.rsplit('/').next().unwrap();
        let (code, value) = match call {
            Call::Node if name == NODE => {
                let status = json!({"nodeInfo": inner.node_info});
                let metadata = json!({"name": NODE, "uid": "uid-node", "labels": {"pool": "build"}});
                (200, json!({"kind": "Node", "metadata": metadata, "status": status}))
            }
            Call::Node => (404, not_found("nodes", name)),
            Call::List => (200, inner.page(query)),
            Call::Get => {
                let namespace = path.split('/').nth(4).unwrap();
                match inner.pods.get(&(namespace.to_owned(), name.to_owned())) {
                    Some(pod) => (200, pod.clone()),
                    None => (404, not_found("pods", name)),
                }
            }
            Call::Watch => (200, Value::Null),
        };
        (code, value.to_string())
    }

    fn watch(&self, uri: &str) -> Response<Channel<Bytes, BoxError>> {
        let (body, channel) = Channel::new(64);
        let query = uri.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
        self.lock().opened.send(WatchRequest { query, body }).unwrap();
        Response::new(channel)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

// === impl Inner ===

impl Inner {
    /// Returns a page of two pods, so that three pods need two pages.
    fn page(&self, query: &str) -> Value {
        let from = query.split('&').find_map(|pair| pair.strip_prefix("continue=")).map_or(0, |at| at.parse().unwrap());
        let items: Vec<_> = self.pods.values().skip(from).take(2).collect();
        let left = self.pods.len() - from - items.len();
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if left > 0 {
            metadata["continue"] = (from + items.len()).to_string().into();
            metadata["remainingItemCount"] = left.into();
        }
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})
    }
}

// === impl WatchRequest ===

impl WatchRequest {
    /// Sends an event.
    pub async fn event(&mut self, kind: &str, object: &Value) {
        self.raw(&format!("{}\n", json!({"type": kind, "object": object}))).await;
    }

    /// Sends a bookmark with this version.
    pub async fn bookmark(&mut self, version: u64) {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}});
        self.event("BOOKMARK", &object).await;
    }

    /// Ends the watch with an error of the server.
    pub async fn error(mut self, code: u16, reason: &str) {
        let object = json!({"kind": "Status", "code": code, "reason": reason, "message": reason});
        self.event("ERROR", &object).await;
    }

    /// Sends any text.
    pub async fn raw(&mut self, text: &str) {
        self.body.send_data(text.to_owned().into()).await.expect("somebody listens");
    }

    /// Breaks the connection.
    pub fn breaks(self) {
        self.body.abort("connection reset".into());
    }

    /// Returns whether the client has dropped the watch.
    pub async fn is_left(&mut self) -> bool {
        self.body.send_data("".into()).await.is_err()
    }
}

/// Returns a pod on the node.
pub fn pod(name: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"uid": format!("uid-{name}"), "namespace": "default", "name": name, "resourceVersion": "1"},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": format!("image-{name}")}]},
        "status": {"phase": "Running"},
    })
}

/// Returns an error of the API server.
pub fn status(code: u16, reason: &str) -> Answer {
    let message = format!("{reason} it is");
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message});
    Answer::Text(code, status.to_string())
}

pub fn not_found(kind: &str, name: &str) -> Value {
    json!({
        "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": format!("{kind} \"{name}\" not found"), "details": {"kind": kind, "name": name},
    })
}

fn kind(uri: &str) -> Call {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    match path {
        _ if path.starts_with("/api/v1/nodes/") => Call::Node,
        "/api/v1/pods" if query.split('&').any(|pair| pair == "watch=true") => Call::Watch,
        _ if path.ends_with("/pods") => Call::List,
        _ => Call::Get,
    }
}

async fn whole(code: u16, text: String) -> Answered {
    let (mut body, response) = answer(code);
    body.send_data(text.into()).await?;
    Ok(response)
}

async fn broken(code: u16, text: String) -> Answered {
    let (mut body, response) = answer(code);
    body.send_data(text.into()).await?;
    body.abort("connection reset".into());
    Ok(response)
}

async fn stopped(code: u16, text: String) -> Answered {
    let (mut body, response) = answer(code);
    body.send_data(text.into()).await?;
    // The body never ends.
    std::mem::forget(body);
    Ok(response)
}

fn answer(code: u16) -> (Sender<Bytes, BoxError>, Response<Channel<Bytes, BoxError>>) {
    let (body, channel) = Channel::new(4);
    (body, Response::builder().status(code).body(channel).unwrap())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
