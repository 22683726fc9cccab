//! Tests of real connections: certificates, tokens, and their replacement while kubegc runs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use http::{Response, header};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use kube::core::Request;
use kube::core::params::GetParams;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::seconds;
use crate::kubernetes::{Connection, CredentialCandidates, ExecPlugins, KubernetesError};

const NODE: &str = r#"{"kind":"Node"}"#;
const UNAUTHORIZED: &str = r#"{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}"#;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// A certificate and its key.
struct Identity {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

/// A server that accepts one client by certificate or token, and answers 401 to all others.
struct Server {
    dir: TempDir,
    authority: Authority,
    port: u16,
    known: Arc<Mutex<Known>>,
    /// The TCP connections so far.
    connections: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Known {
    certificate: Option<CertificateDer<'static>>,
    token: Option<String>,
}

// === impl Server ===

impl Server {
    /// Starts a server that has HTTP/1.1 only.
    async fn start() -> Self {
        Self::offering(&[]).await
    }

    /// Starts a server that offers these protocols, as `h2`.
    async fn offering(protocols: &[&str]) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, known) = (listener.local_addr().unwrap().port(), Arc::default());
        let connections = Arc::default();
        let acceptor = acceptor(&authority, protocols);
        tokio::spawn(accept(listener, acceptor, Arc::clone(&known), Arc::clone(&connections)));
        Self { dir: tempfile::tempdir().unwrap(), authority, port, known, connections }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns a connection by a kubeconfig that trusts `authority` and has this user.
    fn connection(&self, authority: &Authority, user: &str) -> Connection {
        Connection::new(self.credentials(authority, user))
    }

