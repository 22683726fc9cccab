//! TLS: certificates and keys.

mod pem;

pub(super) use pem::{certificates, identity};
