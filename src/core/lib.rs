//! What kubegc decides, as a crate without clients, files, a clock or threads of its own: from a snapshot of a node ([`model`], [`store`]) to
//! a plan ([`plan`], [`rules`], [`lab`]), from the objects of a cluster to what is deleted ([`owners`], [`pod_gc`]), and what a
//! fleet lets its nodes do ([`fleet`]).

#![forbid(unsafe_code)]

pub mod model;
pub mod rules;
pub mod store;

pub mod fleet;
pub mod owners;
pub mod plan;
pub mod pod_gc;

pub mod lab;

#[cfg(test)]
mod testing;
