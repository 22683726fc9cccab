//! The client of the Container Runtime Interface (CRI).
//!
//! Code that observes uses a [`RuntimeReader`], which has no method that removes anything. Only `execute` holds a
//! [`RuntimeWriter`]. Generated protobuf types are used only in this module and in the simulated node, which serves
//! them.

mod breaker;
mod connect;
mod containerd;
mod convert;
mod cri_error;
mod endpoint;
/// The types and stubs of `proto`, written by `scripts/generate.sh`. Outside this module, only `sim` and the
/// tests use them.
#[doc(hidden)]
#[expect(clippy::all, clippy::pedantic, reason = "generated")]
#[rustfmt::skip]
pub mod generated;
mod in_progress;
mod lists;
mod options;
mod parts;
mod reader;
mod retry;
#[cfg(test)]
mod tests;
mod writer;

pub use containerd::SnapshotUsages;
pub use containerd::undo::{ImageRecord, UndoLease};
pub use cri_error::CriError;
pub use endpoint::{Endpoint, EndpointCandidates, Named, WELL_KNOWN, check_alone, resolve};
pub use in_progress::InProgress;
pub use options::CriOptions;
pub use parts::List;
pub use reader::{ContainerStatus, Only, RuntimeReader};
pub use writer::RuntimeWriter;
