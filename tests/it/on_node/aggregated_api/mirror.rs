//! The server of an aggregated API with one resource, `mirrors`.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Failure = Box<dyn std::error::Error + Send + Sync>;

pub const GROUP: &str = "mirror.example.com";

/// An object of the mirror: its name, its uid, its owner references.
type Mirrored<'a> = (&'a str, &'a str, &'a [Value]);

pub struct MirrorApi {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: Vec<Value>,
    is_empty: bool,
    lists_when_empty: usize,
    watches: Vec<Sender<Bytes, Failure>>,
    opened: usize,
}

// === impl MirrorApi ===

impl MirrorApi {
    pub async fn start(objects: &[Mirrored<'_>]) -> Self {
        let object = |&(name, uid, owners): &Mirrored<'_>| {
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Mirror", "metadata": {"name": name,
                "namespace": "default", "uid": uid, "resourceVersion": "5", "ownerReferences": owners}})
        };
        let state = State { objects: objects.iter().map(object).collect(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(accept(listener, acceptor(), Arc::clone(&state)));
        Self { port, state }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many watches were opened.
    pub fn watches(&self) -> usize {
        self.state().opened
    }

    /// All watches show that an object was deleted.
    pub fn deletes(&self, name: &str) {
        let mut state = self.state();
        let mut object = state.objects.iter().find(|object| object["metadata"]["name"] == name).unwrap().clone();
        object["metadata"]["resourceVersion"] = "6".into();
        let line = Bytes::from(format!("{}\n", json!({"type": "DELETED", "object": object})));
        for watch in &mut state.watches {
            let _ = watch.try_send(hyper::body::Frame::data(line.clone()));
        }
    }

    /// Lists are empty from now on, and all watches end with an expired version.
    pub fn lists_nothing(&self) {
        let mut state = self.state();
        state.is_empty = true;
        let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
        let line = Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})));
        for mut watch in state.watches.drain(..) {
            let _ = watch.try_send(hyper::body::Frame::data(line.clone()));
        }
    }

    /// Returns how many lists were empty.
    pub fn lists_after_that(&self) -> usize {
        self.state().lists_when_empty
    }

    pub fn lists_all(&self) {
        self.state().is_empty = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

// === impl State ===

impl State {
    fn answer(&mut self, path: &str) -> (u16, Value) {
        let resource = json!({"name": "mirrors", "singularName": "mirror", "namespaced": true, "kind": "Mirror",
            "verbs": ["delete", "get", "list", "patch", "watch"]});
        let version = json!({"groupVersion": format!("{GROUP}/v1"), "version": "v1"});
        let parts: Vec<_> = path.trim_start_matches("/apis/").split('/').collect();
        match parts[..] {
            [GROUP, "v1"] => (
                200,
                json!({"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": version["groupVersion"], "resources": [resource]}),
            ),
            [GROUP] => (
                200,
                json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version],
                "preferredVersion": version}),
            ),
            [GROUP, "v1", "mirrors"] => {
                self.lists_when_empty += usize::from(self.is_empty);
                let items = if self.is_empty { json!([]) } else { json!(self.objects) };
                (
                    200,
                    json!({"kind": "MirrorList", "apiVersion": format!("{GROUP}/v1"),
                    "metadata": {"resourceVersion": "5"}, "items": items}),
                )
            }
            [GROUP, "v1", "namespaces", "default", "mirrors", name] => {
                let object = self.objects.iter().find(|object| object["metadata"]["name"] == name);
                let details = json!({"group": GROUP, "kind": "mirrors", "name": name});
                object.map_or((404, status(404, "NotFound", &details)), |object| (200, object.clone()))
            }
            _ => (404, status(404, "NotFound", &json!({}))),
        }
    }
}

fn status(code: u16, reason: &str, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": reason, "details": details})
}

fn acceptor() -> TlsAcceptor {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    TlsAcceptor::from(Arc::new(config.with_single_cert(vec![cert.der().clone()], key).unwrap()))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            let stream = acceptor.accept(stream).await?;
            let service = service_fn(|request| respond(request, Arc::clone(&state)));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            connection.await?;
            Ok::<_, Failure>(())
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Channel<Bytes, Failure>>, Failure> {
    let (mut sender, body) = Channel::new(8);
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
    let code = if is_watch && request.uri().path().ends_with("/mirrors") {
        let mut state = state.lock().unwrap();
        state.opened += 1;
        state.watches.push(sender);
        200
    } else {
        let (code, answer) = state.lock().unwrap().answer(request.uri().path());
        sender.send_data(answer.to_string().into()).await?;
        code
    };
    Ok(Response::builder().status(code).header("content-type", "application/json").body(body)?)
}
