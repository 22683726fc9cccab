//! An API server in memory for tests: objects, discovery, lists and watches as the real one has them, faults on request, and a
//! record of the requests. `contract.rs` holds its answers to those of real API servers.
//!
//! It serves a `kube::Client` without a socket, so that a test can pause and advance the clock.

mod answer;
mod contract;
mod made;
mod observer;
mod state;
mod watches;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use http::Request;
use kube::client::{Body, Client};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tower::service_fn;

use self::answer::Answered;
pub use self::answer::{Answer, failure, not_found, status};
pub use self::made::{Call, Made};
pub use self::observer::Observer;
pub use self::state::{Objects, resource};
use self::state::{State, list_path, path};
pub use self::watches::WatchRequest;
use crate::kubernetes::{ApiResource, Connection};

/// The node of a server with pods.
pub const NODE: &str = "node-1";

/// A fake API server. All clones share one server.
#[derive(Clone)]
pub struct FakeApi {
    inner: Arc<Mutex<Inner>>,
    /// Answers instead of the state.
    handler: Option<Arc<Handler>>,
    observer: Option<Arc<dyn Observer>>,
    /// Watches that a client opened and that no test has taken yet.
    opened: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<WatchRequest>>>,
    /// Watches have something to show. They wake in order.
    changed: Arc<Notify>,
}

type Handler = dyn Fn(&Made) -> Answer + Send + Sync;
/// What runs right before a request is answered.
type Before = Box<dyn FnOnce(&FakeApi) + Send>;

#[derive(Default)]
struct Inner {
    state: State,
    requests: Vec<Made>,
    /// How many requests `calls` has returned.
    called: usize,
    clients: usize,
    planned: BTreeMap<Call, VecDeque<Answer>>,
    /// The answers to a path, or to a method and a path, whatever the state is.
    fixed: BTreeMap<String, Answer>,
    before: BTreeMap<String, Before>,
    /// For watches that the test writes; `None` = they show what changes.
    opened: Option<mpsc::UnboundedSender<WatchRequest>>,
}

// === impl FakeApi ===

