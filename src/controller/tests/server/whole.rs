//! The API server in memory with discovery, lists and watches, for services and commands as a whole.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use kube::client::{Body, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, service_fn};

use super::Server;
use crate::kubernetes::{ApiResource, Connection};

/// Clones share one server.
#[derive(Clone)]
pub(in super::super) struct WholeServer {
    pub(in super::super) objects: Server,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    served: Vec<ApiResource>,
    /// The group-versions that discovery calls stale, and whose lists fail.
    down: Vec<String>,
    /// What lists show besides the objects, by the path of the list.
    more: BTreeMap<String, More>,
    /// The answers to changes of an object, which are made all the same.
    written: BTreeMap<String, Value>,
    /// What watches show: the path of the list, and the line.
    events: Vec<(String, Value)>,
    requests: Vec<String>,
}

/// An object that only lists show.
#[derive(Clone)]
struct More {
    object: Value,
    /// How many lists do not show it yet.
    after: usize,
}

// === impl WholeServer ===

impl WholeServer {
    pub(in super::super) fn new(served: Vec<ApiResource>) -> Self {
        let state = Arc::new(Mutex::new(State { served, ..State::default() }));
        Self { objects: Server::default(), state, changed: watch::channel(()).0 }
    }

    pub(in super::super) fn connection(&self) -> Connection {
        Connection::through(self.client(), "a test")
    }

