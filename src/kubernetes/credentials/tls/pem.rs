//! Certificates and keys in PEM.

use std::sync::Arc;

use rustls::InconsistentKeys::KeyMismatch;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};

use super::{KEYS, p521};

/// Returns the certificates in a text with PEM blocks. Blocks that cannot be read are skipped.
pub(in crate::kubernetes) fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    blocks(pem).iter().filter_map(|block| CertificateDer::from_pem_slice(block).ok()).collect()
}

/// Splits a text before each block, so that one without its end hides no other.
fn blocks(pem: &[u8]) -> Vec<Vec<u8>> {
    const BEGIN: &str = "-----BEGIN ";
    let text = String::from_utf8_lossy(pem);
    text.split(BEGIN).skip(1).map(|block| format!("{BEGIN}{block}").into_bytes()).collect()
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
    let identity = CertifiedKey::new(chain, signing_key(key)?);
    match identity.keys_match() {
        Err(error @ rustls::Error::InconsistentKeys(KeyMismatch)) => Err(error.to_string()),
        _ => Ok(Arc::new(identity)),
    }
}

/// Returns the first key in a text with PEM blocks.
fn signing_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, String> {
    let blocks = blocks(pem);
    let mut blocks = blocks.iter().filter_map(|block| <(SectionKind, Vec<u8>)>::from_pem_slice(block).ok());
    let Some((_, der)) = blocks.find(|(kind, _)| is_key(*kind)) else { return Err(missing_key(pem)) };
    // Files have keys of one form under the label of another. Go tries each form, whatever the label.
    let forms: [fn(Vec<u8>) -> PrivateKeyDer<'static>; 3] = [
        |der| PrivateKeyDer::Pkcs1(der.into()),
        |der| PrivateKeyDer::Pkcs8(der.into()),
        |der| PrivateKeyDer::Sec1(der.into()),
    ];
    let of_ring = forms.iter().find_map(|form| any_supported_type(&form(der.clone())).ok());
    of_ring
        .or_else(|| p521::signing_key(&der))
        .ok_or_else(|| format!("not a key that kubegc can use: it can use {KEYS}"))
}

fn is_key(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey)
}

fn missing_key(pem: &[u8]) -> String {
    let is_encrypted = String::from_utf8_lossy(pem).contains("ENCRYPTED");
    let cause = if is_encrypted { "it is encrypted: `openssl pkey` decrypts it" } else { "no private key in PEM" };
    cause.to_owned()
}
