//! Garbage collection at cluster level: reads the API server for the pure rooms `owners` and `pod_gc`, and carries out
//! what they decide. It holds no policy.
//!
//! [`ClusterObserver`] takes snapshots and cannot write. The engine keeps the ownership graph; lists ([`collect()`]) or
//! monitors show it the objects, and its workers check what the graph names, with live reads. [`PodCollector`] deletes pods
//! that no kubelet finishes. Only `changes` writes.

mod act;
mod as_shown;
mod attention;
mod calls;
mod changes;
mod check;
mod collect;
mod decision;
mod engine;
mod error;
mod events;
mod filter;
mod holds;
mod leader;
mod monitors;
mod namespaces;
mod orphan;
mod outcome;
mod owner_states;
mod pods;
mod queue;
mod resources;
mod run;
mod served;
mod settings;
mod snapshot;
mod status;
mod waiting;
mod waves;

#[cfg(test)]
mod tests;

pub use attention::Attention;
pub use calls::CallLimits;
pub use collect::{ClusterReport, ClusterReportKind, CollectOptions, WaitingObject, collect};
pub use error::ControllerError;
pub use filter::{InvalidResourceName, ResourceFilter, ResourceName};
pub use leader::Candidate;
pub use outcome::{ClusterFailure, ClusterOutcome, ClusterResult};
pub use pods::{
    PodCollector, PodFailure, PodGcSettings, PodNotice, PodOutcome, PodReport, PodReportKind, PodResult, PodsService,
};
pub use queue::QueueLength;
pub use run::OwnersService;
pub use settings::ControllerSettings;
pub use snapshot::{ClusterObserver, ObserverLimits};
pub use status::{ClusterStatus, ClusterStatusKind, Collector, Leader};
