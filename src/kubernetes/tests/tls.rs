//! Tests of real connections: certificates, tokens, and their replacement while kubegc runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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

use super::seconds;
use crate::kubernetes::{Connection, CredentialCandidates, KubernetesError};

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
}

#[derive(Default)]
struct Known {
    certificate: Option<CertificateDer<'static>>,
    token: Option<String>,
}

// === impl Server ===

impl Server {
    async fn start() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, known) = (listener.local_addr().unwrap().port(), Arc::default());
        tokio::spawn(accept(listener, acceptor(&authority), Arc::clone(&known)));
        Self { dir: tempfile::tempdir().unwrap(), authority, port, known }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns a connection by a kubeconfig that trusts `authority` and has this user.
    fn connection(&self, authority: &Authority, user: &str) -> Connection {
        self.write("ca.crt", &authority.pem());
        let text = format!(
            "{{current-context: x, contexts: [{{name: x, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, \
             cluster: {{server: 'https://127.0.0.1:{}', certificate-authority: ca.crt}}}}], \
             users: [{{name: u, user: {{{user}}}}}]}}",
            self.port
        );
        let kubeconfig = Some(self.write("kubeconfig", &text));
        Connection::new(CredentialCandidates { kubeconfig, ..CredentialCandidates::default() })
    }
}

fn identity(authority: &Authority) -> Identity {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
    Identity { certificate: certificate.der().clone(), pem, key }
}

fn acceptor(authority: &Authority) -> TlsAcceptor {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let clients = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
    let own = identity(authority);
    let key = PrivateKeyDer::Pkcs8(own.key.serialize_der().into());
    let config = ServerConfig::builder().with_client_cert_verifier(clients);
    TlsAcceptor::from(Arc::new(config.with_single_cert(vec![own.certificate], key).unwrap()))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, known: Arc<Mutex<Known>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // A client that does not trust the server closes the connection.
        tokio::spawn(serve(acceptor.clone(), stream, Arc::clone(&known)));
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, known: Arc<Mutex<Known>>) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first().cloned());
    let certificate = certificate.map(CertificateDer::into_owned);
    let mut head = Vec::new();
    while stream.read_buf(&mut head).await? > 0 {
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
        let is_known = known.lock().unwrap().accepts(certificate.as_ref(), &text);
        let (code, body) = if is_known {
            ("200 OK", r#"{"kind":"Node"}"#)
        } else {
            ("401 Unauthorized", r#"{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}"#)
        };
        let answer = format!("HTTP/1.1 {code}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
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
    connection.request("look", request, seconds(10)).await
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
    assert_eq!(get(&connection).await.unwrap_err().code(), Some(401));
    link(&server.write("2.pem", &second.pem), &current);
    assert!(get(&connection).await.is_ok());
}

#[tokio::test]
async fn a_token_that_is_replaced_is_read_again_as_soon_as_the_old_one_is_refused() {
    let server = Server::start().await;
    server.write("token", "first");
    let connection = server.connection(&server.authority, "tokenFile: token");
    server.known.lock().unwrap().token = Some("first".to_owned());
    assert!(get(&connection).await.is_ok());
    server.known.lock().unwrap().token = Some("second".to_owned());
    server.write("token", "second");
    assert!(get(&connection).await.is_ok());
}

#[tokio::test]
async fn a_server_that_another_authority_vouches_for_is_not_spoken_to() {
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
