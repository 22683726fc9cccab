//! Garbage collection at cluster level: reads the API server for the pure rooms `owners` and `pod_gc`, and carries out
//! what they decide. It holds no policy.
//!
//! [`ClusterObserver`] takes snapshots and cannot write. The engine keeps the ownership graph; lists ([`collect`]) or
//! monitors show it the objects, and its workers check what the graph names, with live reads. [`PodCollector`] deletes pods
//! that no kubelet finishes. Only `changes` writes.

mod calls;
mod changes;
mod check;
mod collect;
mod convert;
mod engine;
mod error;
mod orphan;
mod outcome;
mod pods;
mod queue;
mod served;
mod settings;
mod snapshot;

pub use calls::CallLimits;
pub use collect::{ClusterReport, ClusterReportKind, CollectOptions, WaitingObject, collect};
pub use error::ControllerError;
pub use outcome::{ClusterFailure, ClusterOutcome, ClusterResult};
pub use pods::{
    PodCollector, PodFailure, PodNotice, PodOutcome, PodReport, PodReportKind, PodResult, PodSettings, PodsService,
};
pub use queue::QueueLength;
pub use settings::ControllerSettings;
pub use snapshot::{ClusterObserver, Limits};
