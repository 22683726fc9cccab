//! Garbage collection at cluster level: reads the API server for the pure rooms `owners` and `pod_gc`. It holds no policy.
//!
//! So far it only reads: snapshots for `kubegc controller plan` and `why`.

mod error;
mod snapshot;

pub use error::ControllerError;
pub use snapshot::{ClusterObserver, Limits};