    fn credentials(&self, authority: &Authority, user: &str) -> CredentialCandidates {
        self.write("ca.crt", &authority.pem());
        let text = format!(
            "{{current-context: x, contexts: [{{name: x, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, \
             cluster: {{server: 'https://127.0.0.1:{}', certificate-authority: ca.crt}}}}], \
             users: [{{name: u, user: {{{user}}}}}]}}",
            self.port
        );
        let kubeconfigs = vec![self.write("kubeconfig", &text)];
        CredentialCandidates { kubeconfigs, ..CredentialCandidates::default() }
    }
}

fn identity(authority: &Authority) -> Identity {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
    Identity { certificate: certificate.der().clone(), pem, key }
}

fn acceptor(authority: &Authority, protocols: &[&str]) -> TlsAcceptor {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let clients = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
    let own = identity(authority);
    let key = PrivateKeyDer::Pkcs8(own.key.serialize_der().into());
    let config = ServerConfig::builder().with_client_cert_verifier(clients);
    let mut config = config.with_single_cert(vec![own.certificate], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, known: Arc<Mutex<Known>>, connections: Arc<AtomicUsize>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::Relaxed);
        // A client that does not trust the server closes the connection.
        tokio::spawn(serve(acceptor.clone(), stream, Arc::clone(&known)));
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, known: Arc<Mutex<Known>>) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        serve_http2(stream, known).await;
        return Ok(());
    }
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first().cloned());
    let certificate = certificate.map(CertificateDer::into_owned);
    let mut head = Vec::new();
    while stream.read_buf(&mut head).await? > 0 {
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
        let is_known = known.lock().unwrap().accepts(certificate.as_ref(), &text);
        let (code, body) = if is_known { ("200 OK", NODE) } else { ("401 Unauthorized", UNAUTHORIZED) };
        let answer = format!("HTTP/1.1 {code}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

/// Answers to tokens only.
async fn serve_http2(stream: TlsStream<TcpStream>, known: Arc<Mutex<Known>>) {
    let answer = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let authorization = request.headers().get(header::AUTHORIZATION).map_or("", |it| it.to_str().unwrap());
        let is_known = known.lock().unwrap().accepts(None, &format!("authorization: {authorization}\r\n"));
        let (code, body) = if is_known { (200, NODE) } else { (401, UNAUTHORIZED) };
        let answer = Response::builder().status(code).body(body.to_owned()).unwrap();
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The client ends it.
    let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
}

// === impl Known ===

impl Known {
    fn accepts(&self, certificate: Option<&CertificateDer<'static>>, head: &str) -> bool {
        let by_certificate = self.certificate.as_ref().is_some_and(|known| certificate == Some(known));
        by_certificate
            || self.token.as_ref().is_some_and(|token| head.contains(&format!("authorization: Bearer {token}\r\n")))
    }
}

async fn get(connection: &Connection) -> Result<Value, KubernetesError> {
    let request = Request::new("/api/v1/nodes").get("x", &GetParams::default()).unwrap();
    connection.request(request, seconds(10)).await.map_err(|cause| cause.of("look"))
}

fn link(target: &Path, link: &Path) {
    let new = link.with_extension("new");
    std::os::unix::fs::symlink(target, &new).unwrap();
    std::fs::rename(new, link).unwrap();
}

#[tokio::test]
async fn a_client_certificate_that_is_replaced_is_read_again() {
    let server = Server::start().await;
    let (first, second) = (identity(&server.authority), identity(&server.authority));
    let current = server.dir.path().join("current.pem");
    link(&server.write("1.pem", &first.pem), &current);
    let connection = server.connection(&server.authority, "client-certificate: current.pem, client-key: current.pem");
    server.known.lock().unwrap().certificate = Some(first.certificate);
    assert!(get(&connection).await.is_ok());
    server.known.lock().unwrap().certificate = Some(second.certificate);
    assert_eq!(get(&connection).await.unwrap_err().cause.code(), Some(401));
    link(&server.write("2.pem", &second.pem), &current);
    assert!(get(&connection).await.is_ok());
}

#[tokio::test]
async fn a_refused_token_is_reread_from_its_file() {
    let server = Server::start().await;
    server.write("token", "first");
    let connection = server.connection(&server.authority, "tokenFile: token");
    server.known.lock().unwrap().token = Some("first".to_owned());
    assert!(get(&connection).await.is_ok());
    server.known.lock().unwrap().token = Some("second".to_owned());
    server.write("token", "second");
    assert!(get(&connection).await.is_ok());
}

/// The clock of a test with a plugin, in seconds.
static NOW: AtomicI64 = AtomicI64::new(0);

/// A plugin that prints the content of the file `token`, which expires at 100 s.
const PLUGIN: &str = r#"#!/bin/sh
cd "${0%/*}"; echo >>runs
cat <<END
{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
 "status": {"token": "$(cat token)", "expirationTimestamp": "1970-01-01T00:01:40Z"}}
END
"#;

#[tokio::test]
async fn a_plugin_reruns_for_a_refused_or_expired_token() {
    let server = Server::start().await;
    let script = server.write("plugin", PLUGIN);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let runs = || std::fs::read_to_string(server.dir.path().join("runs")).unwrap().lines().count();
    let user = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}";
    let candidates = server.credentials(&server.authority, user);
    let clock: fn() -> Timestamp = || Timestamp::from_second(NOW.load(Ordering::Relaxed)).unwrap();
    let error = get(&Connection::new(candidates.clone())).await.unwrap_err().to_string();
    assert!(error.contains("pods.exec_plugins = true"), "{error}");
    let candidates = CredentialCandidates { plugins: ExecPlugins::ByPerson, clock: Some(clock), ..candidates };
    let connection = Connection::new(candidates);
    for (token, now, run) in [("first", 0, 1), ("first", 99, 1), ("second", 99, 2), ("second", 100, 3)] {
        server.write("token", token);
        server.known.lock().unwrap().token = Some(token.to_owned());
        NOW.store(now, Ordering::Relaxed);
        get(&connection).await.unwrap();
        assert_eq!(runs(), run, "{token} at {now}");
    }
}

/// The limit of a request begins after the plugin of a command has ended, however long a person needed to log in.
#[tokio::test]
async fn a_slow_plugin_does_not_reduce_the_request_limit() {
    let server = Server::start().await;
    let script = server.write("plugin", &PLUGIN.replace("#!/bin/sh\n", "#!/bin/sh\nsleep 3\n"));
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    server.write("token", "first");
    server.known.lock().unwrap().token = Some("first".to_owned());
    let user = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}";
    let candidates = server.credentials(&server.authority, user);
    let candidates = CredentialCandidates { plugins: ExecPlugins::ByPerson, ..candidates };
    let request = Request::new("/api/v1/nodes").get("x", &GetParams::default()).unwrap();
    let connection = Connection::new(candidates).repeating();
    connection.request::<Value>(request, seconds(2)).await.unwrap();
}

