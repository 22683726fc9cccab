//! One port that is an API server with and without TLS, an HTTP proxy and a SOCKS proxy. It refuses every request, and notes
//! who sent it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, ServerConnection, SignatureScheme, StreamOwned,
    client::danger::HandshakeSignatureValid,
};

/// The name in the server's certificate, beside 127.0.0.1.
pub const NAME: &str = "api.example.com";
const FORBIDDEN: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}"#;
const UNAUTHORIZED: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Unauthorized","code":401}"#;

/// The server. All its roles have one port.
pub struct Server {
    pub port: u16,
    pub authority: String,
    seen: Arc<Mutex<BTreeSet<String>>>,
}

/// A connection through which requests arrive.
trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

// === impl Server ===

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (tls, authority) = tls();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Mutex<BTreeSet<_>>>::default());
        let noted = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (tls, noted) = (Arc::clone(&tls), Arc::clone(&noted));
                // A client that does not like the server closes the connection.
                thread::spawn(move || serve(stream.unwrap(), &tls, &noted, ""));
            }
        });
        Self { port, authority, seen }
    }

    /// Returns what was seen since the last call: for each request how it came and who sent it.
    pub fn seen(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn serve(mut tcp: TcpStream, tls: &Arc<ServerConfig>, seen: &Mutex<BTreeSet<String>>, way: &str) -> Option<()> {
    let mut first = [0];
    tcp.peek(&mut first).ok()?;
    match first[0] {
        0x16 => {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(tls)).unwrap(), tcp);
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock).ok()?;
            }
            let name = stream.conn.server_name().unwrap_or("no name").to_owned();
            let certificate = stream.conn.peer_certificates().and_then(|chain| chain.first().map(fingerprint));
            answer(&mut stream, &format!("{way}TLS {name} {certificate:?}"), seen)
        }
        5 => {
            let target = accept_socks(&mut tcp)?;
            serve(tcp, tls, seen, &format!("{way}SOCKS {target} "))
        }
        b'C' => {
            let head = head(&mut tcp)?;
            tcp.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
            let target = head.split(' ').nth(1)?.to_owned();
            let authorization = header(&head, "proxy-authorization").join(" ");
            serve(tcp, tls, seen, &format!("{way}CONNECT {target} {authorization} "))
        }
        _ => answer(&mut tcp, &format!("{way}plain"), seen),
    }
}

/// Accepts a connection by SOCKS 5 without a password, and returns its target.
fn accept_socks(tcp: &mut TcpStream) -> Option<String> {
    let mut greeting = [0; 2];
    tcp.read_exact(&mut greeting).ok()?;
    tcp.read_exact(&mut vec![0; greeting[1].into()]).ok()?;
    tcp.write_all(&[5, 0]).ok()?;
    let mut request = [0; 5];
    tcp.read_exact(&mut request).ok()?;
    let rest = if request[3] == 3 { usize::from(request[4]) + 2 } else { 5 };
    let mut target = vec![0; rest];
    tcp.read_exact(&mut target).ok()?;
    tcp.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
    let host = String::from_utf8_lossy(&target[..rest - 2]).into_owned();
    Some(if request[3] == 3 { host } else { "an address".to_owned() })
}

/// Refuses each request of a connection.
fn answer(stream: &mut dyn Duplex, way: &str, seen: &Mutex<BTreeSet<String>>) -> Option<()> {
    loop {
        let head = head(stream)?;
        let mut who: Vec<_> = ["authorization", "impersonate"].iter().flat_map(|name| header(&head, name)).collect();
        who.sort();
        let expired = who.iter().any(|line| line.contains("expired"));
        seen.lock().unwrap().insert(format!("{way} {}", who.join(", ")));
        let (code, body) = if expired { ("401 Unauthorized", UNAUTHORIZED) } else { ("403 Forbidden", FORBIDDEN) };
        let length = body.len();
        let text =
            format!("HTTP/1.1 {code}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).ok()?;
    }
}

/// Returns the headers whose names begin so.
fn header(head: &str, name: &str) -> Vec<String> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let found = lines.filter(|(found, _)| found.to_lowercase().starts_with(name));
    found.map(|(found, value)| format!("{}={value}", found.to_lowercase())).collect()
}

fn head(stream: &mut (impl Read + ?Sized)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    format!("{:?}", &Sha256::digest(certificate)[..4])
}

/// Returns the server's side of TLS, and its authority.
fn tls() -> (Arc<ServerConfig>, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(vec![NAME.to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let own = names.signed_by(&key, &authority).unwrap();
    let config = ServerConfig::builder().with_client_cert_verifier(Arc::new(AnyClient(ring::default_provider())));
    let config = config.with_single_cert(vec![own.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()));
    (Arc::new(config.unwrap()), authority.pem())
}

/// Accepts every client certificate whose key the client has.
#[derive(Debug)]
struct AnyClient(CryptoProvider);

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    /// A certificate of version 1 cannot be parsed here. The client has shown it, which is all that a test looks for.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms).or(Ok(HandshakeSignatureValid::assertion()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
