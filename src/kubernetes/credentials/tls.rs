//! TLS as client-go has it: the same certificates and keys, in the same files, are accepted.
//!
//! The cryptography is that of ring. What Go accepts beyond it and webpki is here: keys on P-521 (`p521`), and servers whose
//! own certificate is the authority (`authorities`). `tests/it/kubectl_access` compares kubegc with kubectl.

mod authorities;
#[cfg(feature = "p521")]
mod p521;
mod pem;

/// Without the feature: the cryptography of ring alone.
#[cfg(not(feature = "p521"))]
mod p521 {
    pub(in crate::kubernetes) use rustls::crypto::ring::default_provider as provider;

    pub(super) fn signing_key(_: &[u8]) -> Option<std::sync::Arc<dyn rustls::sign::SigningKey>> {
        None
    }
}

pub(super) use authorities::Authorities;
pub(in crate::kubernetes) use p521::provider;
pub(in crate::kubernetes) use pem::{certificates, identity};

/// What kubegc can use, for errors.
const KEYS: &str = "RSA keys of 2048 to 4096 bits, ECDSA keys on P-256, P-384 and P-521, and Ed25519 keys";
