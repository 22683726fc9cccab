//! kubegc: a garbage collector for Kubernetes nodes.
//!
//! Data flows in one direction through the main modules: [`observe`] builds a [`model::Snapshot`], [`plan`] turns it
//! into a [`plan::Plan`], [`execute`] carries out the plan, and [`record`] stores the results. `ARCHITECTURE.md` has
//! diagrams, and lists the invariants that the code cites, such as I1 and G1.

#![forbid(unsafe_code)]

pub mod host_path;
#[path = "core/model.rs"]
pub mod model;
#[path = "core/rules.rs"]
pub mod rules;

pub mod metrics;

pub mod cri;
#[path = "core/fleet.rs"]
pub mod fleet;
pub mod kubernetes;
pub mod observe;
#[path = "core/owners.rs"]
pub mod owners;
#[path = "core/plan.rs"]
pub mod plan;
#[path = "core/pod_gc.rs"]
pub mod pod_gc;
#[path = "core/store.rs"]
pub mod store;

#[path = "core/lab.rs"]
pub mod lab;

pub mod execute;
pub mod record;

pub mod config;
pub mod controller;
pub mod daemon;
pub mod page;
pub mod serve;

pub mod cli;
#[cfg(feature = "sim")]
pub mod sim;

#[cfg(test)]
mod testing;
