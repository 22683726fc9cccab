//! Garbage collection at cluster level: reads the API server for the pure rooms `owners` and `pod_gc`, and carries out
//! what they decide. It holds no policy but that of the operator, as `rules` evaluates it.
//!
//! [`ClusterObserver`] takes snapshots and cannot write. The engine keeps the ownership graph; lists ([`collect()`]) or
//! monitors show it the objects, and its workers check what the graph names, with live reads. [`PodCollector`] deletes pods
//! that no kubelet finishes. Only `changes` writes.

mod attention;
mod calls;
mod changes;
mod collect;
mod controller_error;
mod events;
mod leader;
mod monitors;
mod namespace_collector;
mod pod_collector;
mod run;
mod saved;
mod settings;
mod status;
mod take_snapshot;
mod watch;
mod work;

#[cfg(test)]
mod tests;

pub use calls::CallLimits;
pub use collect::object_rules::ObjectRules;
pub use collect::{
    ClusterReport, CollectOptions, RelinkReport, RelinkResult, RelinkedReference, WaitingObject, collect, relink,
};
pub use controller_error::ControllerError;
pub use leader::{Attention, Candidate};
pub use pod_collector::{
    PodCollector, PodFailure, PodGcSettings, PodNotice, PodOutcome, PodReport, PodResult, PodsService, pod_identity,
};
pub use run::OwnersService;
pub use saved::{Keep, SaveOptions};
pub use settings::ControllerSettings;
pub use status::{ClusterStatus, Collector, Leader};
pub use take_snapshot::{ClusterObserver, ObserverLimits};
pub use watch::filter::{InvalidResourceName, ObjectFilter, ResourceFilter, ResourceName};
pub use work::outcome::{ClusterFailure, ClusterOutcome, ClusterResult};
pub use work::queue::QueueLength;
