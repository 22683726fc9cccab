//! The verification of an API server's certificate against the authorities of a kubeconfig, as client-go does it.
//!
//! Go accepts a server whose own certificate is an authority, and one whose certificate says `CA:TRUE`. webpki does neither,
//! so what it refuses is checked again here. As for Go, an authority that has expired or may not sign counts only for itself.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_cert::certificate::{Certificate, Version};
use x509_cert::der::oid::db::rfc5280::{ANY_EXTENDED_KEY_USAGE, ID_KP_SERVER_AUTH};
use x509_cert::der::{Decode as _, Encode};
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, NameConstraints};

use super::provider;

const CANNOT_VERIFY: &str = "the certificate of the server is signed in a way that kubegc cannot verify: it can verify RSA with \
    SHA-256 to SHA-512, ECDSA on P-256 and P-384 with SHA-256 or SHA-384, ECDSA on P-521, and Ed25519";

/// The authorities of a kubeconfig.
#[derive(Debug)]
pub(in crate::kubernetes) struct Authorities {
    authorities: Vec<Authority>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct Authority {
    der: CertificateDer<'static>,
    /// `None` = only webpki can read it.
    parsed: Option<Certificate>,
}

// === impl Authorities ===

impl Authorities {
    /// Creates a verifier from the certificates that can be read. `None` = there are none.
    pub(in crate::kubernetes) fn new(certificates: Vec<CertificateDer<'static>>) -> Option<Self> {
        let is_readable = |der: &CertificateDer<'_>| RootCertStore::empty().add(der.clone().into_owned()).is_ok();
        let readable = certificates.into_iter().filter(is_readable);
        let authorities: Vec<_> = readable.map(Authority::new).collect();
        (!authorities.is_empty()).then(|| Self { authorities, provider: Arc::new(provider()) })
    }

    /// Returns the verifier of webpki with the authorities of this moment.
    fn of_webpki(&self, now: UnixTime) -> Result<Arc<WebPkiServerVerifier>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        let current = self.authorities.iter().filter(|authority| authority.is_valid(now));
        let may_sign = current.clone().filter(|authority| authority.may_sign());
        roots.add_parsable_certificates(may_sign.map(|authority| authority.der.clone()));
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider)).build();
        verifier.map_err(|_| match current.count() {
            0 => rustls::Error::General("every certificate-authority has expired".to_owned()),
            _ => CertificateError::UnknownIssuer.into(),
        })
    }

    /// Returns whether a certificate is trusted without the chain of webpki.
    fn trusts(&self, server: &Authority, now: UnixTime) -> bool {
        self.authorities.iter().any(|authority| {
            authority.der == server.der
                || server.is_authority() == Some(true)
                    && authority.is_valid(now)
                    && authority.may_sign()
                    && self.has_signed(authority, server)
        })
    }

    /// Returns whether an authority signed a certificate. One that limits names is left to webpki.
    fn has_signed(&self, authority: &Authority, server: &Authority) -> bool {
        let (Some(issuer), Some(issued)) = (&authority.parsed, &server.parsed) else { return false };
        let issuer = issuer.tbs_certificate();
        let limits_names = !matches!(issuer.get_extension::<NameConstraints>(), Ok(None));
        if limits_names || issuer.subject() != issued.tbs_certificate().issuer() {
            return false;
        }
        let parts = (issued.tbs_certificate().to_der(), issued.signature().as_bytes());
        let (Ok(message), Some(signature)) = parts else { return false };
        let key = issuer.subject_public_key_info();
        let (key_id, signature_id) = (contents(&key.algorithm), contents(issued.signature_algorithm()));
        let fitting = self.provider.signature_verification_algorithms.all.iter().filter(|algorithm| {
            key_id.as_deref() == Some(algorithm.public_key_alg_id().as_ref())
                && signature_id.as_deref() == Some(algorithm.signature_alg_id().as_ref())
        });
        let Some(key) = key.subject_public_key.as_bytes() else { return false };
        fitting.into_iter().any(|algorithm| algorithm.verify_signature(key, &message, signature).is_ok())
    }
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let webpki = self.of_webpki(now);
        let refusal = match webpki.and_then(|it| it.verify_server_cert(server, intermediates, name, ocsp, now)) {
            Err(refusal) => refusal,
            accepted => return accepted,
        };
        let own = Authority::new(server.clone().into_owned());
        if !self.trusts(&own, now) {
            return Err(in_words(refusal));
        }
        own.check(now)?;
        verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        Ok(ServerCertVerified::assertion())
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

