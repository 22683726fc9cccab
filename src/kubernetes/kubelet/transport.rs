//! The connection to the kubelet: the credentials to send, and the verification of the kubelet's certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderValue, Uri};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::KubeletError;
use crate::host_path::HostFs;

/// The kubelet's own serving certificates beneath its root: the self-signed one, and the one that the cluster signed.
const OWN: [&str; 2] = ["pki/kubelet.crt", "pki/kubelet-server-current.pem"];

/// The access to the kubelet. [`HostFs::locate`] finds the files.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletAccess {
    /// The kubelet's address: `https://HOST:PORT`, or `http://HOST:PORT` for the read-only port.
    pub endpoint: String,
    /// The node's name, which is in a certificate that the cluster signed.
    pub node: String,
    /// The authorities, or the kubelet's own certificate; `None` = the certificates beneath its root and the service
    /// account's authority.
    pub ca: Option<PathBuf>,
    /// The token to send; `None` = the service account's token, if there is one.
    pub token_file: Option<PathBuf>,
    /// The client certificate to send and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The directory of a pod's service account, as this process sees it.
    pub account: PathBuf,
    /// The host.
    pub host: HostFs,
    /// The kubelet's directory, on the host.
    pub kubelet_root: PathBuf,
}

/// A connection that is ready to open: all files are read.
pub(super) struct Transport {
    authority: String,
    token: Option<HeaderValue>,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A plain or a TLS connection.
pub(super) type Stream = Box<dyn Duplex>;

/// A stream that can be read and written.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Accepts a server with one of the expected certificates, whatever names it contains. Also accepts a certificate that
/// an authority signed for one of the kubelet's names.
#[derive(Debug)]
struct Expected {
    certificates: Vec<CertificateDer<'static>>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    names: Vec<ServerName<'static>>,
    provider: Arc<CryptoProvider>,
}

// === impl KubeletAccess ===

impl KubeletAccess {
    /// Reads all files that the connection needs.
    pub(super) fn transport(&self) -> Result<Transport, KubeletError> {
        let unusable = |cause: String| KubeletError::UseEndpoint { endpoint: self.endpoint.clone(), cause };
        let address: Uri = self.endpoint.parse().map_err(|error: http::uri::InvalidUri| unusable(error.to_string()))?;
        let port = address.port_u16().unwrap_or(if self.is_plain() { 10255 } else { 10250 });
        let host = address.host().ok_or_else(|| unusable("it names no host".to_owned()))?;
        let authority = format!("{host}:{port}");
        if self.is_plain() {
            return Ok(Transport { authority, token: None, tls: None });
        }
        let names = self.names(host);
        let name = names.first().cloned().ok_or_else(|| unusable("its host is no name".to_owned()))?;
        let config = self.tls(names)?;
        Ok(Transport { authority, token: self.token()?, tls: Some((Arc::new(config), name)) })
    }

    fn is_plain(&self) -> bool {
        self.endpoint.starts_with("http://")
    }

    /// Returns the names that the kubelet's certificate may contain.
    fn names(&self, host: &str) -> Vec<ServerName<'static>> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        [&self.node, host].into_iter().filter_map(|name| ServerName::try_from(name.to_owned()).ok()).collect()
    }

    fn token(&self) -> Result<Option<HeaderValue>, KubeletError> {
        let path = match &self.token_file {
            Some(path) => path.clone(),
            None if self.account.join("token").exists() => self.account.join("token"),
            None => return Ok(None),
        };
        let unusable = |_| KubeletError::UseFile { path: path.clone(), cause: "not a token".to_owned() };
        let text = String::from_utf8_lossy(&self.read(&path)?).trim().to_owned();
        let mut token = HeaderValue::try_from(format!("Bearer {text}")).map_err(unusable)?;
        token.set_sensitive(true);
        Ok(Some(token))
    }

    fn tls(&self, names: Vec<ServerName<'static>>) -> Result<ClientConfig, KubeletError> {
        let provider = Arc::new(ring::default_provider());
        let expected = Expected::new(self.expected()?, names, Arc::clone(&provider));
        let unusable = |error: rustls::Error| KubeletError::UseEndpoint {
            endpoint: self.endpoint.clone(),
            cause: error.to_string(),
        };
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(unusable)?.dangerous().with_custom_certificate_verifier(Arc::new(expected));
        let Some((certificate, key)) = &self.client else { return Ok(builder.with_no_client_auth()) };
        let chain = certificates(certificate, &self.read(certificate)?)?;
        let of_key = |cause: String| KubeletError::UseFile { path: key.clone(), cause };
        let read = PrivateKeyDer::from_pem_slice(&self.read(key)?).map_err(|error| of_key(error.to_string()))?;
        builder.with_client_auth_cert(chain, read).map_err(|error| of_key(error.to_string()))
    }

    /// Returns the certificates that the kubelet's certificate is verified against.
    fn expected(&self) -> Result<Vec<CertificateDer<'static>>, KubeletError> {
        if let Some(path) = &self.ca {
            return certificates(path, &self.read(path)?);
        }
        let own = OWN.iter().map(|name| self.kubelet_root.join(name));
        let tried: Vec<PathBuf> = own.chain([self.account.join("ca.crt")]).collect();
        let mut trusted = Vec::new();
        for path in tried.iter().filter(|path| self.host.locate(path).existing().is_some()) {
            trusted.extend(certificates(path, &self.read(path)?)?);
        }
        if trusted.is_empty() { Err(KubeletError::FindAuthority { tried }) } else { Ok(trusted) }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, KubeletError> {
        let unread = |source| KubeletError::ReadFile { path: path.to_owned(), source };
        let path_here = self.host.locate(path).existing().ok_or_else(|| unread(io::ErrorKind::NotFound.into()))?;
        std::fs::read(path_here).map_err(unread)
    }
}

// === impl Transport ===

impl Transport {
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn token(&self) -> Option<HeaderValue> {
        self.token.clone()
    }

    pub(super) async fn open(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect(&self.authority).await?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((config, name)) => {
                Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream).await?))
            }
        }
    }
}

// === impl Expected ===

impl Expected {
    fn new(
        certificates: Vec<CertificateDer<'static>>,
        names: Vec<ServerName<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        // If no certificate can be an authority, only a server with exactly one of these certificates is accepted.
        let authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().ok();
        Self { certificates, authorities, names, provider }
    }
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.contains(server) {
            return Ok(ServerCertVerified::assertion());
        }
        let mut verdict = Err(rustls::Error::General("it is not the certificate that was expected".to_owned()));
        for (name, authorities) in self.names.iter().filter_map(|name| Some((name, self.authorities.as_ref()?))) {
            verdict = authorities.verify_server_cert(server, intermediates, name, ocsp, now);
            if verdict.is_ok() {
                break;
            }
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, KubeletError> {
    let unusable = |cause: String| KubeletError::UseFile { path: path.to_owned(), cause };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let read = read.map_err(|error| unusable(error.to_string()))?;
    if read.is_empty() { Err(unusable("there is no certificate in it".to_owned())) } else { Ok(read) }
}
