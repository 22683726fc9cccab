//! A fake kubelet with configurable answers over real sockets: plain or TLS, with or without client certificates.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::host_path::HostFs;
use crate::kubernetes::{Kubelet, KubeletAccess};

/// The default date of every answer.
pub const NOON: &str = "Fri, 02 Jan 2026 12:00:00 GMT";

/// An authority that signs certificates for one test. `ca` is its own certificate.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub ca: String,
}

/// A certificate with its key, both as PEM.
pub struct TlsIdentity {
    pub certificate: String,
    pub key: String,
}

/// A fake kubelet that listens on a port. Dropping it stops the server.
pub struct FakeKubelet {
    port: u16,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
    scheme: &'static str,
    /// The files on the agent's host.
    pub host: tempfile::TempDir,
}

struct State {
    date: String,
    answers: HashMap<&'static str, (u16, String)>,
    /// The requests so far, each with the token that was sent.
    requests: Vec<(String, Option<String>)>,
}

// === impl Authority ===

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), ca }
    }

    /// Creates a certificate for this name, signed by the authority.
    pub fn identity(&self, name: &str) -> TlsIdentity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        TlsIdentity { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

// === impl TlsIdentity ===

impl TlsIdentity {
    /// Creates a self-signed certificate.
    pub fn own(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        Self { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }
}

// === impl FakeKubelet ===

impl FakeKubelet {
    /// Starts a kubelet with the read-only port.
    pub async fn plain() -> Self {
        Self::listen(None).await
    }

    /// Starts a kubelet with the TLS port and this certificate. If `clients` is set, it signs the client certificates.
    pub async fn tls(identity: &TlsIdentity, clients: Option<&Authority>) -> Self {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = match clients {
            None => builder.unwrap().with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.ca.as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.unwrap().with_client_cert_verifier(verifier.unwrap())
            }
        };
        let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        Self::listen(Some(TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap())))).await
    }

    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { date: NOON.to_owned(), answers: HashMap::new(), requests: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let task = tokio::spawn(accept(listener, tls, Arc::clone(&state)));
        let kubelet = Self { port, state, task, scheme, host: tempfile::tempdir().unwrap() };
        kubelet.set_answer("/healthz", 200, "ok");
        kubelet
    }

    /// Sets the answer for a path.
    pub fn set_answer(&self, path: &'static str, code: u16, text: impl Into<String>) {
        self.lock().answers.insert(path, (code, text.into()));
    }

    /// Sets the pods, as JSON.
    pub fn set_pods(&self, pods: &[serde_json::Value]) {
        let list = serde_json::json!({"kind": "PodList", "apiVersion": "v1", "items": pods});
        self.set_answer("/pods", 200, list.to_string());
    }

    /// Sets the date of the answers; empty = none.
    pub fn set_date(&self, date: &str) {
        date.clone_into(&mut self.lock().date);
    }

    /// Returns the requests so far, each with the token that was sent.
    pub fn requests(&self) -> Vec<(String, Option<String>)> {
        self.lock().requests.clone()
    }

    /// Returns the access to this kubelet with no optional setting.
    pub fn access(&self) -> KubeletAccess {
        KubeletAccess {
            endpoint: format!("{}://127.0.0.1:{}", self.scheme, self.port),
            node: "n1".to_owned(),
            ca: None,
            token_file: None,
            client: None,
            account: self.host.path().join("account"),
            host: HostFs::new(self.host.path()),
            kubelet_root: "/kubelet".into(),
        }
    }

    /// Creates a file on its host and returns the host's path of it.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.host.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        PathBuf::from("/").join(name)
    }

    /// Returns a client for this kubelet with no optional setting.
    pub fn client(&self) -> Kubelet {
        Kubelet::new(self.access())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<Mutex<State>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, tls.clone(), Arc::clone(&state)));
    }
}

async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, state: Arc<Mutex<State>>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &mut state.lock().unwrap_or_else(PoisonError::into_inner));
        async { Ok::<_, Infallible>(answer) }
    });
    // The server ignores a client that closes the connection.
    let _ended = match tls {
        None => http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok(),
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok(),
            Err(_) => None,
        },
    };
}

fn answer(request: &Request<Incoming>, state: &mut State) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let token = request.headers().get("authorization").map(|token| token.to_str().unwrap().to_owned());
    let (code, text) = state.answers.get(path.as_str()).cloned().unwrap_or((404, "no such page".to_owned()));
    state.requests.push((path, token));
    Response::builder().status(code).header("date", &state.date).body(Full::from(text)).unwrap()
}
