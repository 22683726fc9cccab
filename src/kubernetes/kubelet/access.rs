//! The access to the kubelet: the credentials to send, and the verification of the kubelet's certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Uri;
use kube::Config;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::KubeletError;
use crate::host_path::HostFs;
use crate::kubernetes::credentials::target::{Target, check_token};
use crate::kubernetes::credentials::tls::{certificates, identity, provider};
use crate::kubernetes::kubernetes_error::paths;

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
    pub host: HostFs,
    /// The kubelet's directory, on the host.
    pub kubelet_root: PathBuf,
}

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
    /// Reads all files that a request needs. The read-only port gets no credentials.
    pub(super) fn target(&self) -> Result<Target, KubeletError> {
        let address: Uri = self.endpoint.parse().map_err(|error| self.no_address(error))?;
        let host = address.host().ok_or_else(|| self.no_address("it names no host"))?;
        let (scheme, port) = if address.scheme_str() == Some("http") { ("http", 10255) } else { ("https", 10250) };
        let url = format!("{scheme}://{host}:{}", address.port_u16().unwrap_or(port));
        let mut target = Target::of(Config::new(url.parse().map_err(|error| self.no_address(error))?));
        // The verifier decides what to accept. Without this the client needs the authorities of the system, which an image
        // does not have.
        target.config.root_cert = Some(Vec::new());
        if scheme == "https" {
            target.verifier = Some(Arc::new(Expected::new(self.expected()?, self.names(host))));
            target.identity =
                self.client.as_ref().map(|(certificate, key)| self.identity(certificate, key)).transpose()?;
            self.read_token(&mut target)?;
        }
        Ok(target)
    }

    fn no_address(&self, cause: impl std::fmt::Display) -> KubeletError {
        KubeletError(format!("pods.kubelet_endpoint: {:?} is not an address: {cause}", self.endpoint))
    }

    /// Returns the names that the kubelet's certificate may contain.
    fn names(&self, host: &str) -> Vec<ServerName<'static>> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        [&self.node, host].into_iter().filter_map(|name| ServerName::try_from(name.to_owned()).ok()).collect()
    }

    fn read_token(&self, target: &mut Target) -> Result<(), KubeletError> {
        let path = match &self.token_file {
            Some(path) => path.clone(),
            None if self.account.join("token").exists() => self.account.join("token"),
            None => return Ok(()),
        };
        let token = String::from_utf8_lossy(&self.read(&path)?).trim().to_owned();
        target.config.auth_info.token = Some(token.into());
        check_token(&target.config.auth_info).map_err(|_| unusable(&path, "not a token"))
    }

    fn identity(&self, certificate: &Path, key: &Path) -> Result<Arc<rustls::sign::CertifiedKey>, KubeletError> {
        identity(self.certificates(certificate)?, &self.read(key)?).map_err(|cause| unusable(key, cause))
    }

    /// Returns the certificates that the kubelet's certificate is verified against.
    fn expected(&self) -> Result<Vec<CertificateDer<'static>>, KubeletError> {
        if let Some(path) = &self.ca {
            return self.certificates(path);
        }
        let own = OWN.iter().map(|name| self.kubelet_root.join(name));
        let tried: Vec<PathBuf> = own.chain([self.account.join("ca.crt")]).collect();
        let mut trusted = Vec::new();
        for path in tried.iter().filter(|path| self.host.locate(path).existing().is_some()) {
            trusted.extend(self.certificates(path)?);
        }
        if trusted.is_empty() {
            let tried = paths(&tried);
            let cause = "the kubelet's certificate cannot be checked: set pods.kubelet_ca; there is none of";
            return Err(KubeletError(format!("{cause} {tried}")));
        }
        Ok(trusted)
    }

    fn certificates(&self, path: &Path) -> Result<Vec<CertificateDer<'static>>, KubeletError> {
        let found = certificates(&self.read(path)?);
        if found.is_empty() { Err(unusable(path, "there is no certificate in it")) } else { Ok(found) }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, KubeletError> {
        let unread = |source: io::Error| KubeletError(format!("cannot read {}: {source}", path.display()));
        let path_here = self.host.locate(path).existing().ok_or_else(|| unread(io::ErrorKind::NotFound.into()))?;
        std::fs::read(path_here).map_err(unread)
    }
}

fn unusable(path: &Path, cause: impl std::fmt::Display) -> KubeletError {
    KubeletError(format!("{}: {cause}", path.display()))
}

// === impl Expected ===

impl Expected {
    fn new(certificates: Vec<CertificateDer<'static>>, names: Vec<ServerName<'static>>) -> Self {
        let provider = Arc::new(provider());
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
