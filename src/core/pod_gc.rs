//! Decides which pods are deleted because no kubelet finishes them: terminated pods over a limit, pods of nodes that
//! are out of service or deleted, and pods in deletion that no node runs. Pure: no clock, no I/O, no async.
//!
//! The rules are those of the pod garbage collector of kube-controller-manager 1.36, in its order. What goes beyond them
//! is a setting in [`PodGcPolicy`].

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod nodes;
mod pod_document;
mod pod_plan;
mod pod_snapshot;
mod policy;
mod terminated;

pub use nodes::{MissingNodes, NodeAnswer, NodeState, NodeStates};
pub use pod_document::{PodAction, PodKeepReason, PodKept, PodLimit, PodMark, PodPlan, PodReason};
pub use pod_plan::{plan, recheck_node};
pub use pod_snapshot::{NodeMeta, PodMeta, PodsSnapshot};
pub use policy::PodGcPolicy;

#[cfg(test)]
mod tests;
