//! kubegc: a garbage collector for Kubernetes nodes.
//!
//! The rooms in the order of the flow, which goes one way: [`observe`] builds a [`model::Snapshot`], [`plan`] turns it
//! into a [`plan::Plan`], [`execute`] carries that out, [`record`] remembers. `ARCHITECTURE.md` draws it and names the
//! invariants I1 to I12 that the code cites.

#![forbid(unsafe_code)]

pub mod host_path;
pub mod model;

pub mod cri;
pub mod kubernetes;
pub mod observe;
pub mod plan;

pub mod execute;
pub mod record;

pub mod config;
pub mod daemon;

pub mod cli;
pub mod sim;