    pub(in super::super) fn client(&self) -> Client {
        let server = self.clone();
        let serve = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.respond(request).await }
        });
        Client::new(serve, "default")
    }

    /// Serves these resources from now on; the group-versions `down` do not work.
    pub(in super::super) fn serves(&self, served: Vec<ApiResource>, down: &[&str]) {
        let mut state = self.state();
        (state.served, state.down) = (served, down.iter().map(|it| (*it).to_owned()).collect());
    }

    /// Creates or replaces an object, and shows it to watches.
    pub(in super::super) fn put(&self, object: &Value) {
        self.objects.put(object);
        self.show("ADDED", &self.objects.get(object).unwrap());
    }

    /// Lists of the resource of `of` show an object that cannot be read, after some that do not.
    pub(in super::super) fn lists_too(&self, of: &Value, shown: &Value, after: usize) {
        self.state().more.insert(list_path(of), More { object: shown.clone(), after });
    }

    /// Changes of an object are answered with this.
    pub(in super::super) fn answers_changes(&self, object: &Value, answer: &Value) {
        self.state().written.insert(super::path(object), answer.clone());
    }

    /// Watches of a resource show this.
    pub(in super::super) fn sends(&self, of: &Value, word: &str, shown: &Value) {
        self.send(list_path(of), json!({"type": word, "object": shown}));
    }

    /// The versions of all watches expire.
    pub(in super::super) fn expires(&self) {
        let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
        let paths: Vec<_> = self.state().served.iter().map(|it| it.path("").unwrap()).collect();
        for path in paths {
            self.send(path, json!({"type": "ERROR", "object": status}));
        }
    }

    /// Returns all requests up to now: `METHOD PATH?QUERY`.
    pub(in super::super) fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    fn show(&self, word: &str, object: &Value) {
        self.sends(object, word, object);
    }

    fn send(&self, path: String, line: Value) {
        self.state().events.push((path, line));
        self.changed.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn respond(&self, request: Request<Body>) -> Result<Response<Channel<Bytes, BoxError>>, BoxError> {
        let (head, body) = request.into_parts();
        self.state().requests.push(format!("{} {}", head.method, head.uri));
        let body = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let (mut sender, channel) = Channel::new(4);
        let query = head.uri.query().unwrap_or_default();
        let (code, answer) = match self.is_list(head.uri.path()) {
            Some(_) if head.method == Method::GET && query.contains("watch=") => {
                let from = self.state().events.len();
                drop(tokio::spawn(self.clone().follow(head.uri.path().to_owned(), from, sender)));
                return Ok(Response::builder().status(200).body(channel)?);
            }
            Some(kind) if head.method == Method::GET => self.list(head.uri.path(), &kind),
            _ => self.answer(&head.method, head.uri.path(), &body),
        };
        sender.send_data(answer.to_string().into()).await?;
        Ok(Response::builder().status(code).body(channel)?)
    }

    fn answer(&self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        match path {
            "/readyz" => return (200, json!("ok")),
            "/api" => return (200, self.discovery(str::is_empty)),
            "/apis" => return (200, self.discovery(|group| !group.is_empty())),
            _ if *method == Method::POST => return (201, body.clone()),
            _ => {}
        }
        let before = self.objects.lock().objects.get(path).cloned();
        let (code, answer) = self.objects.answer(method, path, body);
        if *method == Method::GET || code != 200 {
            return (code, answer);
        }
        let (now, version) = {
            let objects = self.objects.lock();
            (objects.objects.get(path).cloned(), objects.version)
        };
        if let Some(now) = now {
            self.show("MODIFIED", &now);
        } else {
            let mut deleted = before.unwrap_or_default();
            deleted["metadata"]["resourceVersion"] = version.to_string().into();
            self.show("DELETED", &deleted);
        }
        (code, self.state().written.get(path).cloned().unwrap_or(answer))
    }

    /// Returns the kind of the resource whose objects are at this path.
    fn is_list(&self, path: &str) -> Option<String> {
        let state = self.state();
        let served = state.served.iter().find(|it| it.path("").unwrap() == path);
        let is_fixed = self.objects.lock().fixed.contains_key(path);
        served.filter(|it| !is_fixed && !state.down.contains(&it.api_version)).map(|it| it.kind.clone())
    }

    fn list(&self, path: &str, kind: &str) -> (u16, Value) {
        let objects = self.objects.lock();
        let of_path = objects.objects.values().filter(|object| list_path(object) == path).cloned();
        let more = self.more(path);
        let items: Vec<_> = of_path.chain(more).collect();
        let version = objects.version.to_string();
        (
            200,
            json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}),
        )
    }

    fn more(&self, path: &str) -> Option<Value> {
        let mut state = self.state();
        let more = state.more.get_mut(path)?;
        let is_shown = more.after == 0;
        more.after = more.after.saturating_sub(1);
        is_shown.then(|| more.object.clone())
    }

    fn discovery(&self, is_of: impl Fn(&str) -> bool) -> Value {
        let state = self.state();
        let mut groups = BTreeMap::<String, Vec<Value>>::new();
        for it in state.served.iter().filter(|it| is_of(&it.group())) {
            let scope = if it.namespaced { "Namespaced" } else { "Cluster" };
            let resource =
                json!({"resource": it.resource, "responseKind": {"kind": it.kind}, "scope": scope, "verbs": it.verbs});
            let is_down = state.down.contains(&it.api_version);
            let freshness = if is_down { "Stale" } else { "Current" };
            let resources = if is_down { json!([]) } else { json!([resource]) };
            let version = it.api_version.rsplit('/').next().unwrap();
            let version = json!({"version": version, "freshness": freshness, "resources": resources});
            groups.entry(it.group()).or_default().push(version);
        }
        let groups =
            groups.into_iter().map(|(name, versions)| json!({"metadata": {"name": name}, "versions": versions}));
        json!({"kind": "APIGroupDiscoveryList", "items": groups.collect::<Vec<_>>()})
    }

    /// Writes the events of a watch, for four minutes.
    async fn follow(self, path: String, from: usize, mut body: Sender<Bytes, BoxError>) -> Result<(), BoxError> {
        let (mut changed, mut at) = (self.changed.subscribe(), from);
        let end = Instant::now() + Duration::from_mins(4);
        loop {
            let lines: Vec<_> = self.state().events.get(at..).unwrap_or_default().to_vec();
            at += lines.len();
            for (_, line) in lines.into_iter().filter(|(of, _)| *of == path) {
                body.send_data(format!("{line}\n").into()).await?;
                if line["type"] == "ERROR" {
                    return Ok(());
                }
            }
            if timeout_at(end, changed.changed()).await.is_err() {
                return Ok(());
            }
        }
    }
}

fn list_path(object: &Value) -> String {
    let kind = super::kind(object);
    let resource = super::super::resource_of(&kind.api_version, &super::resource_name(object), "", true, true);
    resource.path("").unwrap()
}
