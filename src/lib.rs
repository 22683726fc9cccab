//! kubegc: a garbage collector for Kubernetes nodes.
//!
//! Data flows in one direction through the main modules: [`observe`] builds a [`model::Snapshot`], [`plan`] turns it
//! into a [`plan::Plan`], [`execute`] carries out the plan, and [`record`] stores the results. `ARCHITECTURE.md` has
//! diagrams, and lists the invariants that the code cites, such as I1 and G1.

#![forbid(unsafe_code)]

pub use kubegc_core::{fleet, lab, model, owners, plan, pod_gc, rules, store};

pub mod host_path;

pub mod metrics;

pub mod cri;
pub mod kubernetes;
pub mod observe;

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
