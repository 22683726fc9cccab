//! Keys on P-521, which Go has and ring does not: signatures of a client, and those of servers and authorities.

use std::sync::{Arc, LazyLock};

use p521::SecretKey;
use p521::ecdsa::signature::Signer as _;
use p521::ecdsa::signature::hazmat::PrehashVerifier as _;
use p521::ecdsa::{DerSignature, SigningKey, VerifyingKey};
use p521::pkcs8::DecodePrivateKey as _;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, alg_id,
};
use rustls::sign::{Signer, public_key_to_spki};
use rustls::{SignatureAlgorithm, SignatureScheme};
use sha2::{Sha256, Sha384, Sha512};

/// The only scheme of TLS for this curve.
const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP521_SHA512;

static SHA256: Verification = Verification { signature: alg_id::ECDSA_SHA256, digest: padded::<Sha256> };
static SHA384: Verification = Verification { signature: alg_id::ECDSA_SHA384, digest: padded::<Sha384> };
static SHA512: Verification = Verification { signature: alg_id::ECDSA_SHA512, digest: padded::<Sha512> };

static OF_SCHEME: &[&dyn SignatureVerificationAlgorithm] = &[&SHA512];

/// The algorithms of ring and these. rustls wants them for the whole life of the process.
static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> = LazyLock::new(|| {
    let of_ring = ring::default_provider().signature_verification_algorithms;
    let own: [&'static dyn SignatureVerificationAlgorithm; 3] = [&SHA256, &SHA384, &SHA512];
    WebPkiSupportedAlgorithms {
        all: [of_ring.all, &own].concat().leak(),
        mapping: [of_ring.mapping, &[(SCHEME, OF_SCHEME)]].concat().leak(),
    }
});

/// The key of a client.
#[derive(Clone, Debug)]
struct Key(SigningKey);

/// The verification of a signature with one hash.
#[derive(Debug)]
struct Verification {
    signature: AlgorithmIdentifier,
    digest: fn(&[u8]) -> [u8; 64],
}

/// Returns the cryptography of ring, and the verification of signatures on P-521.
pub(in crate::kubernetes) fn provider() -> CryptoProvider {
    CryptoProvider { signature_verification_algorithms: *ALGORITHMS, ..ring::default_provider() }
}

/// Returns a key on this curve in PKCS#8 or SEC1.
pub(super) fn signing_key(der: &[u8]) -> Option<Arc<dyn rustls::sign::SigningKey>> {
    let key = SecretKey::from_pkcs8_der(der).ok().or_else(|| SecretKey::from_sec1_der(der).ok())?;
    Some(Arc::new(Key(key.into())))
}

/// Returns the hash as a number of 64 bytes. The crate `ecdsa` wants at least half of the size of the curve, and SHA-256
/// is shorter.
fn padded<D: sha2::Digest>(message: &[u8]) -> [u8; 64] {
    let hash = D::digest(message);
    let mut number = [0; 64];
    for (to, from) in number.iter_mut().rev().zip(hash.iter().rev()) {
        *to = *from;
    }
    number
}

// === impl Key ===

impl rustls::sign::SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SCHEME).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(public_key_to_spki(&alg_id::ECDSA_P521, self.0.verifying_key().to_sec1_bytes()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let signature: Result<DerSignature, _> = self.0.try_sign(message);
        let signature = signature.map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(signature.as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SCHEME
    }
}

// === impl Verification ===

impl SignatureVerificationAlgorithm for Verification {
    fn verify_signature(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = DerSignature::from_bytes(signature).map_err(|_| InvalidSignature)?;
        key.verify_prehash(&(self.digest)(message), &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }
}