// === impl Authority ===

impl Authority {
    fn new(der: CertificateDer<'static>) -> Self {
        let parsed = Certificate::from_der(&der).ok();
        Self { der, parsed }
    }

    /// Returns whether the time is within that of the certificate.
    fn is_valid(&self, now: UnixTime) -> bool {
        self.parsed.as_ref().is_none_or(|parsed| check_time(parsed, now).is_ok())
    }

    /// Returns whether the certificate says `CA:TRUE`. `None` = it says neither, as those of version 1.
    fn is_authority(&self) -> Option<bool> {
        let constraints = self.parsed.as_ref()?.tbs_certificate().get_extension::<BasicConstraints>();
        Some(constraints.ok()??.1.ca)
    }

    /// Returns whether it may sign certificates. The certificate of a server may not, although it is an authority for itself.
    fn may_sign(&self) -> bool {
        let Some(parsed) = self.parsed.as_ref().map(Certificate::tbs_certificate) else { return true };
        let has_use = match parsed.get_extension::<KeyUsage>() {
            Ok(usage) => usage.is_none_or(|(_, usage)| usage.key_cert_sign()),
            Err(_) => false,
        };
        has_use && self.is_authority().unwrap_or(parsed.version() != Version::V3)
    }

    /// Checks the time and the purpose as those of a server.
    fn check(&self, now: UnixTime) -> Result<(), rustls::Error> {
        let parsed = self.parsed.as_ref().ok_or(CertificateError::BadEncoding)?;
        check_time(parsed, now)?;
        match parsed.tbs_certificate().get_extension::<ExtendedKeyUsage>() {
            Ok(None) => Ok(()),
            Ok(Some((_, ExtendedKeyUsage(uses))))
                if uses.iter().any(|it| [ID_KP_SERVER_AUTH, ANY_EXTENDED_KEY_USAGE].contains(it)) =>
            {
                Ok(())
            }
            _ => Err(CertificateError::InvalidPurpose.into()),
        }
    }
}

fn check_time(certificate: &Certificate, now: UnixTime) -> Result<(), CertificateError> {
    let validity = certificate.tbs_certificate().validity();
    let now = now.as_secs();
    if now < validity.not_before.to_unix_duration().as_secs() {
        Err(CertificateError::NotValidYet)
    } else if now > validity.not_after.to_unix_duration().as_secs() {
        Err(CertificateError::Expired)
    } else {
        Ok(())
    }
}

/// Returns the contents of an algorithm identifier, as `rustls` writes it.
fn contents(algorithm: &x509_cert::spki::AlgorithmIdentifierOwned) -> Option<Vec<u8>> {
    let mut contents = algorithm.oid.to_der().ok()?;
    contents.extend(algorithm.parameters.as_ref().map(Encode::to_der).transpose().ok()?.unwrap_or_default());
    Some(contents)
}

/// Replaces the internals of webpki by words.
fn in_words(refusal: rustls::Error) -> rustls::Error {
    use CertificateError::{UnsupportedSignatureAlgorithmContext, UnsupportedSignatureAlgorithmForPublicKeyContext};
    match refusal {
        rustls::Error::InvalidCertificate(
            UnsupportedSignatureAlgorithmContext { .. } | UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => rustls::Error::General(CANNOT_VERIFY.to_owned()),
        other => other,
    }
}
