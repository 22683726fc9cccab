//! The invariants and the vectors of the kubelet, against the public interface of the crate.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::match_bool,
    reason = "a test may fail loudly and read its data"
)]

mod every_small;
mod extremes;
mod properties;
mod vectors;
