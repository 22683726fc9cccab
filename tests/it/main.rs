//! Tests from outside: over a socket, or through the binary.

#![allow(clippy::disallowed_methods, reason = "tests have a clock, files and children of their own")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod containerd_reader;
mod containerd_rig;
mod rig;