#[tokio::test]
async fn a_server_of_another_authority_receives_no_request() {
    let server = Server::start().await;
    let stranger = Server::start().await;
    let connection = server.connection(&stranger.authority, "token: first");
    server.known.lock().unwrap().token = Some("first".to_owned());
    let text = get(&connection).await.unwrap_err().to_string();
    assert!(text.starts_with("cannot look: the API server cannot be reached: "), "{text}");
    assert!(text.contains("certificate"), "{text}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported() {
    let server = Server::start().await;
    let connection = server.connection(&server.authority, "token: first");
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let kubeconfig = server.dir.path().join("kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).unwrap().replace(&server.port.to_string(), &port.to_string());
    std::fs::write(&kubeconfig, text).unwrap();
    let text = get(&connection).await.unwrap_err().to_string();
    assert!(text.contains("Connection refused"), "{text}");
}

/// Makes a call, then 20 at once.
async fn get_21(connection: &Connection) -> Vec<Result<Value, KubernetesError>> {
    let first = get(connection).await;
    let others = join_all((0..20).map(|_| get(connection))).await;
    std::iter::once(first).chain(others).collect()
}

#[tokio::test]
async fn calls_share_a_connection_if_the_server_permits_that() {
    let server = Server::offering(&["h2", "http/1.1"]).await;
    server.known.lock().unwrap().token = Some("first".to_owned());
    let candidates = server.credentials(&server.authority, "token: first");
    let connection = Connection::multiplexed(candidates.clone());
    assert!(get_21(&connection).await.iter().all(Result::is_ok));
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    // Watches have others, so that none waits for a free stream or for the reader of another one.
    let mut watches = Vec::new();
    for _ in 0..200 {
        let request = Request::new("/api/v1/nodes").get("x", &GetParams::default()).unwrap();
        watches.push(connection.watch(request, seconds(10)).await.unwrap());
    }
    assert_eq!((server.connections.load(Ordering::Relaxed), watches[0].0.version()), (4, http::Version::HTTP_2));
    // One that ends leaves its place to the next one.
    watches.truncate(100);
    for _ in 0..100 {
        let request = Request::new("/api/v1/nodes").get("x", &GetParams::default()).unwrap();
        watches.push(connection.watch(request, seconds(10)).await.unwrap());
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_server_without_http2_answers_multiplexed_calls() {
    let server = Server::start().await;
    server.known.lock().unwrap().token = Some("first".to_owned());
    let connection = Connection::multiplexed(server.credentials(&server.authority, "token: first"));
    assert!(get_21(&connection).await.iter().all(Result::is_ok));
    assert!(server.connections.load(Ordering::Relaxed) > 1);
}

#[tokio::test]
async fn a_shared_connection_rereads_tokens_and_verifies_servers() {
    let server = Server::offering(&["h2"]).await;
    server.write("token", "first");
    let connection = Connection::multiplexed(server.credentials(&server.authority, "tokenFile: token"));
    server.known.lock().unwrap().token = Some("first".to_owned());
    assert!(get(&connection).await.is_ok());
    server.known.lock().unwrap().token = Some("second".to_owned());
    server.write("token", "second");
    assert!(get(&connection).await.is_ok());
    let stranger = Server::start().await;
    let connection = Connection::multiplexed(server.credentials(&stranger.authority, "token: second"));
    let text = get(&connection).await.unwrap_err().to_string();
    assert!(
        text.starts_with("cannot look: the API server cannot be reached: ") && text.contains("certificate"),
        "{text}"
    );
}
