//! Decides which objects of a cluster are collected because of their owner references. Pure: no clock, no I/O, no async.
//!
//! [`Graph`] holds who owns whom, as the monitors show it. It only says which objects to check. What happens to an
//! object is decided from a live read of the object and of each of its owners ([`decide()`]).
//!
//! The rules are those of the garbage collector controller of kube-controller-manager 1.36. Two deliberate differences:
//! foreground and orphan deletion are level-triggered (kubernetes#77081, kubernetes#115570), and a relist finds every
//! object that was deleted during a gap of the watch.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod absences;
mod alternative;
mod brake;
mod cluster_plan;
mod cluster_snapshot;
mod cluster_state;
mod decide;
mod explain_owner;
mod findings;
mod graph;
mod guards;
mod recent;
mod served;
mod unlisted;

pub use absences::{Absences, VALID};
pub use brake::{Brake, BrakeAnswer};
pub use cluster_plan::{
    ActionWord, ClusterAction, ClusterKept, ClusterPlan, OwnerFinding, count_content, doubtful_owners, plan,
    plan_under, predict_deletion,
};
pub use cluster_snapshot::{
    ClusterSnapshot, ListedResource, METRICS, OwnerAnswer, OwnerRead, ServedKind, UnavailableGroup,
};
pub use decide::{DeleteReason, ObjectKeepReason, OwnerState, Propagation, Verdict, decide, is_kept};
pub use explain_owner::{ClusterExplanation, DependentNode, OwnerNode, explain, find_objects};
pub use findings::{Finding, FindingKind, NamespaceContent};
pub use graph::{Dependent, Effect, Event, Graph, Item, Observed, ResourceId, ShownVersion};
pub use guards::OwnerGuards;
pub use recent::Recent;
pub use served::ServedKinds;
pub use unlisted::{OwnersByNamespace, Unlisted, unlisted_dependents};
