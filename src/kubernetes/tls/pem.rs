//! Certificates and keys in PEM.

use std::sync::Arc;

use rustls::InconsistentKeys::KeyMismatch;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// Returns the certificates in a text with PEM blocks.
pub(in crate::kubernetes) fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

/// Returns a client certificate with its key.
///
/// rustls refuses a certificate of X.509 version 1, which `openssl x509 -req` makes without extensions. Only servers
/// need the extensions, so here only a key that is surely another's is an error.
///
/// # Errors
///
/// The fault of the key.
pub(in crate::kubernetes) fn identity(
    chain: Vec<CertificateDer<'static>>,
    key: &[u8],
) -> Result<Arc<CertifiedKey>, String> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
    let key = any_supported_type(&key).map_err(|error| error.to_string())?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Err(error @ rustls::Error::InconsistentKeys(KeyMismatch)) => Err(error.to_string()),
        _ => Ok(Arc::new(identity)),
    }
}