impl FakeApi {
    /// Creates a server with one node and no pods, and two pods on a page. The test writes its watches.
    pub fn new() -> Self {
        let api = Self::serving(vec![ApiResource::pods(), ApiResource::nodes()]);
        let (sender, opened) = mpsc::unbounded_channel();
        let metadata = json!({"name": NODE, "uid": "uid-node", "labels": {"pool": "build"}});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"nodeInfo": {}}});
        let mut inner = api.lock();
        (inner.state.page, inner.state.version, inner.opened) = (2, 100, Some(sender));
        inner.state.objects.insert(path(&node), node);
        drop(inner);
        Self { opened: Arc::new(tokio::sync::Mutex::new(opened)), ..api }
    }

    /// Creates a server with these resources and no objects. Its watches show what changes.
    pub fn serving(served: Vec<ApiResource>) -> Self {
        let inner = Inner { state: State::serving(served), ..Inner::default() };
        let opened = Arc::new(tokio::sync::Mutex::new(mpsc::unbounded_channel().1));
        Self { inner: Arc::new(Mutex::new(inner)), handler: None, observer: None, opened, changed: Arc::default() }
    }

    /// Creates a server without a state, with these answers.
    pub fn answering(answer: impl Fn(&Made) -> Answer + Send + Sync + 'static) -> Self {
        Self { handler: Some(Arc::new(answer)), ..Self::serving(Vec::new()) }
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
        let node = format!("/api/v1/nodes/{NODE}");
        self.lock().state.objects.get_mut(&node).unwrap()["status"]["nodeInfo"] = info;
        self
    }

    /// Adds or replaces an object. Sends no watch event.
    pub fn put(&self, object: &Value) {
        self.lock().state.put(object);
    }

    /// Removes an object. Sends no watch event.
    pub fn remove(&self, object: &Value) {
        self.lock().state.objects.remove(&path(object));
    }

    /// Returns the object as it is now.
    pub fn get(&self, object: &Value) -> Option<Value> {
        self.lock().state.objects.get(&path(object)).cloned()
    }

    /// Lists the names of the objects.
    pub fn names(&self) -> Vec<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        self.lock().state.objects.values().map(name).collect()
    }

    /// Serves these resources from now on; the group-versions `down` do not work.
    pub fn serves(&self, served: Vec<ApiResource>, down: &[&str]) {
        let state = &mut self.lock().state;
        (state.served, state.down) = (served, down.iter().map(|it| (*it).to_owned()).collect());
    }

    /// Lists of the resource of `of` show an object that cannot be read, after some that do not.
    pub fn lists_too(&self, of: &Value, shown: &Value, after: usize) {
        self.lock().state.more.insert(list_path(of), (shown.clone(), after));
    }

    /// Changes of an object are made and answered with this.
    pub fn answers_changes(&self, object: &Value, answer: &Value) {
        self.lock().state.written.insert(path(object), answer.clone());
    }

    /// Makes the changes of each request, whatever its preconditions are.
    pub fn ignores_preconditions(&self) {
        self.lock().state.ignores_preconditions = true;
    }

    /// Watches of a resource show this.
    pub fn sends(&self, of: &Value, word: &str, shown: &Value) {
        self.lock().state.show(list_path(of), word, shown);
        self.changed.notify_waiters();
    }

    /// The versions of all watches expire.
    pub fn expires(&self) {
        let expired = failure(410, "Expired", &json!({}));
        let state = &mut self.lock().state;
        for served in state.served.clone() {
            state.show(served.path("").unwrap(), "ERROR", &expired);
        }
        self.changed.notify_waiters();
    }

    /// Answers each request to the path of an object with this.
    pub fn answers(&self, object: &Value, code: u16, answer: Value) {
        self.answers_path(&path(object), code, answer);
    }

    /// Answers each request to a path, or to a method and a path, with this.
    #[expect(clippy::needless_pass_by_value, reason = "most values are made for the call")]
    pub fn answers_path(&self, path: &str, code: u16, answer: Value) {
        self.lock().fixed.insert(path.to_owned(), Answer::Text(code, answer.to_string()));
    }

    /// Fails the lists of a resource. No namespace ends whose content cannot be listed.
    pub fn fails_lists(&self, resource: &ApiResource, namespaces: &[&str]) {
        for namespace in [""].iter().chain(namespaces) {
            self.answers_path(&resource.path(namespace).unwrap(), 500, failure(500, "InternalError", &json!({})));
        }
        self.lock().state.keeps_namespaces |= resource.namespaced;
    }

    /// Refuses requests with this method to an object, as a webhook does that is down, or not any more.
    pub fn refuses(&self, method: &str, object: &Value, is_refused: bool) {
        let request = format!("{method} {}", path(object));
        if is_refused {
            self.answers_path(&request, 500, failure(500, "InternalError", &json!({})));
        } else {
            self.lock().fixed.remove(&request);
        }
    }

    /// Does something right before the next request with this method to an object is answered.
    pub fn before(&self, method: &str, object: &Value, act: impl FnOnce(&Self) + Send + 'static) {
        self.lock().before.insert(format!("{method} {}", path(object)), Box::new(act));
    }

    /// Plans answers for the next requests of this kind, after those that are already planned.
    pub fn plan(&self, call: Call, answers: impl IntoIterator<Item = Answer>) {
        self.lock().planned.entry(call).or_default().extend(answers);
    }

    /// Returns all requests so far.
    pub fn made(&self) -> Vec<Made> {
        self.lock().requests.clone()
    }

    /// Returns all requests so far, as `METHOD PATH?QUERY`.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.iter().map(|made| format!("{} {}", made.method, made.uri)).collect()
    }

    /// Returns the requests since the last call, as `GET pods/a` or `GET ns2/pods/a` outside of ns1.
    pub fn calls(&self) -> Vec<String> {
        let inner = &mut *self.lock();
        let new = inner.requests.get(std::mem::replace(&mut inner.called, inner.requests.len())..).unwrap_or_default();
        new.iter().map(|made| format!("{} {}", made.method, made.short())).collect()
    }

    /// Returns the number of requests of this kind.
    pub fn count(&self, call: Call) -> usize {
        self.lock().requests.iter().filter(|made| made.call() == call).count()
    }

    /// Returns the whole seconds between the requests of this kind.
    pub fn pauses(&self, call: Call) -> Vec<u64> {
        let inner = self.lock();
        let at: Vec<_> = inner.requests.iter().filter(|made| made.call() == call).map(|made| made.at).collect();
        at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect()
    }

    /// Returns how many clients were created.
    pub fn clients(&self) -> usize {
        self.lock().clients
    }

    /// Returns a connection to the server.
    pub fn connection(&self) -> Connection {
        let api = self.clone();
        Connection::by(move || {
            api.lock().clients += 1;
            Ok((api.client(), "a test".to_owned()))
        })
    }

    /// Returns a client without credentials.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let serve = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { api.serve(request).await }
        });
        Client::new(serve, "default")
    }

    async fn serve(&self, request: Request<Body>) -> Answered {
        let made = Made::of(request).await?;
        let before = self.lock().before.remove(&made.key());
        if let Some(act) = before {
            act(self);
        }
        let answer = self.answer(&made);
        if matches!(answer, Answer::Right) && made.call() == Call::Watch && self.lock().state.is_list(made.path()) {
            return Ok(self.watch(&made));
        }
        let is_received = matches!(answer, Answer::Right | Answer::Late(_));
        answer.send(|| self.right(&made, is_received)).await
    }

    /// Records a request and returns the answer that is wanted.
    fn answer(&self, made: &Made) -> Answer {
        let mut inner = self.lock();
        inner.requests.push(made.clone());
        if let Some(planned) = inner.planned.get_mut(&made.call()).and_then(VecDeque::pop_front) {
            return planned;
        }
        let fixed = inner.fixed.get(made.path()).or_else(|| inner.fixed.get(&made.key())).cloned();
        drop(inner);
        match (&self.handler, &self.observer) {
            (Some(handler), _) => fixed.unwrap_or_else(|| handler(made)),
            (None, Some(observer)) => observer.answer(made),
            (None, None) => {
                made.identifies();
                fixed.unwrap_or(Answer::Right)
            }
        }
    }

    fn right(&self, made: &Made, is_received: bool) -> (u16, String) {
        let (code, answer) = self.observed(made, is_received);
        self.changed.notify_waiters();
        (code, answer.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

/// Returns a pod on the node.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"uid": format!("uid-{name}"), "namespace": "default", "name": name, "resourceVersion": "1"},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": format!("image-{name}")}]},
        "status": {"phase": "Running"},
    })
}
